"""Numbers that a half cannot hold, and halves that overflow in between: eager beside torch, compiled beside eager.

Input: half_numbers.py, which walks all rows; here each row has all its cases beside torch, and a few rows compiled.
Before, a number was rounded to the half first: of 7,103 cases 339 were not torch's.
"""

import operator
from itertools import islice

import ml_dtypes
import numpy as np
import pytest

import cutaway
from cutaway.torch_api import torch as ours
from stage_contracts import config
from tests.oracle.half_numbers import EXCEPTIONS, NUMBERS, cases, failures, places, without_numbers
from tests.oracle.kernel_columns import KERNEL_COLUMNS
from tests.oracle.spec import ROWS
from tests.oracle.torch_side import to_array

TAKERS = [name for name, row in ROWS.items() if next(places(row), None)]
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NEEDS = {
    "mul",
    "div",
    "floor_divide",
    "add",
    "lerp",
    "leaky_relu",
    "softplus",
    "layer_norm",
    "addmm",
    "addcmul_",
}


@pytest.mark.parametrize("name", TAKERS)
def test_a_number_beside_halves_is_torchs(name):
    pytest.importorskip("torch")
    count, wrong = failures(name)
    assert not wrong, f"{len(wrong)} of {count}: {wrong[0]}"


def test_halves_of_every_size_are_torchs():
    pytest.importorskip("torch")
    found = [failures(name, which=without_numbers) for name in ROWS]
    assert not [texts[0] for _, texts in found if texts]
    assert sum(count for count, _ in found) > 2500


def test_the_walk_meets_the_operators_that_take_numbers():
    assert not NEEDS - set(TAKERS)
    assert all(row in ROWS and why for (row, _), why in EXCEPTIONS.items())


@pytest.mark.parametrize("column", KERNEL_COLUMNS[:3], ids=lambda column: column.name)
@pytest.mark.parametrize("name", ["mul", "rdiv", "floor_divide", "add", "lerp", "layer_norm"])
def test_what_is_compiled_is_eagers(name, column):
    if column.name == "Triton":
        pytest.importorskip("triton")
    with config.patch({"cache": False}):
        count, wrong = failures(name, column.check, lambda row: islice(cases(row), 0, None, 4))
    assert count and not wrong, wrong[0]


KEPT = {
    "mul": operator.mul, "div": operator.truediv, "floor_divide": operator.floordiv,
}  # fmt: skip
ROUNDED = {
    "add": operator.add, "sub": operator.sub, "remainder": operator.mod, "eq": operator.eq, "lt": operator.lt,
    "maximum": lambda x, n: x.maximum(n), "pow": operator.pow,
}  # fmt: skip


def beside(language, dtype, number, wide, shape):
    x = (np.random.default_rng(0).random(shape) * 0.03 + 0.001).astype(np.float32)
    return (
        language.tensor(x).to(getattr(language, dtype)),
        language.tensor(number, dtype=getattr(language, wide)),
    )


@pytest.mark.parametrize("wide", ["float64", "float32", "int64"])
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", KEPT | ROUNDED)
def test_a_tensor_without_dimensions_counts_as_a_number(name, dtype, wide):
    """On the right of an operator, as in torch on a CPU. (On the left of mul and div, as in torch on a GPU.)"""
    torch = pytest.importorskip("torch")
    function = (KEPT | ROUNDED)[name]
    for number in (70_001, 2049, 3) if wide == "int64" else (70_001.0, 1e-9, 1.00047):
        for shape in [(), (5,), (64,)][wide != "int64" :]:
            want = to_array(function(*beside(torch, dtype, number, wide, shape)))
            got = function(*beside(cutaway, dtype, number, wide, shape))._data
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want, err_msg=str(number))


def test_a_sum_over_a_count_that_no_half_holds():
    """A mean by hand, and a scaled loss."""
    x = cutaway.ones(70_001, dtype=cutaway.float16)
    total = np.float32(np.float16(70_001 / 16))
    for count in (70_001, 70_001.0, cutaway.tensor(70_001), cutaway.tensor(70_001.0)):
        assert ((x / 16).sum() / count).item() == np.float16(total / np.float32(70_001))
    for left in (70_000 * (x[:2] / 100), cutaway.tensor(70_000.0) / (x[:2] * 1024)):
        assert bool(left.isfinite().all())


@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_number_that_changes_is_eagers(dtype):
    """In C++ the number is an input, a tensor without dimensions."""

    def f(x, s):
        return (
            x * s,
            s * x,
            x / s,
            s / x,
            x // s,
            x + s,
            x - s,
            x.lerp(x * 2, s),
            cutaway.add(x, x, alpha=s),
            x < s,
        )

    x = cutaway.from_numpy(np.linspace(-3, 3, 64)).to(getattr(cutaway, dtype))
    compiled = cutaway.compile(f)
    for number in (0.1, 70_001.0, 1e-9, 1.00047, -0.33341):
        for k, (got, want) in enumerate(zip(compiled(x, number), f(x, number), strict=True)):
            np.testing.assert_array_equal(got.double().numpy(), want.double().numpy(), f"{number} {k}")
    assert len(compiled.entries) == 1


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", ["mul", "div", "add", "sub"])
def test_lists_of_tensors(name, dtype):
    torch = pytest.importorskip("torch")
    for number in (70_001.0, 1e-9, 1.00047):
        results = []
        for language in (torch, ours):
            x = [language.tensor([0.001, 0.5, 3.0]).to(getattr(language, dtype))]
            results.append(getattr(language, f"_foreach_{name}")(x, number)[0].double().tolist())
        assert results[0] == results[1], number


def written(x):
    x = x.copy()
    x *= 1.00047
    x /= 70_001.0
    return x


OF_NUMPY = {
    "mul": lambda x: x * 70_000.0,
    "rmul": lambda x: 1.00047 * x,
    "div": lambda x: x / 70_001.0,
    "rdiv": lambda x: 1e-9 / x,
    "floor_divide": lambda x: x // 0.30007,
    "multiply": lambda x: np.multiply(x, 2049),
    "in place": written,
    "round": lambda x: np.round(x, 5),
    "gradient": lambda x: np.gradient(x, 70_000.0),
    "percentile": lambda x: np.percentile(x, 33.3),
    "sinc": np.sinc,
}


@pytest.mark.parametrize("name", OF_NUMPY)
def test_array_programs_keep_numpys_rule(name):
    """A Python number beside an array of float16 is a float16 (NEP 50)."""
    x = np.linspace(-3, 3, 31).astype(np.float16)
    with np.errstate(all="ignore"):
        want = np.asarray(OF_NUMPY[name](x))
        for backend in ("eager", "inductor"):
            got = np.asarray(cutaway.compile(OF_NUMPY[name], backend=backend)(x))
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
