"""Iteration spaces: collapses the loops of a nest where possible, and splits them where two nests are to share them.

Input: LoopNests from lower.py. (4, 5) and (20,) run over the same points in the same order. `common` finds the coarsest
loops that can express both; `rewrite` writes a nest with these loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import sympy

from stage3_lowering.lowering.values import loop_sizes, simplify
from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.loop_ir import Instr, LoopNest
from stage_contracts.size_vars import plain, quotient

Sizes = tuple[Any, ...]  # ints, or expressions of open sizes


def normalise(nest: LoopNest) -> LoopNest:
    """Drop loops of size 1 and join neighbours that step through memory as one."""
    indices = [a for instr in nest.body for a in _indices(instr)]
    outer, outer_map = _collapse("i", nest.ranges, indices)
    inner, inner_map = _collapse("r", nest.reduction_ranges, indices)
    if nest.reduction_ranges and not inner:
        inner = (1,)  # a reduction keeps a loop to reduce over
    return _substitute(nest, outer, inner, {**outer_map, **inner_map})


def _collapse(letter: str, sizes: Sequence[int], indices: list[Any]) -> tuple[Sizes, dict[Any, Any]]:
    """The joined sizes, and each old variable as an expression of the new ones.

    Where `a` steps `size_b` times as far as `b`, c*size_b*a + c*b is c*(size_b*a + b): one loop of the
    product size. Its variable takes the place of `b`, and `a` becomes 0.
    """
    groups: list[list[int]] = []  # old loops that become one
    for k, size in enumerate(sizes):
        if size == 1:
            continue
        if groups and all(_continues(index, letter, groups[-1][-1], k, size) for index in indices):
            groups[-1].append(k)
        else:
            groups.append([k])
    old_to_new = {symbol(f"{letter}{k}"): sympy.Integer(0) for k in range(len(sizes))}
    old_to_new |= {
        symbol(f"{letter}{members[-1]}"): symbol(f"{letter}{new}") for new, members in enumerate(groups)
    }
    return tuple(plain(math.prod(sizes[k] for k in members)) for members in groups), old_to_new


@lru_cache(1 << 14)  # equal layers have equal nests
def _continues(index: Any, letter: str, first: int, second: int, size: int) -> bool:
    """Whether stepping the loop `first` continues where the loop `second` of `size` ends, in this index."""
    a, b = symbol(f"{letter}{first}"), symbol(f"{letter}{second}")
    step_a, step_b = index.coeff(a), index.coeff(b)
    rest = sympy.expand(index - step_a * a - step_b * b)
    return not rest.has(a, b) and sympy.expand(step_a - size * step_b) == 0


def _indices(instr: Instr) -> list[Any]:
    """The index expressions among an instruction's arguments."""
    return [a for a in instr.args if isinstance(a, sympy.Basic)]


def _substitute(
    nest: LoopNest, ranges: Sizes, reduction_ranges: Sizes, old_to_new: dict[Any, Any]
) -> LoopNest:
    """The nest over other loops, each old variable replaced by its expression in the new ones."""
    sizes = loop_sizes(ranges, reduction_ranges)

    known: dict[Any, Any] = {}  # the loads of a nest share a few indices

    def moved(arg: Any) -> Any:
        if not isinstance(arg, sympy.Basic):
            return arg
        if arg not in known:
            known[arg] = simplify(arg.xreplace(old_to_new), sizes)
        return known[arg]

    body = tuple(instr.with_args(tuple(map(moved, instr.args))) for instr in nest.body)
    return replace(nest, ranges=ranges, reduction_ranges=reduction_ranges, body=body)


# ---- spaces in common --------------------------------------------------------------------------------


def common(a: Sizes, b: Sizes) -> Sizes | None:
    """The coarsest sizes that split both `a` and `b`, or None: (4, 15) and (20, 3) give (4, 5, 3)."""
    if math.prod(a) != math.prod(b):
        return None
    if 0 in a or 0 in b:
        return a if a == b else None
    left, right, found = list(a), list(b), []
    while left and right:
        small = left[-1] if quotient(right[-1], left[-1]) is not None else right[-1]
        if quotient(left[-1], small) is None:
            return None
        found.append(small)
        for sizes in (left, right):
            sizes[-1] = quotient(sizes[-1], small)
            if sizes[-1] == 1:
                sizes.pop()
    return tuple(reversed(found))


def rewrite(nest: LoopNest, ranges: Sizes, reduction_ranges: Sizes) -> LoopNest:
    """The nest over finer loops; a pointwise nest may have its inner loops made reduction loops."""
    if (nest.ranges, nest.reduction_ranges) == (ranges, reduction_ranges):
        return nest
    names = [f"i{k}" for k in range(len(ranges))] + [f"r{k}" for k in range(len(reduction_ranges))]
    sizes = (*ranges, *reduction_ranges)
    fine = [(symbol(name), size) for name, size in zip(names, sizes, strict=True) if size != 1]
    old_sizes = (*nest.ranges, *nest.reduction_ranges)
    old_to_new: dict[Any, Any] = {}
    for variable, size in reversed(
        list(zip((*nest.loop_variables, *nest.reduction_variables), old_sizes, strict=True))
    ):
        # innermost first: take new loops until they make up the old one
        expression, step = (sympy.Integer(0), 1)
        while step != size:
            new, count = fine.pop()
            expression += step * new
            step *= count
        old_to_new[variable] = expression
    return _substitute(nest, ranges, reduction_ranges, old_to_new)


def split(sizes: Sizes, inner: Any) -> tuple[Sizes, Sizes] | None:
    """`sizes` cut so that the second part has `inner` points, or None."""
    for k in range(len(sizes) + 1):
        if math.prod(sizes[k:]) == inner:
            return sizes[:k], sizes[k:] or (1,)
    return None


def over_matrix(nest: LoopNest, rows: int, columns: int) -> LoopNest:
    """A pointwise nest with one loop over `rows` and one over `columns`, which together have its points in order."""
    return over_places(nest, columns * symbol("i0") + symbol("i1"), (rows, columns), ())


def over_places(nest: LoopNest, place: Any, ranges: Sizes, reduction_ranges: Sizes) -> LoopNest:
    """A pointwise nest at the point of number `place`, an expression of these loops, for each of their points."""
    return _substitute(nest, ranges, reduction_ranges, _digits(nest.loop_variables, nest.ranges, place))


def over_rows(nest: LoopNest, rows: int, columns: int) -> LoopNest:
    """A nest with one loop over rows and one inside over columns, if it has one: each has its points in order."""
    inner = (columns,) if nest.reduction_ranges else ()
    outer = _digits(nest.loop_variables, nest.ranges, symbol("i0"))
    return _substitute(
        nest, (rows,), inner, outer | _digits(nest.reduction_variables, nest.reduction_ranges, symbol("r0"))
    )


def _digits(variables: Sequence[Any], sizes: Sizes, place: Any) -> dict[Any, Any]:
    """Each loop variable at the point of number `place`."""
    found, step = {}, math.prod(sizes)
    for k, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
        step //= size
        digit = FloorDiv(place, sympy.Integer(step))
        found[variable] = Mod(digit, sympy.Integer(size)) if k else digit
    return found
