"""How much of a program's communication runs beside its computation, from the timeline of the GPU.

Input: spans of kernels, as torch's profiler records them (CUPTI sees each kernel of the process, whoever launched it).
A collective is hidden unless the computation waits for it: at its end nothing else ran on the GPU, and the next kernel
had been issued. The profiler slows the host, so less waits here than without it. (Trace analysers count each moment
without another kernel: communication-computation overlap, https://hta.readthedocs.io.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Span(NamedTuple):
    """A kernel on the GPU, in microseconds; `issued`: when the host had launched it, where that is known."""

    begin: float
    end: float
    name: str
    issued: float = 0.0


class Wait(NamedTuple):
    """Microseconds of a collective, and of these the ones for which the computation waited."""

    ran: float
    waited: float


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
        cuda, events = torch.autograd.DeviceType.CUDA, profile.events()
        issued = {event.id: event.time_range.end for event in events if event.device_type != cuda}
        return [
            Span(event.time_range.start, event.time_range.end, event.name, issued.get(event.id, 0.0))
            for event in events
            if event.device_type == cuda and not event.is_user_annotation  # a range around kernels
        ]
    finally:
        for name in ASIDE:
            sys.modules.pop(name, None)
        sys.modules.update(replaced)


def waits(spans: Iterable[Span]) -> list[Wait]:
    """Of each collective, in order: how long it ran, and how long, at its end, the computation waited for it.

    >>> matmul, all_reduce = Span(0, 10, "matmul"), Span(8, 14, "ncclDevKernel")
    >>> waits([matmul, all_reduce, Span(14, 20, "add", issued=2)])  # nothing ran from 10 on
    [Wait(ran=6.0, waited=4.0)]
    >>> waits([matmul, all_reduce, Span(14, 20, "add", issued=13)])  # until 13 there was nothing to run
    [Wait(ran=6.0, waited=1.0)]
    >>> waits([matmul, all_reduce, Span(13, 20, "add", issued=2)])  # it began before the end
    [Wait(ran=6.0, waited=0.0)]
    """
    collectives, others = [], []
    for span in sorted(spans):
        (collectives if "nccl" in span.name.lower() else others).append(span)
    found = []
    for begin, end, *_ in collectives:
        before = [other for other in others if other.begin < end]
        after = others[len(before) : len(before) + 1]
        idle = max([begin, *(other.end for other in before), *(other.issued for other in after)])
        found.append(Wait(float(end - begin), float(max(0, end - idle))))
    return found


def of_the_last(ranks: Iterable[list[Wait]]) -> Wait:
    """The sums over all collectives, each as on the rank that came last to it: what the others' take is waiting for it.

    >>> of_the_last([[Wait(9, 8), Wait(2, 1)], [Wait(3, 2), Wait(5, 4)]])
    Wait(ran=5, waited=3)
    """
    shortest = [min(same) for same in zip(*ranks, strict=True)]
    return Wait(sum(one.ran for one in shortest), sum(one.waited for one in shortest))
