"""What a kernel's file calls: build the kernel, run it on inputs made here, and say what it reaches.

Input: the path of a file of kernel_files.py. A place on the roofline is what the kernel reaches of what this machine
allows, by memory or by arithmetic, whichever takes longer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cutaway.debug.run_alone import load
from cutaway.profiler.costs import cost
from cutaway.profiler.peaks import least_seconds_of, measured_peaks
from stage_contracts.program import Program


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
