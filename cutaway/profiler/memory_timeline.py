"""The memory of compiled programs over time: a picture and JSON, what was predicted beside what was measured.

Input: a recording with profile_memory=True, whose events have every array and pool that programs allocated, and when it
was freed. A call's prediction is made before it runs, from its plan (stage 4's memory.py).
"""

from __future__ import annotations

import gzip
import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutaway.profiler.events import ProfilerEvent
from stage4_runtime.runtime.memory import predicted_peak
from stage_contracts.program import Program
from stage_contracts.size_vars import is_open

LARGEST = 12


def timeline(events: list[ProfilerEvent]) -> dict[str, Any]:
    """`measured`: [us, bytes held] at each change. `calls`: bytes that each call held at most, `predicted` too.
    `largest`: the allocations that took most, with the lines of the program that they hold the results of."""
    changes = sorted(_changes(events), key=lambda change: change[0])
    start = min((event.start_ns for event in events), default=0)
    held, measured = 0, [[0.0, 0]]
    for at, delta in changes:
        held += delta
        measured.append([(at - start) / 1e3, held])
    taken = sorted(_taken(events), key=lambda event: -event.args["Bytes"])
    return {
        "unit": "bytes",
        "peak": max(total for _, total in measured),
        "measured": measured,
        "calls": [_call(event, changes, start) for event in events if _program_of(event) is not None],
        "largest": [_allocation(event, start) for event in taken[:LARGEST]],
    }


def _taken(events: Iterable[ProfilerEvent]) -> list[ProfilerEvent]:
    return [event for event in events if event.category == "memory" and "Bytes" in event.args]


def _changes(events: list[ProfilerEvent]) -> list[tuple[int, int]]:
    """(when, bytes more or fewer) of each allocation, and of its end if it came in the recording."""
    found = []
    for event in _taken(events):
        found.append((event.start_ns, event.args["Bytes"]))
        if "freed_ns" in event.args:
            found.append((event.args["freed_ns"], -event.args["Bytes"]))
    return found


def _program_of(event: ProfilerEvent) -> Program | None:
    """The program that a graph's event ran: one of its children says."""
    if event.category != "graph":
        return None
    return next((child.source[0] for child in event.children if child.source), None)


def _call(event: ProfilerEvent, changes: list[tuple[int, int]], start: int) -> dict[str, Any]:
    """What a call held at most beyond what was there before; a pool that an earlier call left counts in it."""
    program = _program_of(event)
    assert program is not None
    open_ = any(is_open(n) for buffer in program.buffers.values() for n in buffer.meta.shape)
    held = most = 0
    for at, delta in changes:
        if event.start_ns <= at <= event.end_ns:
            held += delta
            most = max(most, held)
    return {
        "name": event.name,
        "program": program.name,
        "from": (event.start_ns - start) / 1e3,
        "to": (event.end_ns - start) / 1e3,
        "predicted": None if open_ else predicted_peak(program),
        "measured": most,
        "pools_kept": not any(e.args.get("buffer") == "pool" for e in _taken(event.children)),
    }


def _allocation(event: ProfilerEvent, start: int) -> dict[str, Any]:
    freed = event.args.get("freed_ns")
    return {
        "bytes": event.args["Bytes"],
        "buffer": event.args["buffer"],
        "program": event.args.get("program", ""),
        "lines": event.args.get("lines", []),
        "from": (event.start_ns - start) / 1e3,
        "to": None if freed is None else (freed - start) / 1e3,
    }


def write_timeline(events: list[ProfilerEvent], path: str) -> None:
    """As the name says: .svg, .json or .json.gz."""
    found = timeline(events)
    if path.endswith(".svg"):
        Path(path).write_text(picture(found), encoding="utf-8")
    elif path.endswith((".json", ".json.gz")):
        data = json.dumps(found, indent=1).encode()
        Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)
    else:
        raise ValueError(
            f"export_memory_timeline expects a name that ends in .svg, .json or .json.gz, got {path!r}"
        )


# ---- the picture -------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, LINE = 960, 260, 90, 40, 17


def picture(found: dict[str, Any]) -> str:
    """Bytes held over time as an area, each call's prediction as a line over its time, the largest below."""
    points, calls = found["measured"], found["calls"]
    last = max([1e-9, *(at for at, _ in points), *(call["to"] for call in calls)])
    starts = [(call, _held_at(points, call["from"])) for call in calls]
    top = max([1, found["peak"], *(base + (call["predicted"] or 0) for call, base in starts)])

    def x(at: float) -> float:
        return round(LEFT + at / last * (WIDTH - LEFT - 20), 2)

    def y(nbytes: float) -> float:
        return round(TOP + HEIGHT - nbytes / top * HEIGHT, 2)

    corners, before = [f"{x(0)},{y(0)}"], 0
    for at, held in points:
        corners += [f"{x(at)},{y(before)}", f"{x(at)},{y(held)}"]
        before = held
    corners += [f"{x(last)},{y(before)}", f"{x(last)},{y(0)}"]
    rows = [f"{_size(row['bytes']):>9}  {row['buffer']} of {row['program']}  {' | '.join(row['lines'][:2])}"
            for row in found["largest"]]  # fmt: skip
    height = TOP + HEIGHT + 60 + LINE * (len(rows) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20">Memory of compiled programs: at most {_size(found["peak"])} '
        f"(area: measured; dashes: what a call was predicted to hold)</text>",
        f'<polygon points="{" ".join(corners)}" fill="#9ecae1" stroke="#3182bd"/>',
        *(_prediction(call, base, x, y) for call, base in starts if call["predicted"] is not None),
        *(
            f'<text x="{LEFT - 6}" y="{y(level) + 4}" text-anchor="end">{_size(level)}</text>'
            for level in (0, top)
        ),
        f'<text x="{LEFT}" y="{TOP + HEIGHT + 18}">0 us</text>',
        f'<text x="{WIDTH - 20}" y="{TOP + HEIGHT + 18}" text-anchor="end">{last:.0f} us</text>',
        *(
            f'<text x="10" y="{TOP + HEIGHT + 50 + LINE * k}" xml:space="preserve">{html.escape(row)}</text>'
            for k, row in enumerate(["the largest:", *rows])
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _prediction(call: dict[str, Any], base: int, x: Any, y: Any) -> str:
    level = y(base + call["predicted"])
    name = html.escape(f"{call['name']}: predicted {call['predicted']}, measured {call['measured']} bytes")
    return (
        f'<line x1="{x(call["from"])}" x2="{x(call["to"])}" y1="{level}" y2="{level}" stroke="#e6550d" '
        f'stroke-dasharray="4 2"><title>{name}</title></line>'
    )


def _held_at(points: list[list[float]], at: float) -> int:
    return int(next((held for when, held in reversed(points) if when < at), 0))


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e6:.2f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.2f} KB"
