"""Delta debugging: the smallest part of a list with which something still fails.

Input: the things in order, and the test of several parts. A part is a half, then a quarter, ..., then all but such a
piece, so a suffix that is not needed goes at once. In the end no single thing can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")


def smallest(
    things: Sequence[Thing], first_failing: Callable[[Sequence[Sequence[Thing]]], int | None], least: int = 1
) -> list[Thing]:
    """The part that is left. `first_failing(parts)` says which of the parts fails, the first that does."""
    left, pieces = list(things), 2
    while len(left) > least:
        pieces = min(pieces, len(left))
        parts = _pieces(left, pieces)
        without = [[t for other in parts if other is not part for t in other] for part in parts]
        tries = [part for part in ([*parts, *without] if pieces > 2 else parts) if len(part) >= least]
        found = first_failing(tries)
        if found is not None:
            pieces = 2 if len(tries[found]) <= len(left) / 2 else max(pieces - 1, 2)
            left = list(tries[found])
        elif pieces == len(left):
            return left
        else:
            pieces *= 2
    return left


def _pieces(things: list[Thing], count: int) -> list[list[Thing]]:
    edges = [len(things) * i // count for i in range(count + 1)]
    return [things[a:b] for a, b in zip(edges, edges[1:], strict=False)]
