"""Pairs of operators compiled by stage 2 against eager: `make pairs` keeps what this prints as reports/pairs.txt.

Input: compiled.py's links, every operator from float tensors to a float tensor. All pairs are run, on all cores; the
argument draws so many of them by a seed instead. A run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import rich.progress as bars
from rich.console import Console

import tests.oracle.samples  # noqa: F401  (fills spec.ROWS)
from stage_contracts import events
from stage_contracts.tests.report_heading import heading
from tests.oracle.compare import Mismatch
from tests.oracle.compiled import Refused, links, pair_is_eager, stage2_is_eager

SEED = 0
CHUNK = 200  # pairs a worker takes at once, some seconds of work
ROOT = Path(__file__).parents[2]

Pair = tuple[int, int]  # places in links()
Verdict = tuple[str, str, str]  # kind, of what, why


def verdict(pair: Pair) -> Verdict:
    """How a pair went: ("agree" | "raise" | "refused" | "differ", which operators, why)."""
    first, second = (links()[i] for i in pair)
    names = f"{first.row.name}, then {second.row.name}"
    try:
        with events.no_internal_errors():
            outcome = pair_is_eager(first, second)
        return ("agree", "", "") if outcome == "agree" else ("raise", names, outcome)
    except Refused as refusal:
        alone = {case.row.name: _refused_alone(case) for case in (first, second)}
        found = [name for name, why in alone.items() if why]
        return ("refused", f"{found[0]}: ", alone[found[0]]) if found else ("refused", "", str(refusal))
    except (AssertionError, Mismatch) as error:  # the first: the compiler itself failed
        return "differ", names, str(error).splitlines()[0][:100]


def _refused_alone(case) -> str:
    try:
        stage2_is_eager(case)
    except Refused as refusal:
        return str(refusal)
    return ""


def walk(pairs: list[Pair], kept: Path) -> tuple[list[Verdict], float]:
    """The verdicts of some pairs, and the seconds of processor time they took; read from `kept` where it exists."""
    if kept.exists():
        verdicts, seconds = json.loads(kept.read_text(encoding="utf-8"))
        return [tuple(v) for v in verdicts], seconds
    warnings.simplefilter("ignore")
    start = time.process_time()
    with np.errstate(all="ignore"):
        found = [verdict(pair) for pair in pairs], time.process_time() - start
    part = kept.with_suffix(".part")
    part.write_text(json.dumps(found), encoding="utf-8")
    part.replace(kept)
    return found


def folder() -> Path:
    """Where this source's verdicts are kept while a run lasts: any change of the code is another folder."""
    digest = hashlib.sha256(np.__version__.encode())
    for path in sorted([*ROOT.glob("stage*/**/*.py"), *ROOT.glob("tests/oracle/**/*.py")]):
        digest.update(path.read_bytes())
    kept = ROOT / "build" / "pairs" / digest.hexdigest()[:16]
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def cores() -> int:
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def walk_all(pairs: list[Pair]) -> tuple[list[Verdict], float]:
    """walk() in one process a core, each with one thread; the bar goes to stderr, as stdout is the report."""
    os.environ["OMP_NUM_THREADS"] = "1"  # before the workers import NumPy
    found: list[Verdict] = []
    seconds = 0.0
    columns = (
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    )
    chunks = [pairs[i : i + CHUNK] for i in range(0, len(pairs), CHUNK)]
    names = [f"{n}_{len(chunk)}.json" for n, chunk in enumerate(chunks)]
    kept = folder()
    with (
        ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool,
        bars.Progress(*columns, console=Console(stderr=True)) as shown,
    ):
        task = shown.add_task("", total=len(pairs))
        for done in as_completed(pool.submit(walk, c, kept / n) for c, n in zip(chunks, names, strict=True)):
            verdicts, took = done.result()
            found += verdicts
            seconds += took
            shown.advance(task, len(verdicts))
    return found, seconds


def report(found: list[Verdict], seconds: float, operators: int) -> str:
    """The counts, then a line for each operator that is refused, each error that both raise, each difference."""
    kinds = Counter(kind for kind, _, _ in found)
    drawn = "all" if len(found) == operators**2 else f"drawn by seed {SEED}"
    lines = [
        heading(
            "Pairs of operators, compiled forward and gradient against eager, float64", "make pairs", SEED
        ),
        f"{cores()} cores, {seconds / 60:.0f} minutes of CPU",
        "",
        f"{operators} operators, {operators**2} pairs; {len(found)} run ({drawn}): {kinds['agree']} agree, {kinds['raise']} "
        f"raise an error, {kinds['refused']} are refused and run eagerly, {kinds['differ']} differ.",
    ]
    refused = Counter((name, why) for kind, name, why in found if kind == "refused")
    raised = Counter(why for kind, _, why in found if kind == "raise")
    return "\n".join(
        [
            *lines,
            *(["", "Refused, by the operator that is refused alone, or the reason:"] if refused else []),
            *(f"{count:7d}  {name}{why}" for (name, why), count in refused.most_common()),
            *(["", "Errors, raised by both where nothing else is said:"] if raised else []),
            *(f"{count:7d}  {why}" for why, count in raised.most_common()),
            *sorted(f"\nDIFFERS  {name}: {why}" for kind, name, why in found if kind == "differ"),
        ]
    )


def main(count: int | None) -> int:
    size = len(links())
    pairs = [(a, b) for a in range(size) for b in range(size)]
    random.Random(SEED).shuffle(pairs)
    found, seconds = walk_all(pairs[:count])
    print(report(found, seconds, size))
    return any(kind == "differ" for kind, _, _ in found)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else None))
