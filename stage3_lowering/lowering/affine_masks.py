"""Which blocks of a score matrix a mask leaves empty, and which it leaves whole, from the comparisons it is made of.

Input: the condition of a `where` as a term, such as `row >= column and row - column < 256`. A comparison that is linear
in the row and the column bounds the columns of a block of rows; every other one only means that no block is whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from stage3_lowering.lowering.terms import Term, walk
from stage_contracts.index_expr import symbol

Linear = tuple[int, int, int]  # (a, b, c): a * row + b * column + c

_SIGN = {"ge": (1, 0), "gt": (1, -1), "le": (-1, 0), "lt": (-1, -1)}  # left - right >= 0, with what to add
_NEGATED = {"ge": "lt", "lt": "ge", "gt": "le", "le": "gt"}


@dataclass(frozen=True)
class Bounds:
    """`lower` and `upper`: (a, c), the columns are at least, at most, a * row + c. `exact`: nothing else decides."""

    lower: tuple[tuple[int, int], ...] = ()
    upper: tuple[tuple[int, int], ...] = ()
    exact: bool = True


def bounds_of(conditions: Mapping[Term, bool], row: str, column: str) -> Bounds:
    """What it says of the columns that a row uses if each condition holds, or does not."""
    lower: list[tuple[int, int]] = []
    upper: list[tuple[int, int]] = []
    exact = True
    for part, holds in [part for term, wanted in conditions.items() for part in _parts(term, wanted)]:
        linear = _comparison(part, holds, row, column)
        if linear is None or linear[1] not in (1, -1) or linear[0] not in (-1, 0, 1):
            exact = False
        elif linear[1] < 0:
            upper.append((linear[0], linear[2]))
        else:
            lower.append((-linear[0], -linear[2]))
    return Bounds(tuple(lower), tuple(upper), exact)


def _parts(condition: Term, holds: bool) -> list[tuple[Term, bool]]:
    """The comparisons that must all hold, or not hold."""
    if condition.op in ("bitwise_not", "logical_not"):
        return _parts(condition.args[0], not holds)
    if condition.op == "where" and isinstance(condition.args[1].number, bool):
        yes, no = condition.args[1].number, condition.args[2].number
        if isinstance(no, bool) and yes is not no:
            return _parts(condition.args[0], holds is yes)
    joined = ("logical_and", "bitwise_and") if holds else ("logical_or", "bitwise_or")
    if condition.op in joined:
        return [part for operand in condition.operands for part in _parts(operand, holds)]
    return [(condition, holds)]


def _comparison(part: Term, holds: bool, row: str, column: str) -> Linear | None:
    """The comparison as `linear >= 0`."""
    op = part.op if holds else _NEGATED.get(part.op, "")
    if op not in _SIGN:
        return None
    left, right = (_linear(side, row, column) for side in part.operands)
    if left is None or right is None:
        return None
    sign, more = _SIGN[op]
    a, b, c = (sign * (x - y) for x, y in zip(left, right, strict=True))
    return a, b, c + more


def _linear(term: Term, row: str, column: str) -> Linear | None:
    if isinstance(term.number, int):
        return 0, 0, int(term.number)
    if term.op == "index_expr":
        place = term.args[0]
        a, b = (place.coeff(symbol(name)) for name in (row, column))
        rest = (place - a * symbol(row) - b * symbol(column)).expand()
        if not all(n.is_Integer for n in (a, b, rest)):
            return None
        return int(a), int(b), int(rest)
    if term.op in ("add", "sub"):
        left, right = (_linear(side, row, column) for side in term.operands)
        if left is None or right is None:
            return None
        sign = 1 if term.op == "add" else -1
        a, b, c = (x + sign * y for x, y in zip(left, right, strict=True))
        return a, b, c
    if term.op == "cast" and term.dtype is not None and term.dtype.name in ("int32", "int64"):
        return _linear(term.args[0], row, column)
    return None


def conditions_of(term: Term) -> Collection[Term]:
    """The conditions of the `where`s in a term, without those that only turn one into another."""
    return [
        part.args[0] for part in walk(term) if part.op == "where" and part.dtype is not None
        and part.dtype.is_floating_point
    ]  # fmt: skip


def turned(bounds: Bounds) -> Bounds:
    """The same for a column: the rows that use it. What only bounds the columns themselves is left out."""
    # column <= row + c is row >= column - c; column <= c - row is row <= c - column; and so on
    every = [(a, c, "upper") for a, c in bounds.upper] + [(a, c, "lower") for a, c in bounds.lower]
    lower = tuple((a, -a * c) for a, c, kind in every if (kind, a) in (("upper", 1), ("lower", -1)))
    upper = tuple((a, -a * c) for a, c, kind in every if (kind, a) in (("upper", -1), ("lower", 1)))
    return Bounds(lower, upper, bounds.exact and all(a for a, _, _ in every))


def no_row_is_empty(bounds: Bounds, rows: int, columns: int) -> bool:
    """Whether every row uses some column, as far as the bounds say."""

    def least(row: int) -> int:
        return max([0, *(a * row + c for a, c in bounds.lower)])

    def most(row: int) -> int:
        return min([columns - 1, *(a * row + c for a, c in bounds.upper)])

    return all(least(row) <= most(row) for row in range(rows))
