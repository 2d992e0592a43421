"""The one driver for halving: which of n things makes a run fail, found in about log2(n) runs.

Input: the things in order, and whether the run works with a number of the first ones left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")


def first_needed(things: Sequence[Thing], works_without: Callable[[Sequence[Thing]], bool]) -> Thing | None:
    """The thing whose leaving out makes the run work, all before it left out too; None if leaving out all does not.

    True of what is found, whatever else the things do to each other: without those before it the run fails, and
    without it as well the run works.
    """
    if not things or not works_without(things):
        return None
    low, high = 0, len(things)  # works without the first `high`, fails without the first `low`
    while high - low > 1:
        middle = (low + high) // 2
        if works_without(things[:middle]):
            high = middle
        else:
            low = middle
    return things[high - 1]
