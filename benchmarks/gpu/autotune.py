"""What `mode="max-autotune"` gains on a GPU: each program by the rule and by measurement, then in a second process.

Input: a machine with an NVIDIA GPU, CuPy and Triton. Both ways replay a CUDA graph, so that the kernels alone differ.
    python3 -m benchmarks.gpu.autotune > reports/gpu-autotune.txt
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import cutaway as ct  # noqa: E402
from benchmarks.gpu.measure import CupyEvents, apart, calls, inputs, median_ms  # noqa: E402
from benchmarks.gpu.rows import ROWS, Row  # noqa: E402
from stage0_eager.matmul_precision import set_float32_matmul_precision  # noqa: E402
from stage_contracts.events import EVENT_LOG  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402

ROUNDS = 3


def epilogue(m: Any, f: Any, x: Any, w: Any, bias: Any, residual: Any) -> Any:
    return f.gelu(x @ w + bias) + residual


def linear_relu(m: Any, f: Any, x: Any, w: Any, bias: Any) -> Any:
    return f.relu(f.linear(x, w, bias))


def bias_relu(m: Any, f: Any, x: Any, w: Any, bias: Any) -> Any:
    return m.relu(x @ w + bias)


def attention(m: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
    return f.scaled_dot_product_attention(q, k, v)


def gated(m: Any, f: Any, x: Any, gate: Any, up: Any) -> Any:
    return f.silu(x @ gate) * (x @ up)


def batched(m: Any, f: Any, a: Any, b: Any) -> Any:
    return m.relu(a @ b.transpose(-1, -2) * 0.125)


def activated(m: Any, f: Any, x: Any, w: Any) -> Any:
    return f.gelu(x) @ w


def narrowed(m: Any, f: Any, x: Any, w: Any) -> Any:
    return x.to(m.bfloat16) @ w.to(m.bfloat16)


def shifted_relu(m: Any, f: Any, x: Any, scale: Any, w: Any) -> Any:
    return m.relu(x * scale) @ w


def dequantised(m: Any, f: Any, x: Any, w: Any, scale: Any) -> Any:
    return x @ ((w - 8).to(x.dtype) * scale)


def routed(m: Any, f: Any, x: Any, w: Any) -> Any:
    return f.softmax((x @ w).to(m.float32), -1)


def scored(m: Any, f: Any, x: Any, w: Any) -> Any:
    return m.relu(x @ w).amax(-1)


def product(m: Any, f: Any, a: Any, b: Any) -> Any:
    return a @ b


def _epilogue(rows: int, depth: int, columns: int) -> Row:
    shapes = ((rows, depth), (depth, columns), (columns,), (rows, columns))
    return Row(f"matmul bias gelu residual {rows}x{depth}x{columns}", epilogue, shapes, "bfloat16", scale=0.2)


def _split(rows: int, depth: int, columns: int) -> Row:
    shapes = ((rows, depth), (depth, columns), (columns,))
    return Row(f"long sum, linear relu {rows}x{depth}x{columns}", bias_relu, shapes, "bfloat16", scale=0.2)


def _made(rows: int, depth: int, columns: int) -> Row:
    shapes = ((rows, depth), (depth,), (depth, columns))
    return Row(f"relu(x * scale) @ w {rows}x{depth}x{columns}", shifted_relu, shapes, "bfloat16", scale=0.2)


def _dequantised(rows: int, depth: int, columns: int) -> Row:
    shapes = ((rows, depth), ((depth, columns), 16, "int8"), (columns,))
    return Row(f"x @ dequantised w {rows}x{depth}x{columns}", dequantised, shapes, "bfloat16", scale=0.2)


def _tf32(rows: int, depth: int, columns: int) -> Row:
    shapes = ((rows, depth), (depth, columns), (columns,))
    return Row(f"{TF32}linear relu {rows}x{depth}x{columns}", bias_relu, shapes, "float32", scale=0.2)


TF32 = "tf32 "  # how rows are called that run under set_float32_matmul_precision("high")
FROM_SPEED = (
    "softmax 8192x8192", "layer norm 16384x4096", "rms norm bfloat16 16384x4096", "cross entropy 8192x32000",
    "sum over columns 16384x4096", "causal attention bfloat16", "gelu MLP bfloat16", "transposed add 8192x8192",
    "softmax 8192x8192, backward", "causal attention bfloat16, backward",
)  # fmt: skip
PROGRAMS = (
    *(row for name in FROM_SPEED for row in ROWS if row.name == name),
    _epilogue(4096, 1024, 4096),
    _epilogue(8192, 4096, 4096),
    _epilogue(256, 4096, 4096),
    _epilogue(16, 4096, 4096),
    _epilogue(1, 4096, 11008),
    Row("linear relu 4096x4096x4096", linear_relu, ((4096, 4096), (4096, 4096), (4096,)), "bfloat16", scale=0.2),
    Row("gated silu 512x4096x11008", gated, ((512, 4096), (4096, 11008), (4096, 11008)), "bfloat16", scale=0.2),
    Row("batched scores 64x512x512x64", batched, ((64, 512, 64), (64, 512, 64)), "float16", scale=0.2),
    Row("matmul 4096x4096x4096", product, ((4096, 4096), (4096, 4096)), "bfloat16", scale=0.2),
    _split(64, 8192, 64),
    _split(16, 16384, 512),
    _split(256, 16384, 256),
    Row("gelu(x) @ w 4096x4096x4096", activated, ((4096, 4096), (4096, 4096)), "bfloat16", scale=0.2),
    Row("x.to(bfloat16) @ w.to(bfloat16) 4096x4096x1024", narrowed, ((4096, 4096), (4096, 1024)), "float32", scale=0.2),
    _made(8192, 4096, 512),
    _made(64, 8192, 64),
    _dequantised(16, 4096, 4096),
    _dequantised(2048, 4096, 4096),
    Row("softmax of rows 16384x1024x64", routed, ((16384, 1024), (1024, 64)), "bfloat16", scale=0.2),
    Row("largest of rows 65536x512x128", scored, ((65536, 512), (512, 128)), "bfloat16", scale=0.2),
    Row("largest of rows 16384x512x256", scored, ((16384, 512), (512, 256)), "bfloat16", scale=0.2),
    _tf32(4096, 4096, 4096),
    _tf32(64, 8192, 64),
    Row(f"{TF32}attention 16x1024x64", attention, ((16, 1024, 64),) * 3, "float32", scale=0.2),
)  # fmt: skip


def called(row: Row, mode: str, given: list[Any]) -> tuple[Callable[[], list[Any]], float]:
    """A call of the row's compiled program, and the seconds that its first call took."""
    functional = ct.nn.functional
    run = ct.compile(lambda *tensors: row.function(ct, functional, *tensors), fullgraph=True, mode=mode)
    start = time.perf_counter()
    call = calls(row, ct, functional, run, given)
    call()
    return call, time.perf_counter() - start


def one(row: Row, events: CupyEvents) -> tuple[int, int]:
    """Print a row, and what was chosen for it; how many choices were measured, and how many were known."""
    ct.manual_seed(0)
    given = inputs(ct, row)
    rule, _ = called(row, "reduce-overhead", given)
    mark = EVENT_LOG.mark()
    tuned, cold = called(row, "max-autotune", given)
    chosen = EVENT_LOG.since(mark, "autotune")
    for call in (rule, tuned):
        for _ in range(4):  # a graph is captured after some calls
            call()
    want = [t.detach().clone() for t in rule()]
    far = apart([t.detach().clone() for t in tuned()], want, ct)
    del want
    events.synchronize()
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(ROUNDS):
        for k, call in enumerate((rule, tuned)):
            times[k].append(median_ms(events, call, 2))
    by_rule, measured = (statistics.median(times[k]) for k in (0, 1))
    spent = sum(e.details["seconds"] for e in chosen)
    print(
        f"{row.name:<46}{by_rule:9.4f}{measured:9.4f}{by_rule / measured:7.2f}x{cold:8.2f}{spent:8.2f}{far:10.1e}"
    )
    for event in chosen:
        if event.details["measured"]:
            print(f"    {event.name}: {event.details['chosen']}{_times(event)}")
    sys.stdout.flush()
    return sum(e.details["measured"] for e in chosen), sum(not e.details["measured"] for e in chosen)


def _times(event: Any) -> str:
    """What the choice took, and the best of the others."""
    times = {name: ms for name, ms in event.details["times"].items() if ms is not None}
    own = times.pop(event.details["chosen"], float("nan"))
    others = sorted(times.items(), key=lambda one: one[1])
    best = "".join(f"; of {len(others)} others {name} {ms:.4f}" for name, ms in others[:1])
    return f" {own:.4f}{best}"


def process(title: str, wanted: str) -> int:
    """All rows in this process. Returns how many failed."""
    print(f"\n{title}")
    print(f"{'':<46}{'rule ms':>9}{'tuned ms':>9}{'gain':>8}{'cold s':>8}{'choice s':>8}{'apart':>10}")
    events, failed, measured, known = CupyEvents(), 0, 0, 0
    for row in PROGRAMS:
        if wanted not in row.name:
            continue
        set_float32_matmul_precision("high" if row.name.startswith(TF32) else "highest")
        try:
            new, old = one(row, events)
            measured, known = measured + new, known + old
        except Exception as error:
            failed += 1
            print(f"{row.name}: {type(error).__name__}: {error}\n{traceback.format_exc(limit=-6)}"[:3000])
        events.release()
    print(f"{measured} choices measured, {known} known before")
    return failed


def main(wanted: str) -> int:
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(heading("What max-autotune gains", "make gpu", 0, "cupy", "triton", more=device), flush=True)
    print(
        "rule: mode=reduce-overhead; tuned: mode=max-autotune; cold: its first call, which compiles and measures;"
    )
    print(
        "choice: seconds of it that choices took, builds of what was tried among them; apart: from the rule's results"
    )
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CUTAWAY_RUNTIME_CACHE_DIR": folder}
        for title in ("the first process, which measures", "a second process, which should measure nothing"):
            command = [sys.executable, "-m", "benchmarks.gpu.autotune", "--process", title, wanted]
            sys.stdout.flush()
            failed += subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process"]:
        sys.exit(process(sys.argv[2], sys.argv[3]))
    sys.exit(main(sys.argv[1] if sys.argv[1:] else ""))
