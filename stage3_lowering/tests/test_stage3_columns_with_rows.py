"""Sums over columns beside rows in one Triton kernel: where they are, where not, and that both are right.

Input: gradients as those of a norm, with rows that fill a block and rows that do not. Kernels run in Triton's
interpreter, every access checked for bounds, and are compiled to PTX for three architectures.
"""

import importlib.util

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering.columns_with_rows import TEMPLATE, columns_with_rows
from stage3_lowering.tests.graphs import CPP, TRITON, trace
from stage_contracts.program import Launch
from stage_contracts.program_text import parse_program, print_program

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)


@pytest.fixture(autouse=True)
def short_rows_too(monkeypatch):
    monkeypatch.setattr("stage3_lowering.lowering.columns_with_rows.FEWEST_COLUMNS", 8)


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def by_rows(c, x, g, w):
    """A row's own numbers, less what its product with the other says."""
    y = c.mul(g, w)
    return c.sub(y, c.mul(x, c.sum(c.mul(x, y), (1,), True)))


def norm(c, x, g, w):
    return by_rows(c, x, g, w), c.sum(c.mul(c.mul(x, g), 0.5), (0,))


def norm_columns_first(c, x, g, w):
    columns = c.sum(c.mul(c.mul(x, g), 0.5), (0,))
    return columns, by_rows(c, x, g, w)


def two_sums(c, x, g, w, m):
    """As a layer norm's, of which one takes a number of each row."""
    return by_rows(c, x, g, w), c.sum(g, (0,)), c.sum(c.mul(g, c.sqrt(c.exp(m))), (0,))


def numpy_norm(x, g, w):
    y = g * w
    return y - x * (x * y).sum(1, keepdims=True), (x * g * 0.5).sum(0)


def numpy_two_sums(x, g, w, m):
    return numpy_norm(x, g, w)[0], g.sum(0), (g * np.sqrt(np.exp(m))).sum(0)


JOINED = {
    "whole blocks": (norm, numpy_norm, (256, 64)),
    "a row and a bit": (norm, numpy_norm, (320, 96)),
    "an odd number of rows": (norm, numpy_norm, (375, 80)),
    "columns first": (norm_columns_first, lambda *a: numpy_norm(*a)[::-1], (256, 64)),
    "two sums": (two_sums, numpy_two_sums, (256, 72)),
}


def scheduled(seam, function, shape, target=TRITON):
    arrays = [values(*shape), values(*shape, seed=1), values(shape[1], seed=2), values(shape[0], 1, seed=3)]
    arrays = arrays[: function.__code__.co_argcount - 1]
    program = seam("fuse")(seam("lower")(trace(function, *arrays)))
    return arrays, program, seam("schedule")(program, target)


def templates(program):
    return [kernel.template for kernel in program.kernels.values() if kernel.template]


@needs_triton
@pytest.mark.parametrize("name", JOINED)
def test_one_kernel_reads_the_rows(seam, name):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, numpy, shape = JOINED[name]
    arrays, _, program = scheduled(seam, function, shape)
    assert templates(program) == [TEMPLATE]
    emitted = seam("emit")(program, TRITON)
    wanted = numpy(*[a.astype(np.float64) for a in arrays])
    for got, interpreted, want in zip(
        run_in_interpreter(emitted, arrays), interpret_program(program, arrays), wanted, strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-4)
        np.testing.assert_allclose(interpreted, want, rtol=2e-5, atol=2e-4)


def test_short_rows_stay_apart(seam, monkeypatch):
    monkeypatch.setattr("stage3_lowering.lowering.columns_with_rows.FEWEST_COLUMNS", 65)
    _, _, program = scheduled(seam, norm, (256, 64))
    assert templates(program) == []


@needs_triton
@pytest.mark.parametrize("arch", [80, 90, 100])
def test_it_compiles_without_spilled_registers(seam, arch):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    _, _, program = scheduled(seam, two_sums, (256, 72))
    made = compile_to_ptx(seam("emit")(program, TRITON), arch).values()
    assert all(f".target sm_{arch}" in one["ptx"] and "ld.local" not in one["ptx"] for one in made)


def of_the_result(c, x, g, w):
    rows = by_rows(c, x, g, w)
    return rows, c.sum(rows, (0,))


def of_a_row_result(c, x, g, w):
    return by_rows(c, x, g, w), c.sum(c.mul(g, c.sum(x, (1,), True)), (0,))


def of_other_matrices(c, x, g, w):
    return c.div(x, c.sum(x, (1,), True)), c.sum(c.exp(c.mul(g, w)), (0,))


def largest(c, x, g, w):
    return by_rows(c, x, g, w), c.amax(c.mul(x, g), (0,))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (of_the_result, (512, 64)),
        (of_a_row_result, (512, 64)),
        (of_other_matrices, (512, 64)),
        (largest, (512, 64)),
        (norm, (128, 64)),
    ],
    ids=["of the rows' result", "of a row's result", "of other matrices", "no sum", "too few rows"],
)
def test_what_stays_apart(seam, function, shape):
    arrays, program, on_gpu = scheduled(seam, function, shape)
    assert not templates(on_gpu)
    for got, want in zip(interpret_program(on_gpu, arrays), interpret_program(program, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_it_prints_and_reads_back_and_the_cpu_has_none(seam):
    _, _, program = scheduled(seam, norm, (512, 64))
    text = print_program(program)
    assert f'template="{TEMPLATE}"' in text and print_program(parse_program(text)) == text
    assert columns_with_rows(program, TRITON) is program
    launches = [step.kernel for step in program.steps if isinstance(step, Launch)]
    assert launches[0].endswith("_and_columns") and len(launches) >= 2
    assert not templates(scheduled(seam, norm, (512, 64), CPP)[2])
