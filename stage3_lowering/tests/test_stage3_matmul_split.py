"""Products of tensor cores beyond one kernel of halves: a long sum in parts, and float32 where tf32 is allowed.

Input: drawn products with drawn epilogues, as test_stage3_matmul_templates.py has them, with long sums. Operands are
small multiples of a quarter, so that sums are exact in any order and in tf32: every way must give the steps' bits.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering.matmul_split import MOST_PARTS, multiprocessors_of, parts_of
from stage3_lowering.tests.graphs import configured
from stage3_lowering.tests.test_stage3_matmul_templates import (
    EPILOGUES,
    MEASURED,
    half_arrays,
    multiplied,
    needs_triton,
    quarters,
    scheduled,
    templates,
)
from stage_contracts import dtype as dt
from stage_contracts.blas import Contraction, Matrix
from stage_contracts.program import Launch

TF32 = replace(MEASURED, options={"max_autotune": True, "tf32": True})


def long_sum(seed, dtype=None):
    """(a function, its arrays): a product with a long sum and few tiles."""
    draw = random.Random(seed)
    dtype = dtype or draw.choice(("bfloat16", "float16"))
    batch = draw.choice(((), (), (2,), (2, 2)))
    m, n, k = draw.choice((1, 16, 33, 70)), draw.choice((16, 40, 64)), draw.choice((512, 768, 1000, 1040))
    turned = draw.random() < 0.4, draw.random() < 0.4
    a = quarters(draw, *batch, *((k, m) if turned[0] else (m, k)), dtype=dtype)
    b = quarters(draw, *batch, *((n, k) if turned[1] else (k, n)), dtype=dtype)
    bias, residual = quarters(draw, n, dtype=dtype), quarters(draw, *batch, m, n, dtype=dtype)
    epilogue = EPILOGUES[seed % len(EPILOGUES)]

    return multiplied(turned, epilogue), [a, b, bias, residual]


@needs_triton
@pytest.mark.parametrize("seed", range(14))
def test_a_sum_in_parts_has_the_bits_of_the_steps(seam, seed):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, arrays = long_sum(seed)
    program, after, asked = scheduled(seam, function, arrays, answer=2)
    ((_, ways),) = asked
    assert [way.name for way in ways] == ["library", "template", "split"]
    assert templates(after) == ["matmul"] and [type(s) for s in after.steps[:-1]] == [Launch, Launch]
    want = interpret_program(program, arrays)
    for meant, one in zip(interpret_program(after, arrays), want, strict=True):
        assert np.array_equal(meant, one)
    planned = seam("plan_memory")(after)
    first, *others = configured(seam("emit")(planned, MEASURED))
    for emitted in (first, others[seed % len(others)]):
        for got, one in zip(run_in_interpreter(emitted, arrays), want, strict=True):
            assert got.dtype == one.dtype and np.array_equal(np.asarray(got), one)


@pytest.mark.parametrize("seed", range(7))
def test_all_ways_take_and_give_the_same(seam, seed):
    function, arrays = long_sum(seed)
    _, _, ((_, ways),) = scheduled(seam, function, arrays, answer=0)
    given = [arrays[("x", "y", "z", "w").index(name)] for name in ways[0].inputs]
    assert len({way.inputs for way in ways}) == 1
    first, *others = (interpret_program(seam("schedule")(way, MEASURED), given) for way in ways)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@needs_triton
@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("answer", [1, 2])
def test_float32_joins_where_tf32_is_allowed(seam, seed, answer):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, arrays = long_sum(seed, "float16")
    arrays = [a.astype(np.float32) for a in arrays]
    assert not scheduled(seam, function, arrays)[2], "without it nothing is asked"
    program, after, _ = scheduled(seam, function, arrays, answer=answer, target=TF32)
    emitted = seam("emit")(seam("plan_memory")(after), TF32)
    (text,) = [unit.text for unit in emitted.units if "tl.dot(" in unit.text]
    assert 'tl.dot(left, right, total, input_precision="tf32")' in text
    first = next(iter(configured(emitted)))
    for got, want in zip(run_in_interpreter(first, arrays), interpret_program(program, arrays), strict=True):
        assert got.dtype == want.dtype and np.array_equal(np.asarray(got), want)


@needs_triton
@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("answer", [1, 2])
@pytest.mark.parametrize("tf32", [False, True])
def test_each_configuration_compiles(seam, arch, answer, tf32):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    function = lambda c, x, y, z: c.maximum(c.add(c.matmul(x, y), z), 0.0)  # noqa: E731
    arrays = half_arrays((64, 2048), (2048, 64), (64,))
    arrays = [a.astype(np.float32) for a in arrays] if tf32 else arrays
    target = replace(TF32, arch=f"sm_{arch}")
    _, after, _ = scheduled(seam, function, arrays, answer=answer, target=target)
    texts = [
        made["ptx"] for one in configured(seam("emit")(seam("plan_memory")(after), target))
        for made in compile_to_ptx(one, arch).values()
    ]  # fmt: skip
    assert any(word in text for text in texts for word in ("wgmma", "tcgen05", "mma.sync"))
    if tf32:
        assert any("tf32" in text for text in texts)


def sizes(m, n, k, *batch):
    a, b, c = (Matrix(name, 0, False, row, (0,) * len(batch)) for name, row in (("a", k), ("b", n), ("c", n)))
    return Contraction("b", m, n, k, a, b, c, batch)


@pytest.mark.parametrize(
    ("product", "parts"),
    [
        (sizes(64, 64, 8192), MOST_PARTS),
        (sizes(16, 512, 16384), 16),
        (sizes(4096, 4096, 4096), None),  # tiles enough
        (sizes(64, 64, 256), None),  # a short sum
        (sizes(64, 64, 509), None),  # a prime
        (sizes(64, 64, 8192, 8), 16),
    ],
)
def test_a_sum_has_parts_where_multiprocessors_wait(product, parts):
    assert parts_of(product, dt.bfloat16, "sm_90") == parts
    assert parts is None or product.k % parts == 0 and parts <= multiprocessors_of("sm_90")


@pytest.mark.parametrize(
    ("arch", "parts"), [("sm_80", 8), ("sm_90", 16), ("sm_100", 16), ("sm_75", 16), ("", 16)]
)
def test_parts_follow_the_targets_multiprocessors(arch, parts):
    """Eight tiles: 13 parts for 108 multiprocessors, of which 8 divide the sum."""
    assert parts_of(sizes(16, 512, 16384), dt.bfloat16, arch) == parts
