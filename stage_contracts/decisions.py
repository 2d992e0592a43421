"""Choices that measurement makes, where all ranks of a process group must choose alike.

Input: `cutaway.distributed` sets who decides when it joins several processes. Two ways of running one function may talk
to the other ranks differently, so ranks that each kept what was faster for them would wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable

# (what is chosen, this process's choice) -> the choice of all
DECIDERS: list[Callable[[str, bool], bool]] = []  # none, or one


def decided(what: str, mine: bool) -> bool:
    """The choice of all ranks, each of which asks at the same call; this process's own, where it is alone."""
    return DECIDERS[0](what, mine) if DECIDERS else mine
