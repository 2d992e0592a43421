"""NumPy's functions on tensors: the promotion table against NumPy's own, rules of ufuncs, gradients, batches.

Input: the tables of numpy_api. Values of each function are compared in tests/numpy_programs/test_numpy_functions.py.
"""

import numpy as np
import pytest

import stage0_eager
from stage0_eager import numpy_api
from stage0_eager.numpy_api import promotion, ufuncs
from stage0_eager.tensor import Tensor
from stage0_eager.transforms import func

DTYPES = promotion.ARRAY_DTYPES
NUMBERS = (True, 3, 2.5)


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_two_dtypes_promote_as_numpys(a):
    for b in DTYPES:
        assert promotion.promote(a, b).numpy == np.promote_types(a.numpy, b.numpy), (a, b)
        assert promotion.can_cast_same_kind(a, b) is np.can_cast(a.numpy, b.numpy, "same_kind"), (a, b)


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_python_numbers_are_weak(a):
    array = np.ones(2, a.numpy)
    for number in NUMBERS:
        assert promotion.result_type([a, number]).numpy == np.result_type(array, number), (a, number)
        for b in DTYPES:
            want = np.result_type(array, np.ones((), b.numpy), number)
            assert promotion.result_type([a, number, b]).numpy == want


def test_numbers_alone():
    for number in NUMBERS:
        assert promotion.result_type([number]).numpy == np.result_type(number)


def operand(word):
    word = word.strip()
    return eval(word) if word[0].isdigit() or word == "True" else np.ones(2, word)


@pytest.mark.parametrize(("rule", "example", "result"), promotion.RULES, ids=[r[0] for r in promotion.RULES])
def test_a_rule_of_the_page_is_true(rule, example, result):
    values = [operand(word) for word in example.split(",")]
    assert np.add(*values).dtype == result
    ours = [stage0_eager.functions.creation.from_numpy(v) if isinstance(v, np.ndarray) else v for v in values]
    assert numpy_api.ROWS["add"].op(*ours).dtype.name == result


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_reductions_of_integers(a):
    ones = np.ones((2, 2), a.numpy)
    tensor = Tensor(ones)
    for name in ("sum", "prod", "cumsum", "cumprod", "mean", "std", "max", "argmax", "any", "median"):
        want = getattr(np, name)(ones)
        if want.dtype.name == "uint64":
            with pytest.raises(TypeError, match="uint64"):
                numpy_api.ROWS[name].op(tensor)
        else:
            assert numpy_api.ROWS[name].op(tensor).dtype.numpy == want.dtype, name


def loops(table):
    return [(name, rule) for names, rule, _ in table for name in names.split()[:1]]


@pytest.mark.parametrize(("name", "rule"), loops(ufuncs.ONE) + loops(ufuncs.TWO))
def test_a_ufunc_computes_in_numpys_dtype(name, rule):
    """For all pairs of dtypes, from metas alone; what NumPy refuses is refused."""
    real, op = getattr(np, name), numpy_api.ROWS[name].op
    two = (name, rule) in loops(ufuncs.TWO)
    for a in DTYPES:
        for b in DTYPES if two else DTYPES[:1]:
            arrays = [np.ones(2, a.numpy), np.ones(2, b.numpy)][: 1 + two]
            try:
                with np.errstate(divide="ignore"):
                    want = real(*arrays).dtype
            except TypeError:
                with pytest.raises(TypeError):
                    op(*map(Tensor, arrays))
                continue
            assert op.meta(*(Tensor(x).meta for x in arrays)).dtype.numpy == want, (name, a, b)


def test_an_int_that_does_not_fit_is_an_error_and_compares_all_the_same():
    small = Tensor(np.zeros(3, np.int8))
    with pytest.raises(OverflowError, match="300 out of bounds for int8"):
        numpy_api.ROWS["add"].op(small, 300)
    assert numpy_api.ROWS["less"].op(small, 300).tolist() == [True] * 3


DERIVED = {
    "mean": lambda np_, a: np_("mean")(a, axis=0), "std": lambda np_, a: np_("std")(a, axis=1),
    "logaddexp": lambda np_, a: np_("logaddexp")(a, 0.5), "norm": lambda np_, a: np_("linalg.norm")(a, axis=1),
    "outer": lambda np_, a: np_("outer")(a, a), "trapezoid": lambda np_, a: np_("trapezoid")(a),
    "tensordot": lambda np_, a: np_("tensordot")(a, a, axes=([0], [0])), "roll": lambda np_, a: np_("roll")(a, 1) * a,
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVED)
def test_a_row_can_be_differentiated_and_batched(name):
    def named(word):
        return numpy_api.ROWS[word].op

    values = np.random.default_rng(0).standard_normal((3, 4))
    weights = [None]

    def total(x):
        out = DERIVED[name](named, x)
        weights[0] = np.linspace(1, 2, int(np.prod(tuple(out.shape)))).reshape(tuple(out.shape))
        return (out * Tensor(weights[0])).sum()

    grad = func.grad(total)(Tensor(values)).numpy()
    for place in ((0, 0), (1, 2), (2, 3)):
        ends = []
        for step in (1e-6, -1e-6):
            moved = values.copy()
            moved[place] += step
            ends.append(total(Tensor(moved)).item())
        np.testing.assert_allclose(grad[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)
    both = func.vmap(lambda x: DERIVED[name](named, x))(Tensor(np.stack([values, values * 2])))
    np.testing.assert_allclose(both.numpy()[1], DERIVED[name](named, Tensor(values * 2)).numpy(), rtol=1e-12)
