"""Sorts and top-k as kernels: their bits are those of the eager kernel, in every dtype, order, layout and length.

Input: rows of a few values each, so that most have equals: NaN with several bits, infinities, both zeros, the limits of
whole numbers. Kernels run in Triton's interpreter, every access checked for bounds, and are compiled for three GPUs.
"""

import importlib.util
import random

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering import sort_rows
from stage3_lowering.tests.graphs import CPP, TRITON, configured, results, trace
from stage_contracts.dtype import dtype_of
from stage_contracts.program import External, Target
from stage_contracts.program_json import program_of, record_of
from stage_contracts.program_text import parse_program, print_program
from stage_contracts.tensor_meta import TensorMeta

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0)


def _floats(dtype, whole, nans):
    """Numbers, and NaNs by their bits: a value keeps its own."""
    limits = ml_dtypes.finfo(dtype)
    numbers = np.array([*SPECIAL, limits.max, limits.min, limits.smallest_subnormal, limits.tiny], dtype)
    return np.concatenate([numbers, np.array(nans, whole).view(dtype)])


def _whole(dtype):
    limits = np.iinfo(dtype)
    near = {limits.min, limits.min + 1, limits.max, limits.max - 1}
    return np.array(sorted(near | {0, 1, 2, 3} | ({-1, -2} if limits.min else set())), dtype)


VALUES = {
    "bool": np.array([False, True]),
    **{name: _whole(name) for name in ("uint8", "int8", "int16", "int32")},
    "float16": _floats(np.float16, np.uint16, [0x7E55, 0xFE01, 0x7C01]),
    "bfloat16": _floats(ml_dtypes.bfloat16, np.uint16, [0x7FC5, 0xFFC1, 0x7F81]),
    "float32": _floats(np.float32, np.uint32, [0x7FC12345, 0xFFC00001, 0x7F800001]),
}
assert {*VALUES} == {*sort_rows.DTYPES}


def drawn(dtype, shape, seed=0):
    return np.random.default_rng(seed).choice(VALUES[dtype], shape)


LAYOUTS = {  # (an array of a dtype whose rows have n elements, the dimension of the rows)
    "rows": lambda dtype, n: (drawn(dtype, (5, n)), 1),
    "one row": lambda dtype, n: (drawn(dtype, (n,)), 0),
    "a batch of one": lambda dtype, n: (drawn(dtype, (1, n)), 1),
    "columns": lambda dtype, n: (drawn(dtype, (n, 5)), 0),
    "turned": lambda dtype, n: (drawn(dtype, (n, 3)).T, 1),
    "every second": lambda dtype, n: (drawn(dtype, (3, 2 * n))[:, ::2], 1),
    "in the middle": lambda dtype, n: (drawn(dtype, (2, n, 3)), -2),
    "expanded": lambda dtype, n: (np.broadcast_to(drawn(dtype, (2, 1, n)), (2, 2, n)), 2),
    "equal elements": lambda dtype, n: (np.broadcast_to(drawn(dtype, (3, 1)), (3, n)), 1),
}


def parts(c, x, dim, descending, stable=False):
    return results(c.sort(x, dim, descending, stable))


def first(c, part, dim, k):
    return c.contiguous(c.slice(part, dim, 0, k, 1))


def every_use(dim, n):
    """Sorts both ways, the positions alone, and the k largest and smallest."""
    k = min(3, n)

    def function(c, x):
        largest, smallest = parts(c, x, dim, True), parts(c, x, dim, False)
        return [
            *parts(c, x, dim, False),
            *parts(c, x, dim, True, stable=True),
            parts(c, x, dim, True)[1],
            *(first(c, part, dim % len(x.val.shape), k) for part in (*largest, *smallest)),
        ]

    return function


def bits(array):
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.itemsize}") if array.dtype.kind != "b" else array


def check_bits(got, want):
    for one, other in zip(got, want, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(bits(one), bits(other))


def both(seam, function, *arrays, target=TRITON):
    """(the program before, after)"""
    before = seam("fuse")(seam("lower")(trace(function, *arrays)))
    return before, seam("schedule")(before, target).verify()


def calls(program):
    return [step.target for step in program.steps if isinstance(step, External)]


def templates(program):
    return [kernel.template for kernel in program.kernels.values()]


def check(seam, function, *arrays, kernels, exactly=True):
    """The kernels of a function have the bits of the eager kernel, as nests and as Triton."""
    from stage3_lowering.triton_interpreter import run_in_interpreter

    before, after = both(seam, function, *arrays)
    assert not calls(after) and templates(after).count("sort") == kernels
    want = interpret_program(before, arrays)
    check_bits(interpret_program(after, arrays), want)
    check_bits(run_in_interpreter(seam("emit")(after, TRITON), arrays), want)
    return after


# ---- values -------------------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize("n", [1, 2, 3, 17, 1000, 4096])
@pytest.mark.parametrize("dtype", VALUES)
def test_every_dtype_and_length(seam, dtype, n):
    array, dim = drawn(dtype, (5 if n < 1000 else 1, n)), 1
    after = check(seam, every_use(dim, n), array, kernels=5)
    assert len(after.kernels) == 5, "what is kept of top-k is written at once"


@needs_triton
@pytest.mark.parametrize("n", [2, 17, 300])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "int32"])
def test_every_layout(seam, dtype, layout, n):
    array, dim = LAYOUTS[layout](dtype, n)
    check(seam, every_use(dim, n), array, kernels=5)


@needs_triton
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_drawn_sorts(seam, data):
    """Any dtype, order, view of memory, count and number of rows that share a program."""
    dtype = data.draw(st.sampled_from([*VALUES]))
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    shape[dim] = data.draw(st.integers(1, 70))
    descending = data.draw(st.booleans())
    turn = data.draw(st.permutations(range(len(shape))))
    step, start = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 3))
    base = drawn(dtype, [n * step + start for n in shape], data.draw(st.integers(0, 1 << 20)))
    array = base.transpose(turn)[tuple(slice(None, None, step) for _ in turn)]
    n = array.shape[dim] - start
    k = data.draw(st.integers(1, max(n, 1)))

    def function(c, x):
        x = c.slice(x, dim % len(shape), start, start + n, 1)  # a view that starts later
        values, order = parts(c, x, dim, descending)
        kept = first(c, values, dim % len(shape), k)
        return data.draw(st.sampled_from([(values, order), (order,), (kept,), (kept, order)]))

    if n >= 1:
        check(seam, function, array, kernels=1)


def test_the_draws_would_see_another_order_of_equals():
    """A kernel that let the last of equal elements come first would give other positions in each of these cases."""
    for dtype in VALUES:
        for layout, made in LAYOUTS.items():
            array, dim = made(dtype, 17)
            keys = array if array.dtype.kind != "V" else array.astype("float32")
            wrong = 16 - np.argsort(np.flip(keys, dim), axis=dim, kind="stable")
            assert (np.argsort(keys, axis=dim, kind="stable") != wrong).any(), (dtype, layout)


# ---- what is kept of top-k -----------------------------------------------------------------------------------------


def softmax_of_topk(c, x):
    values, order = parts(c, x, 1, True)
    kept = c.slice(values, 1, 0, 5, 1)
    high = c.amax(kept, (1,), True)
    return c.exp(c.sub(kept, high)), c.sum(c.slice(order, 1, 0, 2, 1), (1,), False)


def kth(c, x):
    values, order = parts(c, x, 1, False)
    return tuple(c.contiguous(c.slice(part, 1, 4, 5, 1)) for part in (values, order))


def more_of_the_positions(c, x):
    values, order = parts(c, x, 1, True)
    return first(c, values, 1, 3), order


def turned_result(c, x):
    values, _ = parts(c, x, 1, True)
    return c.contiguous(c.permute(c.slice(values, 1, 0, 4, 1), (1, 0)))


def by_data(c, x):
    values, order = parts(c, x, 1, True)
    return c.gather(values, 1, c.slice(order, 1, 0, 3, 1))


def in_the_middle(c, x):
    values, _ = parts(c, c.reshape(x, (2, 20, 6)), 1, True)
    return c.neg(c.slice(values, 1, 0, 7, 1))


def padded(c, x):
    values, _ = parts(c, x, 1, True)
    return c.constant_pad(c.slice(values, 1, 0, 3, 1), ((0, 0), (1, 2)), 0.0)


def read_whole_too(c, x):
    values, _ = parts(c, x, 1, True)
    return first(c, values, 1, 3), c.sum(values, (1,), False)


def a_later_part(c, x):
    values, _ = parts(c, x, 1, True)
    return c.contiguous(c.slice(values, 1, 10, 40, 1))


def two_of_one_dimension(c, x):  # their copies would be the rows of a table
    kept = [parts(c, c.reshape(y, (240,)), 0, True)[0] for y in (x, c.neg(x))]
    return tuple(first(c, part, 0, 5) for part in kept)


KEPT = {  # (how much of a row each kernel that sorts gives, how many other kernels are left)
    softmax_of_topk: ([(5, 2)], None),
    kth: ([(5, 5)], None),
    more_of_the_positions: ([(3, 40)], 0),
    turned_result: ([(4,)], 1),
    by_data: ([(40, 3)], 1),
    in_the_middle: ([(7,)], 1),
    padded: ([(40,)], 1),
    read_whole_too: ([(40,)], None),
    a_later_part: ([(40,)], None),
    two_of_one_dimension: ([(5,), (5,)], 1),
}


@needs_triton
@pytest.mark.parametrize("function", KEPT)
def test_only_what_is_read_is_kept(seam, function):
    kept, others = KEPT[function]
    after = check(seam, function, drawn("float32", (6, 40)), kernels=len(kept))
    sorts = [k for k in after.kernels.values() if k.template == "sort"]
    assert [tuple(n.reduction_ranges[0] for n in k.nests[1:]) for k in sorts] == kept
    for kernel, counts in zip(sorts, kept, strict=True):
        whole = kernel.nests[0].reduction_ranges[0]
        assert kernel.name.startswith("fused_sort" if max(counts) == whole else "fused_topk")
    if others is not None:
        assert len(after.kernels) == len(kept) + others


@needs_triton
@pytest.mark.parametrize(("k", "kept"), [(1, 2), (2, 2), (3, 4), (17, 32), (64, 64)])
def test_no_more_is_sorted_than_must_be(seam, k, kept):
    after = check(
        seam, lambda c, x: first(c, parts(c, x, 1, True)[0], 1, k), drawn("float32", (5, 64)), kernels=1
    )
    (grid,) = [kernel.grid for kernel in seam("emit")(after, TRITON).kernels.values()]
    assert (grid["constants"]["RBLOCK"], grid["constants"]["KEPT"]) == (64, kept)


# ---- what stays a call ----------------------------------------------------------------------------------------------

FLAT = np.zeros((), np.float32)
CALLS = {
    "64 bits of whole numbers": (np.zeros((3, 8), np.int64), TRITON),
    "64 bits of floats": (np.zeros((3, 8)), TRITON),
    "a longer row": (np.zeros((1, sort_rows.LONGEST + 1), np.int8), TRITON),
    "no rows": (np.zeros((0, 8), np.float32), TRITON),
    "empty rows": (np.zeros((8, 0), np.float32), TRITON),
    "one number": (FLAT, TRITON),
    "C++": (np.zeros((3, 8), np.float32), CPP),
}


@pytest.mark.parametrize("case", CALLS)
def test_what_stays_a_call(seam, case):
    array, target = CALLS[case]
    before, after = both(seam, lambda c, x: parts(c, x, -1, False), array, target=target)
    assert calls(after) == ["sort"]
    check_bits(interpret_program(after, [array]), interpret_program(before, [array]))


# ---- the kernel as text ----------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("dtype", VALUES)
def test_it_compiles(seam, dtype, arch):
    """In each configuration, of which a build that measures chooses."""
    from stage3_lowering.triton_interpreter import compile_to_ptx

    target = Target("triton", arch=f"sm_{arch}", options={"max_autotune": True})
    draw = random.Random(f"{dtype} {arch}")
    n, k = draw.choice([3, 33, 130]), draw.choice([1, 3])

    def function(c, x):
        values, order = parts(c, x, draw.randrange(2), draw.random() < 0.5)
        return values, first(c, parts(c, order_of(c, x), 1, True)[1], 1, k)

    def order_of(c, x):
        return c.contiguous(x)

    _, after = both(seam, function, drawn(dtype, (n, n)), target=target)
    for program in configured(seam("emit")(after, target)):
        for name, made in compile_to_ptx(program, arch).items():
            assert f".visible .entry {name}(" in made["ptx"] and f".target sm_{arch}" in made["ptx"]


@needs_triton
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_places_beyond_32_bits(seam, dtype):
    """Also along a row: what stands last in a column lies that far away."""
    from stage3_lowering.triton_interpreter import compile_to_ptx

    meta = TensorMeta((600, 1 << 22), dtype_of(VALUES[dtype].dtype))
    _, after = both(seam, lambda c, x: parts(c, x, 0, True), meta)
    emitted = seam("emit")(after, TRITON)
    (unit,) = emitted.units
    places = [line for line in unit.text.splitlines() if "i0 =" in line or "r0 =" in line]
    assert len(places) == 3 and all(".to(tl.int64)" in line for line in places)
    assert "position = RBLOCK - 1 - (key & (RBLOCK - 1))" in unit.text, "keys have 64 bits, and so have these"
    assert compile_to_ptx(emitted)


def test_it_prints_and_is_saved(seam):
    _, after = both(seam, every_use(1, 40), drawn("float32", (6, 40)))
    text = print_program(after)
    assert 'template="sort"' in text and "ops.argsort('descending', value)" in text
    assert print_program(parse_program(text)) == text
    assert print_program(program_of(record_of(after))) == text
