"""Functions followed into graphs of their own: inside a node of control flow or a transform, or in the backward.

Input: an abstract function and its abstract arguments. Tensors it takes from around it become further inputs of its
graph. What it may not do there (side effects, writes to what it was given, random draws) is a break. One that runs in
the backward (an autograd.Function's, a hook) is followed where the program hands it over, on gradients that require
grad; Python runs it later, so what it reads must still be the same when the frame ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from stage0_eager.autograd.custom_gradient import BackwardGraph
from stage0_eager.state import interpreting, no_grad
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage0_eager.utils.pytree import mapped
from stage1_capture.state.graph_builder import OutputGraph, SkipFrame
from stage1_capture.state.machine import Raised, Tx
from stage1_capture.variables.base import BIRTHS, SEQUENCES, Variable, from_constant, realize
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbolic import same_shape
from stage_contracts.tensor_meta import TensorMeta


@dataclass
class Subgraph:
    """A function as a graph: `run(*arguments, *taken)` gives its tensors; `result` is what it returns."""

    run: GraphModule
    taken: list[TensorVariable]  # tensors from around it, behind the arguments
    result: Variable
    metas: list[TensorMeta]


def follow(
    tx: Tx,
    function: Variable,
    metas: Sequence[TensorMeta],
    name: str,
    arguments: Callable[[list[Variable]], list[Variable]] = list,
    graph_name: str = "",
) -> Subgraph:
    """Follow `function` on tensors of these metas, which `arguments` puts into the form of its arguments."""
    call = lambda flat: tx.call(function, arguments(flat), {})  # noqa: E731
    return follow_call(tx, call, metas, name, graph_name, tensors_of)


def follow_call(
    tx: Tx,
    call: Callable[[list[Variable]], Variable],
    metas: Sequence[TensorMeta],
    name: str,
    graph_name: str,
    leaves_of_result: Callable[[Tx, Variable, str], Iterator[TensorVariable]],
) -> Subgraph:
    """Follow `call` on tensors of these metas."""
    output = tx.output
    before = len(output.effects.changed), len(output.effects.globals)
    written = set(output.mutated)
    graph, taken = Graph(graph_name or f"{name}_body"), dict[TensorVariable, Node]()
    with output.having(graph=graph, taken=taken, graph_mode=output.graph_mode):
        tensors: list[Variable] = [
            TensorVariable(m, graph.placeholder(f"a{i}", m)) for i, m in enumerate(metas)
        ]
        result = call(tensors)
        leaves = list(leaves_of_result(tx, result, name))
        graph.output([output.node_of(t) for t in leaves])
    for tensor in [t for t in output.mutated if t not in written]:
        node = tensor.node  # whose memory may be an input's, or a constant's
        if node is None or node.graph is not graph or output.memory_of(node).op != "call_function":
            tx.unsupported("GB0088", f"a write to an input of a function given to {name}")
        del output.mutated[tensor]
    if before != (len(output.effects.changed), len(output.effects.globals)):
        tx.unsupported("GB0093", f"a side effect inside a function given to {name}")
    return Subgraph(GraphModule(graph), list(taken), result, [t.meta for t in leaves])


# ---- values as trees of tensors --------------------------------------------------------------------------------------


def tensors_of(
    tx: Tx, value: Variable, name: str, what: str = "a function that returns"
) -> Iterator[TensorVariable]:
    """The tensors in nested tuples, lists and dicts, left to right. Anything else there is a break."""
    value = realize(value)
    if not value.is_tensor() and value.family() not in _TREES:
        tx.unsupported("GB0075", f"{name} of {what} {value.describe()}")
    if value.is_tensor():
        yield value  # type: ignore[misc]
    else:
        for item in value.items.values() if value.family() is dict else value.items:
            yield from tensors_of(tx, item, name, what)


def with_tensors(value: Variable, tensors: Iterator[Variable]) -> Variable:
    value = realize(value)
    return value.mapped(lambda v: with_tensors(v, tensors)) if value.family() in _TREES else next(tensors)


def form_of(value: Variable) -> object:
    """Equal for two trees that nest alike."""
    value = realize(value)
    keys = tuple(value.items) if value.family() is dict else ()
    items = value.items.values() if value.family() is dict else value.parts()
    return (value.kind, keys, *map(form_of, items)) if value.family() in _TREES else None


_TREES = (*SEQUENCES, dict)


@dataclass(frozen=True)
class Slot:
    """Where a tensor belongs in a tree."""

    number: int


def filled(tree: Any, values: Any) -> Any:
    """The tree with `values[i]` in the slot of number i."""
    return mapped(lambda leaf: values[leaf.number] if isinstance(leaf, Slot) else leaf, tree)


def variable_of(tree: Any) -> Variable:
    """A tree of abstract tensors and constants as an abstract value."""
    if isinstance(tree, Variable):
        return tree
    if isinstance(tree, dict):
        return ConstDictVariable({key: variable_of(item) for key, item in tree.items()})
    if isinstance(tree, tuple):
        return TupleVariable([variable_of(v) for v in tree], type(tree))
    return ListVariable([variable_of(v) for v in tree]) if isinstance(tree, list) else from_constant(tree)


# ---- what a subgraph does --------------------------------------------------------------------------------------------


def draws_random_numbers(graph: Graph) -> bool:
    """Whether running the graph would advance the random generator. It is run on metas."""
    tracer = Tracer(None)
    metas = [n.val for n in graph.placeholders]
    inputs = [Tensor(TracedArray(m.with_(requires_grad=False, strides=m.strides))) for m in metas]
    with no_grad(), interpreting(tracer):
        graph.interpret(inputs)
    return tracer.rng_calls > 0


Run = Callable[[list[TensorVariable]], list[Variable]]  # gradients of the results to gradients of the targets


def follow_backward(
    tx: Tx, what: str, results: Sequence[TensorVariable], targets: Sequence[TensorMeta], run: Run
) -> tuple[BackwardGraph, list[TensorVariable]]:
    """The backward that `run` is, and the tensors from around it that it reads and that have to be saved.

    A side effect, or a gradient that is not like its target, is a break that names `what`.
    """
    graph, taken, gives = _followed(tx, what, results, targets, run)
    writes = len(tx.output.written)

    def unchanged() -> bool:
        if not taken.keys().isdisjoint(tx.output.written[writes:]):
            return False
        again, others, _ = _followed(tx, what, results, targets, run)
        return _text(again) == _text(graph) and list(others) == list(taken)

    tx.output.followed.append((what, unchanged))
    place = {id(result): ("result", k) for k, result in enumerate(results)}
    saved = [t for t in taken if id(t) not in place]
    place |= {id(t): ("saved", k) for k, t in enumerate(saved)}
    reads = [("gradient", k) for k in range(len(results))] + [place[id(t)] for t in taken]
    return BackwardGraph(GraphModule(graph), tuple(reads), gives), saved


def check_followed(output: OutputGraph) -> None:
    """At the end of the frame: Python would run these functions only now, so they must still read the same."""
    for what, unchanged in output.followed:
        if not unchanged():
            reason = f"what {what} reads is changed after the call"
            raise SkipFrame(reason, output.origin(), code="GB0095")


def _text(graph: Graph) -> list[str]:
    """The graph without the places it came from: for what has none of its own, that is where the frame is now."""
    return [line for line in str(graph).splitlines() if not line.startswith("    #")]


def _followed(
    tx: Tx, what: str, results: Sequence[TensorVariable], targets: Sequence[TensorMeta], run: Run
) -> tuple[Graph, dict, tuple[int | None, ...]]:
    """The graph, what it takes from around it, and which of its outputs is the gradient of which target."""
    graph, taken = Graph("backward"), dict[TensorVariable, Node]()
    try:
        with _graph_of_its_own(tx.output, graph, taken):
            given = []
            for k, result in enumerate(results):
                meta = result.meta.with_(requires_grad=True, strides=result.meta.strides)
                given.append(TensorVariable(meta, graph.placeholder(f"g{k}", meta)))
            found = [_checked(tx, realize(v), target) for v, target in zip(run(given), targets, strict=True)]
            made = [t for t in found if t is not None]
            graph.output([tx.output.node_of(t) for t in made])
    except SkipFrame:
        raise
    except Raised as raised:
        tx.unsupported("GB0024", f"{what} raises {type(raised.value.real).__name__}")
    except Unsupported as stop:
        broken = stop.graph_break
        tx.unsupported(broken.code, f"{what}: {broken.reason}")
    return graph, taken, tuple(None if t is None else made.index(t) for t in found)


def _graph_of_its_own(output: OutputGraph, graph: Graph, taken: dict) -> AbstractContextManager[None]:
    """Nodes go to a new graph that records gradients; what is older than this block must not be changed in it."""
    options = replace(output.options, graph_mode=True)
    modes = {"grad_enabled": True, "graph_mode": True, "options": options}
    return output.having(graph=graph, taken=taken, mutated={}, follows_since=next(BIRTHS), **modes)


def _checked(tx: Tx, gradient: Variable, target: TensorMeta) -> TensorVariable | None:
    if gradient.is_none():
        return None
    if not gradient.is_tensor():
        tx.unsupported("GB0024", f"a gradient that is {gradient.describe()}")
    meta = gradient.meta
    if not same_shape(meta.shape, target.shape) or meta.dtype is not target.dtype:
        tx.unsupported("GB0024", f"a gradient {meta} for a tensor {target}")
    return gradient  # type: ignore[return-value]
