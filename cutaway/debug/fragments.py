"""Fragments: graphs so small that a call of one costs about what it saves, because a graph break cut them off.

Input: the number of operators of each graph, and how many breaks there were. explain(), CompileProfiler and the log
perf_hints say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SMALL = 5  # operators: where a graph has fewer, a call of it costs about what it saves


def warning(sizes: Sequence[int], breaks: int) -> str:
    """What to say of all graphs of a call; "" if none is a fragment."""
    small = sum(size < SMALL for size in sizes)
    if not small or len(sizes) < 2 or not breaks:
        return ""
    have = "has" if small == 1 else "have"
    return (
        f"{small} of {len(sizes)} graphs {have} fewer than {SMALL} operators: fragments, which gain little."
    )


def hint(name: str, frame: Any) -> str | None:
    """What to say of one compiled frame, if a break cut a small graph off."""
    if frame is None or frame.graph is None or not frame.breaks:
        return None
    size = len(frame.graph.calls)
    if size >= SMALL:
        return None
    operators = f"{size} operator{'s' * (size != 1)}"
    return f"fragment: the graph of {name} has {operators}; it ends at: {frame.breaks[0]}"
