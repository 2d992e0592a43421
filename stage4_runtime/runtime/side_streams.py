"""Streams beside the caller's, and events between them: what a call of a program with several streams asks for.

Input: CuPy, and how many streams and events a program has. The streams of a caller's stream are made once, for all
programs that run on it: whoever captures that stream captures them too. The events are each thread's own, because an
event that two threads record at once says only what the later one did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MOST = (
    64  # callers' streams whose side streams the next program finds; a program keeps those that it has used
)

_STREAMS: dict[tuple[int, int], list[Any]] = {}  # (device, caller's stream) -> its side streams
_LOCK = threading.Lock()


@dataclass(frozen=True)
class SideStreams:
    """What a program needs of a library. `on(stream)`: the side streams' addresses, then the events'."""

    on: Callable[[int], tuple[int, ...]]
    record: Callable[[int, int], None]  # (event, stream)
    wait: Callable[[int, int], None]  # (stream, event)
    wait_for: Callable[
        [int, int], None
    ]  # (later, earlier): a stream waits for all that another has been given


def side_streams(cp: Any, streams: int, events: int) -> SideStreams:
    """For a program with so many streams beside the caller's, and so many events."""
    runtime = cp.cuda.runtime
    record, wait = runtime.eventRecord, runtime.streamWaitEvent
    known: dict[tuple[int, int, int], tuple[tuple[int, ...], Any]] = {}

    def on(stream: int) -> tuple[int, ...]:
        key = threading.get_ident(), runtime.getDevice(), stream
        found = known.get(key)
        if found is None:
            beside = _beside(cp, stream, streams)
            made = [cp.cuda.Event(disable_timing=True) for _ in range(events)]
            found = known[key] = tuple(each.ptr for each in (*beside, *made)), (beside, made)
        return found[0]

    def wait_for(later: int, earlier: int) -> None:
        event = cp.cuda.Event(disable_timing=True)
        record(event.ptr, earlier)
        wait(later, event.ptr)

    return SideStreams(on, record, wait, wait_for)


def addresses_beside(cp: Any, stream: int) -> list[int]:
    """The side streams that a caller's stream has so far."""
    return [side.ptr for side in _STREAMS.get((cp.cuda.runtime.getDevice(), stream), ())]


def _beside(cp: Any, stream: int, count: int) -> list[Any]:
    key = cp.cuda.runtime.getDevice(), stream
    with _LOCK:
        if key not in _STREAMS and len(_STREAMS) >= MOST:
            del _STREAMS[next(iter(_STREAMS))]
        own = _STREAMS.setdefault(key, [])
        own += [cp.cuda.Stream(non_blocking=True) for _ in range(count - len(own))]
        return own[:count]
