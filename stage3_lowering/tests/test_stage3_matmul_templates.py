"""A product and what is done to its elements as one kernel: what joins, its values, and that each configuration compiles.

Input: drawn products (dtypes, layouts, batches, sizes that no tile divides) with drawn epilogues. Operands are small
multiples of a quarter, so that sums are exact in any order: the kernel must give the steps' bits. Kernels run in Triton's
interpreter, every access checked for bounds.
"""

import importlib.util
import random
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering.triton_matmul import FEW_ROWS, LARGE, SOME_ROWS, tiles_for
from stage3_lowering.tests.graphs import CPP, TRITON, configured, trace
from stage_contracts import dtype as dt
from stage_contracts.measured import answering
from stage_contracts.program import External, Launch, Target
from stage_contracts.program_json import program_of, record_of
from stage_contracts.program_text import parse_program, print_program

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
MEASURED = Target("triton", arch="sm_90", options={"max_autotune": True})
TYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def quarters(draw, *shape, dtype):
    """Multiples of a quarter from -1 to 1: products of a hundred such are sums without rounding."""
    generator = np.random.default_rng(draw.randrange(1 << 30))
    return (generator.integers(-4, 5, shape) / 4).astype(TYPES[dtype])


def scheduled(seam, function, arrays, answer=1, target=MEASURED):
    """(the program before, after); a measurement would say `answer`."""
    program = seam("fuse")(seam("lower")(trace(function, *arrays)))
    asked = []

    def fastest(question, programs):
        asked.append((question, programs))
        return answer

    with answering(fastest):
        return program, seam("schedule")(program, target).verify(), asked


def templates(program):
    return [k.template for k in program.kernels.values() if k.template]


# ---- drawn programs --------------------------------------------------------------------------------------------


def relu(c, y, bias, residual):
    return c.maximum(y, 0.0)


def bias_relu(c, y, bias, residual):
    return c.maximum(c.add(y, bias), 0.0)


def residual_added(c, y, bias, residual):
    return c.add(c.add(y, bias), residual)


def widened(c, y, bias, residual):
    return c.mul(c.cast(y, dt.float32), 3.0)


def two_results(c, y, bias, residual):
    scaled = c.mul(y, 0.5)
    return scaled, c.add(scaled, residual)


def masked(c, y, bias, residual):
    return c.where(c.gt(residual, 0.0), y, bias)


def nothing(c, y, bias, residual):
    return y


EPILOGUES = (relu, bias_relu, residual_added, widened, two_results, masked, nothing)


def drawn(seed):
    """(a function, its arrays, its epilogue's name)."""
    draw = random.Random(seed)
    dtype = draw.choice(sorted(TYPES))
    batch = draw.choice(((), (), (2,), (3,), (2, 2)))
    m, n, k = (
        draw.choice((1, 5, 16, 33, 70, 130)),
        draw.choice((16, 40, 64, 130)),
        draw.choice((16, 24, 64, 100)),
    )
    turned = draw.random() < 0.4, draw.random() < 0.4
    a = quarters(draw, *batch, *((k, m) if turned[0] else (m, k)), dtype=dtype)
    shared = batch and draw.random() < 0.3  # one matrix for all points of the batch
    b = quarters(draw, *(() if shared else batch), *((n, k) if turned[1] else (k, n)), dtype=dtype)
    bias = quarters(draw, n, dtype=dtype)
    residual = quarters(draw, *batch, m, n, dtype=dtype)
    epilogue = EPILOGUES[seed % len(EPILOGUES)]

    spread = lambda c, y: c.expand(c.reshape(y, (*(1,) * len(batch), k, n)), (*batch, k, n))  # noqa: E731
    return multiplied(turned, epilogue, spread if shared else None), [a, b, bias, residual]


def multiplied(turned, epilogue, spread=None):
    """A product of x and y, either lying transposed in memory, and what follows it."""

    def function(c, x, y, z, w):
        last = lambda t: (*range(len(t.val.shape) - 2), len(t.val.shape) - 1, len(t.val.shape) - 2)  # noqa: E731
        x = c.permute(x, last(x)) if turned[0] else x
        y = c.permute(y, last(y)) if turned[1] else y
        return epilogue(c, c.matmul(x, spread(c, y) if spread else y), z, w)

    return function


@needs_triton
@pytest.mark.parametrize("seed", range(28))
def test_drawn_products_have_the_bits_of_the_steps(seam, seed):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, arrays = drawn(seed)
    program, after, asked = scheduled(seam, function, arrays)
    assert templates(after) == ["matmul"] and len(asked) == 1
    assert [type(step) for step in after.steps[:-1]] == [Launch]
    want = interpret_program(program, arrays)
    for meant, one in zip(interpret_program(after, arrays), want, strict=True):  # what the kernel's nests say
        assert np.array_equal(meant, one)
    first, *others = configured(seam("emit")(after, MEASURED))
    for emitted in (first, others[seed % len(others)]):
        for got, one in zip(run_in_interpreter(emitted, arrays), want, strict=True):
            assert got.dtype == one.dtype and np.array_equal(np.asarray(got), one)


@needs_triton
@pytest.mark.parametrize("seed", range(7))
def test_both_ways_that_are_measured_compute_the_same(seam, seed):
    function, arrays = drawn(seed)
    _, _, ((_, ways),) = scheduled(seam, function, arrays, answer=0)
    assert ways[0].inputs == ways[1].inputs
    assert isinstance(ways[0].steps[0], External) and templates(ways[1]) == ["matmul"]
    order = [("x", "y", "z", "w").index(name) for name in ways[0].inputs]
    given = [arrays[k] for k in order]
    finished = [seam("schedule")(way, MEASURED) for way in ways]
    first, second = (interpret_program(way, given) for way in finished)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert [templates(way) for way in finished] == [[], ["matmul"]], "nobody answers here, so nothing changes"


# ---- what joins -------------------------------------------------------------------------------------------------


def half_arrays(*shapes):
    draw = random.Random(0)
    return [quarters(draw, *shape, dtype="float16") for shape in shapes]


def test_what_the_measurement_says_decides(seam):
    function, arrays = drawn(1)
    _, kept, asked = scheduled(seam, function, arrays, answer=0)
    assert not templates(kept) and len(asked) == 1


@pytest.mark.parametrize("target", [CPP, TRITON, Target("triton", arch="sm_90")])
def test_nothing_is_asked_where_nothing_is_measured(seam, target):
    function, arrays = drawn(1)
    _, kept, asked = scheduled(seam, function, arrays, target=target)
    assert not asked and not templates(kept)


def read_twice(c, x, y):
    made = c.matmul(x, y)
    return c.maximum(made, 0.0), c.sum(made, (0,), False)


def returned(c, x, y):
    made = c.matmul(x, y)
    return made, c.maximum(made, 0.0)


def reduced(c, x, y):
    return c.sum(c.matmul(x, y), (0,), False)  # columns, which tiles cut


@pytest.mark.parametrize("function", [read_twice, returned, reduced])
def test_a_product_that_others_need_is_measured_alone(seam, function):
    arrays = half_arrays((40, 32), (32, 40))
    program, after, _ = scheduled(seam, function, arrays)
    (kernel,) = [k for k in after.kernels.values() if k.template]
    assert len(kernel.nests) == 1 and len(after.steps) == len(program.steps)
    for got, want in zip(interpret_program(after, arrays), interpret_program(program, arrays), strict=True):
        assert np.array_equal(got, want)


def test_a_result_may_be_stored_the_other_way_round(seam):
    arrays = half_arrays((40, 32), (32, 48))
    turned = lambda c, x, y: c.add(c.permute(c.matmul(x, y), (1, 0)), 1.0)  # noqa: E731
    program, after, _ = scheduled(seam, turned, arrays)
    assert [type(step) for step in after.steps[:-1]] == [Launch]
    assert np.array_equal(interpret_program(after, arrays)[0], interpret_program(program, arrays)[0])


def test_float32_and_short_products_stay(seam):
    function = lambda c, x, y: c.maximum(c.matmul(x, y), 0.0)  # noqa: E731
    for arrays in (
        [a.astype(np.float32) for a in half_arrays((40, 32), (32, 40))],
        half_arrays((40, 8), (8, 40)),
    ):
        assert not scheduled(seam, function, arrays)[2]


def test_a_kernel_that_reads_two_products_joins_the_later_one(seam):
    gated = lambda c, x, y, z: c.mul(c.maximum(c.matmul(x, y), 0.0), c.matmul(x, z))  # noqa: E731
    arrays = half_arrays((40, 32), (32, 48), (32, 48))
    program, after, _ = scheduled(seam, gated, arrays)
    assert sorted(len(k.nests) for k in after.kernels.values()) == [1, 2]
    assert len(after.steps) == len(program.steps) - 1
    assert np.array_equal(interpret_program(after, arrays)[0], interpret_program(program, arrays)[0])


def test_layers_that_are_alike_ask_alike(seam):
    def layers(c, x, y, z):
        return c.maximum(c.matmul(c.maximum(c.matmul(x, y), 0.0), z), 0.0)

    _, after, asked = scheduled(seam, layers, half_arrays((40, 32), (32, 32), (32, 32)))
    assert len(asked) == 2 and len({question for question, _ in asked}) == 1
    assert len(seam("emit")(after, MEASURED).units) == 1, "and are one kernel"


def test_a_users_names_are_not_the_templates(seam):
    graph = trace(lambda c, x, y: c.maximum(c.matmul(x, y), 0.0), *half_arrays((40, 32), (32, 40)))
    lowered = seam("lower")(graph)
    with answering(lambda question, ways: 1):
        program = seam("schedule")(seam("fuse")(lowered), MEASURED)
    (unit,) = seam("emit")(program, MEASURED).units
    assert "    x_ptr,\n" in unit.text and "left = tl.load(x_ptr" in unit.text


def test_the_program_prints_and_is_saved_with_its_configurations(seam):
    function, arrays = drawn(1)
    emitted = seam("emit")(scheduled(seam, function, arrays)[1], MEASURED)
    assert emitted.units[0].alternatives
    assert parse_program(print_program(emitted)).units == emitted.units
    assert program_of(record_of(emitted)).units == emitted.units


# ---- compiled ---------------------------------------------------------------------------------------------------


def test_tiles_fit_in_shared_memory_and_follow_the_sizes():
    assert tiles_for(1, 4096, 4096, 2, "sm_90")[0] in FEW_ROWS
    assert tiles_for(64, 4096, 4096, 2, "sm_90")[0] in SOME_ROWS
    assert tiles_for(4096, 4096, 4096, 2, "sm_90")[0] == LARGE[0]
    for arch, bytes_ in (("sm_80", 166_912), ("sm_86", 101_376), ("sm_90", 232_448)):
        for tiles in tiles_for(4096, 4096, 4096, 2, arch):
            assert 2 * tiles.k * (tiles.m + tiles.n) * tiles.stages <= bytes_
    assert all(tiles.n <= 16 for tiles in tiles_for(4096, 16, 4096, 2, "sm_90"))


@needs_triton
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("rows", [8, 64, 512])
def test_each_configuration_compiles(seam, arch, rows):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    function = lambda c, x, y, z: c.maximum(c.add(c.matmul(x, y), z), 0.0)  # noqa: E731
    arrays = half_arrays((rows, 256), (256, 512), (512,))
    target = replace(MEASURED, arch=f"sm_{arch}")
    _, after, _ = scheduled(seam, function, arrays, target=target)
    words = set()
    for one in configured(seam("emit")(after, target)):
        ((name, made),) = compile_to_ptx(one, arch).items()
        words |= {word for word in ("wgmma", "tcgen05", "mma.sync") if word in made["ptx"]}
    assert words & {"wgmma", "tcgen05", "mma.sync"}
    if (arch, rows) == (90, 512):
        assert "wgmma" in words
