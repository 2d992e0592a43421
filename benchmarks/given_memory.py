"""Memory that this machine has at hand, before a first call is timed.

Input: nothing. A virtual machine may report memory that is free to its host, which takes it within seconds; the next
process to write to such a page waits for the host: 2.6 s for a GB here, .1 s for one that was in use a moment ago.
"""

from __future__ import annotations

import os

import numpy as np

ENOUGH = 1 << 30  # bytes: what a model's first call takes, with its compiler's processes


def write_to_free_memory() -> None:
    """Write once to each page of a GB, or half of what is free, and give it back. Nothing where that is not known."""
    try:
        pages, size = os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return
    taken = np.empty(min(ENOUGH, pages * size // 2), np.uint8)
    taken[::size] = 1
