"""The words of a declaration: what an operator's arguments are, which dtypes it takes, what it must refuse.

Input: nothing. samples/*.py declare rows with these; cases.py makes arrays of them; columns.py checks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

FLOATS = ("float32", "float64", "float16", "bfloat16")
WIDE = ("float32", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, "bool")
INTEGRAL = (*INTEGERS, "bool")


@dataclass(frozen=True)
class Operand:
    """A tensor argument, as data: cases.py draws its values. Without a dtype it has the one under test."""

    shape: tuple[int, ...]
    low: float = -3.0  # floats are uniform between low and high; integers are the whole numbers in between
    high: float = 3.0
    dtype: str | None = None
    grad: bool = True  # whether the derivative columns differentiate it (if it is floating)
    distinct: bool = False  # no two elements alike: what has an order has only one
    nonzero: bool = False  # no integer 0: a divisor
    ints: tuple[int, int] | None = None  # the range of integers, where it is not low..high
    values: Any = None  # these very values, as nested lists
    law: Callable | None = None  # applied to the drawn array: what makes it symmetric, sorted, sums to one

    def __repr__(self) -> str:
        return f"{self.dtype or 'tensor'}{list(self.shape)}"


def T(*shape: int, **options: Any) -> Operand:
    """A tensor of the dtype under test."""
    return Operand(shape, **options)


def I(*shape: int, below: int, low: int = 0, dtype: str = "int64", **options: Any) -> Operand:  # noqa: E743
    """An integer tensor with elements in low..below-1: indices, classes, counts."""
    return Operand(shape, low, below - 1, dtype, **options)


def B(*shape: int) -> Operand:
    """A mask."""
    return Operand(shape, dtype="bool")


def V(values: Any, dtype: str | None = None, **options: Any) -> Operand:
    """A tensor of given values, in the dtype under test unless one is named."""
    import numpy as np

    return Operand(np.shape(values), dtype=dtype, values=values, **options)


@dataclass(frozen=True)
class Sample:
    """One call: operands and plain values, nested as the function takes them."""

    args: tuple
    kwargs: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"({', '.join([*map(repr, self.args), *(f'{k}={v!r}' for k, v in self.kwargs.items())])})"


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


@dataclass(frozen=True)
class Invalid:
    """A call that must raise `error`, as torch does; `says` is part of the message."""

    sample: Sample
    error: type[Exception]
    says: str = ""
    dtype: str = "float32"
    torch_error: type[Exception] | None = None  # torch's, where it is another: a difference on purpose


@dataclass(frozen=True)
class Row:
    """What the oracle knows of one operator."""

    name: str
    # the reference: float64 (int64, bool) arrays in, arrays out; None: see `exceptions`
    numpy: Callable | None
    samples: tuple[Sample, ...]
    dtypes: tuple[str, ...] = FLOATS
    elementwise: bool = False  # shapes do not matter: the walk over edge values uses shapes of its own
    layouts: tuple[str, ...] = ()  # those that are walked, where not all are
    # errors with these words are no failure: whether rightly, torch's column says
    may_refuse: tuple[str, ...] = ()
    edges: bool = True  # NaN and infinities are planted among its values
    units: float = 4  # tolerance, in units of compare.UNITS
    # what smaller values are measured by; None: 0 if elementwise, else the largest value
    scale: float | None = None
    # applied to both sides first: what settles a freedom, as the signs of vectors
    canonical: Callable | None = None
    torch: str | Callable | None = None  # torch's spelling, where it is not the same name
    invalid: tuple[Invalid, ...] = ()
    exceptions: dict[str, str] = field(default_factory=dict)  # column: why the row does not take part
    aliasing: str = ""  # why it is not compared whether results share memory with operands
    edge_exceptions: dict[str, str] = field(default_factory=dict)  # column: why it does not with edge values
    alias_of: str | None = None  # this row is another under a second name
    in_place_of: str | None = None  # this row writes what another gives


ROWS: dict[str, Row] = {}
# Rows that carry part of a public function: that function, whose samples reach them.
INTERNAL: dict[str, str] = {}


def declare(name: str, numpy: Callable | None, *samples: Sample, invalid: tuple = (), **options: Any) -> None:
    """Add a row. Raises ValueError for a name that is taken."""
    if name in ROWS:
        raise ValueError(f"{name} is declared twice")
    ROWS[name] = Row(name, numpy, samples, invalid=tuple(invalid), **options)


def declaring(**usual: Any) -> Callable[..., None]:
    """`declare` for a group of rows: with options that are usual in it, and one Invalid or several."""

    def group(name: str, numpy: Callable | None, *samples: Sample, invalid: Any = (), **options: Any) -> None:
        several = (invalid,) if isinstance(invalid, Invalid) else invalid
        declare(name, numpy, *samples, invalid=several, **{**usual, **options})

    return group


def refuses(error: type, says: str, *args: Any, **kwargs: Any) -> Invalid:
    """A call that must raise `error` with words `says`."""
    return Invalid(S(*args, **kwargs), error, says)


def same_as(name: str, original: str, **options: Any) -> None:
    """Declare a second name of a row."""
    if name not in ROWS:
        ROWS[name] = replace(ROWS[original], **{"name": name, "alias_of": original, "torch": None, **options})


def internal(**rows: str) -> None:
    """Rows without a public name, each with the public function whose samples reach it."""
    INTERNAL.update(rows)
