"""A user's Triton kernels inside compiled functions on a real GPU, with torch out of reach.

Input: a machine with an NVIDIA GPU, CuPy and Triton. Usage, from the repository's root:
    python3 benchmarks/gpu/user_kernels.py > reports/gpu-user_kernels.txt
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.modules["torch"] = None  # type: ignore[assignment]  # any import of torch from here on raises ImportError

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import cutaway  # noqa: E402
from cutaway import library  # noqa: E402
from stage_contracts import events  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402

SEED = 0
SIZE = 1 << 20
BACKENDS = ("eager", "aot_eager", "inductor", "cudagraphs")
FAILED: list[str] = []


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(
        out_ptr + offsets,
        tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask),
        mask=mask,
    )


@triton.autotune(
    configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024}, num_warps=8)],
    key=["n"],
    restore_value=["x_ptr"],
)
@triton.jit
def scale_kernel(x_ptr, n, k, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = x_ptr + offsets
    tl.store(place, tl.load(place, mask=offsets < n) * k, mask=offsets < n)


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["columns"])})
@triton.jit
def row_sums(x_ptr, out_ptr, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x_ptr + row * row_stride + column * column_stride, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(values, axis=0))


def added(x, y):
    out = cutaway.empty_like(x)
    add_kernel[lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)](x, y, out, x.numel(), BLOCK=1024)
    return out


def between(x, y):
    return added(x.sin(), y * 2).cos()


def tuned(x, y):
    out = added(x, y)
    scale_kernel[lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)](out, x.numel(), 3.0)
    return out + 1


def transposed(x, y):
    rows = (x + y).reshape(1024, -1).t()
    sums = rows.new_empty((rows.shape[0],))
    row_sums[(rows.shape[0],)](rows, sums, rows.stride(0), rows.stride(1), rows.shape[1])
    return sums


def in_place(x, y):
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x, x.numel(), BLOCK=1024)
    return x * 2


@library.triton_op("gpu::add", mutates_args=())
def gpu_add(x: cutaway.Tensor, y: cutaway.Tensor) -> cutaway.Tensor:
    out = cutaway.empty_like(x)
    library.wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


gpu_add.register_autograd(lambda ctx, g: (g, g * 1))


def as_an_operator(x, y):
    return gpu_add(x * x, y).sin()


# The function, and what it computes, in float64.
PROGRAMS: dict[str, tuple[Callable, Callable]] = {
    "a kernel": (added, lambda x, y: x + y),
    "a kernel between operators": (between, lambda x, y: np.cos(np.sin(x) + 2 * y)),
    "an autotuned kernel in place": (tuned, lambda x, y: 3 * (x + y) + 1),
    "heuristics, strided operand": (transposed, lambda x, y: (x + y).reshape(1024, -1).sum(0)),
    "a kernel that writes to an argument": (in_place, lambda x, y: 2 * (x + y)),
    "triton_op": (as_an_operator, lambda x, y: np.sin(x * x + y)),
}


def check(name: str, holds: bool, detail: str = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)
    if not holds:
        FAILED.append(name)


def operands() -> tuple[np.ndarray, np.ndarray]:
    x, y = np.random.default_rng(SEED).normal(size=(2, SIZE)).astype(np.float32)
    return x, y


def run(name: str, backend: str) -> None:
    function, by_hand = PROGRAMS[name]
    x, y = operands()
    mark = events.EVENT_LOG.mark()
    compiled = cutaway.compile(function, backend=backend, fullgraph=True)
    for attempt in range(2):  # compiled and run, then run again
        on_gpu = [cutaway.from_numpy(a).to("cuda") for a in (x, y)]
        got = compiled(*on_gpu).cpu().numpy()
        wanted = by_hand(x.astype(np.float64), y.astype(np.float64))
        error = np.max(np.abs(got - wanted) / np.maximum(1, np.abs(wanted)))
        check(f"{name}, {backend}, call {attempt + 1}", error < 1e-4, f"largest relative error {error:.1e}")
        if function is in_place:
            check(f"{name}, {backend}: the argument is written", np.allclose(on_gpu[0].cpu().numpy(), x + y))
    lost = [str(e) for e in events.EVENT_LOG.since(mark, "fallback") if e.name != "cuda_graph"]
    lost += [str(e) for e in events.EVENT_LOG.since(mark, "graph_break")]
    check(
        f"{name}, {backend}: one entry, no break, no fallback",
        len(compiled.entries) == 1 and not lost,
        "; ".join(lost),
    )
    for event in events.EVENT_LOG.since(mark, "fallback"):
        print(f"     {event}")


def gradients() -> None:
    x, y = operands()
    found = []
    for backend in (None, *BACKENDS[:3]):
        function = (
            as_an_operator
            if backend is None
            else cutaway.compile(as_an_operator, backend=backend, fullgraph=True)
        )
        a, b = (cutaway.from_numpy(v).to("cuda").requires_grad_() for v in (x, y))
        function(a, b).sum().backward()
        found.append((a.grad.cpu().numpy(), b.grad.cpu().numpy()))
    cosine = np.cos(x.astype(np.float64) ** 2 + y)
    for backend, (a, b) in zip(("not compiled", *BACKENDS[:3]), found, strict=True):
        error = max(np.abs(a - 2 * x * cosine).max(), np.abs(b - cosine).max())
        check(f"gradients through triton_op, {backend}", error < 1e-4, f"largest error {error:.1e}")


def times() -> None:
    x, y = (cutaway.from_numpy(a).to("cuda") for a in operands())
    print(f"microseconds per call of `a kernel between operators` on {SIZE} floats: host, with the device")
    for backend in BACKENDS:
        compiled = cutaway.compile(between, backend=backend, fullgraph=True)
        for _ in range(20):
            compiled(x, y)
        cp.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(300):
            compiled(x, y)
        issued = time.perf_counter()
        cp.cuda.Device().synchronize()
        done = time.perf_counter()
        print(f"     {backend:12} {(issued - start) / 300 * 1e6:8.1f} {(done - start) / 300 * 1e6:8.1f}")


def main() -> None:
    properties = cp.cuda.runtime.getDeviceProperties(0)
    title = "Kernels that users write with Triton, on a GPU"
    print(heading(title, "make gpu", SEED, "cupy", "triton", more=properties["name"].decode()))
    parts: list[tuple[str, Callable]] = [
        (f"{name}, {backend}", lambda name=name, backend=backend: run(name, backend))  # type: ignore[misc]
        for name in PROGRAMS
        for backend in BACKENDS
    ]
    for label, part in (*parts, ("gradients", gradients), ("times", times)):
        try:
            part()
        except Exception:
            import traceback

            traceback.print_exc(file=sys.stdout)
            FAILED.append(label)
    check("torch was never imported", sys.modules.get("torch") is None)
    print(f"{len(FAILED)} failed" if FAILED else "all passed")
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
