"""`make cpu-speed`: compiled programs beside our eager, torch.compile, torch's eager, jax.jit and NumPy, on this CPU.

Input: the rows of cpu_rows.py; torch and jax where installed (the extra `bench`). Each row and framework is a fresh
process (cpu_peers.py); they take turns, five times. cpu_table.py prints what was found.
    python -m benchmarks.cpu_speed [--quick] [--rows softmax "layer norm"] [--peers cutaway torch jax]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu_rows import ROWS, SEED, Row
from benchmarks.cpu_table import table

FRAMEWORKS = {  # name: (library, compiled)
    "ours": ("cutaway", True),
    "eager": ("cutaway", False),
    "torch.compile": ("torch", True),
    "torch eager": ("torch", False),
    "jax.jit": ("jax", True),
}
ROUNDS = 5
PATIENCE = 240  # seconds for a first call, or for one timed run
CPUS = sorted(os.sched_getaffinity(0))
SETTINGS = {"all cores": CPUS, "1 thread": CPUS[-1:]}  # interrupts tend to go to the first core


class Worker:
    """A fresh process with one program in it: its first call when made, a timed run for each `run()`."""

    def __init__(self, server: Server, request: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            listener = Listener(str(Path(folder) / "socket"))
            server.send({**request, "address": listener.address})
            self.connection: Connection = listener.accept()
            listener.close()
        self.pid = self.connection.recv()
        self.first = self.answer()

    def answer(self) -> Any:
        if not self.connection.poll(PATIENCE):
            os.kill(self.pid, signal.SIGKILL)
            return {"error": f"no result after {PATIENCE} s"}
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            return {"error": "the process died"}

    def run(self) -> float:
        self.connection.send("run")
        return self.answer()

    def close(self) -> None:
        self.connection.close()
        while Path(f"/proc/{self.pid}").exists():  # the next one starts on an idle machine
            time.sleep(0.005)


class Server:
    """One framework with its imports done, on some cores; it forks the workers."""

    def __init__(self, library: str, cpus: list[int], python: str, cache: Path) -> None:
        self.library, self.python, self.version = library, python, ""
        self.cache = cache / library
        self.cache.mkdir(mode=0o700, exist_ok=True)
        count = str(len(cpus))
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count)
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.cpu_peers", library, count, str(self.cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, **threads, "JAX_PLATFORMS": "cpu"},
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )

    def ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.library} could not be imported by {self.python}; its message is above")
        self.version = json.loads(line)["version"]

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measured_by(row: Row, setting: str, servers: dict[str, Server]) -> list[str]:
    """The frameworks that run this row. Growth is about first calls, which need no eager and one setting."""
    if row.group == "growth":
        return [
            n for n in ("ours", "torch.compile") if FRAMEWORKS[n][0] in servers and setting == "all cores"
        ]
    without = {"torch eager"} if row.group == "numpy" else set()
    without |= set() if row.in_jax else {"jax.jit"}
    return [n for n, (library, _) in FRAMEWORKS.items() if library in servers and n not in without]


def measure(row: Row, setting: str, servers: dict[str, Server], rounds: int) -> dict[str, dict[str, Any]]:
    """{framework: {"cold", "second", "times", "result"}}, or {"error"}."""
    workers, found = {}, {}
    for name in measured_by(row, setting, servers):
        library, compiles = FRAMEWORKS[name]
        request = {"row": row.name, "compiles": compiles, "cache": str(servers[library].cache)}
        workers[name] = Worker(servers[library], request)
        found[name] = workers[name].first
        if setting == "all cores" and compiles and "error" not in found[name] and row.group != "growth":
            second = Worker(servers[library], request)
            found[name]["second"] = second.first.get("cold")
            second.close()
    steady = {n: w for n, w in workers.items() if "error" not in found[n] and row.group != "growth"}
    for turn in range(rounds):
        for name in list(steady)[:: 1 if turn % 2 == 0 else -1]:
            took = steady[name].run()
            if isinstance(took, dict):
                found[name] = took
                del steady[name]
            else:
                found[name].setdefault("times", []).append(took)
    for worker in workers.values():
        worker.close()
    return found


def header(servers: dict[str, Server], absent: dict[str, str], load: tuple[float, ...], quick: bool) -> str:
    """What a figure depends on: without these lines the table says nothing."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    cpu = names[0].partition(": ")[2] if names else platform.processor()
    builder = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=False).stdout
    missing = [f"{library} {why}" for library, why in absent.items()]
    peers = [server.version for server in servers.values()]
    return (
        "Compiled programs on a CPU, beside their peers\n"
        f"make cpu-speed{' SPEED_ARGS=--quick' * quick}; seed {SEED}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n"
        f"{', '.join(peers + missing)}; numpy {np.__version__}, Python {platform.python_version()}, "
        f"{builder.splitlines()[0] if builder else 'no C++ compiler'}.\n"
        f"{cpu}, {len(CPUS)} cores; load average at the start {', '.join(f'{x:.1f}' for x in load)}"
        f"{' (BUSY: others were running, believe only large differences)' if load[0] > 0.5 else ''}.\n"
    )


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
    parser.add_argument("--peers", nargs="*", default=["torch", "jax"], choices=["torch", "jax"])
    parser.add_argument("--torch-python", default=sys.executable, help="the Python that has the torch to ask")
    parser.add_argument("--jax-python", default=sys.executable, help="the same for jax")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if wanted(row, options)]
    if not rows:
        parser.error(f"no row has {options.rows} in its name; there are: {', '.join(r.name for r in ROWS)}")
    load, started = os.getloadavg(), time.perf_counter()
    pythons = {"cutaway": sys.executable, "torch": options.torch_python, "jax": options.jax_python}
    absent = {library: "not asked" for library in ("torch", "jax") if library not in options.peers}
    for library in options.peers:
        if pythons[library] == sys.executable and not importlib.util.find_spec(library):
            absent[library] = "not installed"
    caches = tempfile.TemporaryDirectory()
    folder = Path(caches.name)
    servers: dict[str, dict[str, Server]] = {}
    for setting, cpus in SETTINGS.items():
        servers[setting] = {
            n: Server(n, cpus, python, folder) for n, python in pythons.items() if n not in absent
        }
    for server in (s for group in servers.values() for s in group.values()):
        server.ready()
    first = servers["all cores"]
    text = header(first, absent, load, options.quick)
    found: dict[str, dict[str, Any]] = {setting: {} for setting in SETTINGS}
    try:
        for row in rows:
            for setting in SETTINGS:
                begun = time.perf_counter()
                found[setting][row.name] = measure(row, setting, servers[setting], options.rounds)
                took = time.perf_counter() - begun
                print(f"{row.name}, {setting}: {took:.1f} s", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        text += "Stopped before the end.\n"
    finally:
        for server in (s for group in servers.values() for s in group.values()):
            server.close()
        caches.cleanup()
    print(text + table(rows, found))
    print(f"\nThe run took {(time.perf_counter() - started) / 60:.1f} minutes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
