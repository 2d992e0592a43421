"""Which tensors the graph computes, and how the wrapper makes each result from them and from the inputs.

Input: the results of a graph run under a FunctionalTracer, which knows their memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stage0_eager.state import interpreting
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage2_autograd.aliasing import base
from stage2_autograd.functionalize.functional_tracer import FunctionalTracer, storage_of
from stage2_autograd.functionalize.storages import Chain, Silently, Storage, StoredArray
from stage_contracts.graph import Graph, Node
from stage_contracts.joint import ResultPlan
from stage_contracts.layouts import is_dense, turns_contiguous
from stage_contracts.symbol_bindings import open_sizes_in, symbols_of
from stage_contracts.unbacked import makers


def plan_results(
    tracer: FunctionalTracer, inputs: list[Tensor], outputs: Iterable[Any]
) -> tuple[list[Tensor], tuple[ResultPlan, ...]]:
    """The tensors that the graph must compute, and how to make each of the user's results from them and the inputs.

    If several results share a storage, they are views of its base, which is computed even if the user does not get it.
    """
    outputs = list(outputs)
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            tracer.refuse(f"output {i} is {type(output).__name__} {output!r}, not a tensor")
    homes = [storage_of(tracer, t) for t in {id(t): t for t in outputs}.values()]
    computed: list[Tensor] = []
    places: dict[int, int] = {}  # id of a tensor or a storage -> index in `computed`
    plans: list[ResultPlan] = []
    for tensor in outputs:
        place = tracer._stored(tensor)
        _refuse_what_is_not_its_own(tracer, place.storage)
        (kind, which), chain = place.storage.origin, place.chain
        if kind == "made":
            alone = homes.count(place.storage) == 1 and _is_returned_itself(tracer, tensor, place)
            key = id(tensor) if alone else id(place.storage)
            if key not in places:
                places[key] = len(computed)
                computed.append(tensor if alone else _base(place.storage))
            kind, which, chain = "output", places[key], () if alone else chain
        plans.append((kind, which, *_shown(chain)))
    return computed, tuple(plans)


def _base(storage: Storage) -> Tensor:
    assert storage.base is not None
    return storage.base


def _refuse_what_is_not_its_own(tracer: FunctionalTracer, storage: Storage) -> None:
    """Refuse results whose memory is another tensor's, or is so at some sizes."""
    kind, _ = storage.origin
    if kind == "twin":
        tracer.refuse("a result that an autograd.Function or a hook shows of another tensor")
    if any(map(turns_contiguous, storage.copies)) and kind == "made":
        tracer.refuse("a result that contiguous() copies at other sizes only")


def _is_returned_itself(tracer: FunctionalTracer, tensor: Tensor, place: StoredArray) -> bool:
    """Whether a result that shares its memory with no other may be what the graph computes, and not its base: no view
    hides it from the tape, and it has no gaps where something was written."""
    silent = any(isinstance(op, Silently) for op, _ in place.chain)
    if silent and tracer.node_of(_base(place.storage)) in tracer.on_tape:
        return False
    written_view = place.storage.generation and place.chain
    return not written_view or is_dense(tensor.shape, tensor.stride())


def _shown(chain: Chain) -> Chain:
    """The views that the wrapper makes. For the user it is a view made under no_grad, which differs from detach()."""
    views = tuple((op, rest) for op, rest in chain if not (isinstance(op, Silently) and op.name == "detach"))
    return views or chain


def symbols_shown(tracer: FunctionalTracer, results: tuple[ResultPlan, ...]) -> list[Tensor]:
    """The tensors that show the unbacked symbols in the views of these results: further outputs, for the wrapper."""
    assert tracer.graph is not None
    made = makers(tracer.graph.nodes)
    used = {s for size in open_sizes_in(results) for s in symbols_of(size)}
    nodes = [made[s] for s in sorted(used & made.keys(), key=str)]
    return [Tensor(TracedArray(node.val, node)) for node in nodes if not isinstance(node.val, tuple)]


def with_views_apart(graph: Graph, results: tuple[ResultPlan, ...]) -> tuple[ResultPlan, ...]:
    """Replace an output that is a view with gaps, or with elements in the same place, by the tensor that it is a view
    of.

    The wrapper applies the views: a computed output has no gaps, but in eager it is in the memory of the whole tensor.
    """
    outputs, views = list(graph.outputs), {}
    for which in {plan[1] for plan in results if plan[0] == "output"}:
        whole, steps = _whole_and_views(outputs[which])
        if steps:
            outputs[which], views[which] = whole, steps
    if views:
        graph.set_args(graph.output_node, (tuple(outputs),))
    return tuple(
        (kind, which, *views.get(which, ()), *steps) if kind == "output" else (kind, which, *steps)
        for kind, which, *steps in results
    )


def _whole_and_views(node: Node) -> tuple[Node, list[tuple]]:
    """The node without gaps that a node is a view of, and the views."""
    steps: list[tuple] = []
    while (source := base_of_gaps(node)) is not None:
        steps.insert(0, (node.target, node.args[1:]))
        node = source
    return node, steps


def base_of_gaps(node: Node) -> Node | None:
    """The node that a node with gaps, or with overlapping elements, is a view of."""
    if base(node) is node or is_dense(node.val.shape, node.val.strides):
        return None
    return node.args[0] if node.all_input_nodes == [node.args[0]] and not node.kwargs else None


def with_own_storage(tracer: Tracer, stored: list[Tensor], computed: int) -> list[Node]:
    """The output nodes. After renaming, tensors that are separate in eager may be the same value: those are copied.

    The wrapper copies a written input into its old memory. So its new value may share memory with an output, but never
    with an input, which may be written, too.
    """
    nodes: list[Node] = []
    taken: set[Node] = set()
    for index, tensor in enumerate(stored):
        node = tracer.node_of(tensor)
        root = base(node)
        if root.op != "call_function" or (root in taken and index < computed):
            tracer.origins, tracer.marks = node.origins, {}
            with interpreting(tracer):
                node = tracer.node_of(_cloned(tensor, node))
        taken.add(base(node))
        nodes.append(node)
    return nodes


def _cloned(tensor: Tensor, node: Node) -> Tensor:
    """A copy; of a view with gaps the same view of a copy of all."""
    whole, steps = _whole_and_views(node)
    if not steps:
        return c.clone(tensor)
    copied = c.clone(Tensor(TracedArray(whole.val, whole)))
    for view, rest in steps:
        copied = view(copied, *rest)
    return copied
