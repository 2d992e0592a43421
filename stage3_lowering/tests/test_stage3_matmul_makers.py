"""A product whose kernel makes its operands, and one whose kernel reduces its rows: what joins, and what it computes.

Input: drawn products (dtypes, layouts, batches, sizes that no tile divides), each operand made by a drawn function, with
drawn epilogues. All numbers are small multiples of a power of two, so that sums are exact in any order: every way must
give the steps' bits.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering.attention import product_of
from stage3_lowering.lowering.matmul_makers import makers_of
from stage3_lowering.lowering.step_uses import step_uses
from stage3_lowering.lowering.triton_attention import shared_of
from stage3_lowering.lowering.triton_matmul import matmul_source
from stage3_lowering.tests.graphs import configured, trace
from stage3_lowering.tests.test_stage3_matmul_split import TF32
from stage3_lowering.tests.test_stage3_matmul_templates import (
    EPILOGUES,
    MEASURED,
    TYPES,
    half_arrays,
    needs_triton,
    quarters,
    scheduled,
    templates,
)
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.measured import answering
from stage_contracts.program import Kernel, Launch
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

HALVES = {"bfloat16": dt.bfloat16, "float16": dt.float16}

# ---- what makes an operand: (c, the operand, a row as long as its rows, its dtype) -> the operand ---------------


def same(c, t, row, dtype):
    return t


def relu(c, t, row, dtype):
    return c.maximum(t, 0.0)


def shifted(c, t, row, dtype):
    return c.add(t, 0.5)  # of nothing it is something


def scaled(c, t, row, dtype):
    return c.mul(t, row)


def inverse(c, t, row, dtype):
    return c.div(c.add(c.mul(c.cast(c.gt(t, 0.0), dtype), 2.0), -1.0), c.abs(t))


def rounded_twice(c, t, row, dtype):
    """t: each factor is rounded away, but not both at once."""
    once = c.cast(c.mul(c.cast(t, dt.float32), 1.0 + 2.0**-12), dtype)
    return c.cast(c.mul(c.cast(once, dt.float32), 1.0 + 2.0**-12), dtype)


def by_place(c, t, row, dtype):
    return c.where(c.gt(row, 0.0), t, 1.0)


MAKERS = (same, relu, shifted, scaled, rounded_twice, by_place)
STORED = {"as it is": lambda c, t, dtype: t, "float32": lambda c, t, dtype: c.cast(t, dtype),
          "int8": lambda c, t, dtype: c.mul(c.cast(t, dtype), 0.25)}  # fmt: skip


def drawn(seed):
    """(a function, its arrays): f(x) @ g(y), each of a drawn dtype and layout, and an epilogue."""
    draw = random.Random(seed)
    name = draw.choice(sorted(TYPES))
    dtype, batch = HALVES[name], draw.choice(((), (), (2,), (2, 2)))
    m, n, k = draw.choice((1, 5, 16, 33, 70)), draw.choice((16, 40, 64)), draw.choice((16, 24, 64, 100))
    shared = bool(batch) and draw.random() < 0.4  # one right matrix for all points of the batch
    turned = draw.choice(("", "before", "after")), draw.choice(("", "before", "after"))
    stored = draw.choice(sorted(STORED)), draw.choice(sorted(STORED))
    made = MAKERS[1 + seed % (len(MAKERS) - 1)], draw.choice(MAKERS)
    shapes = [[m, k], [k, n]]
    arrays = []
    for side in (0, 1):
        rows = shapes[side][::-1] if turned[side] else shapes[side]
        array = quarters(draw, *(() if shared and side else batch), *rows, dtype=name)
        kinds = {"as it is": array, "float32": array.astype(np.float32), "int8": (array * 4).astype(np.int8)}
        arrays.append(kinds[stored[side]])
    lengths = [(shapes[side] if turned[side] != "after" else shapes[side][::-1])[1] for side in (0, 1)]
    rows = [quarters(draw, length, dtype=name) for length in lengths]
    bias, residual = quarters(draw, n, dtype=name), quarters(draw, *batch, m, n, dtype=name)
    epilogue = draw.choice(EPILOGUES)

    def operand(c, t, row, side):
        last = (*range(len(t.val.shape) - 2), len(t.val.shape) - 1, len(t.val.shape) - 2)
        t = c.permute(t, last) if turned[side] == "before" else t
        t = made[side](c, STORED[stored[side]](c, t, dtype), row, dtype)
        return c.permute(t, last) if turned[side] == "after" else t

    def function(c, x, y, z, w, x4, x5):
        a, b = operand(c, x, z, 0), operand(c, y, w, 1)
        if shared:
            b = c.expand(c.reshape(b, (*(1,) * len(batch), k, n)), (*batch, k, n))
        return epilogue(c, c.matmul(a, b), x4, x5)

    return function, [*arrays, *rows, bias, residual]


def ways_of(seam, function, arrays, target=MEASURED):
    _, _, asked = scheduled(seam, function, arrays, answer=0, target=target)
    return [[way.name for way in ways] for _, ways in asked]


def chosen(seam, function, arrays, word, target=MEASURED):
    """(the program before, after): the first way of that name, or what contains it, else the library's."""
    lowered = seam("fuse")(seam("lower")(_traced(function, arrays)))

    def fastest(question, ways):
        return next((k for k, way in enumerate(ways) if word in way.name), 0)

    with answering(fastest):
        return lowered, seam("schedule")(lowered, target).verify()


def _traced(function, arrays):
    return trace(function, *arrays)


def check(seam, function, arrays, word, seed=0, target=MEASURED):
    """The program's kernels in Triton's interpreter, and what the nests say, against the steps. Returns the program."""
    from stage3_lowering.triton_interpreter import run_in_interpreter

    before, after = chosen(seam, function, arrays, word, target)
    want = interpret_program(before, arrays)
    for meant, one in zip(interpret_program(after, arrays), want, strict=True):
        assert np.array_equal(meant, one)
    first, *others = configured(seam("emit")(seam("plan_memory")(after), target))
    for emitted in (first, *others[seed % max(len(others), 1) :][:1]):
        for got, one in zip(run_in_interpreter(emitted, arrays), want, strict=True):
            assert got.dtype == one.dtype and np.array_equal(np.asarray(got), one)
    return after


@needs_triton
@pytest.mark.parametrize("seed", range(40))
def test_drawn_operands_have_the_bits_of_the_steps(seam, seed):
    function, arrays = drawn(seed)
    (names,) = ways_of(seam, function, arrays)
    words = [name for name in names if name.startswith("template, ")]
    assert words, "the left operand is always made"
    after = check(seam, function, arrays, words[-1], seed)
    (kernel,) = [k for k in after.kernels.values() if k.template]
    assert not {*kernel.internal} & {*after.buffers}
    assert len(kernel.nests) >= 2 and kernel.nests[0].reduction_ranges == ()


@pytest.mark.parametrize("seed", range(14))
def test_all_ways_take_and_give_the_same(seam, seed):
    function, arrays = drawn(seed)
    _, _, ((_, ways),) = scheduled(seam, function, arrays, answer=0)
    names = ("x", "y", "z", "w", "x4", "x5")
    assert len({way.inputs for way in ways}) == 1 and len({way.name for way in ways}) == len(ways)
    given = [arrays[names.index(name)] for name in ways[0].inputs]
    first, *others = (interpret_program(seam("schedule")(way, MEASURED), given) for way in ways)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@needs_triton
@pytest.mark.parametrize("word", ["template, both made", "split, both made", "split, left made"])
@pytest.mark.parametrize("k", [512, 1000])
def test_a_sum_in_parts_makes_its_operands(seam, word, k):
    def function(c, x, y, z):
        return c.add(c.matmul(c.add(x, 0.5), c.mul(c.cast(y, dt.float16), 0.25)), z)

    x, y, z = half_arrays((33, k), (k, 40), (40,))
    after = check(seam, function, [x, (y * 4).astype(np.int8), z], word)
    assert len(templates(after)) == 1


@needs_triton
def test_nothing_beyond_the_sum_is_infinite(seam):
    function = lambda c, x, y: c.matmul(inverse(c, x, None, dt.float16), y)  # noqa: E731
    x, y = half_arrays((20, 24), (24, 32))
    after = check(seam, function, [np.where(x > 0, x * 0 + 2, x * 0 - 2).astype(np.float16), y], "left made")
    (unit,) = seam("emit")(after, MEASURED).units
    assert "left = tl.where((k_along < 24), " in unit.text


@needs_triton
def test_one_maker_may_make_both_operands(seam):
    def function(c, x):
        made = c.add(x, 0.25)
        return c.matmul(made, c.permute(made, (1, 0)))

    after = check(seam, function, half_arrays((40, 24)), "both made")
    assert [type(step) for step in after.steps[:-1]] == [Launch]


@needs_triton
def test_float32_is_made_where_tf32_is_allowed(seam):
    function = lambda c, x, y: c.matmul(c.maximum(x, 0.0), c.mul(y, 0.5))  # noqa: E731
    arrays = [a.astype(np.float32) for a in half_arrays((40, 100), (100, 40))]
    check(seam, function, arrays, "both made", target=TF32)


@pytest.mark.parametrize("shape", [(64, 64), (512, 512)])
def test_casts_of_equal_shapes_stay_two_kernels_on_a_gpu(seam, shape):
    metas = [TensorMeta(shape, dt.float32, contiguous_strides(shape), Device("cuda", 0))] * 2
    function = lambda c, x, y: c.matmul(c.cast(x, dt.bfloat16), c.cast(y, dt.bfloat16))  # noqa: E731
    (names,) = ways_of(seam, function, metas)
    assert {"template, left made", "template, right made", "template, both made"} <= {*names}


# ---- what does not join -----------------------------------------------------------------------------------------


def two_readers(c, x, y):
    made = c.maximum(x, 0.0)
    return c.matmul(made, y), c.sum(made, (0,), False)


def returned(c, x, y):
    made = c.maximum(x, 0.0)
    return c.matmul(made, y), made


def two_products(c, x, y):
    made = c.maximum(x, 0.0)
    return c.matmul(made, y), c.matmul(made, c.permute(y, (1, 0)))


def reduced_before(c, x, y):
    return c.matmul(c.sub(x, c.amax(x, (1,), True)), y)


@pytest.mark.parametrize("function", [two_readers, returned, two_products, reduced_before])
def test_an_operand_that_others_read_or_that_is_not_pointwise_is_written(seam, function):
    for names in ways_of(seam, function, half_arrays((32, 32), (32, 32))):
        assert not any("made" in name for name in names)


def test_what_follows_a_product_is_that_products(seam):
    def layers(c, x, y, z):
        return c.matmul(c.maximum(c.matmul(x, y), 0.0), z)

    for names in ways_of(seam, layers, half_arrays((40, 32), (32, 32), (32, 32))):
        assert not any("made" in name for name in names)


def test_the_default_mode_asks_nothing(seam):
    function, arrays = drawn(1)
    assert not ways_of(seam, function, arrays, replace(MEASURED, options={}))


def test_an_operand_is_made_before_what_it_is_made_of_changes(seam):
    """A step between the maker and the product, or one after it, that writes what the maker reads."""
    function = lambda c, x, y: c.maximum(c.matmul(c.maximum(x, 0.0), y), 0.0)  # noqa: E731
    program = seam("fuse")(seam("lower")(_traced(function, half_arrays((40, 32), (32, 48)))))
    maker, product, after = program.steps[:3]
    renamed = {"buf0": "x", "x": "y"}
    nests = tuple(
        replace(nest, body=tuple(i.with_args(tuple(renamed.get(a, a) if type(a) is str else a for a in i.args))
                                 for i in nest.body))
        for nest in program.kernels[maker.kernel].nests
    )  # fmt: skip
    kernels = {**program.kernels, "writes": Kernel("writes", nests, ("y", "x"))}
    writes = Launch("writes", ("y", "x"))
    for steps, last, found in (
        ((maker, product, after), 2, {"buf0": 0}),
        ((maker, writes, product, after), 3, {}),
        ((maker, product, writes, after), 3, {}),
        ((maker, product, after, writes), 2, {"buf0": 0}),
        ((maker, product, after, writes), 3, {}),  # the last one itself
    ):
        uses = step_uses(program.with_(kernels=kernels, steps=(*steps, program.steps[-1])))
        number = steps.index(product)
        assert makers_of(uses, number, last, product_of(product, program.buffers), ()) == found


# ---- rows -------------------------------------------------------------------------------------------------------


def summed(c, y, row):
    return c.sum(c.maximum(y, 0.0), (len(y.val.shape) - 1,), False)


def largest(c, y, row):
    return c.amax(c.add(y, row), (len(y.val.shape) - 1,), True)


def squares(c, y, row):
    wide = c.cast(y, dt.float32)
    return c.sum(c.mul(wide, wide), (len(y.val.shape) - 1,), True)


def less_its_largest(c, y, row):
    return c.sub(y, c.amax(y, (len(y.val.shape) - 1,), True))


def two_of_a_row(c, y, row):
    last = (len(y.val.shape) - 1,)
    return c.amax(y, last, False), c.amin(c.mul(y, 2.0), last, False)


ROWS = (summed, largest, squares, less_its_largest, two_of_a_row)


def drawn_rows(seed):
    draw = random.Random(seed)
    name, batch = draw.choice(sorted(TYPES)), draw.choice(((), (2,), (2, 2)))
    m, n, k = draw.choice((1, 5, 33, 70)), draw.choice((16, 40, 64, 130, 256)), draw.choice((16, 24, 64))
    made, ends = draw.random() < 0.4, ROWS[seed % len(ROWS)]
    arrays = [quarters(draw, *batch, m, k, dtype=name), quarters(draw, *batch, k, n, dtype=name),
              quarters(draw, n, dtype=name)]  # fmt: skip

    def function(c, x, y, z):
        return ends(c, c.matmul(c.add(x, 0.5) if made else x, y), z)

    return function, arrays, made


@needs_triton
@pytest.mark.parametrize("seed", range(20))
def test_rows_of_a_product_are_reduced_with_the_bits_of_the_steps(seam, seed):
    function, arrays, made = drawn_rows(seed)
    after = check(seam, function, arrays, "left made" if made else "template", seed)
    (kernel,) = after.kernels.values()
    assert kernel.template == "matmul" and [type(s) for s in after.steps[:-1]] == [Launch]
    (unit,) = seam("emit")(after, MEASURED).units
    assert "r0 = i1  # a tile has whole rows" in unit.text and "XBLOCK" not in unit.text


def softmax(c, y):
    powers = c.exp(c.sub(y, c.amax(y, (len(y.val.shape) - 1,), True)))
    return c.div(powers, c.sum(powers, (len(y.val.shape) - 1,), True))


def root_mean_square(c, y):
    mean = c.mul(c.sum(c.mul(y, y), (len(y.val.shape) - 1,), True), 1 / y.val.shape[-1])
    return c.div(y, c.sqrt(c.add(mean, 1e-5)))


@needs_triton
@pytest.mark.parametrize("ends", [softmax, root_mean_square])
@pytest.mark.parametrize("shapes", [((33, 24), (24, 40)), ((2, 70, 64), (2, 64, 128))])
def test_a_softmax_and_a_norm_of_rows_join(seam, ends, shapes):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function = lambda c, x, y: ends(c, c.cast(c.matmul(x, y), dt.float32))  # noqa: E731
    arrays = half_arrays(*shapes)
    before, after = chosen(seam, function, arrays, "template")
    (kernel,) = after.kernels.values()
    assert kernel.template == "matmul" and [type(s) for s in after.steps[:-1]] == [Launch]
    (want,) = interpret_program(before, arrays)
    for emitted in configured(seam("emit")(after, MEASURED)):
        (got,) = run_in_interpreter(emitted, arrays)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


@needs_triton
@pytest.mark.parametrize("ends", ROWS)
def test_parts_of_a_long_sum_are_added_before_rows_are_reduced(seam, ends):
    function = lambda c, x, y, z: ends(c, c.matmul(x, y), z)  # noqa: E731
    after = check(seam, function, half_arrays((33, 768), (768, 40), (40,)), "split")
    assert len(after.kernels) == 2 and len(templates(after)) == 1


@pytest.mark.parametrize("shape", [(64, 300), (64, 1024)])
def test_a_row_that_no_tile_holds_is_reduced_apart(seam, shape):
    function = lambda c, x, y: c.sum(c.matmul(x, y), (1,), False)  # noqa: E731
    _, after = chosen(seam, function, half_arrays((40, 64), shape), "template")
    (kernel,) = [k for k in after.kernels.values() if k.template]
    assert len(kernel.nests) == 1 and len(after.steps) == 3


# ---- far places, and compiled -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [((16, 1 << 28), (1 << 28, 16)), ((1 << 28, 16), (16, 16))])
def test_places_beyond_32_bits_are_64_bit_numbers(seam, shapes):
    metas = [TensorMeta(shape, dt.float16, contiguous_strides(shape)) for shape in shapes]
    lowered = seam("fuse")(seam("lower")(_traced(lambda c, x, y: c.matmul(x, y), metas)))
    with answering(lambda question, ways: 1):
        program = seam("schedule")(lowered, MEASURED)
    (kernel,) = [k for k in program.kernels.values() if k.template]
    buffers = {name: buffer.meta for name, buffer in program.buffers.items()}
    text, _ = matmul_source(kernel, buffers, MEASURED)
    for name in ("i0", "i1", "k_along", "k_down"):
        (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith(f"{name} =")]
        assert line.endswith(".to(tl.int64)"), line


@needs_triton
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("word", ["both made", "split, both made", "rows"])
def test_each_configuration_compiles(seam, arch, word):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    def both(c, x, y, z):
        left = c.cast(c.mul(x, 0.5), dt.bfloat16)
        return c.add(c.matmul(left, c.mul(c.cast(y, dt.bfloat16), 0.25)), z)

    def rows(c, x, y, z):
        return less_its_largest(c, c.matmul(c.cast(x, dt.bfloat16), c.cast(y, dt.bfloat16)), z)

    draw = random.Random(0)
    m, k, n = (64, 2048, 64) if word.startswith("split") else (256, 256, 256)
    x, y, z = (quarters(draw, *shape, dtype="bfloat16") for shape in ((m, k), (k, n), (n,)))
    arrays = [x.astype(np.float32), (y * 4).astype(np.int8), z]
    target = replace(MEASURED, arch=f"sm_{arch}")
    function, way = (rows, "both made") if word == "rows" else (both, word)
    _, after = chosen(seam, function, arrays, way, target)
    made = [
        compiled for one in configured(seam("emit")(seam("plan_memory")(after), target))
        for compiled in compile_to_ptx(one, arch).values()
    ]  # fmt: skip
    assert any(found in one["ptx"] for one in made for found in ("wgmma", "tcgen05", "mma.sync"))
    assert made[0]["shared"] <= shared_of(f"sm_{arch}"), "the rule's can be launched"
