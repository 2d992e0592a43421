"""One row of `make gpu-speed` in one framework: its first call, its result against eager, its times.

Input: a row's name; a framework ("torch", or with a mode, "torch:max-autotune"); a folder for the generated kernels
("": none); a file with the names of the modules that a compile imports, which the row "prime" writes. It prints a line
of JSON when it is ready, and one for each line that it reads: a round of timed calls. speed.py starts it.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.gpu.rows import PRIME, ROWS, Row
from benchmarks.late_imports import import_all, keep_names
from cutaway.targets import target_for
from stage4_runtime.runtime import triton_server, triton_units
from stage_contracts.device import Device
from stage_contracts.program import External, Launch

CALLS = 10  # in one round
FLUSHED = 1 << 30  # bytes written before each timed call: no input is left in the L2 cache
# Seconds before a round. Hundreds of calls in a row, as those whose host time is measured, draw so much power that the
# device lowers its clock, for whoever is timed next: products then take 7 % more.
REST = 0.3


class CupyEvents:
    """What timing asks of the device, by CuPy: ours runs without torch."""

    def __init__(self) -> None:
        import cupy

        self.cp, self.junk = cupy, cupy.zeros(FLUSHED, "uint8")
        self.other = cupy.zeros(FLUSHED // 2, "uint8")

    def event(self) -> Any:
        return self.cp.cuda.Event()

    def between(self, start: Any, end: Any) -> float:
        return self.cp.cuda.get_elapsed_time(start, end)

    def synchronize(self) -> None:
        self.cp.cuda.Device().synchronize()

    def flush(self) -> None:
        self.junk.data.memset_async(0, FLUSHED, self.cp.cuda.get_current_stream())

    def release(self) -> None:
        """Give back what the comparison with eager took: other processes need the memory."""
        self.cp.get_default_memory_pool().free_all_blocks()

    def copy(self) -> None:
        self.junk[: FLUSHED // 2].data.copy_from_device_async(
            self.other.data, FLUSHED // 2, self.cp.cuda.get_current_stream()
        )


class TorchEvents:
    """The same by torch."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.junk = torch.zeros(FLUSHED, dtype=torch.uint8, device="cuda")

    def event(self) -> Any:
        return self.torch.cuda.Event(enable_timing=True)

    def between(self, start: Any, end: Any) -> float:
        return start.elapsed_time(end)

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def flush(self) -> None:
        self.junk.zero_()

    def release(self) -> None:
        self.torch.cuda.empty_cache()

    def copy(self) -> None:
        self.junk[: FLUSHED // 2].copy_(self.junk[FLUSHED // 2 :])


def inputs(m: Any, row: Row) -> list[Any]:
    made = []
    for k, one in enumerate(row.inputs):
        if isinstance(one[0], tuple):
            numbers = m.randint(0, one[1], one[0], device="cuda")
            made.append(numbers.to(getattr(m, one[2])) if one[2:] else numbers)
        else:
            tensor = (row.scale * m.randn(*one, device="cuda")).to(getattr(m, row.dtype))
            made.append(tensor.requires_grad_() if k < row.gradients else tensor)
    return made


def calls(row: Row, m: Any, f: Any, run: Any, given: list[Any]) -> Any:
    """A function of no argument: one forward, one forward and backward that yields the gradients, or one update.

    `run`: the compiled function; for an update, what compiles its step.
    """
    if row.updates:
        update, held = row.function(m, run, *given)
        return lambda: [update(), held][1]
    if not row.gradients:
        return lambda: [run(*given)]
    leaves, weight = given[: row.gradients], []

    def step() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        out = run(*given)
        if not weight:
            weight.append(out.detach().clone())  # a CUDA graph writes its outputs again
        out.backward(weight[0])
        return [out, *(leaf.grad for leaf in leaves)]

    return step


def apart(got: list[Any], want: list[Any], m: Any) -> float:
    """The largest distance from eager, over the largest value."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        a, b = a.detach().to(m.float32), b.detach().to(m.float32)
        if bool((a != a).any()):
            return float("nan")
        worst = max(worst, float((a - b).abs().max()) / (float(b.abs().max()) + 1e-30))
    return worst


def median_ms(events: Any, call: Any, flushes: int = 1) -> float:
    """Of one round. Flushes keep the device busy while the call is issued, so that host time does not count."""
    times = []
    for _ in range(CALLS):
        for _ in range(flushes):
            events.flush()
        start, end = events.event(), events.event()
        start.record()
        call()
        end.record()
        events.synchronize()
        times.append(events.between(start, end))
    return statistics.median(times)


def host_us(events: Any, call: Any) -> float:
    """What issuing one call takes while the device's queue has room."""
    times = []
    for _ in range(20):
        events.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            call()
        times.append((time.perf_counter() - start) / 10)
    events.synchronize()
    return min(times) * 1e6


def steps(compiled: Any, row: Row, folder: str) -> str:
    """`2 kernels, 3 matmul`: what the compiled program runs; its kernels' sources go to `folder`."""
    counts: Counter[str] = Counter()
    texts = []
    for made in compiled.artifacts:
        for half in (made.forward, made.backward):
            program = half.emitted.get("triton") if half is not None else None
            if program is not None:
                counts["kernels"] += sum(isinstance(step, Launch) for step in program.steps)
                counts.update(step.target for step in program.steps if isinstance(step, External))
                texts += [half.run.source_text, *(unit.text for unit in program.units)]
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        name = row.name.replace(" ", "_").replace(",", "").replace("/", "-")
        (Path(folder) / f"{name}.py").write_text("\n\n".join(texts))
    return ", ".join(f"{n} {what}" for what, n in counts.items())


def let_builders_import() -> None:
    """Wait until the process that builds our kernels has imported Triton, which torch.compile's own process imports: of
    both, imports are apart."""
    target = target_for(Device("cuda", 0))
    triton_units.expect(target)
    with tempfile.TemporaryDirectory() as empty:  # it answers after the import: there is no such kernel
        arch, folder = int(target.arch.removeprefix("sm_")), Path(empty)
        triton_server.compiled(arch, folder, "none.py", dict(os.environ), 60)


def say(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


def main(name: str, peer: str, sources: str, modules: str) -> None:
    (row,) = (r for r in (PRIME, *ROWS) if r.name == name)
    peer, _, mode = peer.partition(":")
    import_all([peer], Path(modules))
    if peer == "cutaway":
        let_builders_import()
    m, f = importlib.import_module(peer), importlib.import_module(f"{peer}.nn.functional")
    m.manual_seed(0)
    given = inputs(m, row)
    function = lambda *tensors: row.function(m, f, *tensors)  # noqa: E731
    if row.torch and peer == "torch":
        function = row.torch(m, given)
    programs: list[Any] = []

    def compiled_as_asked(what: Any) -> Any:
        programs.append(m.compile(what, fullgraph=not row.updates, mode=mode or None))
        return programs[-1]

    run, eager = compiled_as_asked, lambda step: step
    if not row.updates:
        run, eager = compiled_as_asked(function), function
    found: dict[str, Any] = {}
    events = CupyEvents() if peer == "cutaway" else TorchEvents()
    call = calls(row, m, f, run, given)
    events.synchronize()
    start = time.perf_counter()
    got = call()
    events.synchronize()
    found["cold"] = time.perf_counter() - start
    if row is PRIME:
        keep_names(Path(modules))
        return
    if peer == "cutaway":
        found["steps"] = steps(programs[0], row, sources)
    found["apart"] = apart(got, calls(row, m, f, eager, given)(), m)
    del got
    events.release()
    say(found)
    copy = None
    for _ in sys.stdin:
        time.sleep(REST)
        if copy is None:
            call(), call()
            copy = FLUSHED / median_ms(events, events.copy) * 1e3  # bytes read and written a second
            flushes = 1 + int(host_us(events, call) / median_ms(events, events.flush) * 1.5e-3)
        say({"ms": median_ms(events, call, flushes), "host": host_us(events, call), "copy": copy})


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}\n{''.join(traceback.format_exc(limit=-4))}"[:3000]})
