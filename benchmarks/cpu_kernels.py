"""Generated kernels on one CPU thread, beside our own eager and torch.compile: the quietest turn of each.

Input: names of rows, or nothing for all. Each row runs in this process; the three take turns, `--repeats` times.
`taskset -c 1 python benchmarks/cpu_kernels.py softmax layer_norm`
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cutaway.nn.functional as F
import numpy as np

import cutaway

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def chain(m: Any, f: Any, x: Any) -> Any:
    return m.tanh(m.exp(-x * x) + 0.5) * 2.0 - x


def layer_norm_step(m: Any, f: Any, x: Any, w: Any, b: Any, g: Any) -> Any:
    return f.layer_norm(x, (x.shape[-1],), w, b)


def rms(m: Any, f: Any, x: Any, w: Any) -> Any:
    return x * m.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def entropy(m: Any, f: Any, x: Any, t: Any) -> Any:
    return f.cross_entropy(x, t)


# name: (function of (module, functional, *tensors), inputs, how many of them want a gradient)
ROWS: dict[str, tuple[Callable[..., Any], Callable[[], list[np.ndarray]], int]] = {
    "sin_cos_10k": (lambda m, f, x: m.sin(m.cos(x)), lambda: [floats(10_000)], 0),
    "sin_cos_1m": (lambda m, f, x: m.sin(m.cos(x)), lambda: [floats(1_000_000)], 0),
    "chain_1m": (chain, lambda: [floats(1_000_000)], 0),
    "softmax": (lambda m, f, x: m.softmax(x, -1), lambda: [floats(4096, 1024)], 0),
    "log_softmax": (lambda m, f, x: m.log_softmax(x, -1), lambda: [floats(4096, 1024)], 0),
    "softmax_wide": (lambda m, f, x: m.softmax(x, -1), lambda: [floats(512, 8192)], 0),
    "layer_norm": (
        lambda m, f, x, w, b: f.layer_norm(x, (x.shape[-1],), w, b),
        lambda: [floats(4096, 1024), floats(1024), floats(1024)],
        0,
    ),
    "layer_norm_step": (
        lambda m, f, x, w, b: f.layer_norm(x, (x.shape[-1],), w, b),
        lambda: [floats(4096, 1024), floats(1024), floats(1024)],
        3,
    ),
    "rms_norm": (rms, lambda: [floats(4096, 1024), floats(1024)], 0),
    "cross_entropy": (entropy, lambda: [floats(1024, 8192), RNG.integers(0, 8192, 1024)], 0),
    "cross_entropy_step": (entropy, lambda: [floats(1024, 8192), RNG.integers(0, 8192, 1024)], 1),
    "sum_rows": (lambda m, f, x: x.sum(1), lambda: [floats(4096, 1024)], 0),
    "sum_columns": (lambda m, f, x: x.sum(0), lambda: [floats(4096, 1024)], 0),
    "sum_all": (lambda m, f, x: x.sum(), lambda: [floats(4096, 1024)], 0),
    "transposed_add": (lambda m, f, x, y: x.t() + y, lambda: [floats(2048, 2048), floats(2048, 2048)], 0),
    "outer_sum": (
        lambda m, f, x, y: (x[:, None] * y[None, :]).sum(1),
        lambda: [floats(65536), floats(64)],
        0,
    ),
    "embedding": (
        lambda m, f, i, w: f.embedding(i, w) * 2.0 + 1.0,
        lambda: [RNG.integers(0, 32000, 8192), floats(32000, 256)],
        0,
    ),
    "cumsum": (lambda m, f, x: m.cumsum(x, 1), lambda: [floats(4096, 1024)], 0),
    "cat_pad": (
        lambda m, f, x, y: f.pad(m.cat([x, y], 1), (1, 1)) * 2.0,
        lambda: [floats(1024, 1024), floats(1024, 1024)],
        0,
    ),
    "gelu_step": (lambda m, f, x: f.gelu(x) * 0.5, lambda: [floats(1_000_000)], 1),
    "integer_chain": (
        lambda m, f, x: ((x * 3 + 7) ^ (x & 255)) | 1,
        lambda: [RNG.integers(0, 1 << 30, 1_000_000)],
        0,
    ),
}


def ours(name: str, backend: Callable[..., Any]) -> Callable[[], Any]:
    function, make, wanting = ROWS[name]
    tensors = [cutaway.tensor(a) for a in make()]
    run = backend(lambda *args: function(cutaway, F, *args))
    return stepping(run, tensors, wanting, cutaway)


def theirs(name: str) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(1)
    torch._dynamo.reset()  # rows share the code of one lambda
    function, make, wanting = ROWS[name]
    tensors = [torch.tensor(a) for a in make()]
    run = torch.compile(lambda *args: function(torch, torch.nn.functional, *args))
    return stepping(run, tensors, wanting, torch)


def stepping(run: Callable[..., Any], tensors: list, wanting: int, module: Any) -> Callable[[], Any]:
    """A call of `run`; with its backward where gradients are wanted."""
    if not wanting:
        return lambda: run(*tensors)
    for tensor in tensors[:wanting]:
        tensor.requires_grad_(True)
    seed = module.ones_like(run(*tensors))

    def step() -> Any:
        for tensor in tensors[:wanting]:
            tensor.grad = None
        run(*tensors).backward(seed)

    return step


def median_times(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(), call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            once = time.perf_counter() - start
            count = max(1, min(200, int(0.02 / max(once, 1e-7))))
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    print("| row | compiled us | eager us | torch.compile us | over eager | over torch.compile | spread |")
    print("|---|---|---|---|---|---|---|")
    for name in options.rows:
        calls = {"compiled": ours(name, cutaway.compile), "eager": ours(name, lambda f: f)}
        if not options.no_torch:
            calls["torch"] = theirs(name)
        times = median_times(calls, options.repeats)
        middle = {key: min(values) * 1e6 for key, values in times.items()}
        spread = [max(v) / min(v) for v in times.values()]
        torch_time = middle.get("torch", float("nan"))
        print(
            f"| {name} | {middle['compiled']:.0f} | {middle['eager']:.0f} | {torch_time:.0f} | "
            f"{middle['compiled'] / middle['eager']:.2f} | {middle['compiled'] / torch_time:.2f} | {max(spread):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
