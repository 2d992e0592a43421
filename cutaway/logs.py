"""Logs and counters: views of the event log, by torch's names. `set_logs(graph_breaks=True)`, `counters`, CUTAWAY_LOGS.

Input: events as stages record them. Nothing is logged that is not an event, so a log never says other than explain().
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stage_contracts.events import EVENT_LOG, Event
from stage_contracts.messages import did_you_mean, say


def _frame(event: Event) -> Any:
    """The captured frame of a compile, if it is still there."""
    reference = event.details.get("frame")
    return None if event.kind != "compile" or reference is None else reference()


def _graph_break(event: Event) -> str | None:
    return str(event.details["graph_break"]) if event.kind == "graph_break" else None


def _recompile(event: Event) -> str | None:
    if event.kind != "recompile":
        return None
    return f"recompiling {event.name}\n  because {event.details.get('reason', 'of another call')}"


def _guards(event: Event) -> str | None:
    frame = _frame(event)
    return None if frame is None else "\n  ".join([f"guards of {event.name}:", *map(str, frame.guards)])


def _graph_code(event: Event) -> str | None:
    frame = _frame(event)
    return None if frame is None or frame.graph is None else f"graph of {event.name}:\n{frame.graph}".rstrip()


def _residual(event: Event) -> str | None:
    frame = _frame(event)
    text = frame.residual_source if frame is not None else ""
    return f"what runs in place of {event.name}:\n{text}".rstrip() if text else None


def _internal_error(event: Event) -> str | None:
    return event.details["report"] if event.kind == "internal_error" else None


def _of_kind(*kinds: str) -> Callable[[Event], str | None]:
    """Events as they print; one kind alone needs no name beside the log's."""

    def text(event: Event) -> str | None:
        if event.kind not in kinds:
            return None
        return str(event).removeprefix(f"[{event.kind}] ") if len(kinds) == 1 else str(event)

    return text


# What can be logged: the name torch has for it, what it shows, and the text of an event (None: not one of these).
ARTIFACTS: dict[str, tuple[str, Callable[[Event], str | None]]] = {
    "graph_breaks": ("each break, with the user's line and what to do", _graph_break),
    "recompiles": ("each further compile, and the fact that differed", _recompile),
    "guards": ("what an entry relies on", _guards),
    "graph_code": ("each captured graph, as Python", _graph_code),
    "bytecode": ("the residual code around a graph, as Python", _residual),
    "dynamo": ("every compile and what it took", _of_kind("compile", "guard_failure")),
    "perf_hints": ("what ran another way than asked, and why", _of_kind("fallback")),
    "internal_errors": ("each fault of the compiler itself, and what to report", _internal_error),
    "fusion": ("each decision of the scheduler", _of_kind("fusion")),
    "cache": ("each look into a cache", _of_kind("cache")),
    "compile_times": ("each named pass and what it took", _of_kind("pass", "build")),
}
_OTHER_NAMES = {
    "graph": "graph_code",
    "graph_breaks_verbose": "graph_breaks",
    "recompiles_verbose": "recompiles",
}


class _Switches:
    """Which artifacts are on. One listener of the event log, there while any is."""

    def __init__(self) -> None:
        self.on: set[str] = set()

    def set(self, names: set[str]) -> None:
        was, self.on = self.on, names
        if names and not was:
            EVENT_LOG.subscribe(self.show)
        if was and not names:
            EVENT_LOG.unsubscribe(self.show)

    def show(self, event: Event) -> None:
        for name in ARTIFACTS:
            text = ARTIFACTS[name][1](event) if name in self.on else None
            if text is not None:
                print("\n".join(f"[{name}] {line}".rstrip() for line in text.splitlines()), file=sys.stderr)


_SWITCHES = _Switches()


def set_logs(*, modules: Any = None, all: Any = None, **artifacts: Any) -> None:
    """Log these artifacts to stderr from here on, and no others: `set_logs(graph_breaks=True, recompiles=True)`.

    all=True logs everything; a level (logging.INFO) counts as True, None and False as not asked. Without arguments
    nothing is logged. Raises ValueError for an unknown name, with the nearest ones.
    """
    wanted = {_known(name) for name, on in artifacts.items() if on}
    for name in artifacts:
        _known(name)
    _SWITCHES.set(set(ARTIFACTS) if all else wanted)


def _known(name: str) -> str:
    found = _OTHER_NAMES.get(name, name)
    if found not in ARTIFACTS:
        hint = did_you_mean(name, [*ARTIFACTS, *_OTHER_NAMES])
        raise ValueError(say("unknown_log", name=name, known=", ".join(ARTIFACTS), hint=hint))
    return found


def logs_of_environment(text: str | None = None) -> None:
    """CUTAWAY_LOGS="graph_breaks,recompiles" as set_logs; a leading + as torch's TORCH_LOGS has it is accepted."""
    text = os.environ.get("CUTAWAY_LOGS", "") if text is None else text
    names = [word.strip().lstrip("+") for word in text.split(",") if word.strip()]
    good = []
    for name in names:
        try:
            good.append(name if name == "all" else _known(name))
        except ValueError as error:
            warnings.warn(say("unknown_log_variable", value=text, problem=error), stacklevel=2)
    if good:
        set_logs(all="all" in good, **{name: True for name in good if name != "all"})


# ---- counters ----------------------------------------------------------------------------------------------------


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

        for event in EVENT_LOG.since(self._since):
            match event.kind:
                case "compile":
                    count("frames", "total")
                    count("frames", "ok", int("error" not in event.details))
                    graph = getattr(_frame(event), "graph", None)
                    if graph is not None:
                        count("stats", "unique_graphs")
                        count("stats", "calls_captured", len(graph.calls))
                case "graph_break":
                    count("graph_break", event.details["graph_break"].reason)
                case "recompile":
                    count("recompiles", event.name)
        return tables


counters = Counters()

__all__ = ["ARTIFACTS", "Counters", "counters", "logs_of_environment", "set_logs"]
