"""The oracle's columns for complex numbers: every row of the table on complex operands, beside torch and NumPy.

Input: the rows of samples/, whose floating operands are drawn with two parts. A row must refuse where torch refuses; it
must give torch's values, or stand in `NOT_HERE` and refuse. So no row gives a value that torch does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tests.oracle import compare, edges, layouts
from tests.oracle import torch_side as other
from tests.oracle.cases import Case, leaves
from tests.oracle.columns import (
    NotHere,
    derivative_is_difference,
    derivative_is_torch,
    describe,
    outcome,
    run,
    scale_of,
    second_derivative_is_difference,
    settled,
    values,
)
from tests.oracle.compare import Mismatch
from tests.oracle.spec import ROWS, Operand, Row, Sample

DTYPES = ("complex128", "complex64")

# What torch computes of complex numbers and Cutaway refuses. In-place forms stand with their rows.
NOT_HERE = {
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d": "convolutions are of real numbers",
    "logaddexp logcumsumexp logsumexp softmax softmin log_softmax": "they subtract the largest, and numbers have none",
    "scatter_reduce scatter_reduce_": "its products need an order of the writes",
    "amax amin cummax cummin": "torch lets one element through, or an empty row",
    "soft_margin_loss poisson_nll_loss triplet_margin_loss": "losses are of real numbers",
    "dropout alpha_dropout adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d": "torch takes them where nothing is left to do",
    "uniform_ normal_ log_normal_ exponential_ geometric_ bernoulli_": "draws are of real numbers; randn takes complex dtypes",
    "ldexp ldexp_ float_power_ linalg_householder_product": "not written",
}  # fmt: skip
# Rows whose results are not comparable, each with the reason.
APART = {
    "rand_like randn_like normal": "random",
    "linalg_eigh linalg_eig": "the phase of a vector is free",
    "cholesky_inverse cholesky linalg_cholesky_ex": "the sample's law makes a matrix that is definite only if real",
}


def _names(table: dict[str, str]) -> set[str]:
    return {name for names in table for name in names.split()}


NAMES_NOT_HERE, NAMES_APART = _names(NOT_HERE), _names(APART)
# torch adds `1 * other` with a complex 1, and its vectorised power has no case for 0: both make NaN of an infinity.
EDGES_ARE_NUMPYS = ("add", "sub", "subtract", "pow", "rsub", "rpow", "float_power")


ARITHMETIC = {"add": np.add, "sub": np.subtract, "pow": np.power}


def rows() -> list[str]:
    """The rows that take floating operands."""
    return [
        name
        for name, row in ROWS.items()
        if {"float32", "float64"} & {*row.dtypes}
        and name not in NAMES_APART
        and any(map(_drawn, row.samples))
    ]


def _drawn(sample: object) -> bool:
    operands = leaves((sample.args, sample.kwargs), Operand)  # type: ignore[attr-defined]
    return any(operand.dtype is None for operand in operands)


def beside_torch(case: Case) -> str:
    """Compare one case with torch; raises Mismatch. Gives 'same', 'both refuse' or 'not here'."""
    given, theirs_given = case.arrays(), case.arrays()
    got, want = outcome(lambda: run(case, given)), outcome(lambda: other.run(case, theirs_given))
    if isinstance(want, Exception):
        if isinstance(got, Exception) and isinstance(got, (RuntimeError, TypeError, ValueError, IndexError)):
            return "both refuse"
        raise Mismatch(f"torch raises {type(want).__name__} ({str(want)[:80]}); here: {describe(got)}")
    if isinstance(got, Exception):
        if case.row.name in NAMES_NOT_HERE and isinstance(got, RuntimeError):
            return "not here"
        raise Mismatch(f"raises {type(got).__name__} ({str(got)[:100]}); torch gives a value") from got
    found, expected = settled(case, values(got)), settled(case, leaves(want))
    if len(found) != len(expected):
        raise Mismatch(f"{len(found)} results, torch gives {len(expected)}")
    scale = scale_of(case, case.arrays(), expected)
    for mine, theirs in zip(found, expected, strict=True):
        if mine.dtype != theirs.dtype:
            raise Mismatch(f"dtype {mine.dtype}, torch gives {theirs.dtype}")
        compare.same(mine, np.asarray(theirs), 4 * case.row.units, max(scale, 1.0))
    return "same"


def beside_numpy(case: Case) -> str:
    """Compare the value of a case with NumPy's function of that arithmetic; raises Mismatch."""
    got = values(run(case))
    with np.errstate(all="ignore"):
        args, kwargs = case.arrays()
        want = [ARITHMETIC[case.row.name](*args, **kwargs)]
    for mine, theirs in zip(got, want, strict=True):
        compare.same(mine, np.asarray(theirs), 4 * case.row.units, 1.0)
    return "same"


def cases(name: str, full: bool) -> Iterator[Case]:
    """Every sample (the first, if not full) in both dtypes; layouts; edge values in either part for elementwise rows."""
    row = ROWS[name]
    samples = range(len(row.samples)) if full else (0,)
    for dtype in DTYPES if full else DTYPES[:1]:
        for i in samples:
            yield Case(row, i, dtype)
    kinds = [k for k in layouts.LAYOUTS if k != "contiguous"] if full else ["transposed"]
    for layout in [*kinds, *(layouts.SHAPES if row.elementwise else ())]:
        if layout in (*(row.layouts or layouts.LAYOUTS), *layouts.SHAPES) and not (
            layout == "broadcast" and row.in_place_of
        ):
            yield Case(row, 0, DTYPES[0], layout)
    if row.elementwise and row.edges:
        yield Case(row, 0, DTYPES[0], edge="walk")


def walked(name: str) -> bool:
    """Whether edge values are compared with NumPy, as torch's differ."""
    row: Row = ROWS[name]
    return (row.in_place_of or row.alias_of or row.name).rstrip("_") in EDGES_ARE_NUMPYS


# Complex numbers as arguments that are refused here alone; and where no one looks at the type of a number.
NUMBERS_NOT_HERE = ("linspace", "logspace", "local_response_norm")
NUMBERS_UNSEEN = ("batch_norm", "cross_entropy")


def _with_a_complex_number(sample: Sample) -> Iterator[Sample]:
    """The sample with each of its Python numbers in turn replaced by a complex one."""
    for i, value in enumerate(sample.args):
        if type(value) in (int, float):
            yield Sample((*sample.args[:i], 2 + 1j, *sample.args[i + 1 :]), sample.kwargs)
    for key, value in sample.kwargs.items():
        if type(value) in (int, float):
            yield Sample(sample.args, {**sample.kwargs, key: 2 + 1j})


def numbers(name: str, full: bool) -> list[str]:
    """Complex Python numbers beside real, integer and complex tensors: torch's results, or refused; what failed."""
    failures, row = [], ROWS[name]
    for sample in row.samples if full else row.samples[:1]:
        for changed in () if name in NUMBERS_UNSEEN else _with_a_complex_number(sample):
            for dtype in ("float32", "int64", "complex64"):
                if dtype not in (*row.dtypes, "complex64"):
                    continue
                case = Case(replace(row, samples=(changed,)), 0, dtype)
                try:
                    beside_torch(case)
                except Mismatch as error:
                    if not ("torch gives a value" in str(error) and name in NUMBERS_NOT_HERE):
                        failures.append(f"{changed} {dtype}: {error}"[:300])
    return failures


DERIVATIVES = {
    "derivative": derivative_is_difference,
    "second derivative": second_derivative_is_difference,
    "torch's derivative": derivative_is_torch,
}
# (column, rows, why): derivatives that are not compared, besides the exceptions of the rows themselves.
NOT_COMPARED = (
    ("", "linalg_svd svd linalg_eigh linalg_eigvalsh", "the phases of vectors are free, and A must stay Hermitian: "
     "test_stage0_complex.py differentiates what does not depend on that"),
    ("torch's derivative", "logical_not logical_and logical_or logical_xor nan_to_num", "torch's in-place forms pass the gradient on"),
    ("torch's derivative", "vander", "torch raises: its backward needs what it overwrote"),
)  # fmt: skip


def derivatives(name: str, full: bool) -> list[str]:
    """The gradients of a row's samples in complex128 beside finite differences and torch; what failed."""
    failures, row = [], ROWS[name]
    for i in range(len(row.samples)) if full else (0,):
        case = Case(row, i, "complex128")
        if isinstance(outcome(lambda: run(case)), Exception):  # noqa: B023
            continue
        for column, compare_with in DERIVATIVES.items():
            apart = any(
                c in ("", column) and name.rstrip("_") in names.split() for c, names, _ in NOT_COMPARED
            )
            if apart or column in row.exceptions:
                continue
            try:
                compare_with(case)
            except NotHere:
                pass
            except Exception as error:
                if "does not support automatic differentiation" not in str(error):
                    failures.append(f"{case}: {column}: {type(error).__name__}: {error}"[:300])
    return failures


def check(name: str, full: bool) -> tuple[dict[str, int], list[str]]:
    """How many cases showed what, and what the failed ones said."""
    counts: dict[str, int] = {}
    failures = []
    for case in cases(name, full):
        try:
            if case.edge and walked(name):
                continue
            kind = beside_torch(case)
            counts[kind] = counts.get(kind, 0) + 1
        except Exception as error:
            failures.append(f"{case}: {error}"[:300])
    return counts, failures


def numpy_edges() -> list[Case]:
    """The edge values of the rows where torch's are not those of the arithmetic."""
    return [replace(Case(ROWS[name], 0, dtype), edge="walk") for name in ARITHMETIC for dtype in DTYPES]


assert edges.walk("complex128").size == 49
