"""One call from Python for a whole graph: the C++ `run`, its checks, its contractions, and what it falls back to.

Input: programs by hand with a unit of their own; products of random shapes and layouts against NumPy's.
"""

import numpy as np
import pytest

from stage4_runtime.runtime import plan_memory, segment_calls
from stage4_runtime.tests.programs import meta, program, sum_kernel
from stage_contracts.blas import contraction
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Launch
from stage_contracts.segments import Segment, segments


def matmul(a, b, out="c"):
    return External("matmul", (a, b), {}, (out,))


def with_product():
    """y = 1 + x, c = y @ y, z = 1 + c, then an eager kernel, then a kernel again."""
    kernels = [sum_kernel("first", "y", ["x"], 64), sum_kernel("second", "z", ["c"], 64)]
    kernels.append(sum_kernel("third", "w", ["t"], 64))
    whole = BufferRef("y", (8, 8), (8, 1), 0)
    steps = [Launch("first", kernels[0].params), matmul(whole, whole), Launch("second", kernels[1].params)]
    steps += [External("roll", (BufferRef("z"),), {}, ("t",)), Launch("third", kernels[2].params)]
    temporaries = {"y": meta(64), "c": meta(8, 8), "z": meta(64), "t": meta(64)}
    return program({"x": meta(64)}, temporaries, {"w": meta(64)}, kernels, steps, ["w"])


def test_what_needs_python_splits_the_program():
    first, roll, second = [
        s for s in segments(plan_memory(with_product())) if isinstance(s, Segment | External)
    ]
    assert (first.function, roll.target, second.function) == ("run", "roll", "run_1")
    assert first.checked == 1 and first.arrays == ("x",) and second.checked == 0
    assert [type(s).__name__ for s in first.steps if isinstance(s, Launch | External)] == [
        "Launch", "External", "Launch",
    ]  # fmt: skip


def test_segments_are_found_once_for_each_program():
    """A program that was changed has others."""
    planned = plan_memory(with_product())
    changed = planned.with_(steps=planned.steps[:-3] + planned.steps[-1:])
    assert segments(planned) is segments(planned)
    assert segments(changed) == segments(plan_memory(with_product()).with_(steps=changed.steps))
    assert segments(changed) != segments(planned)


def test_programs_without_a_kernel_stay_as_they_are():
    made = program(
        {"x": meta(8, 8)}, {}, {"c": meta(8, 8)}, [], [matmul(BufferRef("x"), BufferRef("x"))], ["c"]
    )
    planned = plan_memory(made)
    assert segments(planned) == planned.steps


def test_a_unit_without_run_goes_step_by_step():
    planned = plan_memory(with_product())
    assert segment_calls.segment_calls(planned, dict.fromkeys(planned.kernels)) == {}


@pytest.mark.parametrize(
    "shape, strides, lies",
    [
        ((4, 6), (6, 1), (False, 6)),
        ((4, 6), (1, 4), (True, 4)),
        ((4, 6), (12, 1), (False, 12)),
        ((4, 6), (1, 9), (True, 9)),
        ((1, 6), (3, 1), (False, 6)),  # one row: where the next would begin does not matter
        ((4, 1), (6, 5), (False, 6)),
        ((4, 6), (6, 2), None),  # no unit stride
        ((4, 6), (0, 1), None),  # rows that are one row
        ((4, 6), (5, 1), None),  # rows that overlap
    ],
)
def test_how_a_matrix_lies(shape, strides, lies):
    out = meta(shape[0], 5)
    buffers = {
        "x": Buffer("x", meta(1000), "input"),
        "b": Buffer("b", meta(shape[1], 5), "input"),
        "c": Buffer("c", out, "output"),
    }
    step = External("matmul", (BufferRef("x", shape, strides, 0), BufferRef("b")), {}, ("c",), into=True)
    found = contraction(step, buffers)
    assert (None if found is None else (found.a.transposed, found.a.row)) == lies


def test_the_host_is_as_expected_here():
    """If this fails, programs still run, step by step; but on this interpreter and NumPy they should not need to."""
    table = segment_calls.host_table(True)
    assert table is not None and table.dtype == np.uint64 and (table[:5] != 0).all()
    assert set(segment_calls.blas()) == {"sgemm", "dgemm", "sgemv", "dgemv"}
