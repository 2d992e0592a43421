"""What a pointwise kernel computes from the place in a row alone, such as a column's mean and root: once, not per row.

Input: the nest of a pointwise kernel and the order of its loops. cpp_plain.py writes a loop over the columns before the
others; the compiler does not find it, as it moves a value out of the inner loop but never an inner loop's values out.
"""

from __future__ import annotations

from dataclasses import dataclass

from stage3_lowering.lowering.cpp_ops import COSTS
from stage3_lowering.lowering.values import is_half
from stage_contracts.loop_ir import Instr, LoopNest, Value

WORTH = 8  # additions that a column's values must cost: two divisions
MOST_COLUMNS = 4096  # elements of an array on the stack
FEWEST_ROWS = 16
MOST_KEPT = 4  # arrays
_FREE = ("load", "constant")  # as cheap where they stand
_BOUND = {"store", "random_bits", "indirect_index", "reduction", "scan", "constant"}


@dataclass(frozen=True)
class ColumnValues:
    body: tuple[Instr, ...]  # what the loop over the columns computes
    kept: tuple[Instr, ...]  # those of them that the other loops read
    # what the other loops need not compute again: a load costs no more in its place, and what all elements share is
    # computed before all loops
    only: frozenset[str]


def column_values(nest: LoopNest, order: tuple[str, ...]) -> ColumnValues | None:
    """The values of each column that are worth a loop of their own; None where there are none."""
    if not _has_columns(nest, order):
        return None
    alike, of_all, needed = _alike(nest, order[-1]), _alike(nest, None), set[str]()
    if sum(COSTS.get(i.op, 1) for i in alike.values() if i.op not in _FREE and i.name not in of_all) < WORTH:
        return None
    kept, again = [], set[str]()
    for instr in reversed(nest.body):
        if instr.name not in alike or (instr.name in of_all and instr.name in needed):
            needed |= {str(a) for a in instr.args if isinstance(a, Value)}
            again |= {instr.name} & of_all.keys()
        elif instr.name in needed and instr.op in _FREE:
            again.add(instr.name)
        elif instr.name in needed:
            kept.append(instr)
    if not 0 < len(kept) <= MOST_KEPT:
        return None
    return ColumnValues(tuple(alike.values()), tuple(reversed(kept)), frozenset(alike.keys() - again))


def _has_columns(nest: LoopNest, order: tuple[str, ...]) -> bool:
    """Whether the loops have columns, not too many of them, and rows enough."""
    sizes = dict(zip(map(str, nest.loop_variables), nest.ranges, strict=True))
    if len(order) < 2 or not isinstance(sizes[order[-1]], int):
        return False
    rows = sizes[order[-2]]
    few = isinstance(rows, int) and rows < FEWEST_ROWS
    return FEWEST_ROWS <= sizes[order[-1]] <= MOST_COLUMNS and not few


def _alike(nest: LoopNest, loop: str | None) -> dict[str, Instr]:
    """The instructions that need of all loops only this one, if any, and constants."""
    found: dict[str, Instr] = {}
    for instr in nest.body:
        values = {str(a) for a in instr.args if isinstance(a, Value)}
        places = {s.name for a in instr.args for s in getattr(a, "free_symbols", ())}
        fixed = instr.op == "constant" or instr.op not in _BOUND
        written = instr.op == "load" and (instr.args[0] in nest.writes or len(instr.args) > 2)
        whole = instr.dtype is not None and not is_half(instr.dtype)
        if fixed and whole and not written and values <= found.keys() and places <= {loop, *found}:
            found[instr.name] = instr
    return found
