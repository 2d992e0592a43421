"""Rows of a report side by side, each in a process on two cores of its own: on a large machine a report takes minutes.

Input: a function and its rows. What a row takes is what it takes on two cores; with fewer than four, one goes after
the other, in this process.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

CORES = 2


def side_by_side(function: Callable[[Any], Any], rows: Sequence[Any]) -> Iterator[Any]:
    """What the function makes of each row, in their order."""
    available = sorted(os.sched_getaffinity(0))
    places = [available[at : at + CORES] for at in range(0, len(available) - CORES + 1, CORES)]
    if len(places) < 2:
        yield from map(function, rows)
        return
    context = multiprocessing.get_context("forkserver")
    free = context.Queue()
    for place in places:
        free.put(place)
    with ProcessPoolExecutor(len(places), context, initializer=_take_cores, initargs=(free,)) as pool:
        yield from pool.map(function, rows)


def _take_cores(free: Any) -> None:
    os.sched_setaffinity(0, free.get())
