"""Freed memory stays with the process, so that the results of the next call need no new pages from the system.

Input: configuration (`runtime.keep_freed`). The C library gives memory back as results are freed, and a training step
then asks for the same pages again: 18,000 page faults, a tenth of its time. This says once how much it may keep.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache

from stage_contracts import config

# glibc's mallopt: what is larger is mapped on its own, and given back when freed (at most 32 MiB); how much free memory
# at the end of the heap is kept.
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
LARGEST = 32 << 20
# Whoever sets one of these has decided already.
VARIABLES = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> None:
    """Tell the C library, the first time a program is made ready to run.

    Huge pages for that part of the heap were tried. The second process of a language model's training takes 5,000 page
    faults instead of 38,000, and 0.70 s instead of 0.76 s. Where the host of a virtual machine takes free huge pages
    back ("page reporting"), it takes 0.81 s instead of 0.73 s: the small pages that were freed last are still there, a
    huge one has to be given again, 4 ms for 2 MiB. No process can ask which machine it is on.
    """
    if kept := may_keep():
        _tell(kept)


def may_keep() -> int:
    """Bytes of freed memory; 0 where somebody told the C library by its own variables."""
    decided = any(name in os.environ for name in VARIABLES)
    return 0 if decided else config.current().runtime.keep_freed


@cache
def _tell(kept: int) -> bool:
    """Whether the C library was told: it is glibc, and malloc is its own."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(
        mallopt(M_MMAP_THRESHOLD, min(LARGEST, kept)) and mallopt(M_TRIM_THRESHOLD, min(kept, 2**31 - 1))
    )
