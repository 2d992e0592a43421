"""The memory of compiled programs over time: a picture and JSON, what was predicted beside what was measured.

Input: a recording with profile_memory=True, whose events have every array and pool that programs allocated, and when it
was freed. A call's prediction is made before it runs, from its plan (stage 4's memory.py).
"""

from __future__ import annotations

import gzip
import html
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutaway.profiler.events import ProfilerEvent
from cutaway.profiler.stacks import OURS
from stage4_runtime.runtime.memory import predicted_peak
from stage_contracts.program import Program
from stage_contracts.size_vars import is_open

LARGEST = 12
POOL = "pool"  # the place of a program's temporaries, which is kept between calls


def timeline(events: list[ProfilerEvent]) -> dict[str, Any]:
    """`measured`: [us, bytes held] at each change. `calls`: bytes that each call held at most, `predicted` too.
    `largest`: the allocations that took most, with the lines of the program that they hold the results of."""
    taken = [event for event in events if event.category == "memory"]  # by start, as all events are
    changes = sorted(change for event in taken for change in _changes(event))
    graphs = [(event, _program_of(event)) for event in events if event.category == "graph"]
    start = min([event.start_ns for event, _ in graphs] + [at for at, _ in changes], default=0)
    held, totals = 0, [0]
    for _, delta in changes:
        held += delta
        totals.append(held)
    times, begun, pools = [at for at, _ in changes], [e.start_ns for e in taken], _pools_of(taken)
    calls = []
    for event, program in graphs:
        if program is not None:
            inside = taken[bisect_left(begun, event.start_ns) : bisect_right(begun, event.end_ns)]
            before = totals[bisect_left(times, event.start_ns)]
            calls.append(_call(event, program, inside, pools.get(id(program), []), before))
    return {
        "unit": "bytes",
        "peak": max(totals),
        "measured": [[0.0, 0], *([(at - start) / 1e3, n] for at, n in zip(times, totals[1:], strict=True))],
        "calls": [{**call, **{end: (call[end] - start) / 1e3 for end in ("from", "to")}} for call in calls],
        "largest": _largest(taken),
    }


def _changes(event: ProfilerEvent) -> Iterable[tuple[int, int]]:
    """(when, bytes more or fewer) of an allocation, and of its end if it came in the recording."""
    yield event.start_ns, event.args["Bytes"]
    if "freed_ns" in event.args:
        yield event.args["freed_ns"], -event.args["Bytes"]


def _program_of(event: ProfilerEvent) -> Program | None:
    """The program that a graph's event ran: one of its children says."""
    return next((child.source[0] for child in event.children if child.source), None)


def _pools_of(taken: list[ProfilerEvent]) -> dict[int, list[ProfilerEvent]]:
    found: dict[int, list[ProfilerEvent]] = {}
    for event in taken:
        if event.source[1] == POOL:
            found.setdefault(id(event.source[0]), []).append(event)
    return found


def _call(
    event: ProfilerEvent,
    program: Program,
    inside: list[ProfilerEvent],
    pools: list[ProfilerEvent],
    before: int,
) -> dict[str, Any]:
    """What a call held at most: what it allocates, and the `pools` that an earlier call of its program left."""
    open_ = any(is_open(n) for buffer in program.buffers.values() for n in buffer.meta.shape)
    kept = sum(
        pool.args["Bytes"]
        for pool in pools
        if pool.start_ns < event.start_ns < pool.args.get("freed_ns", event.end_ns)
    )
    held = most = kept
    for at, delta in sorted(change for e in inside for change in _changes(e)):
        held += delta if at <= event.end_ns else 0
        most = max(most, held)
    return {
        "name": event.name,
        "program": program.name,
        "from": event.start_ns,
        "to": event.end_ns,
        "before": before - kept,
        "predicted": None if open_ else predicted_peak(program),
        "measured": most,
    }


def _largest(taken: list[ProfilerEvent]) -> list[dict[str, Any]]:
    """One row for a buffer of a program, with how often it was allocated and how many of these are still held."""
    rows: dict[Any, dict[str, Any]] = {}
    for event in sorted(taken, key=lambda event: -event.args["Bytes"]):
        program, buffer = event.source
        row = rows.setdefault(
            (id(program), buffer, event.args["Bytes"]),
            {"bytes": event.args["Bytes"], "buffer": buffer, "program": program.name, "times": 0, "held": 0,
             "lines": _theirs(event.args.get("lines", []))},
        )  # fmt: skip
        row["times"] += 1
        row["held"] += "freed_ns" not in event.args
    return list(rows.values())[:LARGEST]


def _theirs(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith(OURS)] or lines


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
    top = max([1, found["peak"], *(call["before"] + (call["predicted"] or 0) for call in calls)])

    def x(at: float) -> float:
        return round(LEFT + at / last * (WIDTH - LEFT - 20), 2)

    def y(nbytes: float) -> float:
        return round(TOP + HEIGHT - nbytes / top * HEIGHT, 2)

    corners, before = [f"{x(0)},{y(0)}"], 0
    for at, held in points:
        corners += [f"{x(at)},{y(before)}", f"{x(at)},{y(held)}"]
        before = held
    corners += [f"{x(last)},{y(before)}", f"{x(last)},{y(0)}"]
    rows = [_row(row) for row in found["largest"]]
    height = TOP + HEIGHT + 60 + LINE * (len(rows) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20">Memory of compiled programs: at most {_size(found["peak"])} '
        f"(area: measured; dashes: what a call was predicted to hold)</text>",
        f'<polygon points="{" ".join(corners)}" fill="#9ecae1" stroke="#3182bd"/>',
        *(_prediction(call, x, y) for call in calls if call["predicted"] is not None),
        *(
            f'<text x="{LEFT - 6}" y="{y(level) + 4}" text-anchor="end">{_size(level)}</text>'
            for level in (0, top)
        ),
        f'<text x="{LEFT}" y="{TOP + HEIGHT + 18}">0 us</text>',
        f'<text x="{WIDTH - 20}" y="{TOP + HEIGHT + 18}" text-anchor="end">{last:.0f} us</text>',
        *(
            f'<text x="10" y="{TOP + HEIGHT + 50 + LINE * k}" xml:space="preserve">{html.escape(row)}</text>'
            for k, row in enumerate(["The largest, and how often they were allocated:", *rows])
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _prediction(call: dict[str, Any], x: Any, y: Any) -> str:
    level = y(call["before"] + call["predicted"])
    name = html.escape(f"{call['name']}: predicted {call['predicted']}, measured {call['measured']} bytes")
    return (
        f'<line x1="{x(call["from"])}" x2="{x(call["to"])}" y1="{level}" y2="{level}" stroke="#e6550d" '
        f'stroke-width="2" stroke-dasharray="4 2"><title>{name}</title></line>'
    )


def _row(row: dict[str, Any]) -> str:
    lines = " | ".join(line.rpartition("/")[2] for line in row["lines"][:2])
    return (
        f"{_size(row['bytes']):>10} x {row['times']:<4} {row['buffer']:<10} of {row['program']:<10} {lines}"
    )


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e6:.2f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.2f} KB"
