"""How much of a program's communication runs beside its computation, from the timeline of the GPU.

Input: spans of kernels, as torch's profiler records them (CUPTI sees each kernel of the process, whoever launched it).
What trace analysers call communication-computation overlap: the share of the collectives' time in which another kernel
runs on the same GPU (Holistic Trace Analysis, https://hta.readthedocs.io).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

Span = tuple[float, float, str]  # begin, end, in microseconds; the kernel's name


def real_torch() -> Any:
    """torch itself, imported and put aside: `torch` can still become another module in this process."""
    import torch

    torch.cuda.init()
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        ASIDE[name] = sys.modules.pop(name)
    return torch


ASIDE: dict[str, Any] = {}


def recorded(torch: Any, call: Callable[[], Any], count: int) -> list[Span]:
    """The GPU's spans while `call` runs `count` times."""
    replaced = {name: sys.modules[name] for name in ASIDE if name in sys.modules}
    sys.modules.update(ASIDE)  # the profiler imports as it goes
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(count):
                call()
            torch.cuda.synchronize()
        cuda = torch.autograd.DeviceType.CUDA
        return [
            (event.time_range.start, event.time_range.end, event.name)
            for event in profile.events()
            if event.device_type == cuda
        ]
    finally:
        for name in ASIDE:
            sys.modules.pop(name, None)
        sys.modules.update(replaced)


def overlap(spans: Iterable[Span]) -> tuple[float, float]:
    """Microseconds of collectives, and of these the ones in which another kernel ran.

    >>> overlap([(0, 10, "matmul"), (8, 14, "ncclDevKernel"), (13, 20, "add")])
    (6.0, 3.0)
    """
    spans = list(spans)
    collectives = united(span for span in spans if "nccl" in span[2].lower())
    others = united(span for span in spans if "nccl" not in span[2].lower())
    return length(collectives), sum(
        length([(max(begin, b), min(end, e)) for b, e in others if b < end and begin < e])
        for begin, end in collectives
    )


def united(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """The stretches in which at least one of the spans runs, in order."""
    found: list[tuple[float, float]] = []
    for begin, end, _ in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def length(stretches: Iterable[tuple[float, float]]) -> float:
    return float(sum(end - begin for begin, end in stretches))
