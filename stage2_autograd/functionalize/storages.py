"""Storages of a traced program: which tensors share memory, how each views it, and what a write does to all of them.

Input: functionalize's tracer makes one Storage for each tensor that owns memory. Every tensor is the result of a chain
of view operators on its storage's base. A write replaces the base; at their next read, the other tensors apply their
chains to the new base. (functorch's functionalization keeps bases and replays views in the same way.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stage0_eager.autograd.views import UNDO
from stage0_eager.functions.inplace import assign_data
from stage0_eager.state import interpreting, no_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor, is_traced
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage_contracts.graph import Node
from stage_contracts.layouts import is_dense
from stage_contracts.symbolic import hinted, same_shape
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

Chain = tuple[tuple[Any, tuple], ...]  # (core view operator, its arguments after the tensor), outermost first


class Silently:
    """A view operator under no_grad: its result is never on the tape, even if its base is."""

    def __init__(self, op: Any) -> None:
        self.op, self.name, self.meta = op, op.name, op.meta

    def __repr__(self) -> str:
        return f"Silently({self.op!r})"

    def __call__(self, tensor: Tensor, *rest: Any) -> Tensor:
        with no_grad():  # without this, the tape would record the operator itself
            return self.op(c.detach(tensor) if is_traced(tensor) else tensor, *rest)


class Storage:
    """Memory that tensors share: its current base, and where it came from.

    origin: ("input", index), ("constant", name), ("made", -1), or ("twin", -1): memory of another storage, under a
        different history.
    twin: whether such a storage of the same memory exists.
    call: the marks of the call that made it. They are the same object for all calls in a composite's body.
    copies: what contiguous() copied from or into it. For sizes at which the tensor is contiguous, eager makes no copy.
    """

    def __init__(self, origin: tuple[str, Any] = ("made", -1), call: dict | None = None) -> None:
        self.origin = origin
        self.call = call
        self.copies: list[TensorMeta] = []
        self.base: Tensor | None = None  # `owns` sets it
        self.gaps: tuple | None = (
            None  # the strides of memory that is not dense; a written value cannot have them
        )
        self.twin = False
        self.generation = 0  # the number of writes to it
        self.recorded = False  # whether autograd sees any of them

    def owns(self, tensor: Tensor) -> Tensor:
        """Make `tensor` the base of this memory."""
        tensor._data = StoredArray(tensor._data.meta, tensor._data.node, self, (), self.generation)
        self.base = tensor
        return tensor

    def replace(self, value: Tensor, recorded: bool) -> None:
        """Record a write: `value` is the base from now on. Other tensors are updated when `current` is called for
        them."""
        assert self.base is not None
        memory = self.base.meta
        if not self.generation and not is_dense(memory.shape, memory.strides):
            self.gaps = memory.strides
        self.generation += 1
        self.recorded |= recorded
        self.owns(Tensor(value._data))
        if (
            self.gaps is not None
        ):  # whether an operator makes a view depends on the user's memory, not on the value
            self.base._data.meta = value.meta.with_(strides=self.gaps)


class StoredArray(TracedArray):
    """A traced value, the storage that it is a view of, the views between them, and the generation that it shows."""

    __slots__ = ("chain", "generation", "storage")

    def __init__(
        self, meta: TensorMeta, node: Node | None, storage: Storage, chain: Chain, generation: int
    ) -> None:
        super().__init__(meta, node)
        self.storage, self.chain, self.generation = storage, chain, generation


def current(tracer: Tracer, tensor: Tensor) -> Tensor:
    """The tensor, updated to the last write to its storage."""
    data = tensor._data
    if isinstance(data, StoredArray) and data.generation != data.storage.generation:
        assert data.storage.base is not None and data.node is not None
        with on_behalf_of(tracer, data.node):
            now = replay(data.storage.base, data.chain)._data
        tensor._data = StoredArray(now.meta, now.node, data.storage, data.chain, data.storage.generation)
    return tensor


def replay(base: Tensor, chain: Chain) -> Tensor:
    """Apply the views in `chain` to `base`."""
    for op, rest in chain:
        base = op(base, *rest)
    return base


@contextmanager
def on_behalf_of(tracer: Tracer, node: Node) -> Iterator[None]:
    """In the block, recorded calls have the node's line, and are differentiable even if they are needed under
    no_grad."""
    origins, marks = tracer.origins, tracer.marks
    tracer.origins, tracer.marks = node.origins, {k: v for k, v in marks.items() if k != "no_grad"}
    try:
        with interpreting(tracer):
            yield
    finally:
        tracer.origins, tracer.marks = origins, marks


def replaced(whole: Tensor, chain: Chain, value: Tensor) -> Tensor:
    """`whole`, with `value` in the part that `chain` shows."""
    if not chain:
        return value
    (op, rest), inner = chain[0], chain[1:]
    new = _UNDO[op.name](whole, replaced(op(whole, *rest), inner, value), *rest)
    return assign_data(whole, new) if isinstance(op, Silently) and op.name != "detach" else new


_UNDO: dict[str, Any] = {
    **UNDO,
    "detach": lambda whole, part: assign_data(whole, part),
    "contiguous": lambda whole, part: part,
    "to_device": lambda whole, part, *_: part,
}


def laid_out_as(meta: TensorMeta, value: Tensor) -> Tensor:
    """`value` with the strides of the written memory, so that the same operators make views as in eager."""
    if same_shape(value.meta.strides, meta.strides):
        return value
    if not is_dense(meta.shape, meta.strides):  # an input with gaps: the wrapper copies the elements back
        return c.contiguous(value)
    order = sorted(range(meta.ndim), key=lambda d: (-hinted(meta.strides[d]), d))
    inverse = tuple(order.index(d) for d in range(meta.ndim))
    return c.permute(c.contiguous(c.permute(value, tuple(order))), inverse)


def overlaps(meta: TensorMeta) -> bool:
    """Whether two elements may be in the same place in memory. Eager refuses to write to such a tensor."""
    if same_shape(meta.strides, contiguous_strides(meta.shape)) or is_dense(meta.shape, meta.strides):
        return False
    reach = 0  # the extent of the dimensions so far
    for stride, size in sorted(zip(meta.strides, meta.shape, strict=True)):
        if size == 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False
