"""How far rounding may move a program: what is off by more is found, what rounding explains is not taken for wrong.

Input: tests/tensor_programs/rounding.py on small programs. A value that is off stands for a wrong kernel.
"""

from functools import partial

import numpy as np
import pytest

import cutaway
from tests.tensor_programs.compare import Differs, compare, observe, roundings
from tests.tensor_programs.grammar import TensorProgram

X = np.random.default_rng(0).normal(size=(3, 4))


def compared(body, off, label="result 0", dtype="float64"):
    """Raises Differs where `off` of what eager gives is not what rounding could give."""
    names = {"inputs": lambda: ([x := cutaway.tensor(X).to(getattr(cutaway, dtype)).requires_grad_()], [x])}
    names["after"] = list
    program = TensorProgram((), ("x",), (), ("v",), (), (0,), 1)
    expected = observe(names, body, program, cutaway.enable_grad)
    got = [(w, off(v).astype(v.dtype) if w == label else v) for w, v in expected]
    runs = partial(roundings, {w for w, _ in expected}, names, body, program, cutaway.enable_grad)
    return compare(got, expected, close=True, unused=False, runs=runs)


def sum_twice(x):
    return [(x.sin() * x).sum(0) + x]


def cancelling(x):
    return [x.exp() * 1e6 - (x.exp() * 1e6 + x.sin())]


def chaotic(x):
    return [(x.exp() * 1e17).sin()]


def counted(x):
    return [(x.sin() * 10).floor() * x]


def exact(x):
    return [((x > 0).double() * 3 + 1) * x]


PLAIN = (sum_twice, counted, exact)


@pytest.mark.parametrize("body", PLAIN)
@pytest.mark.parametrize("label", ["result 0", "gradient of leaf 0"])
@pytest.mark.parametrize("off", [lambda v: v * (1 + 1e-13) + 1e-13, lambda v: v + 1, np.negative])
def test_a_wrong_value_is_found(body, label, off):
    with pytest.raises(Differs):
        compared(body, off, label)


def test_one_wrong_element_is_found():
    with pytest.raises(Differs):
        compared(sum_twice, lambda v: np.where(np.arange(v.size).reshape(v.shape) == 5, v * (1 + 1e-13), v))


def test_a_float64_that_comes_through_float32_is_as_coarse_and_no_coarser():
    body = lambda x: [x.sin().double() * 2]  # noqa: E731
    assert compared(body, lambda v: v * (1 + 2e-7), dtype="float32")
    with pytest.raises(Differs):
        compared(body, lambda v: v * (1 + 1e-5), dtype="float32")
    # the same casts where no float32 was rounded: the input is one, the arithmetic is not
    with pytest.raises(Differs):
        compared(lambda x: [x.double().sin()], lambda v: v * (1 + 2e-7), dtype="float32")


def test_rounding_that_the_program_amplifies_is_no_fault():
    assert compared(cancelling, lambda v: v + 1e-10)
    assert compared(chaotic, lambda v: np.flip(v))
    with pytest.raises(Differs):
        compared(cancelling, lambda v: v + 1e-6)
    with pytest.raises(Differs):  # no rounding makes a sine of 2
        compared(chaotic, lambda v: v * 0 + 20)
