"""`make gpu-speed`: compiled programs on an NVIDIA GPU, ours beside torch.compile, by CUDA events, L2 flushed.

Input: rows.py; a GPU, CuPy and Triton; torch where it is installed. Each row and framework is a process of its own
(measure.py). A few rows at a time are built side by side; then nothing else runs, and the frameworks take turns.
    python -m benchmarks.gpu.speed [--rows softmax ...] [--peers cutaway torch torch:max-autotune] [--rounds 5]
A peer may have a mode of `compile` behind a colon: a row's ratio is of the best of each framework. With --again 5, five
further processes make each of our first calls once more, with what the first one left in its cache. A first call lasts
to its result; imports are apart, in both frameworks (late_imports.py).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Timer
from typing import Any

from benchmarks.gpu.rows import PRIME, ROWS, Row
from stage_contracts.tests.report_heading import heading

FRAMEWORKS = ("cutaway", "torch")


class Worker:
    """A process with one row in one framework. It is killed when it has said nothing for `limit` seconds."""

    def __init__(self, row: Row, peer: str, limit: float, sources: str, caches: str) -> None:
        """`caches`: a folder where each row and framework has its own cache: some rows are the same program."""
        self.row, self.peer, self.limit = row, peer, limit
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the process)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.measure", row.name, peer, sources, modules_of(peer, caches)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True,
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/{row.name.replace('/', '-')} {peer}"},
        )  # fmt: skip
        self.found: dict[str, Any] = {}
        self.times: list[float] = []
        self.hosts: list[float] = []

    def answer(self) -> None:
        """Take its next line of JSON; what it has found so far is in `found`."""
        assert self.process.stdout
        timer = Timer(self.limit, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timed_out = not timer.is_alive()
        timer.cancel()
        if line:
            self.found |= json.loads(line)
        else:
            self.said.seek(0)
            why = f"nothing for {self.limit:.0f} s" if timed_out else "the process died"
            self.found["error"] = f"{why}; it said: {self.said.read()[-2000:]}"

    def run(self) -> None:
        assert self.process.stdin
        print("run", file=self.process.stdin, flush=True)
        self.answer()
        if "error" not in self.found:
            self.times.append(self.found["ms"])
            self.hosts.append(self.found["host"])

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def modules_of(peer: str, caches: str) -> str:
    """The file with the names of the modules that a compile of this framework imports."""
    return f"{caches}/{peer.partition(':')[0]}.modules"


def prime(peers: list[str], options: argparse.Namespace) -> None:
    """Compile a small program in each framework, so that its imports are no part of what is measured."""
    libraries = {peer.partition(":")[0] for peer in peers}
    for worker in [Worker(PRIME, library, options.limit, "", options.caches) for library in libraries]:
        worker.process.wait(options.limit)


def measured(rows: list[Row], peers: list[str], options: argparse.Namespace) -> list[Worker]:
    """Build all of `rows` at once, then measure one process at a time, the frameworks in turns."""
    workers = [
        Worker(row, peer, options.limit, options.sources, options.caches) for row in rows for peer in peers
    ]
    try:
        for worker in workers:
            worker.answer()
        for row in rows:
            steady = [w for w in workers if w.row is row]
            for turn in range(options.rounds):
                for worker in steady[:: 1 if turn % 2 == 0 else -1]:
                    if "error" not in worker.found:
                        worker.run()
    finally:
        for worker in workers:
            worker.close()
    if options.again:
        once_more(
            [w for row in rows for w in fastest([w for w in workers if w.row is row], "cutaway")], options
        )
    return workers


def once_more(workers: list[Worker], options: argparse.Namespace) -> None:
    """What the first call takes in a second process, the median of `options.again` of them."""
    times: dict[Worker, list[float]] = {w: [] for w in workers}
    for _ in range(options.again):
        seconds = [Worker(w.row, w.peer, options.limit, "", options.caches) for w in workers]
        for worker, second in zip(workers, seconds, strict=True):
            second.answer()
            second.close()
            times[worker] += [second.found["cold"]] if "cold" in second.found else []
    for worker in workers:
        worker.found |= {"again": statistics.median(times[worker])} if times[worker] else {}


def fastest(workers: list[Worker], framework: str) -> list[Worker]:
    """The worker of the framework's fastest mode, if one was timed."""
    timed = [w for w in workers if w.peer.partition(":")[0] == framework and w.times]
    return sorted(timed, key=lambda worker: statistics.median(worker.times))[:1]


def best(workers: list[Worker], framework: str) -> tuple[float, dict[str, Any], str]:
    """Milliseconds in the framework's fastest mode, 0 where there are none; what was found in it; the mode."""
    for worker in fastest(workers, framework):
        found = worker.found | {"host": statistics.median(worker.hosts)}
        return statistics.median(worker.times), found, worker.peer.partition(":")[2]
    mine = [w for w in workers if w.peer.partition(":")[0] == framework]
    return 0.0, mine[0].found if mine else {}, ""


def line(row: Row, workers: list[Worker]) -> str:
    """One row: times in ms, torch.compile's over ours, ours by the copy's speed, host times in us, first calls in s."""
    found = [best(workers, framework) for framework in FRAMEWORKS]
    ms, (ours, theirs) = [one[0] for one in found], [one[1] for one in found]
    words = [f"{row.name:<36}"]
    words += [f"{t:>8.3f}" if t else f"{'error' if 'error' in one else '':>8}" for t, one, _ in found]
    words.append(f"{ms[1] / ms[0]:>6.2f}/{row.wanted:<4}" if all(ms) else " " * 11)
    share = row.moves / ms[0] * 1e3 / ours["copy"] if row.moves and ms[0] else 0
    words.append(f"{share:>5.0%}" if share else " " * 5)
    words += [f"{one['host']:>7.1f}" if "host" in one else " " * 7 for one in (ours, theirs)]
    words += [f"{one['cold']:>6.2f}" if "cold" in one else " " * 6 for one in (ours, theirs)]
    words.append(f"{ours['again'] / ours['cold']:>4.0%}" if "again" in ours else " " * 4)
    words.append(f"{ours['apart']:.0e}" if "apart" in ours else " " * 5)
    words += [
        f"[{framework}: {mode}]" for framework, (_, _, mode) in zip(FRAMEWORKS, found, strict=True) if mode
    ]
    return " ".join([*words, ours.get("steps", "")]).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="*", default=[], help="words of the rows' names; default: all")
    parser.add_argument("--peers", nargs="*", default=list(FRAMEWORKS), help="cutaway, torch, torch:MODE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one answer of a process")
    parser.add_argument(
        "--again", nargs="?", type=int, const=1, default=0, help="first calls in N further processes"
    )
    parser.add_argument("--together", type=int, default=2, help="rows that are built side by side")
    parser.add_argument("--sources", default="", help="a folder for the generated kernels")
    parser.add_argument("--caches", default="", help="a folder for the caches, for a run that may be cut off")
    options = parser.parse_args()
    kept, options.caches = options.caches, options.caches or tempfile.mkdtemp(prefix="gpu-speed-")
    Path(options.caches).mkdir(exist_ok=True)
    rows = [r for r in ROWS if not options.rows or any(word in r.name for word in options.rows)]
    peers = [p for p in options.peers if importlib.util.find_spec(p.partition(":")[0])]
    begun, errors = time.perf_counter(), []
    seen = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    device = seen.partition(": ")[2].partition(" (")[0]
    print(heading("Compiled programs on a GPU", "make gpu-speed", 0, "cupy", "triton", "torch", more=device))
    print(f"{'':<36} {'ours ms':>8} {'compile':>8} {'ratio/least':>11}  copy {'host us':>15} "
          f"{'cold s':>13} again apart steps")  # fmt: skip
    prime(peers, options)
    for k in range(0, len(rows), options.together):
        workers = measured(rows[k : k + options.together], peers, options)
        for row in rows[k : k + options.together]:
            print(line(row, [w for w in workers if w.row is row]), flush=True)
        errors += [f"{w.row.name}, {w.peer}: {w.found['error']}" for w in workers if "error" in w.found]
    if not kept:
        shutil.rmtree(options.caches, ignore_errors=True)
    print("\n".join(["", *errors, f"{time.perf_counter() - begun:.0f} s"]))


if __name__ == "__main__":
    main()
