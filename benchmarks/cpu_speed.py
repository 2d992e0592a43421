"""`make cpu-speed`: compiled programs beside our eager, torch.compile, torch's eager, jax.jit and NumPy, on this CPU.

Input: the rows of cpu_rows.py; torch and jax where installed (the extra `bench`). Each row and framework is a fresh
process (cpu_workers.py); they take turns, five times. cpu_table.py prints what was found.
    python -m benchmarks.cpu_speed [--quick] [--rows softmax "layer norm"] [--peers cutaway torch jax]

What changes no figure runs at once: first calls, each row on cores that no other uses (a model has all, as a user's
has); on a machine with many cores calls on one thread too. Elsewhere a row is timed alone, and only the first calls of
its processes overlap. A run that is stopped prints what it has.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu_rows import ROWS, SEED, Row
from benchmarks.cpu_table import table
from benchmarks.cpu_workers import Lane, Worker, prime

FRAMEWORKS = {  # name: (library, what it runs)
    "ours": ("cutaway", "compiled"),
    "eager": ("cutaway", "eager"),
    "torch.compile": ("torch", "compiled"),
    "torch eager": ("torch", "eager"),
    "jax.jit": ("jax", "compiled"),
    "copy": ("cutaway", "copy"),
    "in BLAS": ("cutaway", "blas"),
}
PARTS = ("first calls", "1 thread", "all cores")
ROUNDS = 5
# Seconds before a run with several threads: those of the run before look for more work for a while (OpenBLAS's for
# 26 ms), and take a core from whoever is timed next.
REST = 0.06
CPUS = sorted(os.sched_getaffinity(0))
MANY = len(CPUS) >= 8
# Cores and threads of a first call but a model's. Few cores: one, so that two rows are under way at once.
FIRST_CALL = 4 if MANY else 1
MODEL = 4 if MANY else len(CPUS)  # of a model's first call
Found = dict[str, dict[str, dict[str, Any]]]  # {row: {framework: what was found}}


def frameworks(row: Row, lane: Lane, first: bool = False) -> list[str]:
    """Those that run this row. Of a first call only what compiles is of interest."""
    without = set() if row.in_jax else {"jax.jit"}
    without |= {"torch eager"} if row.group == "numpy" else set()
    without |= set() if row.moves else {"copy"}
    without |= set() if row.products and lane.threads == 1 else {"in BLAS"}
    without |= {"eager", "torch eager", "copy", "in BLAS"} if first else set()
    return [n for n, (library, _) in FRAMEWORKS.items() if library in lane.servers and n not in without]


def start(row: Row, name: str, lane: Lane) -> Worker:
    library, runs = FRAMEWORKS[name]
    return lane.worker(library, row=row.name, runs=runs)


def first_calls(row: Row, lane: Lane, rounds: int) -> dict[str, dict[str, Any]]:
    """{framework: {"cold", "second", "alone"}}: in a process that finds nothing of the row in the caches, in the next
    ones (ours: the median of several), and the call after that, which compiles nothing."""
    found = {}
    for name in frameworks(row, lane, first=True):
        worker = start(row, name, lane)
        found[name] = worker.first
        worker.close()
        if row.group == "growth" or "error" in found[name]:
            continue
        later = []
        for _ in range(rounds if name == "ours" else 1):
            worker = start(row, name, lane)
            later.append(worker.first)
            worker.close()
        for key, of in (("second", "cold"), ("alone", "next")):
            times = [one[of] for one in later if of in one]
            found[name][key] = statistics.median(times) if times else None
    return found


def take_turns(workers: dict[str, Worker], rounds: int, rest: float = 0) -> dict[str, dict[str, Any]]:
    """{framework: {"times", "result"}}, or {"error"}. Every second round goes through them from the last."""
    found = {name: worker.first for name, worker in workers.items()}
    steady = {n: w for n, w in workers.items() if "error" not in found[n]}
    for turn in range(rounds):
        for name in list(steady)[:: 1 if turn % 2 == 0 else -1]:
            time.sleep(rest)
            took = steady[name].run()
            if isinstance(took, dict):
                found[name] = took
                del steady[name]
            else:
                found[name].setdefault("times", []).append(took)
    for worker in workers.values():
        worker.close()
    return found


def one_thread(row: Row, lane: Lane, rounds: int) -> dict[str, dict[str, Any]]:
    return take_turns({name: start(row, name, lane) for name in frameworks(row, lane)}, rounds)


class Clock:
    """Says on stderr what took how long, and whether there is time for more."""

    def __init__(self, minutes: float) -> None:
        self.started, self.limit, self.left_out = time.perf_counter(), 60 * minutes, list[str]()

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def may(self, what: str) -> bool:
        if self.seconds() < self.limit:
            return True
        self.left_out.append(what)
        return False

    def says(self, what: str, begun: float) -> None:
        print(
            f"{self.seconds():5.0f} s: {what} took {self.seconds() - begun:.1f}", file=sys.stderr, flush=True
        )


def side_by_side(
    what: str, rows: list[Row], lanes: list[Lane], measure: Callable, rounds: int, clock: Clock, found: Found
) -> None:
    """Each row on a lane of its own, as one is free; the longest first, so that none is waited for at the end."""
    free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
    for lane in lanes:
        free.put(lane.ready())

    def one(row: Row) -> None:
        lane, begun = free.get(), clock.seconds()
        try:
            if clock.may(f"{row.name}, {what}"):
                found[row.name] = measure(row, lane, rounds)
                clock.says(f"{row.name}, {what},", begun)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        list(pool.map(one, sorted(rows, key=lambda row: -row.weight)))
    for lane in lanes:
        lane.close()


def one_by_one(what: str, rows: list[Row], lane: Lane, rounds: int, clock: Clock, found: Found) -> None:
    """Rows timed one after another; the processes of a few rows are started together, which hides compilers' time."""
    lane.ready()
    at_once = len(CPUS) // 2 if MANY else 2
    for k in range(0, len(rows), at_once):
        group = [row for row in rows[k : k + at_once] if clock.may(f"{row.name}, {what}")]
        begun = clock.seconds()
        wanted = [(row, name) for row in group for name in frameworks(row, lane)]
        with ThreadPoolExecutor(min(len(CPUS), 2 * at_once)) as pool:
            workers = dict(zip(wanted, pool.map(lambda pair: start(*pair, lane), wanted)))
        clock.says(f"starting {', '.join(row.name for row in group)}, {what},", begun)
        for row in group:
            begun = clock.seconds()
            own = {n: w for (r, n), w in workers.items() if r is row}
            found[row.name] = take_turns(own, rounds, REST if lane.threads > 1 else 0)
            clock.says(f"{row.name}, {what},", begun)
    lane.close()


def header(versions: list[str], absent: dict[str, str], load: tuple[float, ...], said: str) -> str:
    """What a figure depends on: without these lines the table says nothing."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    cpu = names[0].partition(": ")[2] if names else platform.processor()
    builder = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=False).stdout
    missing = [f"{library} {why}" for library, why in absent.items()]
    return (
        "Compiled programs on a CPU, beside their peers\n"
        f"make {said}; seed {SEED}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n"
        f"{', '.join(versions + missing)}; numpy {np.__version__}, Python {platform.python_version()}, "
        f"{builder.splitlines()[0] if builder else 'no C++ compiler'}.\n"
        f"{cpu}, {len(CPUS)} cores; load average at the start {', '.join(f'{x:.1f}' for x in load)}"
        f"{' (BUSY: others were running, believe only large differences)' if load[0] > 0.25 * len(CPUS) else ''}.\n"
    )


def lanes(width: int, threads: int, pinned: bool, pythons: dict[str, str], cache: Path) -> list[Lane]:
    """The cores in groups of `width`. Pinned: calls are timed on the last of each group, of which one is used."""
    groups = [CPUS[k : k + width] for k in range(0, len(CPUS) - width + 1, width)]
    return [Lane(g, threads, pythons, cache, g[-1:] if pinned else ()) for g in groups]


def measure_all(
    rows: list[Row],
    parts: list[str],
    pythons: dict[str, str],
    cache: Path,
    rounds: int,
    clock: Clock,
    found: dict[str, Found],
) -> Iterator[str]:
    """Fill {"first calls", "1 thread", "all cores": what was found}; gives the frameworks' versions first."""
    of = {
        part: [r for r in rows if part in parts and (r.group != "growth" or part == PARTS[0])]
        for part in PARTS
    }
    prime(pythons, cache)
    clock.says("a first compile of each framework", 0.0)
    first = lanes(FIRST_CALL, FIRST_CALL, False, pythons, cache)
    yield from (server.version for server in first[0].ready().servers.values())
    models = [row for row in of[PARTS[0]] if row.group == "model"]
    others = [row for row in of[PARTS[0]] if row.group != "model"]
    side_by_side(PARTS[0], others, first, first_calls, rounds, clock, found[PARTS[0]])
    if models:
        wide = lanes(MODEL, MODEL, False, pythons, cache)
        side_by_side(PARTS[0], models, wide, first_calls, rounds, clock, found[PARTS[0]])
    if MANY:  # two of the cores may be halves of one: one thread gets both
        pairs = lanes(2, 1, True, pythons, cache)
        side_by_side("1 thread", of["1 thread"], pairs, one_thread, rounds, clock, found["1 thread"])
    else:
        (whole,) = lanes(len(CPUS), 1, True, pythons, cache)
        one_by_one("1 thread", of["1 thread"], whole, rounds, clock, found["1 thread"])
    (whole,) = lanes(len(CPUS), len(CPUS), False, pythons, cache)
    one_by_one("all cores", of["all cores"], whole, rounds, clock, found["all cores"])


def said(arguments: list[str]) -> str:
    """The arguments as make takes them, without where on this machine a peer's Python is."""
    pairs = zip(["", *arguments], arguments)
    kept = [word for before, word in pairs if not before.endswith("-python") and not word.endswith("-python")]
    return f" SPEED_ARGS='{' '.join(kept)}'" if kept else ""


def wanted(row: Row, options: argparse.Namespace) -> bool:
    if options.rows:
        return any(word in row.name for word in options.rows)
    return row.quick or not options.quick


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", help="only rows whose name has one of these words in it")
    parser.add_argument("--quick", action="store_true", help="a row of each kind; to see that it works")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="alternated runs (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no row after this time; say which")
    parser.add_argument("--peers", nargs="*", default=["torch", "jax"], choices=["torch", "jax"])
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS, help="what is measured")
    parser.add_argument("--target", default="cpu-speed", help="make's name for this run")
    parser.add_argument("--torch-python", default=sys.executable, help="the Python that has the torch to ask")
    parser.add_argument("--jax-python", default=sys.executable, help="the same for jax")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if wanted(row, options)]
    if not rows:
        parser.error(f"no row has {options.rows} in its name; there are: {', '.join(r.name for r in ROWS)}")
    load, clock = os.getloadavg(), Clock(options.minutes)
    pythons = {"cutaway": sys.executable, "torch": options.torch_python, "jax": options.jax_python}
    absent = {library: "not asked" for library in ("torch", "jax") if library not in options.peers}
    for library in options.peers:
        if pythons[library] == sys.executable and not importlib.util.find_spec(library):
            absent[library] = "not installed"
    asked = {library: python for library, python in pythons.items() if library not in absent}
    given = options.target + (said(sys.argv[1:]) if options.target == "cpu-speed" else "")
    found: dict[str, Found] = {what: {} for what in PARTS}
    versions: list[str] = []

    def show(ended: str = "") -> None:
        print(header(versions, absent, load, given) + table(rows, found))
        if clock.left_out:
            print(f"\nNot run, for want of time: {len(clock.left_out)}\n  " + "\n  ".join(clock.left_out))
        print(f"\nThe run {ended or 'took'} {clock.seconds() / 60:.1f} minutes.", flush=True)

    def stopped(*_: object) -> None:
        show("was stopped after")
        os._exit(1)

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, stopped)
    with tempfile.TemporaryDirectory() as cache:
        versions.extend(measure_all(rows, options.parts, asked, Path(cache), options.rounds, clock, found))
    show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
