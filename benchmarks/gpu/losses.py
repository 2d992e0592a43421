"""`make gpu-losses`: fifty steps of training on an NVIDIA GPU; how far are the losses from those of torch's eager?

Input: the models of rows.py; a GPU, CuPy, Triton, torch. Parameters and batches are drawn by NumPy, the same for
both frameworks. Each model and framework is a process of its own, and all run at once: nothing is timed.
"Wide" is torch's eager in float32: what its own eager, torch.compile and ours round away from.
    python -m benchmarks.gpu.losses [--rows GPT-2 ...] [--steps 50] [--device cuda]
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks.gpu.rows import ROWS, Row
from stage_contracts.tests.report_heading import heading

PEERS = ("torch eager", "torch", "cutaway", "torch eager wide")
BATCHES, RATE, MOST = (
    4,
    0.05,
    2.0,
)  # batches in turn; the steps' length; the goal, of torch.compile's distance


def drawn(row: Row, batch: int) -> list[np.ndarray]:
    """The row's inputs; those after the parameters change with the batch."""
    found = []
    for k, one in enumerate(row.inputs):
        random = np.random.default_rng([k, batch if k >= row.gradients else 0])
        if isinstance(one[0], tuple):
            found.append(random.integers(0, one[1], one[0]))
        else:
            found.append(row.scale * random.standard_normal(one, np.float32))
    return found


def losses(row: Row, peer: str, device: str, steps: int) -> list[float]:
    """Stochastic gradient descent: the loss of each step, in the row's dtype."""
    name, eager, wide = peer.partition(" eager")
    m, f = importlib.import_module(name), importlib.import_module(f"{name}.nn.functional")

    def tensor(array: np.ndarray) -> Any:
        made = m.from_numpy(array).to(device)
        if array.dtype == np.int64:
            return made
        made = made.to(getattr(m, row.dtype))
        return made.float() if wide else made

    batches = [[tensor(array) for array in drawn(row, k)[row.gradients :]] for k in range(BATCHES)]
    leaves = [tensor(array).requires_grad_() for array in drawn(row, 0)[: row.gradients]]
    function = lambda *tensors: row.function(m, f, *tensors)  # noqa: E731
    run = function if eager else m.compile(function, fullgraph=True)
    found = []
    for k in range(steps):
        out = run(*leaves, *batches[k % BATCHES])
        out.backward()
        found.append(float(out.detach()))
        with m.no_grad():
            for leaf in leaves:
                leaf.sub_(leaf.grad * RATE)
                leaf.grad = None
    return found


def apart(some: list[float], others: list[float]) -> tuple[float, float]:
    """The mean and the largest distance of two curves."""
    difference = np.abs(np.subtract(some, others))
    return float(difference.mean()), float(difference.max())


def line(row: Row, found: dict[str, list[float]]) -> str:
    eager = found["torch eager"]
    (theirs, theirs_most), (ours, ours_most) = (apart(found[peer], eager) for peer in PEERS[1:3])
    from_wide = ", ".join(f"{apart(found[peer], found['torch eager wide'])[0]:.1e}" for peer in PEERS[:3])
    holds = ours <= MOST * theirs or ours == 0
    return (f"{row.name:<44} {eager[0]:>8.4f} {eager[-1]:>8.4f}   {ours:.1e} ({ours_most:.1e})   "
            f"{theirs:.1e} ({theirs_most:.1e})   {'holds' if holds else 'MISSED':<6}   {from_wide}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="*", default=["training"], help="words of the rows' names")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=240, help="seconds for all")
    parser.add_argument("--one", nargs=2, help="a row and a framework: what this program starts of itself")
    options = parser.parse_args()
    if options.one:
        (row,) = (r for r in ROWS if r.name == options.one[0])
        print(json.dumps(losses(row, options.one[1], options.device, options.steps)))
        return
    rows = [r for r in ROWS if r.gradients and any(word in r.name for word in options.rows)]
    print(heading(f"Losses of {options.steps} steps", "make gpu-losses", 0, "cupy", "triton", "torch"))
    print(f"\n{'':<44} {'first':>8} {'last':>8}   from torch's eager, mean (most): ours, torch.compile, "
          f"at most {MOST:.0f} times; from wide: eager, torch.compile, ours")  # fmt: skip
    started = {
        (row.name, peer): subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.losses", "--one", row.name, peer, "--device", options.device,
             "--steps", str(options.steps)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for row in rows for peer in PEERS
    }  # fmt: skip
    for row in rows:
        found = {}
        for peer in PEERS:
            said, wrong = started[row.name, peer].communicate(timeout=options.limit)
            if started[row.name, peer].returncode:
                print(f"{row.name}, {peer}: {wrong[-1500:]}", flush=True)
            else:
                found[peer] = json.loads(said.splitlines()[-1])
        if len(found) == len(PEERS):
            print(line(row, found), flush=True)


if __name__ == "__main__":
    main()
