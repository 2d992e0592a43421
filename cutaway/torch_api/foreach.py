"""torch._foreach_*: an operator on each tensor of a list; the second operand is a list too, or one number for all.

Input: the table below, by the kinds of operands. Written out they are loops, which capture follows, so that compiled
code fuses the updates as it fuses any others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.functions.statistics import vector_norm
from stage0_eager.tensor import Tensor

SINGLE = (
    "abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero_"
).split()
PAIRS = "add sub mul div pow clamp_max clamp_min maximum minimum".split()
EXTREMES = ("clamp_max", "clamp_min", "maximum", "minimum")

Tensors = Sequence[Tensor]


def _each(value: Any, count: int) -> list[Any]:
    """One operand for each tensor: from a list, a number, or a tensor of numbers."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
            )
        return list(value)
    return [value] * count


def _checked(tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"argument 'self' must be tuple of Tensors, not {type(tensors).__name__}")
    return list(tensors)


def _single(name: str) -> Callable[..., Any]:
    def call(self: Tensors) -> Any:
        return [getattr(tensor, name)() for tensor in _checked(self)]

    return call


def _extreme(name: str) -> Callable[[Tensor, Any], Tensor]:
    """maximum and minimum, whose other operand may be a number here."""
    clamp = "clamp_min" if name in ("maximum", "clamp_min") else "clamp_max"

    def extreme(tensor: Tensor, other: Any) -> Tensor:
        of = "maximum" if clamp == "clamp_min" else "minimum"
        return getattr(tensor, of)(other) if isinstance(other, Tensor) else getattr(tensor, clamp)(other)

    return extreme


def _pair(name: str) -> Callable[..., Any]:
    plain = name.removesuffix("_")
    compute = _extreme(plain) if plain in EXTREMES else lambda tensor, other: getattr(tensor, plain)(other)

    def call(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        if plain == "pow" and isinstance(self, (int, float)):
            return [self**exponent for exponent in _checked(other)]
        tensors = _checked(self)
        found = []
        for tensor, operand in zip(tensors, _each(other, len(tensors)), strict=True):
            found.append(compute(tensor, operand if alpha == 1 else operand * alpha))
        return _written(tensors, found) if name.endswith("_") else found

    return call


def _written(tensors: list[Tensor], found: list[Tensor]) -> list[Tensor]:
    return [tensor.copy_(value) for tensor, value in zip(tensors, found, strict=True)]


def _product(name: str) -> Callable[..., Any]:
    """addcmul, addcdiv: value is a number, or one for each (in a list, or a tensor)."""
    plain = name.removesuffix("_")

    def call(
        self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Any = 1, *, scalars: Any = None
    ) -> Any:
        tensors = _checked(self)
        factors = value if scalars is None else scalars
        factors = factors.tolist() if isinstance(factors, Tensor) else factors
        rows = zip(tensors, tensor1, tensor2, _each(factors, len(tensors)), strict=True)
        found = [getattr(tensor, plain)(a, b, value=factor) for tensor, a, b, factor in rows]
        return _written(tensors, found) if name.endswith("_") else found

    return call


def lerp(self: Tensors, tensors1: Tensors, weight: Any) -> list[Tensor]:
    """self + weight (tensors1 - self), for each."""
    tensors = _checked(self)
    return [a.lerp(b, w) for a, b, w in zip(tensors, tensors1, _each(weight, len(tensors)), strict=True)]


def lerp_(self: Tensors, tensors1: Tensors, weight: Any) -> list[Tensor]:
    return _written(_checked(self), lerp(self, tensors1, weight))


def norm(self: Tensors, ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """The norm of all elements of each tensor."""
    cast = [tensor if dtype is None else tensor.to(dtype) for tensor in _checked(self)]
    return [vector_norm(tensor.reshape(-1), ord, 0, False) for tensor in cast]


def copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> list[Tensor]:
    return [tensor.copy_(source, non_blocking) for tensor, source in zip(_checked(self), src, strict=True)]


def largest(self: Tensors) -> list[Tensor]:
    return [tensor.max() for tensor in _checked(self)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"_foreach_{name}": _single(name) for name in SINGLE},
    **{f"_foreach_{name}_": _single(f"{name}_") for name in SINGLE if name not in ("clone", "zero_")},
    **{f"_foreach_{name}{end}": _pair(name + end) for name in PAIRS for end in ("", "_")},
    **{f"_foreach_{name}{end}": _product(name + end) for name in ("addcmul", "addcdiv") for end in ("", "_")},
    "_foreach_copy_": copy_, "_foreach_lerp": lerp, "_foreach_lerp_": lerp_, "_foreach_max": largest,
    "_foreach_norm": norm,
}  # fmt: skip
