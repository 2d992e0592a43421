"""What this machine can do at best: bytes a second of a copy, at several sizes, and operations a second of BLAS.

Input: nothing; it is measured once in a process, in about half a second, on the threads that programs have. A copy that
fits a cache is faster than one from memory: a kernel is compared with a copy that moves as many bytes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from cutaway.profiler.costs import Cost

COPIES = tuple(1 << bits for bits in range(12, 28, 2))  # bytes moved: 4 KB to 64 MB
GPU_COPIES = tuple(1 << bits for bits in range(20, 31, 2))
BLAS_SIZE = 768
SECONDS = 0.03  # for each measurement


@dataclass(frozen=True)
class Peaks:
    """`copies`: (bytes moved, bytes a second), small ones first. `flops`: operations a second, by dtype."""

    copies: tuple[tuple[int, float], ...]
    flops: dict[str, float]

    def bandwidth(self, nbytes: int) -> float:
        """Bytes a second of the copy of the nearest size: a small one pays for its call, a large one for memory."""
        return min(self.copies, key=lambda copy: abs(math.log(copy[0] / max(nbytes, 1))))[1]

    @property
    def memory(self) -> float:
        """Bytes a second from memory, beyond the caches."""
        return self.copies[-1][1]

    def least_seconds(self, cost: Cost, dtype: str = "float32") -> float:
        """The roofline: what moves the bytes, or what does the arithmetic, whichever takes longer."""
        return max(cost.nbytes / self.bandwidth(cost.nbytes), (cost.flops or 0) / self.flops_of(dtype))

    def bound(self, cost: Cost, dtype: str = "float32") -> str:
        """ "memory" or "compute": which of the two it is."""
        moving = cost.nbytes / self.bandwidth(cost.nbytes)
        return "memory" if moving >= (cost.flops or 0) / self.flops_of(dtype) else "compute"

    def flops_of(self, dtype: str) -> float:
        return self.flops.get(dtype, self.flops["float32"])


@cache
def measured_peaks(device: str = "cpu") -> Peaks:
    """Of the CPU, or of the GPU in use."""
    xp = array_library(device)
    copies = []
    for moved in COPIES if device == "cpu" else GPU_COPIES:
        source, target = xp.ones(moved // 2, xp.uint8), xp.zeros(moved // 2, xp.uint8)
        seconds = least_seconds_of(lambda s=source, t=target: xp.copyto(t, s), device)  # type: ignore[misc]
        copies.append((moved, moved / seconds))
    flops, size = {}, BLAS_SIZE if device == "cpu" else 4096
    for dtype in ("float32", "float64"):
        a = xp.ones((size, size), dtype)
        out = xp.empty_like(a)
        multiply = lambda a=a, out=out: xp.matmul(a, a, out=out)  # noqa: E731
        flops[dtype] = 2 * size**3 / least_seconds_of(multiply, device)
    return Peaks(tuple(copies), flops)


def array_library(device: str) -> Any:
    if device == "cpu":
        return np
    import cupy  # only where a program for a GPU runs

    return cupy


def least_seconds_of(call: Callable[[], Any], device: str = "cpu", during: float = SECONDS) -> float:
    """Seconds of a call: the least in a while. On a GPU it is the GPU's time, of many calls in a row."""
    call()
    measure = _timed if device == "cpu" else _timed_on_gpu
    best, ends = float("inf"), time.perf_counter() + during
    while True:
        best = min(best, measure(call))
        if time.perf_counter() > ends:
            return max(best, 1e-9)


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _timed_on_gpu(call: Callable[[], Any], calls: int = 20) -> float:
    from cupy.cuda import Event, get_elapsed_time

    began, ended = Event(), Event()
    began.record()
    for _ in range(calls):
        call()
    ended.record()
    ended.synchronize()
    return float(get_elapsed_time(began, ended)) / 1e3 / calls
