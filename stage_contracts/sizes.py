"""Which sizes of a function's inputs are open: marks on tensors, compile's `dynamic`, and sizes that have changed.

Input: `mark_dynamic` and the others put marks on tensors. Each compiled function has one SizePolicy, which capture asks
about every tensor. Names and meanings are those of torch._dynamo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stage_contracts.messages import checks_options


@dataclass(frozen=True)
class Dim:
    """An open dimension named `name`: sizes from `low` to `high`. `strict`: it is an error if the program specializes
    it."""

    low: int = 0
    high: int | None = None
    name: str = ""
    strict: bool = False


_MARKS, _STATIC = "_dynamic_dims", "_static_dims"  # the attributes that marks set on a tensor


class ConstraintViolationError(RuntimeError):
    """A size was marked dynamic, but the program specializes it: it needs one value."""


@checks_options
def mark_dynamic(
    t: Any, index: int | Sequence[int], *, min: int | None = None, max: int | None = None, name: str = ""
) -> None:
    """Leave the size of dimension `index` (or several) of `t` open, within `min` and `max`, both included.

    If the program specializes the size, the compile raises ConstraintViolationError. `name` is its name in graphs.
    """
    _mark(t, index, Dim(0 if min is None else min, max, name, strict=True))


@checks_options
def maybe_mark_dynamic(t: Any, index: int | Sequence[int]) -> None:
    """The same as mark_dynamic, but if the program specializes the size, other sizes are compiled again."""
    _mark(t, index, Dim())


@checks_options
def mark_static(t: Any, index: int | Sequence[int] | None = None) -> None:
    """Compile for exactly this size of dimension `index` (default: of all dimensions). This wins over everything
    else."""
    dims = _dims(t, range(t.ndim) if index is None and hasattr(t, "ndim") else index)
    setattr(t, _STATIC, frozenset({*getattr(t, _STATIC, ()), *(_position(t, i) for i in dims)}))


def _mark(t: Any, index: int | Sequence[int], dim: Dim) -> None:
    dims = _dims(t, index)
    if dim.high is not None and dim.high < dim.low:
        raise ValueError(
            f"mark_dynamic expects min to be at most max, but got min={dim.low} and max={dim.high}"
        )
    for i in dims:
        size = t.shape[_position(t, i)]
        if size < dim.low or (dim.high is not None and size > dim.high):
            limits = f"min={dim.low}" + (f" and max={dim.high}" if dim.high is not None else "")
            raise ValueError(
                f"dimension {i} of the tensor has size {size}, but you marked it with {limits}; widen the range, or "
                "mark a tensor within it"
            )
        setattr(t, _MARKS, {**getattr(t, _MARKS, {}), _position(t, i): dim})


def _dims(t: Any, index: Any) -> Sequence[int]:
    """Check the arguments of a mark: a tensor, and one dimension or several."""
    if not hasattr(t, "shape"):
        raise TypeError(
            f"expected a tensor whose dimension is to be marked, but got {type(t).__name__}; write mark_dynamic(x, 0)"
        )
    dims = [index] if isinstance(index, int) else index
    if not isinstance(dims, Sequence) or not all(isinstance(i, int) for i in dims):
        raise TypeError(f"expected the dimension as an int, or a tuple or list of ints, but got {index!r}")
    return dims


def _position(t: Any, index: int) -> int:
    if not -t.ndim <= index < t.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in [{-t.ndim}, {t.ndim - 1}], but got {index})"
        )
    return index % t.ndim


@dataclass(eq=False)
class SizePolicy:
    """Which sizes are open in one compiled function. `dynamic` None: the dimensions that have changed between captures.

    supported: False for a backend that needs every size. Then no size is open, even if it is marked.
    automatic, assume_static: the configuration's automatic_dynamic_shapes and assume_static_by_default.
    """

    dynamic: bool | None = None
    supported: bool = True
    seen: dict[str, Any] = field(default_factory=dict)  # path -> the shape or number at the last capture
    changed: set[tuple[str, int]] = field(default_factory=set)
    automatic: bool = True
    assume_static: bool = True
    # paths of ints in the arguments whose value the program needed
    fixed: dict[str, int] = field(default_factory=dict)

    # path -> a number in an object; None: it has changed
    numbers: dict[str, Any] = field(default_factory=dict)

    def fixes(self, where: str, number: int) -> None:
        """Record that the program needed the value of the int at the path `where`."""
        if self.supported and self.dynamic is not False:
            self.fixed.setdefault(where, number)

    def opens(self, where: str, number: int) -> bool:
        """Whether an int is open, like a size: an entry exists for another value of it."""
        return self.automatic and number >= 0 and self.fixed.get(where, number) != number

    def opens_number(self, where: str, number: float) -> bool:
        """Whether an int or float outside of the arguments is open: it has changed between captures."""
        if not self.automatic:
            return False
        now = number.hex() if type(number) is float else number  # -0.0 differs from 0.0, and NaN equals NaN
        if self.numbers.setdefault(where, now) != now:
            self.numbers[where] = None  # from now on it is open
        return self.numbers[where] is None

    def open_dims(self, where: str, tensor: Any) -> dict[int, Dim]:
        """The open dimensions of `tensor`, which is at the path `where`."""
        if not self.supported:
            return {}
        shape = tuple(tensor.shape)
        marks, static = getattr(tensor, _MARKS, {}), getattr(tensor, _STATIC, ())
        if self.dynamic is False:  # except those that the program marks, as in torch
            return {i: d for i, d in marks.items() if i not in static}
        before = self.seen.get(where)
        if isinstance(before, tuple) and len(before) == len(shape):
            self.changed |= {(where, i) for i, (a, b) in enumerate(zip(before, shape, strict=True)) if a != b}
        self.seen[where] = shape
        every = self.dynamic is True or (self.dynamic is None and not self.assume_static)
        changed = self.changed if self.automatic else ()
        found = {i: Dim() for i in range(len(shape)) if every or (where, i) in changed}
        return {i: d for i, d in {**found, **marks}.items() if i not in static}


STATIC = SizePolicy(dynamic=False, supported=False, automatic=False)
