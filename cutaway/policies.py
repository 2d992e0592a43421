"""Policies: when compiled code takes over from eager, and when eager takes over again.

Input: the configuration. With `runtime.background`, the graph's operators run on NumPy while the kernels build. With
`runtime.never_slower`, some eager and compiled calls are timed after a warm-up, and the faster way stays: rank 0's, for
code that talks to other ranks. Both are off by default. They are also off under `runtime.deterministic`
(use_deterministic_algorithms), where no measurement decides what runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stage_contracts import config, events
from stage_contracts.decisions import decided
from stage_contracts.pipeline import Entry

WARM_UP = 2  # calls of each kind that are not counted
TIMED = 5  # calls of each kind that are


def builds_in_background() -> bool:
    settings = config.current().runtime
    return settings.background and not settings.deterministic


def until_ready(
    plain: Callable[..., tuple], ready: Callable[[], bool], make: Callable[[], Callable[..., tuple]]
) -> Callable[..., tuple]:
    """A callable that calls `plain` until `ready()`, then the result of `make()`. If two threads see `ready()` at the
    same time, both may call `make`."""
    current: Callable[..., tuple] = plain

    def run(*arrays: Any) -> tuple:
        nonlocal current
        if current is plain and ready():
            current = make()
        return current(*arrays)

    return run


# ---- never slower ----------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """An entry on trial: calls run eagerly and compiled in turn, and are timed. Then the faster way stays."""

    entry: Entry
    compiled: Callable[..., Any]
    eager: Callable[..., Any]
    name: str
    together: bool = False  # whether it talks to other ranks, which must keep the same way
    times: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled = len(self.times[True]) <= len(self.times[False])
        start = time.perf_counter()
        result = (self.compiled if compiled else self.eager)(*args, **kwargs)
        self.times[compiled].append(time.perf_counter() - start)
        if min(map(len, self.times.values())) >= WARM_UP + TIMED:
            self.decide()
        return result

    def decide(self) -> None:
        """Keep the faster way. An event records which one, and both times."""
        took = {way: statistics.median(times[WARM_UP:]) * 1e6 for way, times in self.times.items()}
        slower = took[True] > took[False]
        if self.together:
            slower = decided(f"eager or compiled for {self.name}", slower)
        self.entry.run = self.eager if slower else self.compiled
        reason = f"{self.name}: compiled {took[True]:.0f} us, eager {took[False]:.0f} us"
        kept = "eager" if slower else "compiled"
        events.record(
            "fallback" if slower else "policy", "never_slower", reason=f"{reason}: {kept} from here on"
        )


def on_trial(entry: Entry, eager: Callable[..., Any], name: str, breaks: Sequence[Any]) -> None:
    """Put a new entry on trial, if the policy is on and the entry has no graph breaks."""
    settings = config.current().runtime
    if settings.never_slower and not settings.deterministic and not breaks and entry.run is not eager:
        entry.run = Trial(entry, entry.run, eager, name, _talks(entry))


def _talks(entry: Entry) -> bool:
    """Whether the entry's graph has collectives, or gradients that are averaged over the ranks."""
    graph = getattr(entry.artifacts.get("artifacts"), "captured", None)
    targets = [node.target for node in graph.calls] if graph is not None else []
    return any(
        getattr(t, "has_effect", False) or getattr(t, "name", "") == "average_gradient" for t in targets
    )
