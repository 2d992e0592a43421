"""torch.cuda's events, and the stream that programs run on.

Input: CuPy's current stream. Copies to the host have a stream of their own (kernels/host_copies.py). What waits for the
current stream here waits for those, too, that the program has asked for. Programs make no streams.
"""

from __future__ import annotations

from typing import Any

from stage0_eager import arrays


def _copies() -> list[Any]:
    """The events of the copies to the host that may be under way."""
    return [copy.event for copy in list(arrays.ARRIVING.values())]


class Event:
    """A point in the work that a stream was given. Raises RuntimeError without a GPU when it is recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **options: Any
    ) -> None:
        if interprocess:
            raise NotImplementedError("torch.cuda.Event(interprocess=True): events are of one process")
        self.options = {"block": bool(blocking), "disable_timing": not enable_timing}
        self.events: list[Any] = []  # the stream's own first

    def record(self, stream: CurrentStream | None = None) -> None:
        """After all that the stream, by default the current one, was given so far."""
        made = arrays.cupy().cuda.Event(**self.options)
        made.record((stream or current_stream()).stream)
        self.events = [made, *_copies()]

    def query(self) -> bool:
        """Whether all of that is done; True for an event that was not recorded."""
        return all(event.done for event in self.events)

    def synchronize(self) -> None:
        """The host waits for it."""
        for event in self.events:
            event.synchronize()

    def wait(self, stream: CurrentStream | None = None) -> None:
        """What the stream is given from now on comes after it."""
        for event in self.events:
            (stream or current_stream()).stream.wait_event(event)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another. Both have enable_timing and are recorded."""
        if not (self.events and end_event.events) or self.options["disable_timing"]:
            raise RuntimeError("elapsed_time needs two events with enable_timing=True that were recorded")
        return float(arrays.cupy().cuda.get_elapsed_time(self.events[0], end_event.events[0]))


class CurrentStream:
    """A stream of CuPy's, by torch's names."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    @property
    def cuda_stream(self) -> int:
        """CUDA's own pointer to it."""
        return int(self.stream.ptr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CurrentStream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return self.cuda_stream

    def query(self) -> bool:
        return bool(self.stream.done) and all(event.done for event in _copies())

    def synchronize(self) -> None:
        for event in _copies():
            event.synchronize()
        self.stream.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: CurrentStream) -> None:
        self.wait_event(stream.record_event())


def current_stream(device: Any = None) -> CurrentStream:
    """The stream that operators and compiled programs run on. Raises RuntimeError without a GPU."""
    return CurrentStream(arrays.cupy().cuda.get_current_stream())


def default_stream(device: Any = None) -> CurrentStream:
    """CUDA's default stream, which is the current one unless the program changed that through CuPy."""
    return CurrentStream(arrays.cupy().cuda.Stream.null)


STREAMS = {"Event": Event, "current_stream": current_stream, "default_stream": default_stream}
