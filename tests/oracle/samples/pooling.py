"""Pooling of all kinds and interpolation: windows visited one by one.

Input: none. Places of maxima are flat positions in the input's spatial dimensions.
"""

import math

import numpy as np

from tests.oracle.spec import FLOATS, WIDE, Invalid, S, T, declare, internal

WORDS = {"units": 16, "edges": False, "dtypes": WIDE}


def pool(name, numpy, *samples, invalid, **options):
    declare(name, numpy, *samples, invalid=(invalid,), **{**WORDS, **options})


def many(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """(the place of the result, the positions along each dimension, how many positions with padding) per window."""
    counts = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        span = (size + 2 * p - d * (k - 1) - 1) / s
        count = (math.ceil(span) if ceil_mode else math.floor(span)) + 1
        counts.append(count - 1 if ceil_mode and (count - 1) * s >= size + p else count)
    for at in np.ndindex(*counts):
        places, room = [], 1
        for i, size, k, s, p, d in zip(at, sizes, kernel, stride, padding, dilation):
            start = i * s - p
            places.append([x for x in range(start, start + k * d, d) if 0 <= x < size])
            room *= min(start + k, size + p) - start
        yield at, tuple(counts), places, room


def each_window(rank, x, fold, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """`fold(values (..., n), flat positions (n,), room)` of every window."""
    kernel = many(kernel, rank)
    stride = kernel if stride is None else many(stride, rank)
    sizes, out = x.shape[x.ndim - rank :], None
    flat = x.reshape(*x.shape[: x.ndim - rank], -1)
    for at, counts, places, room in windows(
        sizes, kernel, stride, many(padding, rank), many(dilation, rank), ceil_mode
    ):
        positions = np.ravel_multi_index(np.ix_(*places), sizes).ravel()
        value = fold(flat[..., positions], positions, room)
        out = np.zeros((*flat.shape[:-1], *counts)) if out is None else out
        out[(..., *at)] = value
    return out


def max_pool(rank):
    def reference(x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        words = (kernel, stride, padding, dilation, ceil_mode)
        values = each_window(rank, x, lambda v, at, room: v.max(-1), *words)
        if not return_indices:
            return values
        return values, each_window(rank, x, lambda v, at, room: at[v.argmax(-1)], *words)

    return reference


def avg_pool(rank):
    def reference(
        x, kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        def fold(values, at, room):
            return values.sum(-1) / (divisor_override or (room if count_include_pad else len(at)))

        return each_window(rank, x, fold, kernel, stride, padding, 1, ceil_mode)

    return reference


def lp_pool(rank):
    def reference(x, p, kernel, stride=None, ceil_mode=False):
        taps = math.prod(many(kernel, rank))  # a window cut short counts as a whole one
        return each_window(
            rank, x, lambda v, at, room: (taps * (v**p).mean(-1)) ** (1 / p), kernel, stride, 0, 1, ceil_mode
        )

    return reference


def adaptive(rank, fold):
    def reference(x, size, return_indices=False):
        sizes = x.shape[x.ndim - rank :]
        size = [
            s if o is None else o for o, s in zip((size,) * rank if isinstance(size, int) else size, sizes)
        ]
        flat = x.reshape(*x.shape[: x.ndim - rank], -1)
        out, places = np.zeros((*flat.shape[:-1], *size)), np.zeros((*flat.shape[:-1], *size), int)
        for at in np.ndindex(*size):
            ranges = [range(i * s // o, -(-(i + 1) * s // o)) for i, s, o in zip(at, sizes, size)]
            positions = np.ravel_multi_index(np.ix_(*ranges), sizes).ravel()
            out[(..., *at)] = fold(flat[..., positions], -1)
            places[(..., *at)] = positions[flat[..., positions].argmax(-1)]
        return (out, places) if return_indices else out

    return reference


def unpool(rank):
    def reference(x, places, kernel, stride=None, padding=0, output_size=None):
        kernel = many(kernel, rank)
        stride = kernel if stride is None else many(stride, rank)
        sizes = x.shape[x.ndim - rank :]
        size = output_size or [
            (n - 1) * s - 2 * p + k for n, s, p, k in zip(sizes, stride, many(padding, rank), kernel)
        ]
        size = tuple(size)[-rank:]
        out = np.zeros((*x.shape[: x.ndim - rank], int(np.prod(size))))
        np.put_along_axis(out, places.reshape(*out.shape[:-1], -1), x.reshape(*out.shape[:-1], -1), -1)
        return out.reshape(*x.shape[: x.ndim - rank], *size)

    return reference


def places_of(rank):
    """Positions that a max_pool of kernel 2 could have named: one in each window."""

    def law(array):
        sizes = array.shape[array.ndim - rank :]
        corners = np.ravel_multi_index(np.indices(sizes) * 2, [2 * s for s in sizes])
        return np.broadcast_to(corners, array.shape)

    return law


_SPACE = {1: (7,), 2: (6, 5), 3: (4, 5, 4)}
for _rank, _space in _SPACE.items():
    _x = T(2, 3, *_space, distinct=True)
    _wrong = Invalid(S(T(2), 2), RuntimeError, "") if _rank > 1 else Invalid(S(T(), 2), RuntimeError, "")
    pool(
        f"max_pool{_rank}d",
        max_pool(_rank),
        S(_x, 2),
        S(_x, 3, 2, 1),
        S(_x, 2, 1, 0, 2),
        S(_x, 3, 2, 1, ceil_mode=True),
        S(_x, 2, return_indices=True),
        S(T(3, *_space, distinct=True), 2),
        invalid=_wrong,
    )
    pool(
        f"avg_pool{_rank}d",
        avg_pool(_rank),
        S(_x, 2),
        S(_x, 3, 2, 1),
        S(_x, 3, 2, 1, True),
        S(_x, 3, 2, 1, False, False),
        S(T(3, *_space), 2),
        dtypes=FLOATS,
        invalid=_wrong if _rank != 2 else Invalid(S(T(2), 2), RuntimeError, torch_error=IndexError),
    )
    _positive = T(2, 3, *_space, low=0.2)
    pool(
        f"lp_pool{_rank}d",
        lp_pool(_rank),
        S(_positive, 2, 2),
        S(_positive, 3.0, 3, 2),
        S(_positive, 2, 2, ceil_mode=True),
        S(_x, 1, 2),
        units=32,
        invalid=Invalid(S("text", 2, 2), TypeError, torch_error=AttributeError),
    )
    _few = (4, 3, 2)[:_rank]
    _given = _few if _rank > 1 else 4
    pool(
        f"adaptive_avg_pool{_rank}d",
        adaptive(_rank, np.mean),
        S(_x, 1),
        S(_x, _given),
        S(_x, _space if _rank > 1 else 7),
        S(T(3, *_space), 2),
        dtypes=FLOATS,
        invalid=_wrong,
    )
    pool(
        f"adaptive_max_pool{_rank}d",
        adaptive(_rank, np.max),
        S(_x, 1),
        S(_x, _given),
        S(_x, 2, return_indices=True),
        invalid=_wrong,
    )
    _small = (3,) * _rank
    pool(f"max_unpool{_rank}d", unpool(_rank), S(T(2, 2, *_small), T(2, 2, *_small, dtype="int64", law=places_of(_rank)), 2), S(T(2, 2, *_small), T(2, 2, *_small, dtype="int64", law=places_of(_rank)), 2, output_size=(6,) * _rank),
         layouts=("contiguous", "transposed", "permuted", "strided", "backwards", "offset"), invalid=Invalid(S(T(2, 2, *_small), T(2, 2, *_small), 2), RuntimeError, ""))  # fmt: skip
internal(max_over_windows="max_pool2d", dropout_channels="dropout2d")
internal(alpha_dropout_channels="torch.nn.functional.feature_alpha_dropout")

# ---- interpolation ---------------------------------------------------------------------------------------------


def along(x, dim, size, scale, mode, align):
    """One dimension brought to `size`; `scale` is used where it was given."""
    old = x.shape[dim]
    i = np.arange(size)
    if mode.startswith("nearest"):
        step = old / size if scale is None else 1 / scale
        at = np.floor((i + 0.5) * step if mode == "nearest-exact" else i * step)
        return np.take(x, np.minimum(at.astype(int), old - 1), dim)
    if align:
        at = i * ((old - 1) / (size - 1) if size > 1 else 0.0)
    else:
        at = (i + 0.5) * (old / size if scale is None else 1 / scale) - 0.5
        at = np.maximum(at, 0) if mode != "bicubic" else at
    low = np.floor(at).astype(int)
    t = (at - low).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
    taps = (
        {-1: cubic(1 + t), 0: cubic(t), 1: cubic(1 - t), 2: cubic(2 - t)}
        if mode == "bicubic"
        else {0: 1 - t, 1: t}
    )
    return sum(np.take(x, np.clip(low + k, 0, old - 1), dim) * w for k, w in taps.items())


def cubic(t, a=-0.75):
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    return np.where(t <= 1, near, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a)


def interpolate(
    x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None
):
    rank = x.ndim - 2
    if mode == "area":
        return adaptive(rank, np.mean)(x, size)
    scales = (
        (None,) * rank
        if scale_factor is None
        else (scale_factor,) * rank
        if isinstance(scale_factor, (int, float))
        else scale_factor
    )
    sizes = [math.floor(n * f) for n, f in zip(x.shape[2:], scales)] if size is None else many(size, rank)
    for d in range(rank):
        x = along(x, 2 + d, sizes[d], None if recompute_scale_factor else scales[d], mode, align_corners)
    return x


pool("interpolate", interpolate, S(T(1, 2, 5), 8), S(T(1, 2, 5), scale_factor=2.0), S(T(1, 2, 3, 4), (5, 3)), S(T(1, 2, 3, 4), scale_factor=(2.0, 1.5)), S(T(1, 2, 3, 4), (5, 6), mode="bilinear"),
     S(T(1, 2, 3, 4), (5, 6), mode="bilinear", align_corners=True), S(T(1, 2, 3, 4), scale_factor=2, mode="bilinear"), S(T(1, 2, 5), 7, mode="linear"), S(T(1, 1, 2, 3, 2), (3, 4, 4), mode="trilinear"),
     S(T(1, 2, 3, 4), (6, 5), mode="bicubic"), S(T(1, 2, 4, 6), (2, 3), mode="area"), S(T(1, 2, 3, 4), (5, 3), mode="nearest-exact"), units=32, invalid=Invalid(S(T(1, 2, 5)), ValueError, "either size or scale_factor"))  # fmt: skip
_CHANCE = "random: each call draws its own"
_DRAWN = {
    **dict.fromkeys(("vmap", "derivative", "second derivative"), _CHANCE),
    **dict.fromkeys(("torch", "torch's derivative"), "random: other bits than torch's"),
    "NumPy": "random: see stage0_eager/tests",
}
_NO_CHANCE = (Invalid(S(T(2, 2, 3), 1.5, True), ValueError, "between 0 and 1"),)
declare(
    "alpha_dropout",
    None,
    S(T(3, 4), 0.5, True),
    S(T(3, 4), 0.5),
    edges=False,
    exceptions=_DRAWN,
    invalid=_NO_CHANCE,
)
for _rank in (1, 2, 3):
    declare(
        f"dropout{_rank}d",
        None,
        S(T(2, 3, *(2,) * _rank), 0.5, True),
        S(T(2, 3, *(2,) * _rank), 0.5, False),
        edges=False,
        exceptions=_DRAWN,
        invalid=_NO_CHANCE,
    )

# ---- sampling by a grid, blocks --------------------------------------------------------------------------------


def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    sizes, rank = x.shape[2:], x.ndim - 2
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(len(x), *grid.shape[1:-1]):
        places = []
        for n, g in zip(sizes, grid[at][::-1]):
            place = (g + 1) / 2 * (n - 1) if align_corners else ((g + 1) * n - 1) / 2
            places.append(min(max(place, 0), n - 1) if padding_mode == "border" else place)
        for corner in np.ndindex((1,) * rank if mode == "nearest" else (2,) * rank):
            cell = [
                int(np.round(p)) if mode == "nearest" else math.floor(p) + k for p, k in zip(places, corner)
            ]
            weight = 1.0 if mode == "nearest" else math.prod(1 - abs(p - k) for p, k in zip(places, cell))
            if all(0 <= k < n for k, n in zip(cell, sizes)):
                out[(at[0], slice(None), *at[1:])] += weight * x[(at[0], slice(None), *cell)]
    return out


def affine_grid(theta, size, align_corners=None):
    axes = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in size[2:]]
    grids = np.meshgrid(*axes, indexing="ij")[::-1]
    base = np.stack([*grids, np.ones(size[2:])], -1)
    return np.einsum("...j,nij->n...i", base, theta)


_IMAGE, _PLACES = T(2, 3, 4, 5), T(2, 3, 2, 2, low=-1.2, high=1.2)
pool(
    "grid_sample",
    grid_sample,
    S(_IMAGE, _PLACES, align_corners=False),
    S(_IMAGE, _PLACES, align_corners=True),
    S(_IMAGE, _PLACES, padding_mode="border", align_corners=False),
    S(_IMAGE, T(2, 3, 2, 2, low=-1.2, high=1.2, grad=False), "nearest", align_corners=True),
    S(T(1, 2, 3, 4, 3), T(1, 2, 2, 2, 3, low=-1.2, high=1.2), align_corners=False),
    units=64,
    invalid=Invalid(S(_IMAGE, _PLACES, "cubic"), ValueError, "mode"),
)
pool(
    "affine_grid",
    affine_grid,
    S(T(2, 2, 3), (2, 3, 4, 5), align_corners=False),
    S(T(2, 2, 3), (2, 1, 3, 2), align_corners=True),
    S(T(1, 3, 4), (1, 2, 3, 2, 4), align_corners=False),
    invalid=Invalid(S(T(2, 3, 3), (2, 3, 4, 5)), ValueError, "affine matrices"),
)


def blocks(sizes, kernel, dilation, padding, stride):
    """(the channel offset, the block, the place in the padded image) of every element of every block."""
    kernel, dilation, padding, stride = (many(v, 2) for v in (kernel, dilation, padding, stride))
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(sizes, padding, dilation, kernel, stride)
    ]
    for i, tap in enumerate(np.ndindex(*kernel)):
        for j, at in enumerate(np.ndindex(*counts)):
            yield i, j, tuple(a * s + t * d for a, s, t, d in zip(at, stride, tap, dilation))


def unfold(x, kernel, dilation=1, padding=0, stride=1):
    pads = [(0, 0), (0, 0), *((p, p) for p in many(padding, 2))]
    padded, taps = np.pad(x, pads), math.prod(many(kernel, 2))
    found = list(blocks(x.shape[2:], kernel, dilation, padding, stride))
    out = np.zeros((len(x), x.shape[1], taps, 1 + max(j for _, j, _ in found)))
    for i, j, at in found:
        out[:, :, i, j] = padded[(..., *at)]
    return out.reshape(len(x), -1, out.shape[-1])


def fold(x, size, kernel, dilation=1, padding=0, stride=1):
    taps, pads = math.prod(many(kernel, 2)), many(padding, 2)
    x = x.reshape(len(x), -1, taps, x.shape[-1])
    out = np.zeros((*x.shape[:2], *(n + 2 * p for n, p in zip(size, pads))))
    for i, j, at in blocks(size, kernel, dilation, padding, stride):
        out[(..., *at)] += x[:, :, i, j]
    return out[:, :, pads[0] : pads[0] + size[0], pads[1] : pads[1] + size[1]]


pool(
    "sliding_blocks",
    unfold,
    S(T(2, 3, 4, 5), 2),
    S(T(2, 3, 4, 5), (2, 3), 1, 1, 2),
    S(T(1, 2, 5, 5), 2, 2),
    torch="nn.functional.unfold",
    invalid=Invalid(S(T(1, 2, 2, 2), 3), RuntimeError, ""),
)
pool(
    "fold",
    fold,
    S(T(2, 12, 12), (4, 5), 2),
    S(T(1, 18, 9), (4, 5), (2, 3), 1, 1, 2),
    torch="nn.functional.fold",
    invalid=Invalid(S(T(2, 5, 4), (4, 5), 2), RuntimeError, ""),
)
