"""Horizontal fusion: kernels that do the same work are rows of one table, and give what they gave apart.

Input: seeded random programs of independent chains over many shapes, integers in floats, so that every order of a sum is
exact. On a tree without the pass the counts fail: each chain is a kernel of its own.
"""

from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering import emit, fuse, lower, schedule, why_not_fused
from stage3_lowering.lowering.emit_triton import emit_triton
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, TRITON, meta_of_array, run_every_way, trace
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.graph import GraphError
from stage_contracts.kernel_tables import row_kernel, rows_apart
from stage_contracts.program import Launch, Target
from stage_contracts.program_json import program_of, record_of
from stage_contracts.program_text import parse_program, print_program
from stage_contracts.scheduler_ir import REFUSALS

CUDA = Device("cuda", 0)

# What a chain computes, of x and of a number that all chains share.
WORK = {
    "pointwise": lambda c, x, s: c.add(c.mul(x, s), c.abs(x)),
    "two results": lambda c, x, s: (c.mul(x, 2.0), c.sub(x, s)),
    "rows": lambda c, x, s: c.sum(c.mul(x, s), (x.val.ndim - 1,)),
    "columns": lambda c, x, s: c.amax(x, (0,)),
    "everything": lambda c, x, s: c.sum(x, tuple(range(x.val.ndim))),
    "a row kept": lambda c, x, s: c.sub(x, c.amax(x, (x.val.ndim - 1,), True)),
    "turned": lambda c, x, s: c.neg(c.permute(x, tuple(reversed(range(x.val.ndim))))),
    "waits": lambda c, x, s: c.neg(c.flip(c.mul(x, s), (0,))),
}
SHAPES = [(7,), (64,), (1,), (300,), (4, 5), (16, 3), (1, 9), (40, 33), (2, 3, 4)]


def random_program(seed):
    """(function, arrays): a few kinds of work, each over several shapes."""
    generator = np.random.default_rng(seed)
    chosen = generator.choice(list(WORK), generator.integers(1, 4), replace=False)
    chains = [(str(kind), SHAPES[k]) for kind in chosen
              for k in generator.integers(0, len(SHAPES), generator.integers(2, 6))]  # fmt: skip
    arrays = [np.array(3, np.float32)]
    arrays += [generator.integers(-9, 9, shape).astype(np.float32) for _, shape in chains]

    def function(c, s, *xs):
        found = [WORK[kind](c, x, s) for (kind, _), x in zip(chains, xs, strict=True)]
        return [y for ys in found for y in (ys if isinstance(ys, tuple) else (ys,))]

    return function, arrays


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seam, seed):
    function, arrays = random_program(seed)
    ways = run_every_way(seam, trace(function, *arrays), arrays)
    for way, outputs in ways.items():
        for got, wanted in zip(outputs, ways["nests"], strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=way)


@pytest.mark.parametrize("seed", range(12, 18))
def test_what_a_table_prints_and_saves_and_taken_apart(seed):
    function, arrays = random_program(seed)
    program = schedule(fuse(lower(trace(function, *arrays))), CPP)
    assert any(kernel.rows for kernel in program.kernels.values())
    text = print_program(program)
    assert print_program(parse_program(text)) == text
    record = record_of(program)
    assert record_of(program_of(record)) == record
    apart = rows_apart(program).verify()
    assert not any(kernel.rows for kernel in apart.kernels.values())
    expected = run_cpp(emit(program, CPP), arrays)
    for got, wanted in zip(run_cpp(emit(apart, CPP), arrays), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("seed", range(12, 18))
def test_triton_runs_a_table_row_by_row(seam, seed):
    """The seam's output is run, not only compiled. The pass alone, on a table, says that it takes none: it wrote a
    kernel for one row, and the launch of all rows failed only when it ran."""
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, arrays = random_program(seed)
    program = fused(function, *arrays)
    assert any(kernel.rows for kernel in program.kernels.values())
    emitted = seam("emit")(program, TRITON)
    expected = interpret_program(program, arrays)
    for got, wanted in zip(run_in_interpreter(emitted, arrays), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_table_is_refused_by_the_triton_pass_alone():
    program = fused(lambda c, x, y: (c.sum(x, (0,)), c.sum(y, (0,))), ones(8), ones(9))
    with pytest.raises(ValueError, match="table of 2 rows, and a Triton kernel takes none that reduces"):
        emit_triton(program, TRITON)


# ---- on a GPU -----------------------------------------------------------------------------------------------------

ON_GPU = {
    "momentum": lambda c, p, m, g, s: momentum(c, p, m, g, s),
    "counts": lambda c, p, m, g, s: (c.add(c.cast(p, dt.int64), 1),),
    "bools": lambda c, p, m, g, s: (c.gt(p, m), c.where(c.lt(p, s), p, g)),
    "halves": lambda c, p, m, g, s: momentum(c, *(c.cast(t, dt.float16) for t in (p, m, g)), s),
}


def momentum(c, p, m, g, s):
    moved = c.add(c.mul(m, 0.5), g)
    return c.sub(p, c.mul(moved, s)), moved


def gpu_program(kinds, shapes):
    """(program on a GPU, arrays): each kind of work over each shape, on tensors of its own."""
    draw = np.random.default_rng(len(shapes))
    arrays = [np.array(2, np.float32)]
    arrays += [draw.integers(-9, 9, s).astype(np.float32) for s in shapes for _ in range(3 * len(kinds))]

    def function(c, s, *xs):
        made = []
        for at in range(len(shapes)):
            for k, kind in enumerate(kinds):
                start = 3 * (at * len(kinds) + k)
                made += ON_GPU[kind](c, *xs[start : start + 3], s)
        return made

    metas = [meta_of_array(a).with_(device=CUDA) for a in arrays]
    return schedule(fuse(lower(trace(function, *metas))), Target("triton", CUDA, "sm_90")), arrays


GPU_SHAPES = [(), (1,), (7,), (64, 3), (1500,), (2, 3, 1000), (1500,), (1024,), (1,)]


@pytest.mark.parametrize("kinds", [("momentum",), ("counts", "bools"), ("halves", "momentum")], ids=str)
def test_a_table_is_one_launch_on_a_gpu(kinds):
    """Rows of many sizes, blocks that are not full, rows without a dimension, shared operands; in the interpreter with
    every access checked, and as PTX."""
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter

    program, arrays = gpu_program(kinds, GPU_SHAPES)
    tables = [k for k in program.kernels.values() if k.rows]
    launches = [s for s in program.steps if isinstance(s, Launch)]
    assert sum(k.rows for k in tables) + len(launches) - len(tables) == len(kinds) * len(GPU_SHAPES)
    assert len(launches) <= 4 * len(kinds)
    expected = interpret_program(program, arrays)
    emitted = emit(program, Target("triton", CUDA, "sm_90"))
    assert len([s for s in emitted.steps if isinstance(s, Launch)]) == len(launches)
    for got, wanted in zip(run_in_interpreter(emitted, arrays), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    for name, made in compile_to_ptx(emitted).items():
        assert "ld.global" in made["ptx"], name


def test_an_optimizers_step_over_200_tensors_is_a_few_launches_on_a_gpu():
    shapes = [(k % 7 + 1, k % 11 + 2) for k in range(200)]
    program, arrays = gpu_program(("momentum",), shapes)
    emitted = emit(program, Target("triton", CUDA, "sm_90"))
    assert len([s for s in emitted.steps if isinstance(s, Launch)]) == 2  # sizes that 16 divides, and others
    assert sum(kernel.rows for kernel in emitted.kernels.values()) == 200
    assert sum(len(kernel.grid["table"]) for kernel in emitted.kernels.values()) == 400


def test_loads_of_a_table_are_wide_where_all_sizes_allow_it():
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import compile_to_ptx

    for odd, wide in ((16, True), (15, False)):
        program, _ = gpu_program(
            ("momentum",), [(1600,), (2000 + odd,), (1000, 16 + odd - 16)][: 3 if wide else 2]
        )
        emitted = emit(program, Target("triton", CUDA, "sm_90"))
        found = [made["ptx"] for name, made in compile_to_ptx(emitted).items() if emitted.kernels[name].rows]
        assert all("ld.global.v4" in ptx for ptx in found) and bool(found) == wide


def test_rows_that_reduce_or_that_others_wait_for_stay_apart_on_a_gpu():
    shapes = [(5, 40), (6, 40)]
    arrays = [np.ones(s, np.float32) for s in shapes]

    def function(c, x, y):
        return [c.sum(x, (1,)), c.sum(y, (1,)), c.flip(c.mul(x, 2.0), (0,)), c.flip(c.mul(y, 2.0), (0,))]

    program = fuse(lower(trace(function, *(meta_of_array(a).with_(device=CUDA) for a in arrays))))
    assert not any(k.rows for k in program.kernels.values())


def fused(function, *arrays):
    return fuse(lower(trace(function, *arrays)))


def ones(*shape):
    return np.ones(shape, np.float32)


def test_two_hundred_updates_are_one_kernel():
    """As an optimizer's step has them: four buffers each, and numbers that all share."""

    def step(c, rate, *tensors):
        triples = zip(tensors[::3], tensors[1::3], tensors[2::3], strict=True)
        new = [(c.add(c.mul(m, 0.9), c.mul(g, 0.1)), p) for p, g, m in triples]
        return [out for m, p in new for out in (m, c.sub(p, c.mul(m, rate)))]

    shapes = [(k % 7 + 1, k % 11 + 2) for k in range(200)]
    arrays = [np.array(0.5, np.float32)] + [ones(*shape) * k for shape in shapes for k in (1, 2, 3)]
    program = fused(step, *arrays)
    (kernel,) = program.kernels.values()
    assert kernel.rows == 200 and [type(s) for s in program.steps[:-1]] == [Launch]
    emitted = emit(schedule(program, CPP), CPP)
    text, _, _ = emitted.units[0].text.partition("// ---- run")
    assert len(text.splitlines()) - len(kernel.origins) < 60  # one loop, whatever the number of rows
    first, second = (nest.name for nest in kernel.nests[:1] * 2)
    assert why_not_fused(program, first, second) == ""
    for got, shape in zip(run_cpp(emitted, arrays)[1::2], shapes, strict=True):
        np.testing.assert_allclose(got, ones(*shape) * np.float32(1 - 0.5 * (2.7 + 0.2)), rtol=1e-6)


@pytest.mark.parametrize("kind, words", [
    ("pointwise", ["#pragma omp parallel\n", "#pragma omp for simd nowait\n"]),
    ("everything", ["#pragma omp parallel for schedule(dynamic)\n"]),
])  # fmt: skip
def test_threads_share_a_table(kind, words):
    """Enough work in all: threads share the points of each row, or whole rows where these are reduced."""
    arrays = [np.array(2, np.float32), *(ones(100_000 + 1000 * k) for k in range(30))]
    program = fused(lambda c, s, *xs: [WORK[kind](c, x, s) for x in xs], *arrays)
    emitted = emit(schedule(program, CPP), CPP)
    assert len(program.kernels) == 1 and all(word in emitted.units[0].text for word in words)
    for got, x in zip(run_cpp(emitted, arrays), arrays[1:], strict=True):
        np.testing.assert_array_equal(got, 3 * x if kind == "pointwise" else np.float32(x.size))


# code of the refusal: a program in which it keeps two buffers apart
REFUSED = {
    "depth": (lambda c, x, y: c.neg(c.flip(c.neg(x), (0,))), "buf0", "buf2", 8),
    "own_threads": (lambda c, x, y: (c.sum(x, (0,)), c.sum(y, (0,))), "buf0", "buf1", 3_000_000),
    "no_shared_buffer": (lambda c, x, y: (c.exp(x), c.sin(y)), "buf0", "buf1", 8),
}


@pytest.mark.parametrize("code", REFUSED)
def test_why_not_side_by_side(code):
    function, a, b, size = REFUSED[code]
    program = fused(function, ones(size), ones(size))
    assert why_not_fused(program, a, b) == code and code in REFUSALS


def test_numbers_alone_are_not_shared():
    program = fused(lambda c, s, x, y: (c.mul(x, s), c.add(y, s)), ones(), ones(8), ones(8))
    assert why_not_fused(program, "buf0", "buf1") == "only_numbers"


def test_a_kernel_that_may_raise_stays_alone():
    where = np.zeros(4, np.int64)
    work = lambda c, x, y, k, l: (c.gather(x, 0, k), c.gather(y, 0, l))  # noqa: E731
    program = fused(work, ones(8), ones(8), where, where)
    assert why_not_fused(program, "buf0", "buf1") == "own_error"


def test_a_wrong_table_is_caught():
    program = fused(lambda c, x, y: (c.neg(x), c.neg(y)), ones(8), ones(9))
    (kernel,) = program.kernels.values()
    assert kernel.rows == 2 and row_kernel(kernel, 1).nests[0].ranges == (9,)
    for wrong in (
        replace(kernel, row_sizes={"n0": (8,)}),
        replace(kernel, columns=kernel.columns[:1]),
        replace(kernel, rows=0),
    ):
        with pytest.raises(GraphError, match="table|columns"):
            wrong.verify()
