"""Prints tensors exactly as torch does; `set_printoptions`.

Input: a tensor with data. All numbers of a tensor have one format, chosen from its smallest and largest. A tensor of
more than `threshold` numbers shows only the edges of each dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage_contracts import dtype as dt


@dataclass(frozen=True)
class Options:
    """The options: digits after the point; from how many numbers on to show only edges, and how many of them; columns;
    scientific notation (None: as needed)."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": Options(),
    "short": Options(precision=2, edgeitems=2),
    "full": Options(threshold=math.inf),
}
_OPTIONS = [
    Options()
]  # the current options; replaced as a whole, so that another thread never sees half a change


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print. A profile ('default', 'short', 'full') is applied first, then the other arguments."""
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    base = _OPTIONS[0]
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile expects one of {', '.join(_PROFILES)}, but got {profile!r}")
        base = _PROFILES[profile]
    changed: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    _OPTIONS[0] = replace(base, **changed, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The current options, with the names of `set_printoptions`."""
    return asdict(_OPTIONS[0])


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions` for a block."""
    before = _OPTIONS[0]
    set_printoptions(**options)
    try:
        yield
    finally:
        _OPTIONS[0] = before


# ---- numbers ---------------------------------------------------------------------------------------------------


def _number_format(array: np.ndarray, options: Options) -> tuple[int, Callable[[Any], str]]:
    """(width, function that writes a number in it) for all numbers of an array."""
    if array.dtype.kind == "c":
        return _complex_format(array, options)
    width, write = _real_format(array, options)
    return width, lambda value: write(value).rjust(width)


def _complex_format(array: np.ndarray, options: Options) -> tuple[int, Callable[[Any], str]]:
    """Each part in the format of all numbers in that part; the second follows the first without a gap."""
    width, real = _number_format(array.real, options)
    other, imag = _number_format(array.imag, options)

    def write(value: complex) -> str:
        second = imag(value.imag).lstrip()
        return f"{real(value.real)}{'' if second.startswith('-') else '+'}{second}j"

    return width + other + 1, write


def _real_format(array: np.ndarray, options: Options) -> tuple[int, Callable[[Any], str]]:
    if array.dtype.kind != "f":
        return max((len(str(v)) for v in array.ravel().tolist()), default=1), str
    seen = array[np.isfinite(array) & (array != 0)]
    if not seen.size:
        return 1, _whole
    sizes = np.abs(seen)
    low, high = float(sizes.min()), float(sizes.max())
    scientific = options.sci_mode
    if scientific is None:
        scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
    style = f".{options.precision}{'e' if scientific else 'f'}"
    write: Callable[[Any], str] = (
        _whole if not scientific and bool((seen == np.ceil(seen)).all()) else _styled(style)
    )
    return max(len(write(v)) for v in seen.tolist()), write


def _styled(style: str) -> Callable[[Any], str]:
    return lambda value: format(value, style)


def _whole(value: float) -> str:
    return f"{value:.0f}" + ("." if math.isfinite(value) else "")


# ---- brackets --------------------------------------------------------------------------------------------------


def _edges(array: np.ndarray, count: int) -> np.ndarray:
    """The edges of an array, which are printed instead of all its numbers."""
    for axis, size in enumerate(array.shape):
        if size > 2 * count:
            array = np.take(array, [*range(count), *range(size - count, size)], axis)
    return array


def _parts(items: Any, size: int, edge: int | None) -> list[Any]:
    """The items that are printed; None for the dots between the edges."""
    if edge is None or size <= 2 * edge:
        return [items[i] for i in range(size)]
    return [*(items[i] for i in range(edge)), None, *(items[i] for i in range(size - edge, size))]


def _brackets(
    array: np.ndarray, indent: int, edge: int | None, width: int, write: Callable, options: Options
) -> str:
    if array.ndim == 0:
        return write(array.item())
    parts = _parts(array, array.shape[0], edge)
    if array.ndim > 1:
        rows = [
            "..." if part is None else _brackets(part, indent + 1, edge, width, write, options)
            for part in parts
        ]
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(rows) + "]"
    words = [" ..." if part is None else write(part.item()) for part in parts]
    per_line = max(1, (options.linewidth - indent) // (width + 2))
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


# ---- the whole ---------------------------------------------------------------------------------------------------


def _plain_dtypes() -> tuple[dt.DType, ...]:
    """Those that a text leaves out; of a tensor without numbers only the first."""
    default = dt.DEFAULT_DTYPE.dtype
    return default, dt.complex128 if default is dt.float64 else dt.complex64, dt.int64, dt.bool_


def _suffixes(tensor: Any) -> list[str]:
    """The parts that print only if they are not the default: device, the size of a tensor without elements or data,
    dtype, tape."""
    words = []
    if not tensor.is_cpu:
        words.append(f"device='{tensor.device}'")
    empty = tensor.numel() == 0
    without_data = tensor.device.type == "meta"
    if (empty and tensor.ndim != 1) or without_data:
        words.append(f"size={tuple(tensor.shape)}")
    if tensor.dtype not in _plain_dtypes()[: 1 if empty or without_data else None]:
        words.append(f"dtype={tensor.dtype!r}")
    if tensor._grad_fn is not None:
        name = repr(tensor._grad_fn).strip("<>")
        words.append(f"grad_fn=<{name}{'0' if getattr(tensor._grad_fn, 'op', None) is not None else ''}>")
    elif tensor.requires_grad:
        words.append("requires_grad=True")
    return words


def tensor_text(tensor: Any) -> str:
    """`tensor([1., 2.], dtype=..., requires_grad=True)`; parts with their default values are left out."""
    options, prefix = _OPTIONS[0], "tensor("
    body = "..." if tensor.device.type == "meta" else _body(tensor, len(prefix), options)
    text = prefix + body
    column = len(text) - text.rfind("\n") + 1
    for suffix in _suffixes(tensor):
        if column + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * len(prefix) + suffix
            column = len(prefix) + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def _body(tensor: Any, indent: int, options: Options) -> str:
    """The numbers in their brackets."""
    array = arrays.move(tensor._data, arrays.CPU)
    if tensor.dtype.is_floating_point:
        array = array.astype(np.float64)
    if tensor.dtype.is_complex:
        array = array.astype(np.complex128)
    edge = options.edgeitems if array.size > options.threshold else None
    width, write = _number_format(array if edge is None else _edges(array, edge), options)
    return _brackets(array, indent, edge, width, write, options) if array.size else "[]"
