"""Faults on one cache folder: processes that build and load at once, are killed at random, find files cut and changed.

`python -m stage4_runtime.tests.cache_faults --processes 32 --seconds 60 --seed 0`. Each worker builds units drawn from
a few texts and runs them; the driver kills workers, cuts files short, flips bytes, removes entries. A worker that gives
a wrong number or raises ends the run with its words. The last line says what was done.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from stage4_runtime.runtime.build import build, forget_built
from stage4_runtime.tests.programs import SUM_SOURCE, cpp_unit
from stage_contracts import config

UNITS = 6
LIFE = 10  # seconds that a worker lives, on average; it takes some to start


def work(folder: str, seed: int) -> None:
    """Build and run units until killed; a wrong result raises."""
    draw = random.Random(seed)
    while True:
        number = draw.randrange(UNITS)
        text = SUM_SOURCE.replace("1.0f", f"{number + 1}.0f")
        forget_built()
        with config.patch(cache_dir=folder, cxx_flags="-O0", cache_bytes=draw.choice([1 << 30, 60_000])):
            kernel = build(cpp_unit(text, name=f"unit{number}"))["kernel0"]
        x, y = np.arange(64, dtype=np.float32), np.empty(64, np.float32)
        assert kernel(x.ctypes.data, y.ctypes.data) == 0
        assert (y == x + number + 1).all(), f"unit {number} gave {y[:3]}"
        print(number, flush=True)


def damage(folder: Path, draw: random.Random) -> str:
    """One fault on the folder: what was done. Files that vanish meanwhile are no fault of the cache."""
    files = sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)
    if not files:
        return "nothing"
    path, how = draw.choice(files), draw.choice(["cut", "flip", "empty", "remove"])
    try:
        data = bytearray(path.read_bytes())
        if how == "remove":
            path.unlink()
        elif how == "flip" and data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            path.write_bytes(data)
        else:
            path.write_bytes(data[: len(data) // 2] if how == "cut" else b"")
    except OSError:
        return "nothing"
    return how


def start(folder: Path, seed: int) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "stage4_runtime.tests.cache_faults",
        "--work",
        str(folder),
        "--seed",
        str(seed),
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def stop(worker: subprocess.Popen) -> tuple[str, str]:
    """Kill a worker and the compilers it started; what it printed."""
    os.killpg(worker.pid, signal.SIGKILL)
    return worker.communicate()


def drive(folder: Path, processes: int, seconds: float, seed: int) -> Counter[str]:
    """Workers and faults for some seconds: how much of each. Raises RuntimeError with a worker's words."""
    draw, done = random.Random(seed), Counter[str]()
    workers = [start(folder, seed + k) for k in range(processes)]
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            time.sleep(draw.random() * 0.2)
            done[damage(folder, draw)] += 1
            place = draw.randrange(processes)
            if (code := workers[place].poll()) is not None:
                raise RuntimeError(f"a worker ended with {code}:\n{workers[place].communicate()[1][-2000:]}")
            if draw.random() < processes * 0.1 / LIFE:
                done["right results"] += len(stop(workers[place])[0].split())
                done["kill"] += 1
                workers[place] = start(folder, draw.randrange(1 << 30))
        for worker in workers:
            if (code := worker.poll()) is not None:
                raise RuntimeError(f"a worker ended with {code}:\n{worker.communicate()[1][-2000:]}")
    finally:
        for worker in workers:
            if worker.poll() is None:
                done["right results"] += len(stop(worker)[0].split())
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--work", default="", help="be a worker on this folder")
    options = parser.parse_args()
    if options.work:
        work(options.work, options.seed)
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made) / "cache"
        done = drive(folder, options.processes, options.seconds, options.seed)
    said = ", ".join(f"{count} {what}" for what, count in sorted(done.items()))
    print(f"{options.processes} processes for {options.seconds:g} s, seed {options.seed}: {said}; wrong: 0")
    return 0 if done["right results"] else 1


if __name__ == "__main__":
    sys.exit(main())
