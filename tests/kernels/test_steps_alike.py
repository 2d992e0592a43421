"""Steps of a program that differ in names alone: the C++ has one function for them, and each calls it with its arrays.

Input: models that repeat a layer, with products that a team of threads shares, alone and in blocks of rows.
"""

import re

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from cutaway import Tensor
from tests.kernels.teams import team

RNG = np.random.default_rng(11)
CALLED = re.compile(r"(?m)^    (run_step_\d+)\(")
WRITTEN = re.compile(r"CUTAWAY_AS_WRITTEN static void (run_step_\d+)\(")


def normal(*shape):
    return Tensor(RNG.standard_normal(shape).astype(np.float32) * 0.05)


def products(x, *weights):
    for w in weights:
        x = F.softmax(x @ w, 0)  # over columns: no block of rows
    return x


def attention(x, *weights):
    for w in weights:
        q, k, v = (x @ w).view(2, 96, 3, 4, 32).permute(2, 0, 3, 1, 4)
        x = x + (F.softmax(q @ k.transpose(-1, -2) * 0.2, -1) @ v).transpose(1, 2).reshape(2, 96, 128)
    return x


# name: (the function, its arguments, the functions of its source: the steps that call each)
PROGRAMS = {
    "products": (products, lambda: [normal(160, 144), *(normal(144, 144) for _ in range(4))], [4]),
    "attention": (attention, lambda: [normal(2, 96, 128), *(normal(128, 384) for _ in range(3))], [3, 3]),
    "two sizes": (
        products,
        lambda: [normal(160, 144), *(normal(*size) for size in [(144, 144), (144, 136), (136, 136)])],
        [],
    ),
    "once": (products, lambda: [normal(160, 144), normal(144, 144)], []),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "open"])
def test_each_calls_one_function_with_its_own_arrays(name, dynamic):
    function, arguments, expected = PROGRAMS[name]
    given = arguments()
    run = cutaway.compile(function, dynamic=dynamic)
    with cutaway.no_grad():
        result, eager = run(*given).numpy(), function(*given).numpy()
        text = run.artifacts[-1].forward.emitted["cpp"].units[-1].text
        np.testing.assert_allclose(result, eager, rtol=1e-4, atol=1e-5)
        for threads in (1, 3):
            with team(threads):
                np.testing.assert_allclose(run(*given).numpy(), eager, rtol=1e-4, atol=1e-5)
    written, calls = WRITTEN.findall(text), CALLED.findall(text)
    assert {*calls} == {*written}, "each function is called, and each call has its function"
    if not dynamic:
        assert sorted(map(calls.count, written), reverse=True) == expected
