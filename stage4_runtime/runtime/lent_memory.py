"""Large results are made in memory that large results had before, and begin where a cache line does.

Input: how many bytes a result needs, and configuration (`runtime.keep_freed`). The C library maps each array over 32
MiB anew, and the system first fills its pages with zeros: 11 to 14 ms of each call for 64 MiB, as long as a softmax.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from stage4_runtime.runtime.freed_memory import LARGEST, may_keep
from stage_contracts.kernel_schedule import CACHE_LINE, FROM_MEMORY

# By id, in the order in which they came back; each step on it is one of Python's own.
_FREE: dict[int, np.ndarray] = {}


def result_memory(nbytes: int) -> np.ndarray:
    """Bytes for one result, not set to anything; they come back when no array uses them."""
    memory = _taken(nbytes) if nbytes > LARGEST else None
    if memory is None:
        memory = np.empty(nbytes + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    if nbytes <= LARGEST:
        return memory[start : start + nbytes]
    return np.asarray(_Lent(memory, start, nbytes))


def is_large(nbytes: Any) -> bool:
    """Whether a result gets its memory here."""
    return isinstance(nbytes, int) and nbytes >= FROM_MEMORY


class _Lent:
    """What every view of a result keeps alive: NumPy holds on to the object whose memory an array is, not to arrays
    in between."""

    def __init__(self, memory: np.ndarray, start: int, nbytes: int) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (nbytes,),
            "data": (memory.ctypes.data + start, False),
        }

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _give_back(self.memory)


def _taken(nbytes: int) -> np.ndarray | None:
    """Memory of that very size which came back, if there is some."""
    for key, memory in list(_FREE.items()):
        if memory.nbytes == nbytes + CACHE_LINE and _FREE.pop(key, None) is not None:
            return memory
    return None


def _give_back(memory: np.ndarray) -> None:
    """Keep it, and let go of what has waited longest, so that all of it is no more than may be kept."""
    _FREE[id(memory)] = memory
    while sum(kept.nbytes for kept in list(_FREE.values())) > may_keep():
        for oldest in list(_FREE)[:1]:
            _FREE.pop(oldest, None)
