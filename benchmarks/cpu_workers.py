"""Fresh processes for `make cpu-speed`: a worker holds one program of one framework, a server forks workers, a lane has
a server of each framework on cores that no other lane uses.

Input: which frameworks, which Pythons, which cores. What runs in a worker is cpu_peers.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
# No GPU: a fork cannot use one that its parent looked at, and torch.compile looks.
ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
PATIENCE = 240  # seconds for a first call, or for one timed run


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

    def run(self) -> Any:
        """Seconds of a call, the mean of a timed run; or {"error"}."""
        self.connection.send("run")
        return self.answer()

    def close(self) -> None:
        self.connection.close()
        while Path(f"/proc/{self.pid}").exists():  # the next one starts on an idle core
            time.sleep(0.005)


class Server:
    """One framework with its imports done, on some cores, with some threads; it forks the workers."""

    def __init__(self, library: str, cpus: list[int], threads: int, python: str, cache: Path) -> None:
        self.library, self.version, self.cache = library, "", cache / library
        self.turn = threading.Lock()
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.cpu_peers", library, str(threads), str(self.cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**ENVIRONMENT, **dict.fromkeys(variables, str(threads))},
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )

    def ready(self) -> None:
        """Wait until the imports are done; at once where they are."""
        if self.version:
            return
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.library} could not be imported; its message is above")
        self.version = json.loads(line)["version"]

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with self.turn:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Lane:
    """{library: server} on cores of their own. What is timed runs on `pinned`, first calls on all of the lane."""

    def __init__(
        self, cpus: list[int], threads: int, pythons: dict[str, str], cache: Path, pinned: Iterable[int] = ()
    ) -> None:
        self.pinned = list(pinned)
        self.servers = {}
        self.threads = threads
        for name, python in pythons.items():  # jax has threads of its own, as many as cores when it begins
            own = self.pinned or cpus if name == "jax" else cpus
            self.servers[name] = Server(name, own, threads, python, cache)

    def worker(self, library: str, **request: Any) -> Worker:
        server = self.servers[library]
        # by threads: torch.compile's cache would give kernels that were built for another number
        folder = server.cache / f"{self.threads}-threads"
        folder.mkdir(mode=0o700, exist_ok=True)
        return Worker(server, {**request, "cache": str(folder), "pinned": self.pinned})

    def ready(self) -> Lane:
        for server in self.servers.values():
            server.ready()
        return self

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


def prime(pythons: dict[str, str], cache: Path) -> None:
    """Compile once with each framework: what a machine's first compile pays once, and which modules a compile takes."""
    running = []
    for library, python in pythons.items():
        (cache / library).mkdir(mode=0o700, exist_ok=True)
        command = [python, "-m", "benchmarks.cpu_peers", library, "1", str(cache / library), "prime"]
        running.append(subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL))
    for process in running:
        process.wait()
