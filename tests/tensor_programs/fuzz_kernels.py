"""Random tensor programs as kernels: fused = unfused = eager, in buffers filled with what no program computes.

Input: the same programs as fuzz.py's. `python -m tests.tensor_programs.fuzz_kernels --programs 20000 --report FILE`.
Loop nests of every program are interpreted one by one and fused, these in the pool as planned, where each element that
nobody wrote is 77. A share runs as C++, step by step, with freed memory overwritten; another one unfused.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from cutaway import inductor
from cutaway.artifacts import HalfArtifacts
from stage3_lowering.interpret import interpret_lowered, interpret_program
from stage_contracts.device import Device
from stage_contracts.graph import Graph
from stage_contracts.pipeline import Pipeline
from stage_contracts.program import Target
from stage_contracts.tests.many_programs import main
from tests.tensor_programs.compare import Differs, check
from tests.tensor_programs.family import Family, Way, fuzzer
from tests.tensor_programs.grammar import TensorProgram, write_program

NESTS = ("inductor", {"runtime.cache": False, "autograd.partitioner": "min_cut"})
POISONED = ("inductor", {**NESTS[1], "runtime.poison": True})
UNFUSED = ("inductor", {**POISONED[1], "lowering.fusion": False, "runtime.cxx_flags": "-O0"})
CPP_EVERY = 20
LABELS = {str(NESTS): "nests", str(POISONED): "C++, poisoned", str(UNFUSED): "C++, unfused, poisoned"}


def ways(seed: int, program: TensorProgram) -> list[Way]:
    built = {1: [POISONED], 11: [UNFUSED]}
    return [NESTS, *built.get(seed % CPP_EVERY, [])]


def interpreted(core: Graph, device: Device, pipeline: Pipeline, *rest: Any) -> Callable[[], HalfArtifacts]:
    """What lower_and_build gives, with nests and the fused program interpreted in place of the kernels."""
    half = HalfArtifacts(core, pipeline, Target("cpp"))

    def run(*arrays: Any) -> tuple[Any, ...]:
        unfused = interpret_lowered(half.lowered, arrays)
        fused = interpret_program(half.planned, arrays, constants=half.lowered.constants)
        for k, (one, other) in enumerate(zip(unfused, fused, strict=True)):
            if not alike(one, other):
                raise Differs(f"fused is not unfused: output {k} of {core.name}: {one!r}, not {other!r}")
        return fused

    half.run = run
    return lambda: half


def alike(one: Any, other: Any) -> bool:
    """Equal but for roundings: a sum may be cut in other parts. NaN is equal to NaN."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind not in "fcV":  # V: bfloat16
        return np.array_equal(one, other)
    near = 1e-5 if one.dtype.itemsize >= 4 else 2e-2
    with np.errstate(all="ignore"):
        return np.allclose(one.astype(np.complex128), other.astype(np.complex128), near, near, equal_nan=True)


def check_kernels(program: TensorProgram, way: Way) -> Counter:
    if way != NESTS:
        return check(program, way)
    with mock.patch.object(inductor, "lower_and_build", interpreted):
        return check(program, way)


def label(way: Way) -> str:
    return LABELS.get(str(way), way[0])


FAMILY = Family(
    "Random tensor programs as kernels: fused, unfused and eager, with poisoned buffers",
    "make fuzz-kernels",
    write_program,
    ways,
    check_kernels,
    tuple(LABELS.values()),
    "three calls each",
    label,
)

if __name__ == "__main__":
    sys.exit(main(fuzzer(FAMILY)))
