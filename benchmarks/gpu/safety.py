"""What a GPU's kernels may not do: touch memory that is not theirs, or leave a process unusable when memory is out.

Input: a machine with an NVIDIA GPU, CuPy and Triton; compute-sanitizer, where it is installed. The programs are those
of rows.py, with at most 300 of each size. Usage, from the root:
    python3 benchmarks/gpu/safety.py > reports/gpu-safety.txt
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import cutaway.nn.functional as F  # noqa: E402

import cutaway  # noqa: E402
from benchmarks.gpu.measure import calls, inputs  # noqa: E402
from benchmarks.gpu.rows import ROWS, Row  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402

MOST = 300  # of a size: masks cut the last block of nearly all kernels
HUGE = 250_000  # rows and columns of float32: 250 GB


def small(row: Row) -> Row:
    """The row with at most MOST of each size."""
    return replace(row, inputs=tuple(_smaller(one) for one in row.inputs))


def _smaller(size: object) -> object:
    return tuple(map(_smaller, size)) if isinstance(size, tuple) else min(size, MOST)  # type: ignore[type-var]


def run_all() -> None:
    """Each program, forward and backward; compute-sanitizer watches this process."""
    for row in ROWS:
        if len(row.inputs) > 4:
            continue  # a model's sizes depend on one another
        cutaway.manual_seed(0)
        given = inputs(cutaway, small(row))
        function = lambda *tensors, row=row: row.function(cutaway, F, *tensors)  # noqa: E731
        calls(row, cutaway, F, cutaway.compile(function, fullgraph=True), given)()
        print(f"ran {row.name}", flush=True)


def sanitized() -> bool:
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not installed: not run")
        return True
    good = True
    for check in ("memcheck",):  # racecheck is forty times slower: not within ten minutes
        ran = subprocess.run(
            [tool, "--tool", check, "--target-processes", "application-only", sys.executable, __file__, "run"],
            capture_output=True, text=True, check=False, timeout=400,
        )  # fmt: skip
        lines = ran.stdout.splitlines()
        summary = next((line.strip("= ") for line in lines if "SUMMARY" in line), "no summary")
        ran_rows = sum(line.startswith("ran ") for line in lines)
        clean = ran.returncode == 0 and re.search(r"\b0 errors", summary) is not None
        good &= clean
        print(
            f"{'ok  ' if clean else 'FAIL'} compute-sanitizer, {check}: {ran_rows} programs; {summary}",
            flush=True,
        )
        if not clean:
            print("\n".join([*lines[-30:], ran.stderr[-1500:]]))
    return good


def outer(x: object, y: object, z: object) -> object:
    return (x[:, None] * y[None, :]) @ z  # type: ignore[index]


def out_of_memory() -> bool:
    """A product that no GPU holds: what is said, and whether the next call works."""
    compiled = cutaway.compile(outer)
    large = [cutaway.ones(HUGE, device="cuda") for _ in range(3)]
    try:
        compiled(*large)
        said = ""
    except Exception as error:  # CuPy's class, with advice beside it
        said = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    few = [cutaway.ones(8, device="cuda") for _ in range(3)]
    works = compiled(*few).tolist() == [8.0] * 8
    good = "safety.py" in said and works
    print(f"{'ok  ' if good else 'FAIL'} out of memory is said, with the largest buffers and their lines; "
          f"the next call {'works' if works else 'fails'}:")  # fmt: skip
    print("\n".join(f"     {line}"[:150] for line in said.splitlines()))
    return good


def main() -> None:
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(
        heading(
            "Kernels under compute-sanitizer, and memory that is out",
            "make gpu",
            0,
            "cupy",
            "triton",
            more=device,
        )
    )
    good = out_of_memory()
    good = sanitized() and good
    print("all hold" if good else "some failed")
    sys.exit(not good)


if __name__ == "__main__":
    run_all() if sys.argv[1:] == ["run"] else main()
