"""What a repro file that torch wrote imports: rand_strided, make_fx, compile_fx_inner, run_fwd_maybe_bwd.

Input: such a file, run with `import torch` giving Cutaway. A function is traced by capture, whole; the graph is
compiled without gradients, as one of torch's that is a forward or a backward already.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import cutaway
from cutaway.compile import compile
from cutaway.repro import laid_out
from cutaway.torch_api.pytree import TreeSpec, tree_flatten, tree_unflatten
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule


def rand_strided(
    size: Sequence[int], stride: Sequence[int], dtype: Any = None, device: Any = "cpu", extra_size: int = 0
) -> Tensor:
    """A tensor of this size and these strides (in elements): numbers of the normal distribution, zeros if they are no
    floats. `extra_size`: elements more of memory behind it. Raises ValueError for lengths that differ."""
    if len(size) != len(stride):
        raise ValueError(f"rand_strided expects a stride for each size, but got {size=} and {stride=}")
    dtype = dtype or cutaway.float32
    room = sum((n - 1) * s for n, s in zip(size, stride)) + 1 + extra_size if 0 not in size else extra_size
    floats = dtype.is_floating_point or dtype.is_complex
    made = cutaway.randn if floats else cutaway.zeros
    return cutaway.as_strided(made(room, dtype=dtype, device=device), tuple(size), tuple(stride))


class Traced(GraphModule):
    """The graph that `make_fx` made. A call gives what the function gave, in its form."""

    def __init__(self, graph: Graph, places: Sequence[Any], form: TreeSpec) -> None:
        """`places`: for each leaf of the result, which output it is as a list of one, or the value itself."""
        super().__init__(graph)
        self._places, self._form = places, form

    def __call__(self, *inputs: Any) -> Any:
        return self.in_form(super().__call__(*inputs))

    def in_form(self, made: Sequence[Any]) -> Any:
        """What the function gave, of the graph's outputs."""
        leaves = [made[place[0]] if isinstance(place, list) else place for place in self._places]
        return tree_unflatten(leaves, self._form)

    forward = __call__


def make_fx(f: Callable[..., Any], *_: Any, **options: Any) -> Callable[..., GraphModule]:
    """`make_fx(f)(*args)` is the graph of that call: one placeholder an argument, weights as attributes.

    The graph is what capture gives, in public operators; torch's options about decompositions and symbols change
    nothing. Raises Unsupported where f does not fit into one graph, RuntimeError where it calls no operator."""

    def traced(*args: Any) -> GraphModule:
        kept: list[tuple[Graph, list[Any]]] = []
        made: list[Any] = []

        def keeps(module: GraphModule, examples: list[Any]) -> Callable[..., tuple]:
            kept.append((module.graph, list(examples)))

            def run(*inputs: Any) -> tuple:
                made[:] = module(*inputs)
                return tuple(made)

            return run

        with no_grad():
            result = compile(f, backend=keeps, fullgraph=True, dynamic=False)(*args)
        if not kept:
            raise RuntimeError(f"make_fx found no operator in {f!r}: there is no graph")
        leaves, form = tree_flatten(result)
        found = {id(value): [number] for number, value in enumerate(made)}
        return Traced(_of_arguments(*kept[0], args), [found.get(id(leaf), leaf) for leaf in leaves], form)

    return traced


def _of_arguments(graph: Graph, examples: Sequence[Any], args: Sequence[Any]) -> Graph:
    """The graph with a placeholder for each argument in turn; what else it reads are attributes."""
    made, images = Graph(graph.name), dict[Node, Node]()
    nodes = {id(value): node for node, value in zip(graph.placeholders, examples, strict=True)}
    for number, value in enumerate(args):
        node = nodes.get(id(value))
        made_here = made.placeholder(node.name if node else f"arg_{number}", node.val if node else value)
        if node is not None:
            images[node] = made_here
    for node, value in zip(graph.placeholders, examples, strict=True):
        if node not in images:
            images[node] = made.get_attr(node.name, value, node.val)
    graph.copy_into(made, images)
    return made


def compile_fx_inner(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The graph compiled by every stage, as it is: without gradients, and with sizes as in the examples, for which it
    is compiled at once. An error of the compiler is raised."""
    compiled = compile(gm._function, fullgraph=True, dynamic=False)
    in_form = gm.in_form if isinstance(gm, Traced) else tuple

    def run(*inputs: Any) -> Any:
        given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], list) else inputs  # torch takes both
        with no_grad(), cutaway.config.patch({"capture.suppress_errors": False}):
            return in_form(compiled(*given))

    run(*example_inputs)
    return run


def run_fwd_maybe_bwd(
    gm: Any, args: Sequence[Any], only_fwd: bool = False, disable_clone: bool = False
) -> Any:
    """A call on copies of the inputs, and a backward from the sum of its results where one needs a gradient.

    Returns [result, loss, gradients of parameters by name, gradients of inputs]; the result alone if `only_fwd`."""
    kept = getattr(gm, "__dict__", {})
    model = copy.deepcopy(gm) if "_modules" in kept else gm
    if hasattr(model, "zero_grad"):
        model.zero_grad(True)
    given = list(args) if disable_clone else [_alike(value) for value in args]
    result = model(*given)
    if only_fwd:
        return result
    roots = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, Tensor) and leaf.requires_grad]
    loss = None
    if roots:
        loss = cutaway.stack([root.sum().double() for root in roots]).sum()
        loss.backward()
    parameters = dict(model.named_parameters()) if hasattr(model, "named_parameters") else {}
    return [
        result,
        loss,
        {f"{name}.grad": parameter.grad for name, parameter in parameters.items()},
        [getattr(value, "grad", None) for value in given],
    ]


def _alike(value: Any) -> Any:
    """A copy with the same strides, which needs a gradient if the value does."""
    if not isinstance(value, Tensor):
        return value
    return laid_out(value.detach(), tuple(value.stride())).requires_grad_(value.requires_grad)


PATHS: dict[str, dict[str, Any]] = {
    "torch._dynamo.testing": {"rand_strided": rand_strided},
    "torch._dynamo.debug_utils": {"run_fwd_maybe_bwd": run_fwd_maybe_bwd},
    "torch._inductor.compile_fx": {"compile_fx_inner": compile_fx_inner},
    "torch.fx.experimental.proxy_tensor": {"make_fx": make_fx},
}
