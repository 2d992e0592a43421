"""Functions of torch that are a few lines over others: plain Python, so that capture follows them and the tape
differentiates them.

Input: tensors and numbers, as torch's functions of these names take them. FUNCTIONS, NN and SPECIAL are the names of
torch, torch.nn.functional and torch.special.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cutaway
from cutaway import Tensor
from stage0_eager.functions import bessel, further_methods, histograms, special
from stage0_eager.functions.linalg import elimination
from stage0_eager.functions.promotion import needs_floating
from stage0_eager.nn import functional as F
from stage0_eager.storage import UntypedStorage
from stage_contracts.dtype import dtype_of

# ---- shapes and elements -------------------------------------------------------------------------------------------


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(N, C, ...) with the channels of `groups` groups interleaved: channel (g, i) goes to (i, g)."""
    n, channels, *rest = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(f"channel_shuffle: {channels} channels cannot be divided into {groups} groups")
    parts = input.reshape(n, groups, channels // groups, *rest)
    return parts.transpose(1, 2).reshape(n, channels, *rest)


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero."""
    if input.numel() != 1:
        several = "with more than one value" if input.numel() else "with no values"
        raise RuntimeError(f"Boolean value of Tensor {several} is ambiguous")
    return bool(input.item() != 0)


def _of_several(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """f(x), f([x, y]) and, as in torch, f(x, y)."""

    def several(*tensors: Any) -> Any:
        return function(tensors[0] if len(tensors) == 1 else tensors)

    several.__name__, several.__doc__ = function.__name__, function.__doc__
    return several


def _copied(name: str) -> Callable[..., Any]:
    """The function `name`, which gives views, with each copied: torch's name_copy."""
    view = getattr(cutaway, name, None) or getattr(Tensor, name)

    def copy(input: Tensor, *args: Any, **options: Any) -> Any:
        found = view(input, *args, **options)
        return (
            tuple(part.clone().contiguous() for part in found)
            if isinstance(found, (tuple, list))
            else found.clone().contiguous()
        )

    copy.__name__, copy.__doc__ = f"{name}_copy", f"{name}, copied: no view."
    return copy


_VIEWS = (
    "as_strided detach diagonal expand permute select split split_with_sizes squeeze t transpose unbind unfold "
    "unsqueeze view view_as_complex view_as_real"
).split()


def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """input[start:end:step] along `dim`, copied: no view."""
    return input[(*[slice(None)] * (dim % input.ndim), slice(start, end, step))].clone().contiguous()


# ---- making tensors ------------------------------------------------------------------------------------------------


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Draws of the Poisson distribution of each rate: how many steps -log(u) fit below it. Runs eagerly."""
    needs_floating("poisson", input)
    if (input < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    count, reached = cutaway.zeros_like(input), cutaway.zeros_like(input, dtype=cutaway.float64)
    while True:
        step = cutaway.empty(input.shape, dtype=cutaway.float64, device=input.device)
        reached = reached + step.exponential_(generator=generator)
        if not (reached < input).any():
            return count
        count = count + (reached < input)


def range_(start: float = 0, end: float | None = None, step: float = 1, *, dtype: Any = None) -> Tensor:
    """start, start + step, ... up to `end` itself; float32 unless dtype says otherwise. (torch prefers arange.)"""
    if end is None:
        start, end = 0, start
    count = math.floor((end - start) / step) + 1
    return (start + step * cutaway.arange(count)).to(cutaway.get_default_dtype() if dtype is None else dtype)


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """An empty tensor of this size, whose dimensions lie in memory in the order physical_layout."""
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(
            f"physical_layout must order the {len(size)} dimensions, but got {physical_layout}"
        )
    laid = cutaway.empty([size[d] for d in physical_layout], **options)
    return laid.permute([list(physical_layout).index(d) for d in range(len(size))])


def empty_strided(size: Sequence[int], stride: Sequence[int], **options: Any) -> Tensor:
    """An empty tensor of this size and these strides, in elements."""
    last = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else 0
    return cutaway.empty([last], **options).as_strided(size, stride)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """obj as a tensor that shares its memory where it can. copy=True never shares it; copy=False insists."""
    if isinstance(obj, UntypedStorage):
        obj = obj.as_bytes() if dtype is None else obj.as_bytes().view(dtype_of(dtype).numpy)
    out = cutaway.as_tensor(obj, dtype=dtype, device=device)
    shared = out is obj or (isinstance(obj, np.ndarray) and np.shares_memory(obj, out.detach().numpy()))
    if copy is False and not shared:
        raise ValueError(
            "can't alias arbitrary data: asarray(copy=False) takes a tensor or an array as it is"
        )
    if isinstance(obj, Tensor) and not requires_grad:
        out = out.detach()
    out = out.clone() if copy and shared else out
    return out.requires_grad_() if requires_grad else out


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """The memory of a buffer, read as elements of dtype; a write shows in it. `offset` is in bytes."""
    array = np.frombuffer(
        buffer, dtype=cutaway.empty(0, dtype=dtype).numpy().dtype, count=count, offset=offset
    )
    return cutaway.from_numpy(array).requires_grad_(requires_grad)


def from_file(filename: str, shared: bool = False, size: int = 0, **options: Any) -> Tensor:
    """The first `size` elements of a file. shared: a write goes to the file."""
    dtype = cutaway.empty(0, **options).numpy().dtype
    return cutaway.from_numpy(
        np.memmap(filename, dtype, "r+" if shared else "c", shape=(size,)).view(np.ndarray)
    )


# ---- networks ------------------------------------------------------------------------------------------------------


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of (time, batch, channels) by weight (width, channels, out channels)."""
    return (
        F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
        .permute(2, 0, 1)
        .contiguous()
    )


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """rrelu, written into input."""
    return F.rrelu(input, lower, upper, training, inplace=True)


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Any = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Tensor:  # fmt: skip
    """The rows of data in pieces of these lengths (or between offsets), each reduced: sum, mean, prod, max, min."""
    sizes = offsets.diff() if offsets is not None else lengths
    if sizes is None:
        raise RuntimeError("segment_reduce: expected lengths or offsets")
    if axis or data.ndim == 0 or sizes.ndim != 1:
        raise NotImplementedError("segment_reduce: only pieces along the first dimension are supported")
    empty = _EMPTY[reduce] if initial is None else initial
    pieces = data.split(sizes.tolist())
    return cutaway.stack([_REDUCED[reduce](piece, empty) for piece in pieces])


def _extremum(name: str) -> Callable[[Tensor, float], Tensor]:
    def reduced(piece: Tensor, least: float) -> Tensor:
        start = piece.new_full((1, *piece.shape[1:]), least)
        return getattr(cutaway.cat([start, piece]), name)(0)

    return reduced


_EMPTY = {"sum": 0.0, "mean": math.nan, "prod": 1.0, "max": -math.inf, "min": math.inf}
_REDUCED: dict[str, Callable[[Tensor, float], Tensor]] = {
    "sum": lambda piece, start: piece.sum(0) + start,
    "prod": lambda piece, start: piece.prod(0) * start,
    "mean": lambda piece, start: piece.mean(0) if piece.shape[0] else piece.sum(0) + start,
    "max": _extremum("amax"),
    "min": _extremum("amin"),
}


# ---- symbols -------------------------------------------------------------------------------------------------------


def sym_sum(args: Sequence[Any]) -> Any:
    return sum(args)


def sym_ite(condition: Any, then: Any, otherwise: Any) -> Any:
    return then if condition else otherwise


def sym_not(a: Any) -> bool:
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger; a float if either is one, as torch has it."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller; a float if either is one, as torch has it."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


# ---- torch.nn.functional -------------------------------------------------------------------------------------------


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate in mode "bilinear" with corners aligned: torch's older spelling."""
    return F.interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _with_indices(pool: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(input: Tensor, *args: Any, **options: Any) -> Any:
        return pool(input, *args, **{**options, "return_indices": True})

    pooled.__doc__ = f"{pool.__name__}(return_indices=True)."
    return pooled


# ---- torch.special: polynomials ------------------------------------------------------------------------------------

# The polynomial of degree 1, and that of degree k + 1 from those of degrees k (p) and k - 1 (q), at x.
# Source: the three-term recurrences of Abramowitz and Stegun, table 22.7.
_RECURRENCES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "chebyshev_polynomial_t": (lambda x: x, lambda k, x, p, q: 2 * x * p - q),
    "chebyshev_polynomial_u": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - q),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, lambda k, x, p, q: 2 * x * p - q),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, lambda k, x, p, q: 2 * x * p - q),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * p - k * q),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}


def _polynomial(name: str, shifted: bool = False) -> Callable[..., Tensor]:
    first, following = _RECURRENCES[name]

    def polynomial(input: Any, n: Any) -> Tensor:
        x = (
            input
            if isinstance(input, Tensor)
            else cutaway.full_like(n, input, dtype=cutaway.get_default_dtype())
        )
        x = x if x.is_floating_point() else x.to(cutaway.get_default_dtype())
        x = 2 * x - 1 if shifted else x
        degrees = n.to(cutaway.int64) if isinstance(n, Tensor) else int(n)
        highest = (int(degrees.max()) if degrees.numel() else 0) if isinstance(degrees, Tensor) else degrees
        x = x + cutaway.zeros_like(degrees, dtype=x.dtype) if isinstance(degrees, Tensor) else x
        below, here = cutaway.ones_like(x), first(x)
        result = (
            cutaway.where(degrees >= 0, below, 0.0) if isinstance(degrees, Tensor) else below * (degrees >= 0)
        )
        for k in range(1, highest + 1):
            result = (
                cutaway.where(cutaway.eq(degrees, k), here, result) if isinstance(degrees, Tensor) else here
            )
            below, here = here, following(k, x, here, below)
        return result

    polynomial.__name__ = f"shifted_{name}" if shifted else name
    polynomial.__doc__ = (
        f"The {polynomial.__name__.replace('_', ' ')} of degree n at each element; 0 for n < 0."
    )
    return polynomial


def spherical_bessel_j0(input: Tensor) -> Tensor:
    """sin(x) / x, and 1 at 0."""
    return cutaway.sinc(input / math.pi)


_SHARED = (channel_shuffle,)
_MATRICES = "lu lu_solve lu_unpack geqrf ormqr orgqr svd_lowrank pca_lowrank lobpcg".split()
FUNCTIONS: dict[str, Any] = {
    **{f.__name__: f for f in (*_SHARED, is_nonzero, empty_permuted, empty_strided,
                               asarray, frombuffer, sym_sum, sym_ite, sym_not, sym_max, sym_min)},
    **{name: _of_several(getattr(cutaway, name)) for name in ("atleast_1d", "atleast_2d", "atleast_3d")},
    **{f"{name}_copy": _copied(name) for name in _VIEWS},
    **{name: getattr(further_methods, name) for name in further_methods.__all__},
    "alias_copy": cutaway.clone, "slice_copy": slice_copy, "to_dlpack": lambda input: input.__dlpack__(),
    "UntypedStorage": UntypedStorage,
    **{f.__name__: f for f in (from_file, conv_tbc, rrelu_, segment_reduce, poisson)},
    **{name: getattr(elimination, name) for name in _MATRICES},
    "histogram": histograms.histogram, "histogramdd": histograms.histogramdd,
    "native_channel_shuffle": channel_shuffle, "feature_alpha_dropout": F.feature_alpha_dropout,
    "range": range_, "sym_int": math.trunc, "sym_float": float,
    "is_inference": Tensor.is_inference, "is_conj": Tensor.is_conj,
}  # fmt: skip
_POOLS = [f"{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)]
NN: dict[str, Any] = {
    "native_channel_shuffle": channel_shuffle,
    **{f.__name__: f for f in (*_SHARED, upsample_bilinear, conv_tbc, rrelu_)},
    **{f"{name}_with_indices": _with_indices(getattr(F, name)) for name in _POOLS},
}
SPECIAL: dict[str, Any] = {
    **{name: _polynomial(name) for name in _RECURRENCES},
    **{f"shifted_{name}": _polynomial(name, shifted=True) for name in _RECURRENCES if "chebyshev" in name},
    "modified_bessel_i0": special.i0, "modified_bessel_i1": special.i1,
    "spherical_bessel_j0": spherical_bessel_j0,
    **{name: getattr(bessel, name) for name in bessel.__all__},
}  # fmt: skip
