"""GPUs of one machine by NCCL: every collective, then data-parallel training steps beside torch's, with torch.compile.

Input: NVIDIA GPUs, CuPy with NCCL, Triton; torch where it is installed. Each rank is a process with one GPU; both
frameworks take turns. Prints the report as it goes; NVLink's multicast stays off.
    python3 -m benchmarks.gpu.distributed [--ranks 2 4] [--seconds 220] [--models gpt2 resnet50]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from cutaway.distributed.cost import Link, best, buckets_of, fitted, predict
from stage_contracts.tests.report_heading import heading

ROOT = Path(__file__).resolve().parents[2]
HIDDEN, NEARLY, RATIO, CLOSE, PREDICTED = 0.8, 0.9, 1.0, 0.05, 0.15  # what the rows should reach
BACKWARD = 2 / 3  # of the work of a forward and backward
ROOMY = 100  # GB of a GPU that hold all models at once


class Job(NamedTuple):
    """So many ranks, on "cuda" or, to try this program, on "cpu"."""

    ranks: int
    device: str


def environment(job: Job, rank: int, port: int) -> dict[str, str]:
    seen = [*filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))]  # a launcher's choice
    gpu = (
        {"CUDA_VISIBLE_DEVICES": seen[rank] if len(seen) > rank else str(rank)}
        if job.device == "cuda"
        else {}
    )
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return os.environ | gpu | {
        "RANK": str(rank), "WORLD_SIZE": str(job.ranks), "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "WARN",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "OMP_NUM_THREADS": "4", "PYTHONPATH": path,
    }  # fmt: skip


def gigabytes() -> float:
    """Of the smallest GPU; none: no limit."""
    if not shutil.which("nvidia-smi"):
        return float("inf")
    ask = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]  # MiB, a line each
    return min(map(int, subprocess.check_output(ask, text=True).split())) * 1.048576e-3


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Pair:
    """The ranks of one framework with one model. `ask` gives rank 0's answer, or {"error": ...}."""

    def __init__(self, job: Job, peer: str, model: str) -> None:
        port, self.job = free_port(), job
        command = [sys.executable, "-m", "benchmarks.gpu.distributed_worker", peer, model, job.device]
        self.said = [tempfile.TemporaryFile("w+") for _ in range(job.ranks)]  # noqa: SIM115
        self.ranks = [
            subprocess.Popen(command, env=environment(job, rank, port), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=self.said[rank], text=True, cwd=ROOT)
            for rank in range(job.ranks)
        ]  # fmt: skip
        self.lines: list[queue.Queue[Any]] = [queue.Queue() for _ in range(job.ranks)]
        for rank, process in enumerate(self.ranks):
            threading.Thread(target=self._read, args=(rank, process), daemon=True).start()
        self.error = ""

    def _read(self, rank: int, process: Any) -> None:
        for line in process.stdout:
            if line.startswith("JSON "):
                self.lines[rank].put(json.loads(line[5:]))
        self.lines[rank].put(None)

    def ask(self, what: str, limit: float) -> dict[str, Any]:
        if not self.error:
            self.tell(what)
        return self.answer(limit)

    def tell(self, what: str) -> None:
        for process in self.ranks:
            try:
                process.stdin.write(what + "\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
            except OSError:
                self.error = self.error or "a rank has ended"

    def answer(self, limit: float) -> dict[str, Any]:
        if self.error:
            return {"error": self.error}
        end = time.monotonic() + max(limit, 0.1)
        found: list[Any] = []
        for rank, lines in enumerate(self.lines):
            try:
                found.append(lines.get(timeout=max(0.1, end - time.monotonic())))
                why = "the process ended"
            except queue.Empty:
                found.append(None)
                why = f"nothing for {limit:.0f} s"
            if found[-1] is None:
                self.said[rank].seek(0)
                self.error = f"rank {rank}: {why}; it said: {self.said[rank].read()[-1500:]}"
                return {"error": self.error}
        return next((one for one in found if "error" in one), found[0])

    def close(self) -> None:
        for process in self.ranks:
            process.kill()
            process.wait()


class Programs:
    """tests/distributed/programs/collectives.py and data_parallel.py on the GPUs themselves, side by side."""

    QUICK: ClassVar = {"collectives.py": "float32", "data_parallel.py": "eager"}  # what --dry tries of each

    def __init__(self, job: Job, limit: float) -> None:
        self.begun, self.ranks = time.monotonic(), {}
        for script, quick in self.QUICK.items():
            port, how = free_port(), ["cuda"] if job.device == "cuda" else ["nccl", quick]
            path = f"tests/distributed/programs/{script}"
            self.ranks[script] = [
                subprocess.Popen([sys.executable, "-m", "cutaway.run_worker", path, *how], cwd=ROOT, text=True,
                                 env=environment(job, r, port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                for r in range(job.ranks)
            ]  # fmt: skip
        self.timer = threading.Timer(limit, self.kill)
        self.timer.start()

    def kill(self) -> None:
        for rank in [rank for ranks in self.ranks.values() for rank in ranks]:
            rank.kill()

    def report(self) -> None:
        for script, ranks in self.ranks.items():
            said = [rank.communicate()[0] for rank in ranks]
            good = all(rank.returncode == 0 for rank in ranks)
            words = said[0].strip().splitlines()[-1:] if good else [one[-2500:] for one in said]
            taken = time.monotonic() - self.begun
            print(
                f"{script:<20} {'equal' if good else 'FAILED'} ({taken:.0f} s): " + "\n".join(words),
                flush=True,
            )
        self.timer.cancel()


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def verdict(holds: bool) -> str:
    return "holds" if holds else "MISSED"


class Clock:
    """What is left of the time that the whole run may take."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self, most: float = 1e9) -> float:
        return min(most, self.end - time.monotonic())


def started(model: str, job: Job) -> dict[str, Pair]:
    """The pairs of a model, which begin to build."""
    peers = ["cutaway", "torch"] if importlib.util.find_spec("torch") else ["cutaway"]
    pairs = {peer: Pair(job, peer, model) for peer in peers}
    for peer, pair in pairs.items():
        for what in (*(["memory"] if measures_memory(peer, model, job) else []), "build", "build alone"):
            pair.tell(what)
    return pairs


def measures_memory(peer: str, model: str, job: Job) -> bool:
    return peer == "cutaway" and "gpt2" in model and job.device == "cuda"


def sharded(found: dict[str, Any], ranks: int) -> None:
    if "used" not in found:
        print(f"sharded memory: {found['error']}")
        return
    off = found["used"] / found["formula"] - 1
    print(f"sharded, bytes on each GPU after a step: {found['used']:,}; the formula, 3 parts of "
          f"1/{ranks} of the parameters: {found['formula']:,}; "
          f"{off:+.1%} (5 %: {verdict(abs(off) <= CLOSE)})")  # fmt: skip


def train(
    model: str, job: Job, rounds: int, clock: Clock, pairs: dict[str, Pair], profiled: bool = False
) -> None:
    """One model: the frameworks take turns."""
    peers, memory = [*pairs], dict[str, Any]()
    try:
        built = {}
        for peer, pair in pairs.items():
            pair.answer(clock.left(60))  # it is ready
            if measures_memory(peer, model, job):
                memory = pair.answer(clock.left(90))
            built[peer] = pair.answer(clock.left() - 30)
            pair.answer(clock.left() - 20)  # the step without other ranks
        print(f"\n{model}, bfloat16, {job.ranks} ranks\n" + "-" * (len(model) + 19))
        for peer, found in built.items():
            print(f"{peer:<8} first step and build {found['cold']:.1f} s, first loss {found['loss']:.4f}"
                  if "cold" in found else f"{peer:<8} {found['error']}", flush=True)  # fmt: skip
        times: dict[str, list[float]] = {peer: [] for peer in peers}
        alone: dict[str, list[float]] = {peer: [] for peer in peers}
        for turn in range(rounds):
            for peer in peers[:: 1 if turn % 2 == 0 else -1]:
                for what, seen in (("step", times[peer]), ("alone", alone[peer])):
                    found = pairs[peer].ask(what, clock.left(30))
                    seen += [found["seconds"]] if "seconds" in found else []
        middle = {peer: statistics.median(seen) for peer, seen in times.items() if seen}
        for peer, seen in times.items():
            if seen:
                print(
                    f"{peer:<8} step {ms(middle[peer])} (of {rounds} rounds: {ms(min(seen))} to {ms(max(seen))})"
                )
        if len(middle) == 2:
            ratio = middle["cutaway"] / middle["torch"]
            print(f"step over torch's: {ratio:.2f} (at most {RATIO}: {verdict(ratio <= RATIO)})", flush=True)
        for peer in middle:
            communication(peer, pairs[peer], middle[peer], statistics.median(alone[peer] or [0.0]), clock)
        if memory:
            sharded(memory, job.ranks)
        if profiled and "cutaway" in middle:
            print(pairs["cutaway"].ask("profile", clock.left(30)).get("text", ""))
    finally:
        for pair in pairs.values():
            pair.close()


def communication(peer: str, pair: Pair, step: float, alone: float, clock: Clock) -> None:
    """How much of the communication is hidden, and for ours what the model of cost predicts."""
    found = {what: pair.ask(what, clock.left(30)) for what in ("moved", "beside")}
    errors = [answer["error"] for answer in found.values() if "error" in answer]
    if errors:
        print(f"{peer:<8} communication: {errors[0]}", flush=True)
        return
    moved, beside, ranks = found["moved"], found["beside"], pair.job.ranks
    rate = 2 * (ranks - 1) / ranks * moved["bytes"] / moved["seconds"] / 1e9
    last = moved["buckets"][-1]
    most = 1 - last / moved["bytes"]
    print(f"{peer:<8} step in a group of one rank {ms(alone)}; {moved['bytes'] / 1e6:.0f} MB of gradients "
          f"by themselves {ms(moved['seconds'])} ({rate:.0f} GB/s)", flush=True)  # fmt: skip
    if "ran" in beside:
        hidden = 1 - beside["waited"] / beside["ran"]
        ran, waited = ms(beside["ran"]), ms(beside["waited"])
        print(f"{peer:<8} collectives in a step {ran}, of which the step waits for {waited}: "
              f"hidden {hidden:.0%} (80 %, or nine tenths of the {most:.0%} that are there before the backward's last "
              f"bucket, {last / 1e6:.0f} MB: {verdict(hidden >= min(HIDDEN, NEARLY * most))}); "
              f"launches known of {beside['known']:.0%} of the kernels", flush=True)  # fmt: skip
    if peer != "cutaway":
        return
    measured = pair.ask("link", clock.left(30))
    if "error" in measured:
        print(f"link: {measured['error']}")
        return
    link = fitted([(n, s) for n, s in measured["samples"]], ranks)
    print("link, all_reduce of " + ", ".join(f"{n:,} B {s * 1e6:.0f} us" for n, s in measured["samples"]))
    predicted(link, moved["buckets"], alone, step, ranks)


def predicted(link: Link, sizes: list[int], alone: float, step: float, ranks: int) -> None:
    buckets = buckets_of(sizes, alone * (1 - BACKWARD), alone * BACKWARD)
    guess = predict(buckets, alone, 0.0, link, ranks)
    off = guess.seconds / step - 1
    print(f"fitted: {link.latency * 1e6:.1f} us and {link.bandwidth / 1e9:.0f} GB/s; "
          f"predicted step {ms(guess.seconds)}, measured {ms(step)}: {off:+.1%} "
          f"(15 %: {verdict(abs(off) <= PREDICTED)})")  # fmt: skip
    print("extrapolated from this link, were it the same between all: " + ", ".join(
        f"{n} ranks {ms(one.seconds)} ({name})" for n in (8, 64, 512, 4096)
        for name, one in [best(buckets, alone, 0.0, link, n)]), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ranks", type=int, nargs="*", default=[2], help="one GPU each, one number after the other"
    )
    parser.add_argument("--seconds", type=float, default=220, help="for each number of ranks")
    parser.add_argument("--models", nargs="*", default=["gpt2", "resnet50"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--dry", action="store_true", help="on the CPU, with the stand-in for NCCL and small models"
    )
    parser.add_argument("--profile", action="store_true", help="where the host's time of our step goes, too")
    given = parser.parse_args()
    models = ["tiny gpt2"] if given.dry else given.models
    lines = [] if given.dry else subprocess.check_output(["nvidia-smi", "-L"], text=True).splitlines()
    names = ", ".join(line.partition(": ")[2].partition(" (")[0] for line in lines)
    command = f"make gpu-distributed RANKS='{' '.join(map(str, given.ranks))}'"
    print(
        heading("GPUs of one machine by NCCL", command, 0, "cupy", "triton", "torch", more=names), flush=True
    )
    for ranks in given.ranks:
        clock, job = Clock(given.seconds), Job(ranks, "cpu" if given.dry else "cuda")
        programs = Programs(job, clock.left(given.seconds * 0.4))
        at_once = models if gigabytes() > ROOMY else models[:1]  # while they are built, no time is measured
        building = {model: started(model, job) for model in at_once}
        print(f"\n{ranks} ranks")
        programs.report()
        for model in models:
            pairs = building.get(model) or started(model, job)
            train(model, job, given.rounds, clock, pairs, given.profile)
        print(f"\n{given.seconds - clock.left():.0f} s")


if __name__ == "__main__":
    main()
