"""The profiler on a real GPU: kernels with the GPU's times, arrows from their launches, and what recording costs.

Input: a machine with an NVIDIA GPU, CuPy and Triton, and the package cupti if it is there (without it: CUDA events).
Usage, from the repository's root:
    python3 benchmarks/gpu/profiler.py > reports/gpu-profiler.txt
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.modules["torch"] = None  # type: ignore[assignment]  # any import of torch from here on raises ImportError

import cupy as cp  # noqa: E402

from cutaway.profiler import gpu  # noqa: E402
from cutaway.profiler.gpu_timers import GpuTimers  # noqa: E402
from cutaway.torch_api import torch  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402
from tests.debug.trace_format import problems  # noqa: E402

SEED, ROWS, WIDTH, STEPS = 0, 4096, 2048, 5
REGION, FORWARD, BACKWARD = "Torch-Compiled Region", "CompiledFunction", "CompiledFunctionBackward"
FAILED: list[str] = []


def check(name: str, holds: bool, detail: str = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)
    if not holds:
        FAILED.append(name)


class ModelWithBreaks(torch.nn.Module):
    """The profiling guide's, wider."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()
            )
            for _ in range(4)
        )

    def forward(self, x):
        first, second, third, fourth = self.parts
        x = first(x)
        torch._dynamo.graph_break()
        x = second(x)
        torch._dynamo.graph_break()
        x = third(x)
        torch._dynamo.graph_break()
        return fourth(x)


def by_events(call, calls: int = 20) -> float:
    """Microseconds of a call on the GPU, by CUDA events around many."""
    call()
    began, ended = cp.cuda.Event(), cp.cuda.Event()
    began.record()
    for _ in range(calls):
        call()
    ended.record()
    ended.synchronize()
    return cp.cuda.get_elapsed_time(began, ended) * 1e3 / calls


def recorded(observer, call):
    """A recording with this way to look at the GPU, and its trace."""
    before, gpu.observer = gpu.observer, observer
    try:
        with torch.profiler.profile(with_flops=True) as prof:
            call()
            cp.cuda.Device().synchronize()
    finally:
        gpu.observer = before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(path)
        return prof, json.loads(path.read_text())


def the_guides_model(name, observer) -> None:
    torch.manual_seed(SEED)
    model = torch.compile(ModelWithBreaks().cuda())
    x = torch.randn(ROWS, WIDTH, device="cuda")

    def steps():
        for _ in range(3):
            model(x).sum().backward()

    steps()
    prof, trace = recorded(observer, steps)
    events = prof.events()
    regions = [e for e in events if e.name == REGION]
    depths = sorted(sum(1 for o in regions if o is not e and o.start_ns <= e.start_ns and e.end_ns <= o.end_ns)
                    for e in regions)  # fmt: skip
    check(f"{name}: the trace is valid", not problems(trace), "; ".join(problems(trace)[:3]))
    check(
        f"{name}: four regions inside one another, three times",
        depths == [d for d in range(4) for _ in range(3)],
    )
    backwards = sum(e.name == BACKWARD for e in events)
    check(f"{name}: each forward has its backward", sum(e.name == FORWARD for e in events) == backwards == 12)
    on_gpu = [e for e in events if e.device is not None]
    generated = [e for e in on_gpu if e.name.startswith("fused_")]
    check(
        f"{name}: generated kernels on the GPU's row",
        len(generated) >= 12,
        f"{len(generated)} of {len(on_gpu)}",
    )
    check(f"{name}: they name the lines that they came from", all("lines" in e.args for e in generated))
    arrows = [e for e in trace["traceEvents"] if e["ph"] == "s" and e["name"] == "ac2g"]
    check(f"{name}: each has an arrow from its launch", len(arrows) == len(on_gpu), f"{len(arrows)} arrows")
    later = [e.start_ns - launch.start_ns for e in on_gpu for launch in events
             if launch.device is None and launch.launch == e.launch]  # fmt: skip
    check(f"{name}: none begins before its launch", min(later) >= 0,
          f"{min(later) / 1e3:.1f} to {max(later) / 1e3:.1f} us behind it")  # fmt: skip
    print(prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=6))


def one_kernel(name, observer) -> None:
    """A kernel of known size: the time that is recorded beside that of many calls in a row."""
    f = torch.compile(lambda x: torch.nn.functional.gelu(x) * 2 + 1)
    x = torch.randn(1 << 26, device="cuda")
    expected = by_events(lambda: f(x))
    prof, _ = recorded(observer, lambda: [f(x) for _ in range(STEPS)])
    times = [
        e.duration_ns / 1e3 for e in prof.events() if e.device is not None and e.name.startswith("fused_")
    ]
    middle = sorted(times)[len(times) // 2] if times else 0.0
    close = len(times) == STEPS and abs(middle - expected) < 0.15 * expected
    check(f"{name}: 2**26 numbers in one kernel take what CUDA events of 20 calls say", close,
          f"{middle:.1f} us of {expected:.1f}, {x.nbytes * 2 / max(middle, 1e-9) / 1e3:.0f} GB/s")  # fmt: skip


def a_graph(name, observer, kernels_seen: bool) -> None:
    f = torch.compile(lambda x: (x.sin() / x.exp().sum(0)).softmax(1), mode="reduce-overhead")
    x = torch.randn(512, 512, device="cuda") * 0.01
    for _ in range(3):
        f(x)
    prof, trace = recorded(observer, lambda: f(x))
    on_gpu = [e for e in prof.events() if e.device is not None]
    names = {e.name for e in on_gpu}
    seen = (
        any(n.startswith("fused_") for n in names)
        if kernels_seen
        else any(n.startswith("CUDA graph") for n in names)
    )
    check(
        f"{name}: a CUDA graph's replay is seen", seen and not problems(trace), ", ".join(sorted(names))[:200]
    )


def costs() -> None:
    """A step of a model, with and without a recording: milliseconds, least of several."""
    torch.manual_seed(SEED)
    model = torch.compile(ModelWithBreaks().cuda())
    x = torch.randn(ROWS, WIDTH, device="cuda")

    def step():
        model(x).sum().backward()
        cp.cuda.Device().synchronize()

    def least(rounds=20) -> float:
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        return min(times) * 1e3

    step()
    plain = least()
    idle_schedule = torch.profiler.schedule(wait=1000, warmup=1, active=1)
    with torch.profiler.profile(schedule=idle_schedule):
        idle = least()
    with torch.profiler.profile():
        recording = least()
    check("a step, no profiler", True, f"{plain:.3f} ms")
    check(
        "an idle profiler: within 2 %",
        idle < 1.02 * plain,
        f"{idle:.3f} ms, {100 * (idle / plain - 1):+.1f} %",
    )
    ratio = recording / plain
    check("recording: at most 5 %", ratio < 1.05, f"{recording:.3f} ms, {100 * (ratio - 1):+.1f} %")


def main() -> None:
    title = "The profiler on a GPU: kernels, arrows from their launches, what recording costs"
    print(heading(title, "make gpu", SEED))
    print(cp.cuda.runtime.getDeviceProperties(0)["name"].decode())
    chosen = type(gpu.observer())
    gpu.observer().stop()
    ways = {"CUDA events": lambda: GpuTimers(cp)}
    if chosen is not GpuTimers:
        ways = {"CUPTI": gpu.observer, **ways}
    for name, observer in ways.items():
        the_guides_model(name, observer)
        one_kernel(name, observer)
        a_graph(name, observer, name == "CUPTI")
    costs()
    print(f"{len(FAILED)} failed" if FAILED else "all hold")
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
