"""torch._dynamo.utils.counters: tables of counts, made from the event log when they are asked for.

Input: the event log since `clear()`. What the logs show and what explain() counts is counted here from the same events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from cutaway.debug.breaks_once import breaks_once
from stage_contracts.events import EVENT_LOG, Event


class Counters(Mapping[str, Counter]):
    """torch._dynamo.utils.counters: tables of counts, made from the event log when they are asked for."""

    def __init__(self) -> None:
        self._since = 0

    def clear(self) -> None:
        """Count from here on."""
        self._since = EVENT_LOG.mark()

    def __getitem__(self, group: str) -> Counter:
        return self._tables().get(group, Counter())

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables())

    def __len__(self) -> int:
        return len(self._tables())

    def __repr__(self) -> str:
        return repr(self._tables())

    def _tables(self) -> dict[str, Counter]:
        tables: dict[str, Counter] = {}

        def count(group: str, name: str, by: int = 1) -> None:
            tables.setdefault(group, Counter())[name] += by

        events = EVENT_LOG.since(self._since)
        for event in breaks_once(events):
            count("graph_break", event.details["graph_break"].reason)
        for event in events:
            match event.kind:
                case "compile":
                    count("frames", "total")
                    count("frames", "ok", int("error" not in event.details))
                    graph = getattr(_frame(event), "graph", None)
                    if graph is not None:
                        count("stats", "unique_graphs")
                        count("stats", "calls_captured", len(graph.calls))
                case "recompile":
                    count("recompiles", event.name)
        return tables


def _frame(event: Event) -> Any:
    """The captured frame of a compile, if it is still there."""
    reference = event.details.get("frame")
    return None if reference is None else reference()


counters = Counters()

__all__ = ["Counters", "counters"]
