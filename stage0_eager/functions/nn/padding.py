"""Padding, by torch.nn.functional's names: borders of a constant, mirrored, repeated or wrapped elements.

Input: a tensor, and how many elements to add at each side, the last dimension first.
"""

from __future__ import annotations

from stage0_eager.functions.shape import in_format_of
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.core_metas import crop


@operator
def pad(input, pad, mode="constant", value=None):
    """A border around the last dimensions: `pad` has (before, after) for the last one first.

    Modes: constant (of `value`, negative pads crop), reflect (mirrored, the edge not repeated), replicate (the edge
    repeated), circular (from the other side). Raises RuntimeError for a border that a mode cannot fill,
    NotImplementedError for an unknown mode. As torch.nn.functional.pad, for any number of dimensions.
    """
    pad = tuple(pad)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.ndim}"
        )
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    if mode == "constant":
        widths = (*[(0, 0)] * (input.ndim - len(pairs)), *reversed(pairs))
        for size, (before, after) in zip(input.shape, widths, strict=True):
            removed = crop(before) + crop(after)
            # asked here, also of open sizes: unused, the call may be left out later
            if removed and size + removed < 0:
                raise RuntimeError(
                    f"constant_pad: the negative pads in {widths} remove more than the size of a dimension of "
                    f"{tuple(input.shape)}"
                )
        return in_format_of(c.constant_pad(input, widths, 0 if value is None else value), input)
    if mode not in _BORDERS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value not in (None, 0):
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    out = input
    for i, (before, after) in enumerate(pairs):
        dim = input.ndim - 1 - i
        if before or after:
            out = _bordered(out, dim, before, after, mode)
    out = c.clone(out) if out is input else out
    return out if mode == "circular" else in_format_of(out, input)


def _bordered(x, dim, before, after, mode):
    if mode == "circular" and (before < 0 or after < 0):  # the border shows what the crop has left
        _check_border(x, dim, before, after, mode)
        x = c.slice(x, dim, -crop(before), x.shape[dim] + crop(after), 1)
        before, after = before - crop(before), after - crop(after)
    _check_border(x, dim, before, after, mode)
    size = x.shape[dim]
    place = _BORDERS[mode](c.iota(size + before + after, -before, 1, dt.int64, x.device), size)
    shape = (*x.shape[:dim], size + before + after, *x.shape[dim + 1 :])
    place = c.reshape(place, (*[1] * dim, shape[dim], *[1] * (x.ndim - dim - 1)))
    return c.gather(x, dim, c.expand(place, shape))


def _check_border(x, dim, before, after, mode):
    size = x.shape[dim]
    limit = {"reflect": size - 1, "circular": size}.get(mode)
    if limit is not None and (before > limit or after > limit):
        raise RuntimeError(
            f"Padding size should be at most {limit} in mode {mode!r}, but got: padding ({before}, {after}) at "
            f"dimension {dim} of input {list(x.shape)}"
        )
    if size == 0 or size + before + after < 0:
        raise RuntimeError(
            f"pad: dimension {dim} of input {list(x.shape)} is empty, or the padding ({before}, {after}) removes more "
            "than its size"
        )


def _reflect(i, size):
    i = c.abs(i)
    return c.where(c.ge(i, size), c.sub(2 * (size - 1), i), i)


# From places that may lie outside 0..size-1 to those that are shown there.
_BORDERS = {
    "reflect": _reflect,
    "replicate": lambda i, size: c.minimum(c.maximum(i, 0), size - 1),
    "circular": lambda i, size: c.remainder(i, size),
}
