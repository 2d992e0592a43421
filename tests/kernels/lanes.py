"""Asks GCC which loops of a generated unit it made lanes of: its vectoriser's report, by the lines of the unit.

Input: the text of a unit. Asked is of each loop behind a `#pragma omp simd`: stage 3 says that its lanes are right.
"""

from __future__ import annotations

import re
import subprocess
from bisect import bisect
from pathlib import Path

from stage4_runtime.runtime.compiler import LEFT_OUT, find_compiler
from stage4_runtime.runtime.vector_math import vector_math_flags
from stage_contracts import config

# What GCC says of a loop of which it made lanes, or a call of memset or memcpy.
DONE = ("loop vectorized", "library calls")


def loops_of(text: str, folder: Path) -> dict[str, bool]:
    """Each loop of a unit, and whether it has lanes."""
    kernel = text.partition("// ---- run")[0]  # the function that runs all has loops of its own
    for row in re.findall(r"cutaway::Row<\w+> (\w+)\(", kernel):  # in its operator GCC would say to be
        kernel = kernel.replace(f"{row}[", f"{row}.start[")
    (folder / "unit.cpp").write_text(kernel)
    flags = config.current().runtime.cxx_flags.replace("-march=native", "-march=x86-64-v4").split()
    flags += [*LEFT_OUT, *vector_math_flags(kernel), "-std=c++17", "-c", "-o", "/dev/null"]
    flags += ["-fopt-info-vec-optimized", "-fopt-info-loop-optimized"]
    said = subprocess.run(
        [*find_compiler().command, *flags, str(folder / "unit.cpp")],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    lines = kernel.splitlines()
    loops = [k + 2 for k, line in enumerate(lines) if "omp" in line and "simd" in line]  # behind the pragma
    found = set()
    for line in said.splitlines():
        if loops and any(word in line for word in DONE):
            at = int(line.split(":")[1])  # a line of the loop; of a nest of loops, one that stands before it
            place = bisect(loops, at) - ("Loop nest" not in line)
            found |= {*loops[max(place, 0) :][:1]} if at >= loops[0] or "Loop nest" in line else set()
    return {_loop(lines[at - 1 :]): at in found for at in loops}


def _loop(lines: list[str]) -> str:
    """The loop that these lines begin with."""
    depth = 0
    for count, line in enumerate(lines, 1):
        depth += line.count("{") - line.count("}")
        if not depth:
            return "\n".join(lines[:count])
    return "\n".join(lines)
