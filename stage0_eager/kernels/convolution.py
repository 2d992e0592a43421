"""Convolution on arrays: windows laid out as columns of a matrix (a strided view, one copy), then one product.

Input: arrays and the core operators' arguments. The transposed convolution is the adjoint: a product, then columns
added up where their windows were. Known as im2col and col2im (Chellapilla, Puri and Simard, 2006; Caffe).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from stage0_eager import arrays

# Below this many windows per image, the images of a batch share one product: BLAS is poor at narrow matrices.
_NARROW = 256
# Columns that are held at once, in bytes: more only costs memory.
_HELD = 1 << 26


def convolution(
    xp: Any, x: Any, w: Any, stride: tuple, padding: tuple, dilation: tuple, transposed: bool,
    output_padding: tuple, groups: int,
) -> Any:  # fmt: skip
    """core.convolution. Half precision: products and sums in float32, rounded once."""
    wide_x, wide_w = _wide(x), _wide(w)
    if transposed and _as_gathered(x, w, stride, padding, dilation, output_padding, groups):
        out = _gathered(xp, wide_x, *_turned(xp, wide_w, padding, dilation, groups))
    elif transposed:
        out = _spread(xp, wide_x, wide_w, stride, padding, dilation, output_padding, groups)
    else:
        out = _gathered(xp, wide_x, wide_w, stride, padding, dilation, groups)
    return out if out.dtype is x.dtype else out.astype(x.dtype)


def convolution_weight_gradient(
    xp: Any, x: Any, g: Any, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Any:
    """core.convolution_weight_gradient: for each place of the kernel, the product of gradients and what it saw."""
    n, channels, outs, sizes = x.shape[0], x.shape[1], g.shape[1], g.shape[2:]
    windows = _windows(xp, _padded(xp, _wide(x), padding), kernel, stride, dilation, sizes)
    g, count = _wide(g), math.prod(sizes)
    depth = channels // groups * math.prod(kernel)
    total: Any = 0
    for part in _chunks(n, channels * math.prod(kernel) * count * g.dtype.itemsize):
        m = (part.stop - part.start) * count
        columns = xp.moveaxis(windows[part], 0, 1 + len(kernel)).reshape(groups, depth, m)
        seen = xp.swapaxes(g[part], 0, 1).reshape(groups, outs // groups, m)
        total = xp.matmul(seen, columns.swapaxes(-1, -2)) + total
    if not n:
        total = xp.zeros((groups, outs // groups, depth), g.dtype)
    out = total.reshape(outs, channels // groups, *kernel)
    return out if out.dtype is x.dtype else out.astype(x.dtype)


def _gathered(xp: Any, x: Any, w: Any, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> Any:
    n, channels, outs, kernel = x.shape[0], x.shape[1], w.shape[0], w.shape[2:]
    x = _padded(xp, x, padding)
    sizes = _fitting(x.shape[2:], kernel, stride, dilation)
    windows = _windows(xp, x, kernel, stride, dilation, sizes)
    count, depth = math.prod(sizes), channels // groups * math.prod(kernel)
    matrix = w.reshape(groups, outs // groups, depth)
    parts = []
    for part in _chunks(n, channels * math.prod(kernel) * count * x.dtype.itemsize):
        m = part.stop - part.start
        if m > 1 and count < _NARROW:
            columns = xp.moveaxis(windows[part], 0, 1 + len(kernel)).reshape(groups, depth, m * count)
            out = xp.matmul(matrix, columns).reshape(outs, m, *sizes).swapaxes(0, 1)
        else:
            columns = windows[part].reshape(m, groups, depth, count)
            out = xp.matmul(matrix, columns).reshape(m, outs, *sizes)
        parts.append(out)
    if not parts:
        return xp.zeros((0, outs, *sizes), x.dtype)
    return xp.ascontiguousarray(parts[0]) if len(parts) == 1 else xp.concatenate(parts)


def _as_gathered(
    x: Any, w: Any, stride: tuple, padding: tuple, dilation: tuple, extra: tuple, groups: int
) -> bool:
    """With stride 1 the adjoint of a convolution is one, of the turned kernel: faster where images are large.

    Not of an infinite weight on a CPU: it would meet the zeros of the padding, which the adjoint does not have.
    """
    inside = all(d * (k - 1) >= p for d, k, p in zip(dilation, w.shape[2:], padding, strict=True))
    large = math.prod(x.shape[2:]) >= 64 and x.shape[1] <= 2 * w.shape[1] * groups
    fits = inside and large and all(s == 1 for s in stride) and not any(extra)
    return fits and (type(w) is not np.ndarray or bool(np.isfinite(w).all()))


def _turned(xp: Any, w: Any, padding: tuple, dilation: tuple, groups: int) -> tuple:
    """(weight, stride, padding, dilation, groups) of the convolution that a transposed one of stride 1 is."""
    kernel, inner, outer = w.shape[2:], w.shape[0] // groups, w.shape[1]
    w = w.reshape(groups, inner, outer, *kernel).swapaxes(1, 2).reshape(groups * outer, inner, *kernel)
    w = xp.flip(w, tuple(range(2, w.ndim)))
    around = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True))
    return w, (1,) * len(kernel), around, dilation, groups


def _spread(
    xp: Any, x: Any, w: Any, stride: tuple, padding: tuple, dilation: tuple, extra: tuple, groups: int
) -> Any:
    n, channels, outs, kernel, sizes = x.shape[0], x.shape[1], w.shape[1] * groups, w.shape[2:], x.shape[2:]
    count, depth = math.prod(sizes), w.shape[1] * math.prod(kernel)
    matrix = w.reshape(groups, channels // groups, depth).swapaxes(-1, -2)
    full = tuple(
        (size - 1) * s + d * (k - 1) + 1 + e
        for size, k, s, d, e in zip(sizes, kernel, stride, dilation, extra, strict=True)
    )
    out = xp.zeros((n, outs, *full), x.dtype)
    for part in _chunks(n, outs * math.prod(kernel) * count * x.dtype.itemsize):
        m = part.stop - part.start
        if m > 1 and count < _NARROW:
            rows = xp.swapaxes(x[part], 0, 1).reshape(groups, channels // groups, m * count)
            columns = xp.matmul(matrix, rows).reshape(outs, *kernel, m, *sizes)
            columns = xp.moveaxis(columns, 1 + len(kernel), 0)
        else:
            rows = x[part].reshape(m, groups, channels // groups, count)
            columns = xp.matmul(matrix, rows).reshape(m, outs, *kernel, *sizes)
        for place in product(*map(range, kernel)):
            there = tuple(
                slice(p * d, p * d + (size - 1) * s + 1, s)
                for p, d, s, size in zip(place, dilation, stride, sizes, strict=True)
            )
            out[(part, slice(None), *there)] += columns[(slice(None),) * 2 + place]
    inside = tuple(slice(p, size - p) for p, size in zip(padding, full, strict=True))
    return xp.ascontiguousarray(out[(slice(None),) * 2 + inside])


# ---- windows ------------------------------------------------------------------------------------------------------


def _windows(xp: Any, x: Any, kernel: tuple, stride: tuple, dilation: tuple, sizes: tuple) -> Any:
    """A view (N, C, *kernel, *sizes): what each place of the kernel sees, for each window."""
    steps = x.strides[2:]
    library = np if xp is np else arrays.cupy()
    return library.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *kernel, *sizes),
        (
            *x.strides[:2],
            *(step * d for step, d in zip(steps, dilation, strict=True)),
            *(step * s for step, s in zip(steps, stride, strict=True)),
        ),
    )


def _fitting(sizes: tuple, kernel: tuple, stride: tuple, dilation: tuple) -> tuple:
    return tuple(
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    )


def _padded(xp: Any, x: Any, padding: tuple) -> Any:
    if not any(padding):
        return x
    out = xp.zeros((*x.shape[:2], *(s + 2 * p for s, p in zip(x.shape[2:], padding, strict=True))), x.dtype)
    inside = tuple(slice(p, p + s) for p, s in zip(padding, x.shape[2:], strict=True))
    out[(slice(None),) * 2 + inside] = x
    return out


def _chunks(n: int, each: int) -> Iterator[slice]:
    """Ranges of a batch of `n` whose columns, `each` bytes per image, are held at once."""
    step = max(_HELD // max(each, 1), 1)
    return (slice(at, min(at + step, n)) for at in range(0, n, step))


def _wide(x: Any) -> Any:
    half = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    return x.astype(np.float32) if half else x
