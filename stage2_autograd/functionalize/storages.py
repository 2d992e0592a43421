"""Storages of a traced program: which tensors share memory, how each views it, and what a write does to all of them.

Input: functionalize's tracer makes one Storage for each tensor that owns memory. Every tensor is its storage's base
seen through a chain of view operators. A write replaces the base; at their next read, the other tensors apply their
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
    """A view operator under no_grad: what it shows has no place on the tape, whatever its base comes to have."""

    def __init__(self, op: Any) -> None:
        self.op, self.name, self.meta = op, op.name, op.meta

    def __repr__(self) -> str:
        return f"Silently({self.op!r})"

    def __call__(self, tensor: Tensor, *rest: Any) -> Tensor:
        with no_grad():  # of a traced tensor the operator itself would be differentiated
            return self.op(c.detach(tensor) if is_traced(tensor) else tensor, *rest)


class Storage:
    """Memory that tensors share: its base as it is now, and where it came from.

    origin: ("input", index), ("constant", name), ("made", -1), or ("twin", -1): memory of another storage, under a
        history of its own.
    twin: whether there is one of those.
    call: the marks of the call that made it, which are one object for all that a composite's body does.
    copies: what contiguous() copied from or into it; at sizes where that is contiguous, eager makes no copy.
    """

    def __init__(self, origin: tuple[str, Any] = ("made", -1), call: dict | None = None) -> None:
        self.origin = origin
        self.call = call
        self.copies: list[TensorMeta] = []
        self.base: Tensor | None = None  # set by `owns`
        self.gaps: tuple | None = (
            None  # the strides of memory that is not dense, which a written value cannot have
        )
        self.twin = False
        self.generation = 0  # how many writes it has seen
        self.recorded = False  # whether autograd sees one of them

    def owns(self, tensor: Tensor) -> Tensor:
        """Make `tensor` the one that this is the memory of."""
        tensor._data = StoredArray(tensor._data.meta, tensor._data.node, self, (), self.generation)
        self.base = tensor
        return tensor

    def replace(self, value: Tensor, recorded: bool) -> None:
        """A write happened: `value` is the base from now on. Tensors are older until `current` is asked."""
        assert self.base is not None
        memory = self.base.meta
        if not self.generation and not is_dense(memory.shape, memory.strides):
            self.gaps = memory.strides
        self.generation += 1
        self.recorded |= recorded
        self.owns(Tensor(value._data))
        if self.gaps is not None:  # what is a view of it is one for the user's memory, not for the value
            self.base._data.meta = value.meta.with_(strides=self.gaps)


class StoredArray(TracedArray):
    """A traced value, the storage it is a view of, the views between, and the generation it shows."""

    __slots__ = ("chain", "generation", "storage")

    def __init__(
        self, meta: TensorMeta, node: Node | None, storage: Storage, chain: Chain, generation: int
    ) -> None:
        super().__init__(meta, node)
        self.storage, self.chain, self.generation = storage, chain, generation


def current(tracer: Tracer, tensor: Tensor) -> Tensor:
    """The tensor, showing the last write to its storage."""
    data = tensor._data
    if isinstance(data, StoredArray) and data.generation != data.storage.generation:
        assert data.storage.base is not None and data.node is not None
        with on_behalf_of(tracer, data.node):
            now = replay(data.storage.base, data.chain)._data
        tensor._data = StoredArray(now.meta, now.node, data.storage, data.chain, data.storage.generation)
    return tensor


def replay(base: Tensor, chain: Chain) -> Tensor:
    """What `chain` shows of `base`."""
    for op, rest in chain:
        base = op(base, *rest)
    return base


@contextmanager
def on_behalf_of(tracer: Tracer, node: Node) -> Iterator[None]:
    """What is recorded here has the node's line, and is differentiable although something under no_grad asks for it."""
    origins, marks = tracer.origins, tracer.marks
    tracer.origins, tracer.marks = node.origins, {k: v for k, v in marks.items() if k != "no_grad"}
    try:
        with interpreting(tracer):
            yield
    finally:
        tracer.origins, tracer.marks = origins, marks


def replaced(whole: Tensor, chain: Chain, value: Tensor) -> Tensor:
    """`whole` with `value` in the place that `chain` shows."""
    if not chain:
        return value
    (op, rest), inner = chain[0], chain[1:]
    new = _UNDO[op.name](whole, replaced(op(whole, *rest), inner, value), *rest)
    return assign_data(whole, new) if isinstance(op, Silently) and op.name != "detach" else new


_UNDO: dict[str, Any] = {
    **UNDO,
    "detach": lambda whole, part: assign_data(whole, part),
    "contiguous": lambda whole, part: part,
    "to_device": lambda whole, part, device: part,
}


def laid_out_as(meta: TensorMeta, value: Tensor) -> Tensor:
    """`value` with the strides that the written memory has, so that views of it are views as in eager."""
    if same_shape(value.meta.strides, meta.strides):
        return value
    if not is_dense(meta.shape, meta.strides):  # memory with gaps, from outside: it is written back by value
        return c.contiguous(value)
    order = sorted(range(meta.ndim), key=lambda d: (-hinted(meta.strides[d]), d))
    inverse = tuple(order.index(d) for d in range(meta.ndim))
    return c.permute(c.contiguous(c.permute(value, tuple(order))), inverse)


def overlaps(meta: TensorMeta) -> bool:
    """Whether two elements may be one place in memory, so that eager refuses to write to it."""
    if same_shape(meta.strides, contiguous_strides(meta.shape)) or is_dense(meta.shape, meta.strides):
        return False
    reach = 0  # how far the dimensions so far extend
    for stride, size in sorted(zip(meta.strides, meta.shape, strict=True)):
        if size == 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False
