"""Many threads call one compiled function with many shapes at once, while its kernels are built and its cache is damaged.

`python -m tests.threads.many_shapes --threads 16 --shapes 50 --seed 0`. Each thread draws its own order of the shapes and
its own values; results and gradients are compared with eager's. An error, a wrong value and a hang end with status 1.
"""

from __future__ import annotations

import argparse
import contextvars
import os
import platform
import random
import sys
import tempfile
import threading
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np

import cutaway
from cutaway import config
from stage4_runtime.tests.cache_faults import damage

WAIT = 300  # seconds until a thread that has not ended is called hung
TOLERANCE = 1e-5


def program(x, w):
    rows = cutaway.softmax(x @ w, -1) * cutaway.sin(x)
    return rows.sum(0) if x.shape[0] % 2 else rows.mean(1)


def one_call(compiled, shape, draw):
    """What differs between compiled and eager in one call with gradients; "" for nothing."""
    values = (
        draw.standard_normal(shape).astype(np.float32),
        draw.standard_normal((shape[1],) * 2).astype(np.float32),
    )
    found = []
    for function in (compiled, program):
        x, w = (cutaway.tensor(v.copy(), requires_grad=True) for v in values)
        result = function(x, w)
        result.sum().backward()
        found.append([t.detach().numpy() for t in (result, x.grad, w.grad)])
    for name, ours, eager in zip(("the result", "x.grad", "w.grad"), *found, strict=True):
        if ours.shape != eager.shape or not np.allclose(ours, eager, TOLERANCE, TOLERANCE):
            return f"{name} of shape {shape} differs from eager's by {np.abs(ours - eager).max():.2g}"
    return ""


def drive(threads, shapes, seed, dynamic=False):
    """Run them all. Returns how many calls were made, faults planted and entries compiled, and what went wrong."""
    compiled = cutaway.compile(program, dynamic=dynamic)
    every = [(1 + k, 1 + (7 * k) % 19) for k in range(shapes)]
    done, wrong, barrier, over = Counter(), [], threading.Barrier(threads + 1), threading.Event()

    def work(number):
        order, draw = every[:], np.random.default_rng((seed, number))
        random.Random(f"{seed} {number}").shuffle(order)
        barrier.wait()
        for shape in order:
            try:
                said = one_call(compiled, shape, draw)
            except Exception as error:
                said = f"shape {shape}: {type(error).__name__}: {error}"
            wrong.extend([f"thread {number}: {said}"] if said else [])
            done["calls"] += 1

    def harm(folder):
        draw = random.Random(seed)
        barrier.wait()
        while not over.wait(draw.random() * 0.2):
            done[f"files: {damage(folder, draw)}"] += 1

    with (
        tempfile.TemporaryDirectory() as made,
        config.patch(
            {"runtime.cache_dir": made, "runtime.cxx_flags": "-O0", "capture.recompile_limit": shapes + 1}
        ),
    ):
        jobs = [(work, k) for k in range(threads)] + [(harm, Path(made))]
        started = [
            threading.Thread(target=contextvars.copy_context().run, args=job, daemon=True) for job in jobs
        ]
        for thread in started:
            thread.start()
        for thread in started[:-1]:
            thread.join(WAIT)
        over.set()
        started[-1].join(WAIT)
        wrong += [f"thread {k} hangs" for k, thread in enumerate(started) if thread.is_alive()]
    done["entries"] = len(compiled.entries)
    return done, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--shapes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--heading", action="store_true", help="print the report's first lines, and nothing else"
    )
    options = parser.parse_args()
    if options.heading:
        print("Faults on a cache folder that processes share, and many shapes in many threads")
        print(f"make cache-faults; {date.today()}; Python {platform.python_version()}, numpy {np.__version__}; "
              f"{os.cpu_count()} CPUs, {platform.machine()}")  # fmt: skip
        return 0
    bad = 0
    for dynamic in (False, None):
        print(
            f"{options.threads} threads x {options.shapes} shapes, seed {options.seed}, dynamic={dynamic}: ",
            end="",
        )
        done, wrong = drive(options.threads, options.shapes, options.seed, dynamic)
        said = ", ".join(f"{count} {what}" for what, count in sorted(done.items()))
        print(f"{said}; wrong: {len(wrong)}")
        print("\n".join(wrong[:20]), end="\n" if wrong else "")
        bad += len(wrong)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
