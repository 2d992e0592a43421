"""The first training step of the language model in a process: compiled, from the disk cache, and from saved functions.

`python -m benchmarks.saved_functions`: three fresh processes, then two more pairs of the last two. The time includes
imports of the stages: a load needs half of them. The loss (with its backward) and AdamW's step are two files.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import cutaway
from benchmarks import cpu_models
from cutaway.torch_api import as_torch

MODEL = OPTIMIZER = None


def loss_of(x, y):
    return MODEL(x, y)[1]


def update():
    OPTIMIZER.step()


def step(forward, after, x, y):
    OPTIMIZER.zero_grad()
    loss = forward(x, y)
    loss.backward()
    after()
    return loss.item()


def one(way, folder):
    """In a process of its own: seconds until the first step has its result, and the losses of two steps."""
    global MODEL, OPTIMIZER
    with as_torch():
        MODEL = cpu_models.language_model(cutaway)
    OPTIMIZER = cutaway.optim.AdamW(MODEL.parameters(), lr=1e-4)
    rng = np.random.default_rng(0)
    x, y = (cutaway.from_numpy(rng.integers(0, 256, (4, 128))) for _ in range(2))
    step(loss_of, update, x, y)  # an optimizer has a state from its first step on
    started, used = time.perf_counter(), time.process_time()
    if way == "load":
        forward, after = (
            cutaway.compiler.load_compiled_function(Path(folder) / name, trust=True)
            for name in ("loss", "update")
        )
    else:
        forward, after = cutaway.compile(loss_of, fullgraph=True), cutaway.compile(update, fullgraph=True)
    found = step(forward, after, x, y)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    losses = f"losses {found:.6f} {step(forward, after, x, y):.6f}"
    print(f"{way:7} {seconds:6.2f} s, of this process's CPU {used:6.2f} s; {losses}", flush=True)
    if way == "first":
        OPTIMIZER.zero_grad()
        forward.aot_compile(((x, y), {})).save_compiled_function(Path(folder) / "loss")
        loss_of(x, y).backward()
        after.aot_compile(((), {})).save_compiled_function(Path(folder) / "update")


def main():
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CUTAWAY_RUNTIME_CACHE_DIR": f"{folder}/cache"}
        for way in ("first", "second", "load", "second", "load", "second", "load"):
            command = [sys.executable, "-m", "benchmarks.saved_functions", way, folder]
            subprocess.run(command, env=environment, check=True)
        for name in ("loss", "update"):
            print(f"{name}: {(Path(folder) / name).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    if sys.argv[1:]:
        from benchmarks import saved_functions  # the functions' module, and not __main__

        saved_functions.one(*sys.argv[1:])
    else:
        main()
