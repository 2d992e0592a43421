"""Checks that need the tensors of a call: writes to leaves, and inputs that share memory with a written input.

Input: a functional graph, whose `writes` name the inputs it writes to; then the tensors of each call, before anything
runs. A graph without writes needs no check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from stage0_eager import arrays as array_library
from stage0_eager.autograd.views import MADE_SILENTLY
from stage0_eager.functions.inplace import INFERENCE_WRITTEN
from stage0_eager.state import STATE
from stage0_eager.tensor import UNTRACKED, Tensor, root
from stage_contracts.breaks import Unsupported
from stage_contracts.joint import FunctionalGraph

LEAF_WRITTEN = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF_WRITTEN = f"a view of {LEAF_WRITTEN}"

Check = Callable[[Sequence[Tensor]], None]


class LeafWritten(RuntimeError):
    """Eager's error for a write to a leaf. It is raised before anything runs; eager runs the code before the write
    first."""


def input_checks(functional: FunctionalGraph) -> tuple[Check, ...]:
    """The checks for each call of this graph, in order. They raise LeafWritten with eager's message, or Unsupported."""
    writes = functional.writes
    if not writes:
        return ()
    on_tape = tuple(i for i in writes if i not in functional.silent)

    def check(tensors: Sequence[Tensor]) -> None:
        _refuse_inference_tensors(tensors, writes)
        _refuse_leaves(tensors, on_tape)
        _refuse_shared_memory(tensors, writes)

    return (check,)


def _refuse_inference_tensors(tensors: Sequence[Tensor], writes: tuple[int, ...]) -> None:
    if STATE.inference:
        return
    for i in writes:  # `is_inference` in line: an optimizer's step writes hundreds
        written = tensors[i]
        if (written if written._base is None else written._base)._version is UNTRACKED:
            raise LeafWritten(INFERENCE_WRITTEN)


def _refuse_leaves(tensors: Sequence[Tensor], written_on_tape: tuple[int, ...]) -> None:
    if not STATE.grad_enabled:
        return
    for i in written_on_tape:
        written, whole = tensors[i], root(tensors[i])
        if written._made_silently and any(t.requires_grad for t in (whole, *tensors)):
            raise LeafWritten(MADE_SILENTLY)
        if written.requires_grad and written.is_leaf:
            raise LeafWritten(LEAF_WRITTEN)
        if whole is not written and whole.requires_grad and whole.is_leaf:
            raise LeafWritten(VIEW_OF_LEAF_WRITTEN)


def _refuse_shared_memory(tensors: Sequence[Tensor], writes: tuple[int, ...]) -> None:
    for i, j in _suspects(tensors, writes):
        if _may_share(tensors[i]._data, tensors[j]._data):
            raise Unsupported(
                f"inputs {i} and {j} of the compiled function share memory, and it writes to one of them; "
                "pass a clone of one",
                code="GB0008",
            )


def _suspects(tensors: Sequence[Tensor], writes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Pairs of a written input and another one whose bytes lie between the same bounds. (Most arrays own their memory,
    and are not in any.)"""
    arrays = [t._data for t in tensors]
    owners = array_library.owners_of(arrays)
    if len({*map(id, owners)}) == len(owners) and {*map(type, owners)} <= array_library.OWNERS:
        return
    bounds = [*map(array_library.bounds, arrays)]
    if all(end <= begin for (_, end), (begin, _) in pairwise(sorted(bounds))):
        return
    written = {*writes}
    for i, j in _overlapping(bounds):
        if written & {i, j}:
            yield (i, j) if i in written else (j, i)


def _overlapping(bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The pairs of ranges that meet: one walk in order of their begins."""
    reached: list[int] = []  # those that may reach further than the next begin
    for j in sorted(range(len(bounds)), key=bounds.__getitem__):
        begin, end = bounds[j]
        reached = [i for i in reached if bounds[i][1] > begin]
        if end > begin:
            yield from ((i, j) for i in reached)
            reached.append(j)


def _may_share(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(array_library.namespace_of(a).may_share_memory(a, b))
