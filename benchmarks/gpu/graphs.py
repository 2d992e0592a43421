"""CUDA graphs on a GPU: random networks trained by replays and by plain launches must give the same bits.

Input: a machine with an NVIDIA GPU and CuPy. Each network trains for some steps, as users' loops do: batches in memory
of their own or in new memory, results held or dropped, gradients set to None, held or added to, a step marked, the
update eager or compiled.
    python3 benchmarks/gpu/graphs.py [number of networks] > reports/gpu-graphs.txt
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

import cutaway as ct  # noqa: E402
from benchmarks.gpu.networks import drawn  # noqa: E402
from stage_contracts import config  # noqa: E402
from stage_contracts.events import EVENT_LOG  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402

NETWORKS, STEPS = 40, 10


def trained(seed: int, mode: str | None, device: str = "cuda") -> tuple[list[np.ndarray], int]:
    """All that the loop ever held, read at its end; and how many graphs were captured."""
    dtype, arrays, function = drawn(seed)
    draw = random.Random(seed)
    images, *parameters = [ct.from_numpy(a).to(device).to(getattr(ct, dtype)) for a in arrays]
    parameters = [p.requires_grad_() for p in parameters]

    def loss_of(x: Any, *given: Any) -> tuple[Any, Any]:
        y = function(x, *given)[0]
        return (y * y).float().mean(), y

    compiled = ct.compile(loss_of, fullgraph=True, mode=mode)
    optimizer = ct.optim.AdamW(parameters, lr=0.01) if parameters and draw.random() < 0.5 else None
    update = ct.compile(optimizer.step, mode=mode) if optimizer else None
    batches = [images, images * 0.5] if draw.random() < 0.7 else []
    held: list[Any] = []
    for step in range(STEPS):
        x = draw.choice(batches) if batches else images * (1 + step / 8)
        loss, y = compiled(x, *parameters)
        if parameters:
            loss.backward()
        held += [t for t in (loss, y, y[:1]) if draw.random() < 0.3]
        kept = draw.choice(("none", "none", "add", "hold"))
        if update:
            update()
        for p in parameters:
            if p.grad is None:
                continue
            held += [p.grad] if kept == "hold" and draw.random() < 0.5 else []
            if not update:
                with ct.no_grad():
                    p -= 0.01 * p.grad
            if kept != "add":
                p.grad = None
        if draw.random() < 0.1:  # what is held would be written over: read it first
            held = [t.detach().clone() for t in held]
            for p in parameters:
                p.grad = None
            del loss, y
            ct.compiler.cudagraph_mark_step_begin()
    functions = [compiled, update] if update else [compiled]
    made_of = [made for function in functions for made in function.artifacts]
    halves = [h for made in made_of for h in (made.forward, made.backward) if h is not None]
    states = [getattr(h.run, "state", {}).values() for h in halves if h.run is not None]
    captures = sum(each.places.captures for state in states for each in state if each)
    return [t.detach().float().cpu().numpy() for t in [*held, *parameters]], captures


def main(networks: int) -> None:
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(
        heading(
            "Networks trained by CUDA graphs and by plain launches",
            "make gpu",
            0,
            "cupy",
            "triton",
            more=device,
        )
    )
    mark, wrong, captured = EVENT_LOG.mark(), [], 0
    for seed in range(networks):
        with config.patch({"runtime.deterministic": True}):
            (plain, _), (replayed, captures) = trained(seed, None), trained(seed, "reduce-overhead")
        captured += captures
        same = len(plain) == len(replayed) and all(
            np.array_equal(a, b, equal_nan=True) for a, b in zip(plain, replayed, strict=True)
        )
        wrong += [] if same else [seed]
    refused = [e for e in EVENT_LOG.since(mark, "fallback") if e.name == "cuda_graph"]
    for reason in sorted({e.details["reason"] for e in refused}):
        print(f"     not captured: {reason}"[:150])
    print(f"{networks - len(wrong)} of {networks} networks, {STEPS} steps each, have the same bits; {captured} graphs, "
          f"{len(refused)} programs refused" + (f"; differ: {wrong}" if wrong else ""))  # fmt: skip
    print("all hold" if not wrong and captured else "some failed")
    sys.exit(bool(wrong) or not captured)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else NETWORKS)
