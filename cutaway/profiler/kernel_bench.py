"""One generated kernel as a file that runs alone: it makes its inputs, and says what the kernel reaches.

Input: a program and one of its steps; the file holds a program of this step alone, with its source, and calls `bench`.
A place on the roofline is what the kernel reaches of what this machine allows: by memory or by arithmetic.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cutaway.debug.run_alone import load
from cutaway.debug.runnable import BEGIN, versions
from cutaway.pipelines import default_pipeline
from cutaway.profiler.costs import Sizes, cost, number
from cutaway.profiler.events import ProfilerEvent
from cutaway.profiler.peaks import least_seconds_of, measured_peaks
from cutaway.targets import target_for
from stage_contracts.index_expr import symbol
from stage_contracts.program import Launch, Program, Return, RowBlocks, step_accesses
from stage_contracts.program_text import print_program
from stage_contracts.symbolic import hinted

GENERATED = (Launch, RowBlocks)


def generated_steps(program: Program) -> list[Any]:
    """The steps that run generated kernels, each kernel once."""
    found: dict[Any, Any] = {}
    for step in program.steps:
        if isinstance(step, GENERATED):
            found.setdefault(step.kernel if isinstance(step, Launch) else id(step), step)
    return list(found.values())


def recorded_steps(events: Iterable[ProfilerEvent]) -> list[tuple[Program, Any, Sizes | None]]:
    """The generated steps that a recording has, once each, with the open sizes of one call."""
    found = {
        (id(event.source[0]), id(event.source[1])): (*event.source, event.sizes)
        for event in events
        if event.source is not None and isinstance(event.source[1], GENERATED)
    }
    return list(found.values())


def step_name(step: Any) -> str:
    """A name for its file: the kernel's, or that of the first kernel that goes by rows."""
    if isinstance(step, Launch):
        return step.kernel
    kernels = [inner.kernel for inner in step.steps if isinstance(inner, Launch)]
    return f"{(kernels or ['product'])[0]}_by_rows"


def alone(program: Program, step: Any) -> Program:
    """A program of this step only: each array that it reads or writes is an input."""
    reads, writes = step_accesses(step, program.kernels)
    local = step.local if isinstance(step, RowBlocks) else ()
    inner = step.steps if isinstance(step, RowBlocks) else (step,)
    kernels = {s.kernel: program.kernels[s.kernel] for s in inner if isinstance(s, Launch)}
    named = getattr(step, "buffers", ()) if isinstance(step, Launch) else (*reads, *writes)
    sources = (size.buffer for size in program.sizes if size.buffer)  # they say how large open sizes are
    inputs = tuple(dict.fromkeys(name for name in (*named, *sources) if name not in local))
    buffers = {name: replace(program.buffers[name], role="input", slot=None) for name in inputs}
    params = (name for kernel in kernels.values() for name in (*kernel.params, *kernel.internal))
    kept = {name: program.buffers[name] for name in (*local, *params) if name in program.buffers}
    buffers = {**kept, **buffers}  # a kernel that several steps share has the names of the first
    return Program(
        step_name(step), program.device, inputs, buffers, kernels, (step, Return(())), sizes=program.sizes
    )


def kernel_file(program: Program, step: Any, sizes: Sizes | None = None) -> str:
    """The text of the file. `sizes`: the numbers of open sizes; without them, a usual one."""
    made = alone(program, step)
    target = program.units[-1].target if program.units else target_for(program.device)
    emitted = default_pipeline().emit(made, target)
    known = {size.name: (sizes or {}).get(size.name) or hinted(symbol(size.name)) for size in made.sizes}
    inputs = [_type(made, name, known) for name in made.inputs]
    lines = [f"#   {origin}: {origin.text}" for origin in _origins(program, step)]
    return (
        f'"""The kernel {made.name} of {program.name}: run alone, this file builds it and says what it reaches.\n\n'
        f"Options: --perf counts with perf (CPU) or ncu (GPU), where it is installed.\n\n"
        f'{versions()}.\n"""\n\n'
        "from cutaway.profiler.kernel_bench import bench\n\n"
        + "\n".join(["# The lines that it computes:", *lines, "", ""] if lines else [])
        + f"INPUTS = {inputs!r}\nCONSTANTS = {{}}\nSUBGRAPHS = {{}}\nSIZES = {known!r}\n\n"
        'if __name__ == "__main__":\n    bench(__file__, SIZES)\n    raise SystemExit\n\n'
        f"{BEGIN}\n{print_program(emitted)}"
    )


def _type(program: Program, name: str, sizes: Sizes) -> str:
    meta = program.buffers[name].meta
    shape, strides = (tuple(number(n, sizes) for n in each) for each in (meta.shape, meta.strides))
    return str(meta.with_(shape=shape, strides=strides, requires_grad=False))


def _origins(program: Program, step: Any) -> Iterable[Any]:
    return program.kernels[step.kernel].origins if isinstance(step, Launch) else step.origins


def write_kernels(steps: Iterable[tuple[Program, Any, Sizes | None]], folder: Path) -> list[Path]:
    """One file for each, in the folder; a name that is there already gets a number."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[Path, None] = {}
    for program, step, sizes in steps:
        base, count = f"{program.name}_{step_name(step)}", 1
        while (path := folder / f"{base}{f'_{count}' if count > 1 else ''}.py") in written:
            count += 1
        path.write_text(kernel_file(program, step, sizes), encoding="utf-8")
        written[path] = None
    return list(written)


# ---- what the files call ---------------------------------------------------------------------------------------


def bench(path: str, sizes: Mapping[str, int]) -> None:
    """Build the kernel of a file, run it, and print one line."""
    if "--perf" in sys.argv[1:]:
        raise SystemExit(_counted(path))
    program, call, inputs = load(path)
    seconds = _seconds(program, lambda: call(*inputs))
    step = program.steps[0]
    found = cost(program, step, sizes)
    line = f"{program.name}: {seconds * 1e6:.2f} us"
    if found is not None and found.flops is not None:
        peaks = measured_peaks(program.device.type)
        dtype = program.buffers[program.inputs[-1]].meta.dtype.name
        line += (
            f", {found.nbytes / seconds / 1e9:.2f} GB/s ({found.nbytes} bytes), "
            f"{found.flops / seconds / 1e9:.2f} GFLOP/s ({found.flops} operations)\n"
            f"roofline: {found.intensity:.3f} operations a byte, bound by {peaks.bound(found, dtype)}; "
            f"{min(100 * peaks.least_seconds(found, dtype) / seconds, 100):.0f} % of this machine's best "
            f"({peaks.bandwidth(found.nbytes) / 1e9:.1f} GB/s for so many bytes, "
            f"{peaks.flops_of(dtype) / 1e9:.0f} GFLOP/s)"
        )
    print(line)


def _seconds(program: Program, call: Callable[[], Any]) -> float:
    return least_seconds_of(call, program.device.type, 0.3)


def _counted(path: str) -> int:
    """The file once more under the counter of its machine."""
    on_gpu = 'device("cuda' in Path(path).read_text(encoding="utf-8")
    tool = "ncu" if on_gpu else "perf"
    words = ["ncu", "--set", "full"] if on_gpu else ["perf", "stat", "-d"]
    if shutil.which(tool) is None:
        print(f"{tool} is not installed here; with it, this runs: {' '.join(words)} {sys.executable} {path}")
        return 1
    return subprocess.call([*words, sys.executable, path])
