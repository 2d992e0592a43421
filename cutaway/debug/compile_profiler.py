"""CompileProfiler: a backend that watches. Its report() has every graph break and recompile, and what to do about each.

Input: the events between `with CompileProfiler() as prof:` and report(). Given as `backend=prof` it runs graphs as they
were captured; another backend's compiles inside the block are in the report just so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from cutaway.debug.breaks_once import breaks_once
from cutaway.debug.fragments import warning
from stage_contracts.events import EVENT_LOG, Event


class CompileProfiler:
    """torch._dynamo.utils.CompileProfiler. `frame_count` graphs and `op_count` calls in them went through it."""

    def __init__(self) -> None:
        self.frame_count = self.op_count = 0
        self.mark = EVENT_LOG.mark()

    def __call__(self, graph_module: Any, example_inputs: list) -> Callable[..., tuple]:
        self.frame_count += 1
        self.op_count += sum(node.op == "call_function" for node in graph_module.graph.nodes)
        return graph_module.forward

    def __enter__(self) -> CompileProfiler:
        self.mark = EVENT_LOG.mark()
        self.frame_count = self.op_count = 0
        return self

    def __exit__(self, *_: object) -> None:
        """What was seen stays for report()."""

    def report(self) -> str:
        """Graph breaks, recompiles and the size of graphs since the block began, as a page of text."""
        seen = EVENT_LOG.since(self.mark)
        title = "Torchdynamo Profiler Report"
        parts = [f"{title}\n{'=' * len(title)}"]
        for heading, lines in (
            ("Graph Breaks", _breaks(seen)),
            ("Recompilation", _recompiles(seen)),
            ("Graphs", _graphs(seen)),
        ):
            parts.append("\n".join([heading, "-" * len(heading), *lines]))
        return "\n\n".join(parts)


def _breaks(seen: list[Event]) -> list[str]:
    """Each place that breaks, how often, with its line and hint."""
    found = Counter(str(event.details["graph_break"]) for event in breaks_once(seen))
    if not found:
        return ["No graph breaks detected."]
    lines = [
        "Graph breaks happen where an operation cannot be captured: the graph ends there, and another begins."
    ]
    for text, count in found.most_common():
        first, *rest = text.splitlines()
        lines += ["", f"{count} x {first}", *rest]
    return lines


def _recompiles(seen: list[Event]) -> list[str]:
    """Each function that was compiled again, and each guard that failed."""
    by_name: dict[str, list[str]] = {}
    for event in seen:
        if event.kind == "recompile":
            by_name.setdefault(event.name, []).append(str(event.details.get("reason", "")))
    if not by_name:
        return ["No recompilation detected."]
    lines = ["These functions were compiled more than once, since a guard failed:"]
    for name, reasons in by_name.items():
        lines += ["", f"{name}: {len(reasons)} recompiles"]
        lines += [f"  {count} x {reason}" for reason, count in Counter(reasons).most_common()]
    lines += ["", "Set torch._dynamo.config.recompile_limit to allow more, or mark what varies as dynamic."]
    return lines


def _graphs(seen: list[Event]) -> list[str]:
    """How large the graphs are; a warning where breaks leave fragments."""
    sizes = []
    for event in seen:
        frame = event.details["frame"]() if event.kind == "compile" and "frame" in event.details else None
        if frame is not None and frame.graph is not None:
            sizes.append(len(frame.graph.calls))
    if not sizes:
        return ["No graphs."]
    lines = [f"{len(sizes)} graphs with {sum(sizes)} operators; the smallest has {min(sizes)}."]
    said = warning(sizes, len(breaks_once(seen)))
    return [*lines, f"{said} Begin with the breaks above."] if said else lines
