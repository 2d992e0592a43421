"""Products in registers in the whole machine: attention of any size and rule beside float64, and beside BLAS.

Input: functions of cutaway's own API. The passes are told that few rows are enough, so that sizes can be small and odd.
"""

import platform

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from stage3_lowering.lowering import late_division, register_products, row_blocks
from stage_contracts import config
from stage_contracts.program import Launch, Product, RowBlocks
from stage_contracts.program_text import parse_program, print_program


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    monkeypatch.setattr(row_blocks, "SMALLEST_WORK", 0)
    monkeypatch.setattr(late_division, "LEAST_GAIN", 0)
    for name in ("FEWEST_ROWS", "FEWEST_COLUMNS", "FEWEST_FACTORS"):
        monkeypatch.setattr(register_products, name, 2)


def arrays(*shapes, dtype=np.float32):
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def plain(q, k, v):
    return cutaway.softmax(q @ k.mT * 0.3, -1) @ v


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def capped(q, k, v):
    bias = cutaway.arange(q.shape[-2])[:, None] * 0.01
    return cutaway.softmax(cutaway.tanh(q @ k.mT / 4) * 4 + bias, -1) @ v


def gated(q, k, v):
    return cutaway.sigmoid(q @ k.mT) @ v


def turned_values(q, k, v):
    """The second matrix lies the other way round."""
    return cutaway.softmax(q @ k.mT, -1) @ v.mT.contiguous().mT


def step_of(compiled):
    program = compiled.artifacts[-1].forward.planned
    (found,) = [step for step in program.steps if isinstance(step, RowBlocks)]
    return found


def products(compiled):
    return [step for step in step_of(compiled).steps if isinstance(step, Product)]


def run(rule, given, **options):
    with config.patch({"runtime.cache": False, **options}):
        compiled = cutaway.compile(lambda *xs: rule(*xs), fullgraph=True)
        return compiled(*map(cutaway.from_numpy, given)).numpy(), compiled


# q, k, v: more rows than a block and a last block of few; widths that fill no register; sums of more than one part
CASES = [
    (plain, np.float32, (2, 197, 61), (2, 197, 61), (2, 197, 37)),
    (plain, np.float64, (2, 131, 9), (2, 75, 9), (2, 75, 21)),
    (plain, np.float32, (2, 50, 1100), (2, 33, 1100), (2, 33, 16)),
    (causal, np.float32, (2, 3, 100, 16), (2, 3, 100, 16), (2, 3, 100, 16)),
    (capped, np.float32, (3, 53, 20), (3, 1111, 20), (3, 1111, 5)),
    (gated, np.float32, (99, 33), (70, 33), (70, 17)),
    (turned_values, np.float64, (2, 64, 24), (2, 65, 24), (2, 65, 19)),
]


@pytest.mark.parametrize("rule, dtype, q, k, v", CASES)
def test_results_are_as_near_to_float64_as_those_of_blas(rule, dtype, q, k, v):
    given = arrays(q, k, v, dtype=dtype)
    want = rule(*[cutaway.from_numpy(a.astype(np.float64)) for a in given]).numpy()
    found, compiled = run(rule, given)
    blas = rule(*map(cutaway.from_numpy, given)).numpy()
    assert all(p.panels for p in products(compiled))
    rounding = np.finfo(dtype).eps * np.abs(want).max()
    exact = 4 if dtype is np.float32 else 16  # float64 is only compared with float64
    assert np.abs(found - want).max() <= 2 * np.abs(blas - want).max() + exact * rounding
    program = compiled.artifacts[-1].forward.planned
    assert print_program(parse_program(print_program(program))) == print_program(program)


def test_rows_are_divided_after_the_product():
    given = arrays((2, 64, 8), (2, 64, 8), (2, 64, 8))
    step = step_of(run(plain, given, **{"autograd.verify_passes": True})[1])
    assert [type(inner) for inner in step.steps] == [Product, Launch, Product, Launch] and len(
        step.local
    ) == 2
    assert len(step_of(run(gated, given)[1]).steps) == 3


def test_weights_that_others_read_are_divided_before():
    def with_weights(q, k, v):
        w = cutaway.softmax(q @ k.mT, -1)
        return w @ v + w.sum(-1, keepdim=True), w @ v

    given = arrays((2, 64, 8), (2, 64, 8), (2, 64, 8))
    with config.patch({"runtime.cache": False}):
        compiled = cutaway.compile(with_weights, fullgraph=True)
        found = compiled(*map(cutaway.from_numpy, given))
    for ours, want in zip(found, with_weights(*map(cutaway.from_numpy, given)), strict=True):
        np.testing.assert_allclose(ours.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


def test_what_is_not_finite_stays_in_its_place():
    """Registers beside the last column hold zeros, and zero times infinity is not a number: nobody may see it."""
    q, k, v = arrays((2, 40, 8), (2, 40, 8), (2, 40, 19))
    q[0, 3, 2], v[1, 5, 18], v[1, 6, 0], k[0, 7, 1] = np.nan, np.inf, -np.inf, np.inf
    want = plain(*map(cutaway.from_numpy, (q, k, v))).numpy()
    found, compiled = run(plain, (q, k, v))
    assert all(p.panels for p in products(compiled))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert np.isinf(want).any() and np.isnan(want).any() and np.isfinite(want).any()


def test_bits_do_not_depend_on_how_rows_are_cut(monkeypatch):
    """A block of one row, of six, of more; the last rows of a block are done again with others."""
    given = arrays((2, 61, 30), (2, 600, 30), (2, 600, 33))
    monkeypatch.setattr(register_products, "SIX", 1)
    bits, blocks = set(), []
    for rows in (5, 7, 64):
        monkeypatch.setattr(register_products, "BLOCKS", (rows,))
        found, compiled = run(plain, given)
        bits.add(found.tobytes())
        blocks.append(step_of(compiled).block)
    assert len(bits) == 1 and blocks == [5, 7, 61]


@pytest.mark.parametrize("poison", [False, True])
def test_one_compile_serves_every_length(poison):
    """Also as a loop in Python, with the memory of dead values overwritten."""
    with config.patch({"runtime.cache": False, "runtime.poison": poison}):
        compiled = cutaway.compile(plain, dynamic=True, fullgraph=True)
        for rows, columns in ((200, 190), (33, 40), (3, 2), (131, 700), (5, 17)):
            given = arrays((2, rows, 12), (2, columns, 12), (2, columns, 12))
            want = plain(*[cutaway.from_numpy(a.astype(np.float64)) for a in given]).numpy()
            found = compiled(*map(cutaway.from_numpy, given)).numpy()
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5, err_msg=f"{rows} {columns}")
    assert len(compiled.artifacts) == 1 and all(p.panels for p in products(compiled))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flag is of x86")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_fused_multiply_add_it_is_blas(dtype):
    flags = config.current().runtime.cxx_flags + " -mno-fma"
    given = arrays((2, 70, 8), (2, 50, 8), (2, 50, 19), dtype=dtype)
    want = plain(*[cutaway.from_numpy(a.astype(np.float64)) for a in given]).numpy()
    found, compiled = run(plain, given, **{"runtime.cxx_flags": flags})
    assert all(p.panels for p in products(compiled))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
