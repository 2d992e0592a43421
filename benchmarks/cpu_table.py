"""What `make cpu-speed` prints: times, ratios with their goals, first calls, growth, means, and every line missed.

Input: the rows, and {setting: {row: {framework: times, first calls, or an error}}} from cpu_speed.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.cpu_rows import Row

NAMES = ("ours", "eager", "torch.compile", "torch eager", "jax.jit")
PEERS = {"eager": "eager", "torch.compile": "torch", "jax.jit": "jax"}  # framework: the field of Row with its goal
SLACK = 1.03
MEAN_GOAL = 0.6
COLD_GOAL = {"model": 0.1}  # ours over torch.compile; elsewhere a quarter
SECOND_GOAL = 0.15  # of our own cold
STEP_SECONDS = 3.0  # the language model's training step, cold
DOUBLING = 2.3  # twice the operators: at most so many times the time
Found = dict[str, dict[str, Any]]


def ratios(found: Found, over: str) -> list[float]:
    """Ours over a peer in each of the alternated rounds: noise that both saw cancels."""
    mine, theirs = (found.get(name, {}).get("times", []) for name in ("ours", over))
    return [a / b for a, b in zip(mine, theirs)]


def holds(value: float, goal: float) -> str:
    return "yes" if value <= goal * SLACK else "no"


def microseconds(entry: dict[str, Any]) -> str:
    if "times" not in entry:
        return "failed" if "error" in entry else "-"
    value = statistics.median(entry["times"]) * 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def columns(rows: Iterable[Iterable[str]]) -> str:
    """A table as text: the first column to the left, the others to the right."""
    lines = [list(row) for row in rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths)))
        for line in lines
    )


def steady(rows: list[Row], found: dict[str, Found], missed: list[str], setting: str) -> str:
    lines = [["", *(f"{name}, us" for name in NAMES)]]
    for over in PEERS:
        lines[0] += [f"/ {over}", "spread", "goal", "holds"]
    means: dict[str, list[float]] = {over: [] for over in PEERS}
    for row in rows:
        here = found.get(row.name, {})
        line = [row.name, *(microseconds(here.get(name, {})) for name in NAMES)]
        for over, field in PEERS.items():
            each, goal = ratios(here, over), getattr(row, field)
            if not each:
                line += ["-", "-", f"{goal:.2f}" if over in here else "-", "no" if over in here else "-"]
                continue
            middle = statistics.median(each)
            line += [f"{middle:.2f}", f"{min(each):.2f}-{max(each):.2f}", f"{goal:.2f}", holds(middle, goal)]
            if line[-1] == "no":
                missed.append(f"{row.name}, {setting}: {middle:.2f} of {over}, goal {goal:.2f}")
            if row.in_mean and row.group != "model":
                means[over].append(middle)
        lines.append(line)
    text = f"Steady state, {setting}\n{columns(lines)}"
    for over, values in means.items():
        if values:
            mean = math.exp(statistics.fmean(map(math.log, values)))
            text += f"\ngeometric mean of ours / {over}, {len(values)} rows: {mean:.2f}"
            if over != "eager":
                text += f"; goal {MEAN_GOAL}: {holds(mean, MEAN_GOAL)}"
                if holds(mean, MEAN_GOAL) == "no":
                    missed.append(f"geometric mean, {setting}: {mean:.2f} of {over}, goal {MEAN_GOAL}")
    return text


def first_calls(rows: list[Row], found: dict[str, Found], missed: list[str]) -> str:
    lines = [["", "ours, s", "second", "/ cold", "goal", "holds"]]
    lines[0] += ["torch.compile, s", "second", "ours / torch", "goal", "holds", "jax.jit, s", "second"]
    for row in rows:
        here = found.get(row.name, {})
        mine, torch, jax = (here.get(name, {}) for name in ("ours", "torch.compile", "jax.jit"))
        line = [row.name, seconds(mine.get("cold")), seconds(mine.get("second"))]
        for value, of, goal, text in (
            (mine.get("second"), mine.get("cold"), SECOND_GOAL, "second process over own cold"),
            (mine.get("cold"), torch.get("cold"), COLD_GOAL.get(row.group, 0.25), "cold over torch.compile's"),
        ):
            if of is torch.get("cold") and of is not mine.get("cold"):
                line += [seconds(of), seconds(torch.get("second"))]
            elif goal != SECOND_GOAL:
                line += ["-", "-"]
            if value is None or of is None:
                line += ["-", f"{goal:.2f}", "-"]
                continue
            line += [f"{value / of:.2f}", f"{goal:.2f}", holds(value / of, goal)]
            if line[-1] == "no":
                missed.append(f"{row.name}: {text} {value / of:.2f}, goal {goal:.2f}")
        lines.append([*line, seconds(jax.get("cold")), seconds(jax.get("second"))])
        if row.name == "language model, training" and mine.get("cold", 0.0) > STEP_SECONDS * SLACK:
            missed.append(f"{row.name}: cold {mine['cold']:.2f} s, goal {STEP_SECONDS:.0f} s")
    return f"First call, all cores: caches empty, then in a second process (imports apart)\n{columns(lines)}"


def growth(rows: list[Row], found: dict[str, Found], missed: list[str]) -> str:
    lines = [["", "ours, s", "torch.compile, s", "ours / torch", "goal", "holds", "times the last", "goal", "holds"]]
    before: tuple[int, float] | None = None
    for row in rows:
        here, size = found.get(row.name, {}), int(row.name.split()[0])
        mine, theirs = (here.get(name, {}).get("cold") for name in ("ours", "torch.compile"))
        line = [row.name, seconds(mine), seconds(theirs)]
        share = mine / theirs if mine and theirs else None
        line += [seconds(share), f"{row.torch:.2f}", holds(share, row.torch) if share else "-"]
        step = mine / before[1] if mine and before else None
        goal = DOUBLING ** math.log2(size / before[0]) if before else None
        line += [seconds(step), seconds(goal), holds(step, goal) if step and goal else "-"]
        lines.append(line)
        if line[5] == "no":
            missed.append(f"{row.name}: first call {share:.2f} of torch.compile's, goal {row.torch:.2f}")
        if line[8] == "no":
            missed.append(f"{row.name}: first call {step:.2f} times that of the last size, goal {goal:.2f}")
        before = (size, mine) if mine else before
    return f"Growth of the first call with the graph, all cores\n{columns(lines)}"


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
                if "result" in e and not math.isclose(e["result"], right, rel_tol=limit)
            ]
    return lines


def table(rows: list[Row], found: dict[str, dict[str, Found]]) -> str:
    plain, grown = ([r for r in rows if (r.group == "growth") is wanted] for wanted in (False, True))
    missed: list[str] = []
    parts = [
        "A ratio is the median over five alternated rounds of ours / peer in the same round; the spread is the least\n"
        f"and the most of them. It holds within {SLACK - 1:.0%} of its goal. `eager` is ours; for a row `np:` it is NumPy.\n"
        "Each row and framework is a process of its own, forked after the imports; `-`: not run. Geometric means leave\n"
        "out models, the integer chain and the tiny call."
    ]
    if plain:
        parts += [steady(plain, of_rows, missed, setting) for setting, of_rows in found.items()]
        parts.append(first_calls(plain, found["all cores"], missed))
    if grown:
        parts.append(growth(grown, found["all cores"], missed))
    parts.append("\n".join([f"Goals missed: {len(missed)}", *(f"  {line}" for line in missed)]))
    wrong = troubles(rows, found)
    parts.append("\n".join([f"Failures and differing results: {len(wrong)}", *(f"  {line}" for line in wrong)]))
    return "\n" + "\n\n".join(parts)
