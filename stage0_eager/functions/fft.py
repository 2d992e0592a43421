"""torch.fft's functions, under torch's own names (`fft_rfft` is torch.fft.rfft): sizes, dims and scales.

Input: tensors. `n` and `s` cut the end of a dimension or fill it with zeros; `norm` says which direction is divided by
the number of points: "backward" (the default: the inverse), "ortho" (both by its root), "forward".
"""

from __future__ import annotations

import math

from stage0_eager.defaults import device_or_default, dtype_or_default
from stage0_eager.functions.rearranging import roll
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt

_POWERS = {"backward": (0, 1), "ortho": (0.5, 0.5), "forward": (1, 0)}  # of 1 / n: forward, inverse


def _scaled(x, norm, forward, points):
    norm = "backward" if norm is None else norm
    if norm not in _POWERS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    power = _POWERS[norm][0 if forward else 1]
    if power == 0:
        return x
    return c.mul(x, 1 / points if power == 1 else 1 / math.sqrt(points))


def _points(shape, dims):
    total = 1
    for d in dims:
        total = total * shape[d]
    return total


def _dims(x, s, dim):
    """The dims and the sizes that are asked for (None: as they are), of the same length."""
    if s is not None and not isinstance(s, (tuple, list)):
        s = (s,)
    if dim is None:
        dims = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    else:
        dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if s is not None and len(s) != len(dims):
        raise RuntimeError(
            "When given, dim and shape arguments must have the same length, "
            f"but got {len(dims)} dims and {len(s)} sizes"
        )
    limit = x.ndim
    for d in dims:
        if not -limit <= d < limit:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {d})"
            )
    dims = tuple(d % limit for d in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    return dims, [None] * len(dims) if s is None else [None if n == -1 else n for n in s]


def _resized(x, dims, sizes):
    pads = [(0, 0)] * x.ndim
    for d, n in zip(dims, sizes, strict=True):
        if n is not None:
            if n < 1:
                raise RuntimeError(f"Invalid number of data points ({n}) specified")
            pads[d] = (0, n - x.shape[d])
    return x if all(pad == (0, 0) for pad in pads) else c.constant_pad(x, tuple(pads), 0)


def _floating(x):
    if x.dtype.itemsize == 2 and x.is_floating_point():
        raise RuntimeError(f"Unsupported dtype {'Half' if x.dtype is dt.float16 else 'BFloat16'}")
    return x if x.dtype.is_differentiable else c.cast(x, dt.DEFAULT_DTYPE.dtype)


def _as_complex(x):
    x = _floating(x)
    return x if x.dtype.is_complex else c.cast(x, dt.complex_of(x.dtype))


def _complex_to_complex(x, s, dim, norm, forward):
    dims, sizes = _dims(x, s, dim)
    x = _resized(_as_complex(x), dims, sizes)
    return _scaled(c.fft_c2c(x, dims, forward), norm, forward, _points(x.shape, dims)) if dims else x


def _real_to_half(name, x, s, dim, norm, forward):
    """The half spectrum of a real x; that of the inverse is its conjugate."""
    if x.dtype.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {dt_name(x)}")
    dims, sizes = _dims(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = _resized(_floating(x), dims, sizes)
    out = c.fft_r2c(x, dims)
    return _scaled(out if forward else c.conj(out), norm, forward, _points(x.shape, dims))


def dt_name(x):
    return {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}[x.dtype.name]


def _half_to_real(name, x, s, dim, norm, forward):
    """The real tensor whose half spectrum x is; `forward` takes that of its conjugate."""
    dims, sizes = _dims(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = sizes[-1] if sizes[-1] is not None else 2 * (x.shape[dims[-1]] - 1)
    if last < 1:
        raise RuntimeError(f"Invalid number of data points ({last}) specified")
    x = _resized(_as_complex(x), dims, [*sizes[:-1], last // 2 + 1])
    out = c.fft_c2r(c.conj(x) if forward else x, dims, last)
    return _scaled(out, norm, forward, _points(out.shape, dims))


@operator
def fft_fft(input, n=None, dim=-1, norm=None):
    """The transform along one dimension."""
    return _complex_to_complex(input, n, dim, norm, True)


@operator
def fft_ifft(input, n=None, dim=-1, norm=None):
    """The inverse of `fft`."""
    return _complex_to_complex(input, n, dim, norm, False)


@operator
def fft_rfft(input, n=None, dim=-1, norm=None):
    """The first n // 2 + 1 places of the transform of a real input."""
    return _real_to_half("rfft", input, n, dim, norm, True)


@operator
def fft_irfft(input, n=None, dim=-1, norm=None):
    """The inverse of `rfft`, of size n (2 * (places - 1) without it)."""
    return _half_to_real("irfft", input, n, dim, norm, False)


@operator
def fft_hfft(input, n=None, dim=-1, norm=None):
    """The real transform of a signal of which input is the half that stands for its conjugate, too."""
    return _half_to_real("hfft", input, n, dim, norm, True)


@operator
def fft_ihfft(input, n=None, dim=-1, norm=None):
    """The inverse of `hfft`."""
    return _real_to_half("ihfft", input, n, dim, norm, False)


@operator
def fft_fftn(input, s=None, dim=None, norm=None):
    """`fft` along several dimensions (all without `dim` and `s`)."""
    return _complex_to_complex(input, s, dim, norm, True)


@operator
def fft_ifftn(input, s=None, dim=None, norm=None):
    """The inverse of `fftn`."""
    return _complex_to_complex(input, s, dim, norm, False)


@operator
def fft_rfftn(input, s=None, dim=None, norm=None):
    """`rfft` along the last dimension and `fft` along the others."""
    return _real_to_half("rfftn", input, s, dim, norm, True)


@operator
def fft_irfftn(input, s=None, dim=None, norm=None):
    """The inverse of `rfftn`."""
    return _half_to_real("irfftn", input, s, dim, norm, False)


@operator
def fft_hfftn(input, s=None, dim=None, norm=None):
    """`hfft` along the last dimension and `fft` along the others."""
    return _half_to_real("hfftn", input, s, dim, norm, True)


@operator
def fft_ihfftn(input, s=None, dim=None, norm=None):
    """The inverse of `hfftn`."""
    return _real_to_half("ihfftn", input, s, dim, norm, False)


@operator
def fft_fft2(input, s=None, dim=(-2, -1), norm=None):
    """`fftn` of two dimensions."""
    return _complex_to_complex(input, s, dim, norm, True)


@operator
def fft_ifft2(input, s=None, dim=(-2, -1), norm=None):
    """`ifftn` of two dimensions."""
    return _complex_to_complex(input, s, dim, norm, False)


@operator
def fft_rfft2(input, s=None, dim=(-2, -1), norm=None):
    """`rfftn` of two dimensions."""
    return _real_to_half("rfft2", input, s, dim, norm, True)


@operator
def fft_irfft2(input, s=None, dim=(-2, -1), norm=None):
    """`irfftn` of two dimensions."""
    return _half_to_real("irfft2", input, s, dim, norm, False)


@operator
def fft_hfft2(input, s=None, dim=(-2, -1), norm=None):
    """`hfftn` of two dimensions."""
    return _half_to_real("hfft2", input, s, dim, norm, True)


@operator
def fft_ihfft2(input, s=None, dim=(-2, -1), norm=None):
    """`ihfftn` of two dimensions."""
    return _real_to_half("ihfft2", input, s, dim, norm, False)


@operator
def fft_fftshift(input, dim=None):
    """Frequency 0 moved to the middle."""
    return _shifted(input, dim, lambda n: n // 2)


@operator
def fft_ifftshift(input, dim=None):
    """The inverse of `fftshift`."""
    return _shifted(input, dim, lambda n: (n + 1) // 2)


def _shifted(input, dim, by):
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return roll(input, tuple(by(input.shape[d]) for d in dims), dims) if dims else c.clone(input)


def fft_fftfreq(n, d=1.0, *, dtype=None, device=None):
    """The frequencies of `fft`: 0, 1, ..., then the negative ones, by n * d."""
    place = c.iota(n, 0, 1, dt.int64, device_or_default(device))
    place = c.where(c.ge(place, (n + 1) // 2), c.sub(place, n), place)
    return _frequency(place, n, d, dtype)


def fft_rfftfreq(n, d=1.0, *, dtype=None, device=None):
    """The frequencies of `rfft`: 0, 1, ..., n // 2, by n * d."""
    return _frequency(c.iota(n // 2 + 1, 0, 1, dt.int64, device_or_default(device)), n, d, dtype)


def _frequency(place, n, d, dtype):
    return c.mul(c.cast(place, dtype_or_default(dtype)), 1.0 / (n * d))
