"""The ways a row is run, each beside eager: C++ of several compilers and vector widths, Triton's interpreter, recomputed.

Input: a row of rows.py and how many elements. `difference` gives "" or the first bits that differ.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from cutaway.utils.checkpoint import checkpoint

import cutaway as ct
from stage_contracts import config
from stage_contracts.program import Program, SourceUnit, Target
from tests.random_bits.rows import IN_EAGER, ROWS

FLAGS = "-O3 -fopenmp -fno-math-errno -fno-trapping-math"
WIDTHS = {
    "SSE": "-march=x86-64",
    "AVX2": "-march=x86-64-v3",
    "AVX-512": "-march=x86-64-v4",
}  # v3, v4 have fma
BLOCK = 1 << 20  # of Triton's interpreter, which takes a time per program; Triton allows no more
SEED = 3
EAGER_PARTS = [ROWS[name] for name in IN_EAGER]


def has_width(width: str) -> bool:
    """Whether this machine runs code of that width."""
    flag = {"SSE": "sse2", "AVX2": "avx2", "AVX-512": "avx512vl"}[width]
    try:
        return flag in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return width == "SSE"


def builds() -> dict[str, dict[str, str]]:
    """C++ builds this machine has, as configuration."""
    found = [
        (cxx, width)
        for cxx in ("g++", "clang++")
        if shutil.which(cxx)
        for width in WIDTHS
        if has_width(width)
    ]
    made = {f"{cxx} {width}": {"cxx": cxx, "cxx_flags": f"{FLAGS} {WIDTHS[width]}"} for cxx, width in found}
    # clang's own OpenMP runtime is a package apart; without it one thread does
    return {
        k: v | ({"cxx_flags": v["cxx_flags"].replace(" -fopenmp", "")} if "clang" in k else {})
        for k, v in made.items()
    }


def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def triton_pipeline() -> Any:
    """The default pipeline, whose kernels are Triton's, run by Triton's interpreter on NumPy arrays."""
    from stage3_lowering.lowering import triton_blocks
    from stage3_lowering.triton_interpreter import run_in_interpreter

    def emit(program: Program, target: Target) -> Program:
        before = triton_blocks.POINTWISE, triton_blocks.REDUCED
        triton_blocks.POINTWISE = triton_blocks.REDUCED = BLOCK
        try:
            return ct.DEFAULT_PIPELINE.emit(program, Target("triton", target.device, "sm_90"))
        finally:
            triton_blocks.POINTWISE, triton_blocks.REDUCED = before

    def build(unit: SourceUnit) -> Mapping[str, Any]:
        return dict.fromkeys(unit.kernels)

    def launch(
        program: Program, kernels: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> Callable[..., tuple]:
        return lambda *arrays: run_in_interpreter(program, arrays, constants=constants)

    return replace(ct.DEFAULT_PIPELINE, emit=emit, build=build, launch=launch)


def drawn(function: Callable[[], Any]) -> np.ndarray:
    ct.manual_seed(SEED)
    return function().numpy()


@lru_cache(maxsize=2)
def in_eager(row: Callable[[int], Any], n: int) -> np.ndarray:
    return drawn(lambda: row(n))


def compiled(row: Callable[[int], Any], n: int, **options: Any) -> Sequence[np.ndarray]:
    """What the compiled program draws: at first, and when it is called again from the same seed."""
    ct.compiler.reset()  # no entry of an earlier way is found, and no limit reached
    program = ct.compile(lambda: row(n), fullgraph=row not in EAGER_PARTS, **options)
    draws = [drawn(program), drawn(program)]
    assert row in EAGER_PARTS or program.artifacts, "it was not compiled"
    return draws


def recomputed(row: Callable[[int], Any], n: int, run: Callable[[Callable], Callable]) -> np.ndarray:
    """The draws as a backward pass that computes them again sees them: the gradient of x * draws."""
    ct.compiler.reset()
    x = ct.ones(in_eager(row, n).shape, dtype=ct.float64, requires_grad=True)

    def program(x: Any) -> Any:
        return checkpoint(lambda x: x * row(n).to(ct.float64), x, use_reentrant=False)

    ct.manual_seed(SEED)
    run(program)(x).sum().backward()
    return x.grad.numpy()


def difference(found: np.ndarray, wanted: np.ndarray) -> str:
    """Where two arrays have other bits; "" where they have none."""
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    bits = [np.ascontiguousarray(a).reshape(-1).view(f"u{a.itemsize}") for a in (found, wanted)]
    other = np.flatnonzero(bits[0] != bits[1])
    if not other.size:
        return ""
    place = other[0]
    first = f"{found.reshape(-1)[place]!r} instead of {wanted.reshape(-1)[place]!r} at {place}"
    return f"{other.size} of {found.size} differ, the first is {first}"


def ways(names: Sequence[str] | None = None) -> dict[str, Callable[[Callable, int], str]]:
    """Way -> (row, n) -> what differs."""
    found: dict[str, Callable[[Callable, int], str]] = {}

    def beside_eager(run: Callable[[Callable, int], Sequence[np.ndarray]]) -> Callable[[Callable, int], str]:
        def check(row: Callable, n: int) -> str:
            wanted = in_eager(row, n)
            return next((d for got in run(row, n) if (d := difference(got, wanted))), "")

        return check

    def in_build(settings: dict[str, str]) -> Callable:
        def run(row: Callable, n: int) -> Sequence[np.ndarray]:
            with config.patch(**settings):
                return compiled(row, n)

        return run

    def again(wrap: Callable[[Callable], Callable]) -> Callable[[Callable, int], str]:
        def check(row: Callable, n: int) -> str:
            wanted = in_eager(row, n).astype(np.float64)
            return difference(recomputed(row, n, wrap), wanted)

        return check

    found["aot_eager"] = beside_eager(lambda row, n: compiled(row, n, backend="aot_eager"))
    found["C++ as configured"] = beside_eager(compiled)
    found |= {name: beside_eager(in_build(settings)) for name, settings in builds().items()}
    if has_triton():
        found["Triton interpreter"] = beside_eager(
            lambda row, n: compiled(row, n, pipeline=triton_pipeline())
        )
    found["recomputed in eager"] = again(lambda f: f)
    found["recomputed in C++"] = again(lambda f: ct.compile(f))
    return {name: found[name] for name in names} if names is not None else found
