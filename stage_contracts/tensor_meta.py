"""TensorMeta: everything a compiler may know about a tensor without its data. Prints as text that reads back.

Input: a tensor's shape, strides, dtype, device and requires_grad. Text form: `float32[64, 10]`, then only what is not
the default: `strides=(1, 64) device=cuda:0 requires_grad`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stage_contracts.device import CPU, Device, device_of
from stage_contracts.dtype import DType, dtype_of
from stage_contracts.symbolic import same_shape, same_size


def contiguous_strides(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Row-major strides, in elements. A size of 0 counts as 1, as in NumPy and torch."""
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size if isinstance(size, int) is False or size > 1 else step
    return tuple(reversed(strides))


_KNOWN = frozenset({int})


def _empty(shape: tuple[Any, ...]) -> bool:
    """Whether a size is the number 0. False for a symbolic size, because a test would be an assumption."""
    return any(isinstance(size, int) and size == 0 for size in shape)


@dataclass(frozen=True, init=False)
class TensorMeta:
    """`shape` and `strides` in elements (int or SymInt). There is no offset, because a meta is not an alias.

    Without `strides`, it is row-major. So is a meta with a size of 0, because it has no elements.
    """

    shape: tuple[Any, ...]
    dtype: DType
    strides: tuple[Any, ...]
    device: Device
    requires_grad: bool

    def __init__(
        self,
        shape: Sequence[Any],
        dtype: DType,
        strides: Sequence[Any] | None = None,
        device: Device = CPU,
        requires_grad: bool = False,
    ) -> None:
        shape = tuple(shape)
        empty = 0 in shape if _KNOWN.issuperset(map(type, shape)) else _empty(shape)
        row_major = strides is None or empty
        # eager makes a meta at every recorded call, and this is the fast way to set fields of a frozen dataclass
        known = self.__dict__
        known.update(shape=shape, dtype=dtype, device=device, requires_grad=requires_grad)
        if row_major:
            known.update(strides=contiguous_strides(shape), is_contiguous=True)
        else:
            known["strides"] = tuple(strides)  # type: ignore[arg-type]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Any:
        """Number of elements."""
        count: Any = 1
        for size in self.shape:
            count = count * size
        return count

    @property
    def nbytes(self) -> Any:
        return self.numel * self.dtype.itemsize

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether it is row-major and dense. Strides of dimensions of size 1 do not matter.

        Adds no guard on open sizes: True means that it holds for all of them, False that it depends, or never holds.
        """
        wanted = contiguous_strides(self.shape)
        return all(
            same_size(stride, want) or same_size(size, 1)
            for size, stride, want in zip(self.shape, self.strides, wanted, strict=True)
        ) or _empty(self.shape)

    @cached_property
    def is_known(self) -> bool:
        """Whether every size and stride is a number."""
        return _KNOWN.issuperset(map(type, (*self.shape, *self.strides)))

    def with_(self, **changes: Any) -> TensorMeta:
        """A copy with some fields changed. A new shape without strides is row-major."""
        strides = None if "shape" in changes else self.strides
        kept = {"shape": self.shape, "dtype": self.dtype, "strides": strides, "device": self.device}
        return TensorMeta(**{**kept, "requires_grad": self.requires_grad, **changes})

    def __str__(self) -> str:
        text = f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"
        if not same_shape(self.strides, contiguous_strides(self.shape)):
            text += f" strides=({', '.join(map(str, self.strides))}{',' * (len(self.strides) == 1)})"
        if self.device != CPU:
            text += f" device={self.device}"
        return text + " requires_grad" * self.requires_grad


_TEXT = re.compile(
    r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?: strides=\((?P<strides>[^)]*)\))?"
    r"(?: device=(?P<device>\S+))?(?P<grad> requires_grad)?$"
)


def parse_meta(text: str, symbols: dict[str, Any] | None = None) -> TensorMeta:
    """Read back `str(meta)`. `symbols` maps the names of symbolic sizes to their SymInts; other sizes are
    expressions."""
    match = _TEXT.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a tensor type; expected text such as 'float32[64, 10]'")

    def sizes(part: str) -> tuple[Any, ...]:
        words = [w.strip() for w in part.split(",") if w.strip()]
        return tuple(
            int(w) if w.lstrip("-").isdigit() else (symbols or {}).get(w) or _expression(w) for w in words
        )

    strides = None if match["strides"] is None else sizes(match["strides"])
    return TensorMeta(
        sizes(match["shape"]),
        dtype_of(match["dtype"]),
        strides,
        device_of(match["device"]),
        bool(match["grad"]),
    )


def _expression(text: str) -> Any:
    from stage_contracts.index_expr import parse_index

    return parse_index(text)
