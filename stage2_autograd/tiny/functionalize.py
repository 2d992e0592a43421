"""Functionalize: removes mutation, aliasing that the user could see, and hidden random state from a graph.

Input: the captured graph, in public operators. It runs under a Tracer, which leaves core operators and composites with
their own derivative. A write gives the same tensor object a new value: values are renamed.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from stage0_eager.state import interpreting, no_grad
from stage0_eager.table.core import core
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage2_autograd.aliasing import base, shares_storage
from stage2_autograd.retrace import placeholders_like, retrace
from stage2_autograd.subgraphs import functional, within, written_back
from stage_contracts.breaks import Unsupported
from stage_contracts.core_ops import COPY_
from stage_contracts.graph import Graph, Node, map_args, meta_of
from stage_contracts.joint import FunctionalGraph
from stage_contracts.tensor_meta import TensorMeta


def functionalize(graph: Graph) -> FunctionalGraph:
    """`graph` without mutation. Raises Unsupported (GB0008) for writes through views and aliasing outputs."""
    tracer = FunctionalTracer(Graph(graph.name))
    with no_grad():
        inputs = placeholders_like(graph, tracer, role="primal")
        before = [tracer.node_of(t) for t in inputs]
        outputs = retrace(graph, tracer, inputs)
        results, computed = _plan_results(tracer, inputs, outputs)
        writes = tuple(i for i, t in enumerate(inputs) if tracer.node_of(t) is not before[i])
        values = _with_own_storage(tracer, computed, [inputs[i] for i in writes])
    assert tracer.graph is not None
    tracer.graph.output(values)
    graph = within(tracer.graph, functional_subgraph)
    return FunctionalGraph(graph, len(computed), writes, tracer.rng_calls, results).verify()


def functional_subgraph(graph: Graph) -> Graph:
    """A subgraph without mutation. Raises Unsupported (GB0008) if it writes to its inputs."""
    return functional(
        graph, FunctionalTracer(Graph(graph.name)), lambda _, t: t._data.node.op != "placeholder"
    )


class Storage:
    """The memory that views share. `members` are the tensors in it, as long as the program can reach them."""

    def __init__(self, constant: bool = False) -> None:
        self.members: list[weakref.ref[Tensor]] = []
        self.constant = constant

    def others(self, tensor: Tensor) -> bool:
        """Whether the program can still see this storage through another tensor."""
        # lab: begin others
        return any(member() is not None and member() is not tensor for member in self.members)
        # lab: end


class StoredArray(TracedArray):
    """A traced value, and the storage that it is in."""

    __slots__ = ("storage",)

    def __init__(self, meta: TensorMeta, node: Node | None, storage: Storage) -> None:
        super().__init__(meta, node)
        self.storage = storage


class FunctionalTracer(Tracer):
    """A Tracer that knows which tensors share storage, and records a write as a new value of the written tensor."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, keep=lambda op: op.whole)

    def placeholder(self, name: str, meta: TensorMeta, **marks: Any) -> Tensor:
        return _store(super().placeholder(name, meta, **marks), Storage())

    def process(self, op: Operator, args: tuple) -> Any:
        if op.core is COPY_:
            return self.write(*args)
        if op.backward_graph is not None:
            self.refuse(f"{op.name}, whose derivative is the user's own")
        if op.opaque and op.mutates:
            return written_back(self, op, args)
        # lab: begin process
        out = super().process(op, args)
        if isinstance(out, tuple):
            return tuple(_store(o, Storage()) for o in out)
        view = shares_storage(op, map_args(out._data.node.args, meta_of))
        return _store(out, storage_of(args[0]) if view else Storage())
        # lab: end

    def write(self, target: Tensor, src: Tensor) -> Tensor:
        """`core.copy_`: `target` stays the same tensor and gets a new value."""
        # lab: begin write
        storage = storage_of(target)
        if any(stride == 0 and size != 1 for size, stride in zip(target.shape, target.stride(), strict=True)):
            self.refuse("a write to an expanded tensor, whose elements share memory")
        if storage.constant:
            self.refuse("a write to a constant of the graph, a tensor that is not one of its inputs")
        if storage.others(target):
            self.refuse(f"a write to {target.meta} while another view of its memory is in use")
        value = src if src.dtype is target.dtype else core.cast(src, target.dtype)
        value = value if value.shape == target.shape else core.expand(value, target.shape)
        value = value if value.meta.is_contiguous or not target.is_contiguous() else core.contiguous(value)
        target._data = StoredArray(value._data.meta, value._data.node, storage)
        return target
        # lab: end

    def refuse(self, construct: str) -> None:
        raise Unsupported(
            construct,
            self.origins[0] if self.origins else None,
            code="GB0008",
        )


def storage_of(tensor: Tensor) -> Storage:
    if not isinstance(
        tensor._data, StoredArray
    ):  # neither an input nor a result: it is a constant of the graph
        _store(tensor, Storage(constant=True))
    return tensor._data.storage


def _store(tensor: Tensor, storage: Storage) -> Tensor:
    storage.members.append(weakref.ref(tensor))
    tensor._data = StoredArray(tensor._data.meta, tensor._data.node, storage)
    return tensor


def _plan_results(
    tracer: FunctionalTracer, inputs: list[Tensor], outputs: Iterable[Any]
) -> tuple[tuple[tuple[str, int], ...], list[Tensor]]:
    """Where each of the user's results comes from, and the tensors that the graph must compute for them."""
    # lab: begin plan_results
    results: list[tuple[str, int]] = []
    computed: list[Tensor] = []
    visible = [storage_of(t) for t in inputs]
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            tracer.refuse(f"output {i} is {type(output).__name__} {output!r}, not a tensor")
        kind, among = ("input", inputs) if _position(output, inputs) is not None else ("output", computed)
        if (position := _position(output, among)) is None:
            storage = storage_of(output)
            if storage.constant or any(storage is s for s in visible):
                tracer.refuse(f"output {i} ({output.meta}) shares memory with an input or another output")
            visible.append(storage)
            position = len(computed)
            computed.append(output)
        results.append((kind, position))
    return tuple(results), computed
    # lab: end


def _position(tensor: Tensor, among: list[Tensor]) -> int | None:
    return next((i for i, other in enumerate(among) if other is tensor), None)


def _with_own_storage(tracer: FunctionalTracer, computed: list[Tensor], written: list[Tensor]) -> list[Node]:
    """The output nodes. After renaming, tensors that are separate in eager may be the same value: those are copied.

    The wrapper copies a written input into its old memory. So its new value may share memory with an output, but never
    with an input, which may be written, too.
    """
    # lab: begin own_storage
    nodes: list[Node] = []
    taken: set[Node] = set()
    for index, tensor in enumerate([*computed, *written]):
        node = tracer.node_of(tensor)
        root = base(node)
        if root.op != "call_function" or (root in taken and index < len(computed)):
            tracer.origins, tracer.marks = node.origins, {}
            with interpreting(tracer):
                node = tracer.node_of(core.clone(tensor))
        taken.add(base(node))
        nodes.append(node)
    return nodes
    # lab: end
