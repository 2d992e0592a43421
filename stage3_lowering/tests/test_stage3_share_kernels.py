"""Kernels equal up to names are written once; what differs in anything else stays apart."""

import numpy as np
import pytest

from stage3_lowering.lowering import emit, fuse, lower, schedule
from stage3_lowering.lowering.emit_cpp import emit_cpp
from stage3_lowering.lowering.share_kernels import share_kernels
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, trace
from stage3_lowering.tests.programs import layer_norm
from stage_contracts import config
from stage_contracts.dtype import int32


def layers(c, x, *rows):
    """Layer norms with a product between them, so that each is a kernel of its own."""
    for weight, bias in zip(rows[::2], rows[1::2], strict=True):
        x = c.matmul(layer_norm(c, x, weight, bias), x)
    return x


def program_of(function, *arrays):
    return fuse(lower(trace(function, *arrays)))


def test_layers_share_a_kernel():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((16, 16)).astype(np.float32)
    rows = [generator.standard_normal(16).astype(np.float32) for _ in range(6)]
    program = program_of(layers, x, *rows)
    shared = share_kernels(program).verify()
    assert (len(program.kernels), len(shared.kernels)) == (3, 1)
    expected = run_cpp(emit_cpp(program, CPP), [x, *rows])
    for got, wanted in zip(run_cpp(emit(shared, CPP), [x, *rows]), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_schedule_that_names_buffers_hinders_no_sharing():
    def twice(c, x):
        def rows(x):
            e = c.exp(c.sub(x, c.amax(x, (1,), True)))
            return c.div(e, c.sum(e, (1,), True))

        return rows(c.flip(rows(x), (0,)))  # a call between them

    wide = np.random.default_rng(1).standard_normal((6, 1100), np.float32)
    program = schedule(program_of(twice, wide), CPP)
    named = [k.schedule.prefetch for k in program.kernels.values()]
    assert len(set(named)) == len(named) == 2 and all(named)
    assert len(share_kernels(program).verify().kernels) == 1


X = np.ones((8, 8), np.float32)


@pytest.mark.parametrize(
    "first, second, kept",
    [
        (lambda c, x: c.sin(x), lambda c, x: c.sin(x), 1),
        (lambda c, x: c.sin(x), lambda c, x: c.cos(x), 2),
        (lambda c, x: c.add(x, 1.0), lambda c, x: c.add(x, 2.0), 2),
        (lambda c, x: c.add(x, 0.0), lambda c, x: c.add(x, -0.0), 2),
        (lambda c, x: c.sub(x, 1.0), lambda c, x: c.sub(1.0, x), 2),
        (lambda c, x: c.sum(x, (0,)), lambda c, x: c.sum(x, (1,)), 2),
        (lambda c, x: c.add(c.permute(x, (1, 0)), x), lambda c, x: c.add(x, x), 2),
        (lambda c, x: c.cast(x, int32), lambda c, x: c.sin(x), 2),
    ],
)
def test_what_makes_kernels_the_same(first, second, kept):
    def one_after_the_other(c, x):
        y = first(c, x)
        return second(c, c.matmul(x, x)), y

    # fused, equal ones that need not wait are rows of one table
    with config.patch({"lowering.fusion": False}):
        program = program_of(one_after_the_other, X)
    assert len(program.kernels) == 2
    assert len(share_kernels(program).kernels) == kept
