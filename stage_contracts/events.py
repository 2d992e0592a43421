"""The one event log: every compile, break, guard failure, cache hit or miss, build and fallback is an event here.

Input: any stage calls `record` or `timed`. Logs, `explain()`, counters, compile times, traces and the debug
folder are views of it, so no two tools can disagree. The hit path only counts (`count`).
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stage_contracts.origin import Origin

KINDS = {
    "compile": "one frame compiled, with its total time",
    "pass": "one named pass or seam ran",
    "graph_break": "capture stopped; details hold the GraphBreak",
    "guard_failure": "an entry was refused; details name the first guard that failed",
    "recompile": "a further entry was compiled for a code object",
    "cache": "a cache was asked; name is 'hit' or 'miss', details say what differed",
    "fallback": "something ran another way than asked (eager, NumPy), and why",
    "autotune": "the fastest of some ways to run a kernel or a product was chosen; details: what each took",
    "policy": "a measurement or a budget decided how something runs from here on",
    "internal_error": "the compiler itself failed and the frame ran eagerly; details: stage, error, traceback, report",
    "build": "source was compiled to native code",
    "realize": "a pointwise result became a buffer; details name the rule that asked for it",
    "fusion": "two scheduler nodes were or were not fused, and why",
    "launch": "a program ran (recorded only while a profiler is on)",
    "phase": "a phase of a compile begins or ends, in torch's words (`Step 1: ...`)",
    "trace": "capture came to a line or an instruction (recorded only while a log asks for it)",
}


# not frozen: a compile makes dozens of events, and a frozen one takes four times as long to make
@dataclass(slots=True)
class Event:
    """One event. Do not change it. Times are time.perf_counter_ns(); duration 0 means an instant."""

    number: int
    kind: str
    name: str
    start_ns: int
    duration_ns: int = 0
    origin: Origin | None = None
    details: dict[str, Any] = field(default_factory=dict)
    thread: int = 0  # threading.get_ident() of the thread that recorded it

    def __str__(self) -> str:
        took = f" {self.duration_ns / 1e6:.2f} ms" if self.duration_ns else ""
        extra = " ".join(
            f"{k}={v}" for k, v in self.details.items() if isinstance(v, (str, int, float, bool))
        )
        return f"[{self.kind}] {self.name}{took} {extra}".rstrip()


class EventLog:
    """A bounded, thread-safe list of events and a table of counters."""

    def __init__(self, limit: int = 100_000) -> None:
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=limit)
        self._numbers = itertools.count()
        self._counters: Counter[str] = Counter()
        self._listeners: tuple[Callable[[Event], None], ...] = ()
        self.tracing = False  # whether capture records the place where it is

    def record(
        self,
        kind: str,
        name: str,
        *,
        start_ns: int | None = None,
        duration_ns: int = 0,
        origin: Origin | None = None,
        **details: Any,
    ) -> Event:
        if kind not in KINDS:
            raise ValueError(f"unknown event kind {kind!r}; expected one of {', '.join(KINDS)}")
        start = time.perf_counter_ns() if start_ns is None else start_ns
        here, counter = threading.get_ident(), f"{kind}.{name}"
        with self._lock:
            event = Event(next(self._numbers), kind, name, start, duration_ns, origin, details, here)
            self._events.append(event)
            self._counters[counter] += 1
            listeners = self._listeners
        for listener in listeners:
            listener(event)
        return event

    def timed(self, kind: str, name: str, **details: Any) -> Timed:
        """Record an event with the duration of the block. The block gets the details, and may add to them."""
        return Timed(self, kind, name, details)

    def count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counters[name] += by

    @property
    def counters(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counters)

    def mark(self) -> int:
        """A number to pass to `since`, which then returns the events recorded from now on."""
        with self._lock:
            return self._events[-1].number + 1 if self._events else 0

    def since(self, mark: int = 0, kind: str | None = None) -> list[Event]:
        with self._lock:  # from the newest backwards, because only the end of a long log is wanted
            late = list(itertools.takewhile(lambda e: e.number >= mark, reversed(self._events)))
        return [e for e in reversed(late) if kind is None or e.kind == kind]

    @contextmanager
    def listening(self, listener: Callable[[Event], None]) -> Iterator[None]:
        """Call `listener` with each event recorded while the block runs."""
        self.subscribe(listener)
        try:
            yield
        finally:
            self.unsubscribe(listener)

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with each event recorded from here on, until it is unsubscribed."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def unsubscribe(self, listener: Callable[[Event], None]) -> None:
        with self._lock:
            left = list(self._listeners)
            left.remove(listener)
            self._listeners = tuple(left)

    def internal_errors(self, since: int = 0) -> list[Event]:
        """The events of bugs in the compiler that the event log has. A fuzzer counts each as a failure."""
        return self.since(since, "internal_error")

    @contextmanager
    def no_internal_errors(self) -> Iterator[list[Event]]:
        """Raise AssertionError if a bug in the compiler was reported in the block, even if the event log was cleared
        there."""
        seen: list[Event] = []

        def listener(event: Event) -> None:
            if event.kind == "internal_error":
                seen.append(event)

        with self.listening(listener):
            yield seen
        if seen:
            raise AssertionError("\n\n".join(str(event.details["report"]) for event in seen))

    def clear(self) -> None:
        with self._lock:
            self._events.clear()
            self._counters.clear()


class Timed:
    """The block of `EventLog.timed`. If it raises, the details name the error."""

    __slots__ = ("details", "kind", "log", "name", "start")

    def __init__(self, log: EventLog, kind: str, name: str, details: dict[str, Any]) -> None:
        self.log, self.kind, self.name, self.details = log, kind, name, details

    def __enter__(self) -> dict[str, Any]:
        self.start = time.perf_counter_ns()
        return self.details

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        took = time.perf_counter_ns() - self.start
        if error is not None:
            self.details["error"] = error.__name__
        self.log.record(self.kind, self.name, start_ns=self.start, duration_ns=took, **self.details)


EVENT_LOG = EventLog()
record, timed, count = EVENT_LOG.record, EVENT_LOG.timed, EVENT_LOG.count
internal_errors, no_internal_errors = EVENT_LOG.internal_errors, EVENT_LOG.no_internal_errors


# ---- CUTAWAY_INTERNAL_ERRORS=exit -----------------------------------------------------------------------------

FAULT_STATUS = 70  # "internal software error" of sysexits.h


def fail_at_exit(event: Event) -> None:
    """A listener: after a bug in the compiler, the process prints the report to stderr and ends with status 70."""
    if event.kind == "internal_error":
        print(event.details["report"], file=sys.stderr)
        atexit.register(_end)


def _end() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(FAULT_STATUS)


if os.environ.get("CUTAWAY_INTERNAL_ERRORS") == "exit":
    EVENT_LOG.subscribe(fail_at_exit)
