"""Each graph break once: a caller that inlines a function breaks where that function does, and so does the function.

Input: "graph_break" events in order. One that a frame passes on (its place is in an inlined function) is followed by
the same break of the function itself, compiled alone. Logs, counters and explain() all count by this, and agree.
"""

from __future__ import annotations

from collections.abc import Iterable

from stage_contracts.events import Event
from stage_contracts.origin import Origin

Place = tuple[str, Origin | None]


class BreaksOnce:
    """Which breaks of a stream are new. What a compile passed on is what the next compile of its thread may repeat."""

    def __init__(self) -> None:
        self.passed: dict[int, set[Place]] = {}  # by thread: by the last compile that ended,
        self.passing: dict[int, set[Place]] = {}  # and by the one under way

    def is_new(self, event: Event) -> bool:
        """False for a break that a caller's compile told already. To be asked of every event, in order."""
        thread = event.thread
        if event.kind == "compile":
            self.passed[thread] = self.passing.pop(thread, set())
        if event.kind != "graph_break":
            return True
        place = (event.name, event.origin)
        if event.details.get("passed_on"):
            self.passing.setdefault(thread, set()).add(place)
        return place not in self.passed.get(thread, ())


def breaks_once(events: Iterable[Event]) -> list[Event]:
    """The breaks among these events, each once."""
    once = BreaksOnce()
    return [event for event in events if once.is_new(event) and event.kind == "graph_break"]
