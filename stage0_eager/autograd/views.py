"""Writing through views on the tape: a write to `x[0]` gives x, and every other view of it, a new history.

Input: a view that write() will change while gradients are recorded. The new history is that of a functional program:
the base with one part replaced, and the views made again. (torch's CopySlices does the same by hand.)
"""

from __future__ import annotations

from typing import Any

from stage0_eager.arrays import address
from stage0_eager.derivatives.rules import into_diagonal, into_strided, into_windows
from stage0_eager.kernels.formulas import OVERLAPS
from stage0_eager.state import no_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor, is_traced, refresh, root, steps_from_base, take_history
from stage_contracts.layouts import is_dense
from stage_contracts.symbolic import same_size

MADE_SILENTLY = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Make the view and write "
    "to it both inside the no_grad block, or both outside."
)


def write_through(view: Any, value: Any) -> Any:
    """`view.copy_(value)` with gradients: the base and the view become results of the write."""
    base = root(view)
    if view.numel() and any(s == 0 and n > 1 for s, n in zip(view.stride(), view.shape, strict=True)):
        raise RuntimeError(OVERLAPS)
    if view._made_silently and not is_traced(view):
        raise RuntimeError(MADE_SILENTLY)
    if base.is_leaf and (base.requires_grad or view.requires_grad):
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    new = _replaced(base, _places(view, base), value)
    if is_traced(view):  # inside vmap: it is not on this tape, but on the one around the vmap
        c.copy_(Tensor(view._data), Tensor(value._data))
    else:
        with no_grad():
            c.copy_(view, value)
    take_history(base, new)
    base._written += 1
    refresh(view)
    return view


def _places(view: Any, base: Any) -> list[tuple]:
    """The chain from base to view, for a write. For a part of an expanded tensor: one step, by its place in memory,
    of the base's dimensions as they lie there."""
    chain = steps_from_base(view)
    if (
        is_traced(view)
        or all(op.name != "expand" for op, _ in chain)
        or not is_dense(base.shape, base.stride())
    ):
        return chain
    order = tuple(sorted(range(base.ndim), key=lambda d: -base.stride(d)))
    offset = (address(view._data) - address(base._data)) // base.dtype.itemsize
    return [(c.permute, (order,)), (c.as_strided, (view.shape, view.stride(), offset))]


def _replaced(whole: Any, chain: list[tuple], value: Any) -> Any:
    """A copy of `whole` with `value` in the part that the chain of views shows."""
    if not chain:
        value = value if value.dtype is whole.dtype else c.cast(value, whole.dtype)
        value = c.expand(value, (1, *whole.shape))
        # as the only row of a matrix, so that the old value stays on the tape, with gradient 0
        return c.reshape(c.slice_scatter(c.reshape(whole, value.shape), value, 0, 0, 1, 1), whole.shape)
    (op, rest), inner = chain[0], chain[1:]
    return UNDO[op.name](whole, _replaced(op(whole, *rest), inner, value), *rest)


def _undo_permute(whole: Any, part: Any, dims: tuple) -> Any:
    order = [d % len(dims) for d in dims]
    return c.permute(part, tuple(order.index(i) for i in range(len(order))))


def _of_nothing(whole: Any, part: Any) -> Any:
    """For an expansion to a size of 0, which shows no element: the whole still depends on the written value."""
    rows = c.reshape(whole, (1, *whole.shape))
    return c.reshape(c.slice_scatter(rows, c.reshape(part, (0, *whole.shape)), 0, 0, 0, 1), whole.shape)


# View operator -> a function (whole, new value of the view) -> the new whole.
UNDO: dict[str, Any] = {
    "reshape": lambda whole, part, shape: c.reshape(part, whole.shape),
    "permute": _undo_permute,
    "expand": lambda whole, part, shape: (
        _of_nothing(whole, part) if any(same_size(n, 0) for n in part.shape) else c.reshape(part, whole.shape)
    ),
    "slice": lambda whole, part, dim, start, stop, step=1: c.slice_scatter(
        whole, part, dim, start, stop, step
    ),
    "diagonal": into_diagonal,
    "view_as_real": lambda whole, part: c.view_as_complex(c.contiguous(part)),
    "view_as_complex": lambda whole, part: c.view_as_real(part),
    "unfold": lambda whole, part, dim, size, step: into_windows(whole, part, dim, size, step, c.scatter),
    "as_strided": lambda whole, part, shape, strides, offset: into_strided(
        whole, part, shape, strides, offset, c.scatter
    ),
}
