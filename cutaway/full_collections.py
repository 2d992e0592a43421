"""While a frame compiles, Python's collector leaves its oldest objects alone: modules and models, which stay anyway.

Input: nothing. A compile makes a few hundred thousand objects, and Python answers with several walks over all that the
process holds, a tenth of a compile's time. Young objects are collected less often: nearly all that a compile makes is
still in use when Python looks.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NEVER = 1 << 30  # collections of the younger objects before one of all
SELDOM = 100  # times as many new objects before these are looked at
_FROZEN_BY_OTHERS = threading.Event()  # the program itself has frozen objects
_LOCK = threading.Lock()
_WAITING: list[
    tuple[int, int]
] = []  # for each compile under way, the thresholds that the first of them found


@contextmanager
def put_off() -> Iterator[None]:
    """No collection of all objects inside, unless somebody asks for it. Of several compiles, the last to end puts back
    what the first found."""
    with _LOCK:
        young, middle, old = gc.get_threshold()
        _WAITING.append(_WAITING[0] if _WAITING else (young, old))
        gc.set_threshold(_WAITING[0][0] * SELDOM, middle, NEVER)
    try:
        yield
    finally:
        with _LOCK:
            young, old = _WAITING.pop()
            _, middle, now = gc.get_threshold()
            if not _WAITING and now == NEVER:  # else somebody has set another in the meantime
                _grow_old()
                gc.set_threshold(young, middle, old)


def _grow_old() -> None:
    """What a compile made stays: it joins the oldest objects now, so the next call begins without the walk over all
    that was put off. (freeze and unfreeze move objects and look at none. What a program froze itself stays frozen.)"""
    if gc.isenabled() and not _FROZEN_BY_OTHERS.is_set():
        if gc.get_freeze_count():  # counting them takes a walk over all: once
            _FROZEN_BY_OTHERS.set()
        else:
            gc.freeze()
            gc.unfreeze()
