"""Every float argument of every operator: a second float does not compile the function again, or the list says why.

Input: the rows of the oracle, which has one for each operator of the table: the floats in their samples, and the floats
that a signature has as defaults. Each becomes an argument of the compiled function.
"""

import inspect

import numpy as np
import pytest

import cutaway
from tests.oracle import samples  # noqa: F401  # fills ROWS
from tests.oracle.cases import Case, function_of, leaves, tensors
from tests.oracle.columns import program_of, values
from tests.oracle.spec import ROWS

FORMULA = "the number chooses the formula (1, 2, infinity and others), which the graph must know"
SIZES = "sizes of the result are computed from it"
CHANCE = "0 and 1 are cases of their own, and the check of its range looks at it"
RANDOM = "an argument of a random operator"
LOOKS = "eager looks at it: a bound, or a case of its own at 0"
PYTHON = "its body computes with it in Python"
EXCEPTIONS = {
    **dict.fromkeys((("arange", 2), ("interpolate", "scale_factor")), SIZES),
    **dict.fromkeys((("normalize", 1), ("normalize", "p"), ("pairwise_distance", 2), ("pairwise_distance", "p")), FORMULA),
    **{(name, place): FORMULA for name in ("cdist", "pdist") for place in (1, 2, "p")},
    **{(f"lp_pool{n}d", 1): FORMULA for n in (1, 2, 3)},
    ("embedding_bag", "norm_type"): FORMULA,
    **{(name, 1): CHANCE for name in ("bernoulli", "dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d")},
    ("scaled_dot_product_attention", "dropout_p"): CHANCE,
    **{("rrelu", place): RANDOM for place in (1, 2, "lower", "upper")},
    **dict.fromkeys((("normal", 1), ("gumbel_softmax", 1), ("gumbel_softmax", "eps")), RANDOM),
    **dict.fromkeys((("logspace", 3), ("logspace", "base"), ("kaiser_window", "beta"), ("scatter", 3)), PYTHON),
    **{(name, 1): LOOKS for name in ("quantile", "nanquantile")},
    ("pinverse", "rcond"): LOOKS,
}  # fmt: skip


def floats_of(row):
    """(sample, position or name, value) of each float argument, the first sample that has it."""
    found = {}
    for i, sample in enumerate(row.samples):
        for place, value in (*enumerate(sample.args), *sample.kwargs.items()):
            if type(value) is float:
                found.setdefault(place, (i, place, value))
    function = function_of(row.name)
    try:
        names = inspect.signature(getattr(function, "body", function)).parameters
    except (TypeError, ValueError):
        return [*found.values()]
    first = row.samples[0]
    for n, (name, parameter) in enumerate(names.items()):
        if type(parameter.default) is float and n >= len(first.args) and name not in first.kwargs:
            found.setdefault(name, (0, name, parameter.default))
    return [*found.values()]


ASKED = {
    (name, place): (i, value)
    for name, row in ROWS.items()
    if not (row.alias_of or row.in_place_of) and row.samples
    for i, place, value in floats_of(row)
}


def compiles(name, place):
    """How often a function is compiled for two numbers; its results are eager's."""
    index, value = ASKED[name, place]
    row, number = ROWS[name], np.array(0.5)  # stands where the float goes
    args, kwargs = Case(row, index, row.dtypes[0]).arrays()
    args = tuple(number if i == place else a for i, a in enumerate(args))
    kwargs = {**kwargs, **({} if isinstance(place, int) else {place: number})}
    flat = leaves((args, kwargs), np.ndarray)
    program = program_of(function_of(name), (args, kwargs), len(flat))
    cutaway.reset()
    compiled = cutaway.compile(program, backend="eager")
    for factor in (1.0, 0.875):
        call = [(value or 0.5) * factor if a is number else tensors(a) for a in flat]
        cutaway.manual_seed(0)
        wanted = values(program(*call))
        cutaway.manual_seed(0)
        for a, b in zip(values(compiled(*call)), wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)
    return len(compiled.entries)


def test_the_walk_finds_them():
    assert len(ASKED) > 100
    assert EXCEPTIONS.keys() - {(name, p) for name in ("cdist", "pdist") for p in (1, 2)} <= ASKED.keys()


@pytest.mark.parametrize("name, place", ASKED)
def test_another_float_is_another_input(name, place):
    expected = 2 if (name, place) in EXCEPTIONS else 1
    assert compiles(name, place) == expected, EXCEPTIONS.get((name, place))
