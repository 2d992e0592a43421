"""Numbers and dtypes that losses, where and linspace refuse, or promote, as torch does.

Input: every pair of dtypes of predictions and targets, and numbers inside and outside what a function takes; torch, where
it is installed, is the oracle. Before the checks, such calls gave another dtype, a number instead of an exception, or other
numbers (linspace of integers from 0.5, where of 300 beside int8, losses of bool and integer targets).
"""

import itertools
import warnings

import numpy as np
import pytest
from cutaway.nn import functional

import cutaway as ct

torch = pytest.importorskip("torch")

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
NAN = float("nan")


def outcome(call, library, F):
    """Dtype, shape and numbers with their signs, or what is raised; and how many warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            out = call(library, F)
        except Exception as error:
            return type(error), len(seen)
    numbers = [repr(x) for x in np.array(out.tolist()).reshape(-1).tolist()]
    return str(out.dtype).split(".")[-1], tuple(out.shape), numbers, len(seen)


def differing(calls):
    found = {}
    for name, call in calls.items():
        wanted, got = outcome(call, torch, torch.nn.functional), outcome(call, ct, functional)
        if got != wanted:
            found[name] = (got, wanted)
    return found


@pytest.mark.parametrize("name", ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"))
@pytest.mark.parametrize("reduction", ("mean", "none"))
def test_dtypes_of_losses(name, reduction):
    def call(first, second):
        return lambda m, F: getattr(F, name)(
            m.tensor([1, 0, 1, 1]).to(getattr(m, first)),
            m.tensor([1, 0, 0, 1]).to(getattr(m, second)),
            reduction=reduction,
        )

    assert differing({pair: call(*pair) for pair in itertools.product(DTYPES, DTYPES)}) == {}


@pytest.mark.parametrize("reduction", ("mean", "none", "sum"))
def test_probabilities_and_variances(reduction):
    def entropy(p, t):
        return lambda m, F: F.binary_cross_entropy(m.tensor(p), m.tensor(t), reduction=reduction)

    def likelihood(v):
        v = v if isinstance(v, list) else float(v)
        return lambda m, F: F.gaussian_nll_loss(
            m.zeros(2), m.zeros(2), m.tensor(v) if isinstance(v, list) else v, reduction=reduction
        )

    numbers = ([0.0, 1.0], [1.5, 1.0], [0.0, -0.1], [NAN, 1.0], [])
    calls = {(str(p), t): entropy(p, [1.0, 0.0][: len(p)]) for p in numbers for t in (0,)}
    calls |= {("target", str(t)): entropy([0.0, 1.0], t) for t in ([0.0, 1.0], [2.0, 0.0], [0.0, -1.0])}
    calls |= {str(v): likelihood(v) for v in (1, -1, 0, [1.0, 1.0], [1.0, -1.0], [NAN, 1.0], [0.0, 1.0])}
    calls["kl_div"] = lambda m, F: F.kl_div(m.ones(2, 4), m.ones(2, 4), reduction=reduction)
    assert differing(calls) == {}


def test_numbers_beside_integers():
    def call(dtype, number, first):
        def run(m, F):
            pair = (m.tensor([1, 0]).to(getattr(m, dtype)), number)
            return m.where(m.tensor([True, False]), *(pair if first else pair[::-1]))

        return run

    numbers = (
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        256,
        -255,
        -256,
        300,
        2**31,
        2**40,
        -(2**63),
        1.5,
        1e30,
        NAN,
        True,
    )
    keys = itertools.product((*INTEGERS, "bool", "float16"), numbers, (True, False))
    assert differing({key: call(*key) for key in keys}) == {}


def test_integers_evenly_spaced():
    spans = (
        (0, 10),
        (10, 0),
        (-5, 5),
        (0.5, 3.7),
        (2.9, -2.9),
        (3, 3),
        (0, 1000),
        (0, 2**40),
        (-1, 1),
        (NAN, 1),
    )
    calls = {
        (dtype, *span, steps): lambda m, F, d=dtype, s=span, n=steps: m.linspace(*s, n, dtype=getattr(m, d))
        for dtype, span, steps in itertools.product((*INTEGERS, "bool"), spans, (0, 1, 2, 3, 4, 7, 8, 33))
    }
    assert differing(calls) == {}
