"""What `make cpu-speed` prints: times, ratios with their goals, first calls, growth, means, and every line missed.

Input: the rows, and {setting: {row: {framework: times, first calls, or an error}}} from cpu_speed.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.cpu_rows import Row

NAMES = ("ours", "eager", "torch.compile", "torch eager", "jax.jit", "copy")
PEERS = {
    "eager": "eager",
    "torch.compile": "torch",
    "jax.jit": "jax",
    "copy": "copy",
}  # framework: the field of Row with its goal
SLACK = 1.03
MEAN_GOALS = {"eager": 1.05, "torch.compile": 0.6, "jax.jit": 0.6}
COLD_GOAL = {"model": 0.1}  # ours over torch.compile; elsewhere a quarter
SECOND_GOAL = 0.15  # of our own cold
STEP_SECONDS = 3.0  # the language model's training step, cold
DOUBLING = 2.3  # twice the size: at most so many times the time
Found = dict[str, dict[str, Any]]


def ratios(found: Found, over: str) -> list[float]:
    """Ours over a peer in each of the alternated rounds: noise that both saw cancels."""
    mine, theirs = (found.get(name, {}).get("times", []) for name in ("ours", over))
    return [a / b for a, b in zip(mine, theirs)]


def microseconds(entry: dict[str, Any]) -> str:
    if "times" not in entry:
        return "failed" if "error" in entry else "-"
    value = statistics.median(entry["times"]) * 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def in_blas(entry: dict[str, Any]) -> str:
    """The share of our time that BLAS took."""
    if "times" not in entry:
        return "failed" if "error" in entry else "-"
    return f"{statistics.median(entry['times']):.0%}"


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def columns(rows: Iterable[Iterable[str]]) -> str:
    """A table as text: the first column to the left, the others to the right."""
    lines = [list(row) for row in rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths)))
        for line in lines
    )


def limit(found: Found, over: str, ratio: float | None) -> str:
    """What bounds a row that misses its goal, over the same peer: BLAS alone, or a loop that moves as many bytes."""
    share = found.get("in BLAS", {}).get("times")
    if share and ratio is not None:
        return f"; BLAS alone {ratio * statistics.median(share):.2f}"
    copied, theirs = (found.get(name, {}).get("times", []) for name in ("copy", over))
    bounds = [a / b for a, b in zip(copied, theirs)]
    return f"; the copy alone {statistics.median(bounds):.2f}" if bounds and over != "copy" else ""


def judged(
    value: float | None, goal: float, said: str, missed: list[str], spread: str = "", bound: str = ""
) -> list[str]:
    """Two cells: a ratio with its spread, its goal and whether it holds. A miss is noted as `said`, with its limit."""
    if value is None:
        return ["-", f"<= {goal:.2f}    -"]
    verdict = "yes" if value <= goal * SLACK else "no"
    if verdict == "no":
        missed.append(f"{said}: {value:.2f}, goal {goal:.2f}{bound}")
    return [f"{value:.2f}{spread}", f"<= {goal:.2f}  {verdict:>3}"]


def steady(rows: list[Row], found: Found, missed: list[str], setting: str) -> str:
    ran = [name for name in NAMES if any(name in found.get(row.name, {}) for row in rows)]
    lines = [["", *(f"{name}, us" for name in ran)]]
    counted = any("in BLAS" in found.get(row.name, {}) for row in rows)
    lines[0] += ["in BLAS"] * counted
    for over in PEERS:
        lines[0] += [f"ours / {over}", "goal, holds"] if over in ran else []
    means: dict[str, list[float]] = {over: [] for over in PEERS}
    for row in rows:
        here = found.get(row.name, {})
        line = [row.name, *(microseconds(here.get(name, {})) for name in ran)]
        line += [in_blas(here.get("in BLAS", {}))] * counted
        for over, field in PEERS.items():
            if over not in ran:
                continue
            each = ratios(here, over)
            middle = statistics.median(each) if each else None
            spread = f" ({min(each):.2f}-{max(each):.2f})" if each else ""
            said, bound = f"{row.name}, {setting}, / {over}", limit(here, over, middle)
            line += judged(middle, getattr(row, field), said, missed, spread, bound)
            if middle is not None and row.in_mean and row.group != "model" and over in MEAN_GOALS:
                means[over].append(middle)
        lines.append(line)
    text = f"Steady state, {setting}\n{columns(lines)}"
    for over, values in means.items():
        if not values:
            continue
        mean, goal = math.exp(statistics.fmean(map(math.log, values))), MEAN_GOALS[over]
        cells = judged(mean, goal, f"geometric mean, {setting}, / {over}", missed)
        text += f"\ngeometric mean of ours / {over} over {len(values)} rows: {'  '.join(cells)}"
    return text


def quotient(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def first_calls(rows: list[Row], found: Found, missed: list[str]) -> str:
    lines = [["", "ours: first", "second", "/ first", "goal, holds", "torch.compile: first", "second"]]
    lines[0] += ["ours / torch", "goal, holds", "jax.jit: first", "second"]
    for row in rows:
        here = found.get(row.name, {})
        mine, torch, jax = (here.get(name, {}) for name in ("ours", "torch.compile", "jax.jit"))
        again, alone = (quotient(mine.get(key), mine.get("cold")) for key in ("second", "alone"))
        bound = "" if alone is None else f"; the next call, which compiles nothing, {alone:.2f}"
        share = quotient(mine.get("cold"), torch.get("cold"))
        lines.append(
            [
                row.name,
                *(seconds(mine.get(key)) for key in ("cold", "second")),
                *judged(again, SECOND_GOAL, f"{row.name}, second process / first", missed, bound=bound),
                *(seconds(torch.get(key)) for key in ("cold", "second")),
                *judged(
                    share, COLD_GOAL.get(row.group, 0.25), f"{row.name}, first call / torch.compile", missed
                ),
                *(seconds(jax.get(key)) for key in ("cold", "second")),
            ]
        )
        if row.name == "language model, training" and mine.get("cold", 0.0) > STEP_SECONDS * SLACK:
            missed.append(f"{row.name}, first call: {mine['cold']:.2f} s, goal {STEP_SECONDS:.0f} s")
    return (
        "First call in seconds, imports apart: row not in the caches; second process (ours: the median of\n"
        f"several). With few cores a model has all, another row one of them.\n{columns(lines)}"
    )


def growth(rows: list[Row], found: Found, missed: list[str]) -> str:
    lines = [
        ["", "ours, s", "torch.compile, s", "ours / torch", "goal, holds", "times the last", "goal, holds"]
    ]
    before: tuple[int, float] | None = None
    kind = ""
    for row in rows:
        here, size = found.get(row.name, {}), int(row.name.split()[0])
        if row.name.split()[1] != kind:
            kind, before = row.name.split()[1], None
        mine, theirs = (here.get(name, {}).get("cold") for name in ("ours", "torch.compile"))
        line = [row.name, seconds(mine), seconds(theirs)]
        line += judged(quotient(mine, theirs), row.torch, f"{row.name}, first call / torch.compile", missed)
        if before:
            goal = DOUBLING ** math.log2(size / before[0])
            line += judged(quotient(mine, before[1]), goal, f"{row.name}, / {before[0]} {kind}", missed)
        else:
            line += ["", ""]
        lines.append([*line, here.get("ours", {}).get("passes", "")])
        before = (size, mine) if mine else before
    return (
        f"Growth of the first call with the graph; the passes that took longest, in seconds\n{columns(lines)}"
    )


def troubles(rows: list[Row], found: dict[str, dict[str, Found]]) -> list[str]:
    """Refusals, and results that differ from our own eager's: such a row's time says nothing."""
    lines = []
    for setting, of_rows in found.items():
        for row in rows:
            here = of_rows.get(row.name, {})
            lines += [f"{row.name}, {setting}, {n}: {e['error']}" for n, e in here.items() if "error" in e]
            right = here.get("eager", {}).get("result")
            limit = 3e-2 if row.group == "half" else 1e-3
            if right is None or not row.same:
                continue
            lines += [
                f"{row.name}, {setting}, {name}: the result's mean magnitude is {e['result']:.6g}, eager's {right:.6g}"
                for name, e in here.items()
                if name != "copy" and "result" in e and not math.isclose(e["result"], right, rel_tol=limit)
            ]
    return lines


def table(rows: list[Row], found: dict[str, dict[str, Found]]) -> str:
    plain, grown = ([r for r in rows if (r.group == "growth") is wanted] for wanted in (False, True))
    missed: list[str] = []
    parts = [
        "A ratio is the median over alternated rounds of ours / peer in the same round, its spread the least and the\n"
        f"most of them; it holds within {SLACK - 1:.0%} of its goal. `eager` is ours; for a row `np:` it is NumPy.\n"
        "`copy` is a loop with plain stores, by OpenMP, that reads and writes as many bytes: 1.25 of its time is 80 %\n"
        "of its bandwidth. For a sum it only reads as many bytes. Rows with gradients give the result and every\n"
        "gradient in each framework, from a tangent that is made for each call.\n"
        "`in BLAS`: the part of our compiled program's time that NumPy's BLAS takes, on one thread.\n"
        "Each row and framework is a process of its own, forked after the imports, its pages its own; `-`: not run.\n"
        "Geometric means leave out models, the integer chain and the tiny call."
    ]
    if plain:
        timed = {setting: of_rows for setting, of_rows in found.items() if setting != "first calls"}
        parts += [steady(plain, of_rows, missed, setting) for setting, of_rows in timed.items()]
        parts.append(first_calls(plain, found.get("first calls", {}), missed))
    if grown:
        parts.append(growth(grown, found.get("first calls", {}), missed))
    parts.append("\n".join([f"Goals missed: {len(missed)}", *(f"  {line}" for line in missed)]))
    wrong = troubles(rows, found)
    parts.append(
        "\n".join([f"Failures and differing results: {len(wrong)}", *(f"  {line}" for line in wrong)])
    )
    return "\n" + "\n\n".join(parts)
