"""What this machine can do at best: bytes a second of a copy, at several sizes, and operations a second of BLAS.

Input: nothing; it is measured once in a process, in about half a second, on the threads that programs have. A copy that
fits a cache is faster than one from memory: a kernel is compared with a copy that moves as many bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from cutaway.profiler.costs import Cost

COPIES = tuple(1 << bits for bits in range(12, 28, 2))  # bytes moved: 4 KB to 64 MB
BLAS_SIZE = 768
SECONDS = 0.03  # for each measurement


@dataclass(frozen=True)
class Peaks:
    """`copies`: (bytes moved, bytes a second), small ones first. `flops`: operations a second, by dtype."""

    copies: tuple[tuple[int, float], ...]
    flops: dict[str, float]

    def bandwidth(self, nbytes: int) -> float:
        """Bytes a second of the copy whose size is nearest above: small ones pay for their call."""
        at_least = [rate for moved, rate in self.copies if moved >= nbytes]
        return max(at_least[0] if at_least else 0.0, self.copies[-1][1])

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
def measured_peaks() -> Peaks:
    copies = []
    for moved in COPIES:
        source, target = np.ones(moved // 2, np.uint8), np.zeros(moved // 2, np.uint8)
        copies.append((moved, moved / _least(lambda s=source, t=target: np.copyto(t, s))))  # type: ignore[misc]
    flops = {}
    for dtype in ("float32", "float64"):
        a = np.ones((BLAS_SIZE, BLAS_SIZE), dtype)
        out = np.empty_like(a)
        flops[dtype] = 2 * BLAS_SIZE**3 / _least(lambda a=a, out=out: np.matmul(a, a, out=out))  # type: ignore[misc]
    return Peaks(tuple(copies), flops)


def _least(call: Callable[[], Any]) -> float:
    """Seconds of a call: the least in a while."""
    best, ends = float("inf"), time.perf_counter() + SECONDS
    call()
    while True:
        began = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - began)
        if now > ends:
            return max(best, 1e-9)
