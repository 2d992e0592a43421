"""Extrema with places, norms, counts, spreads and sequences, against NumPy, and their gradients.

Input: a table of (function of tensors, the same in NumPy, arrays); each row runs on both float widths.
"""

import math

import numpy as np
import pytest

from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions import creation, reductions
from stage0_eager.functions import other_operations as Q
from stage0_eager.functions import statistics as S
from stage0_eager.functions.creation import tensor, zeros
from stage0_eager.functions.linalg import matrix_properties
from stage0_eager.functions.results import MinMax, ValuesIndices
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor
from stage0_eager.tests.test_stage0_elementary import check_gradient

INF, NAN = math.inf, math.nan
CUBE = np.random.default_rng(0).uniform(-2, 2, (2, 3, 4))
MATRIX, ROW = CUBE[0], CUBE[1, 0]
HOLES = np.where(CUBE > 1, NAN, CUBE)


def along(x, p, axis):
    return np.linalg.norm(x, p, axis)


# name: (function, reference, arrays, differentiable)
CASES = {
    "max": (S.max, np.max, [CUBE], True),
    "max of nan": (S.max, np.max, [HOLES], False),
    "max of two": (S.max, np.maximum, [CUBE, MATRIX], True),
    "max other": (lambda x, y: S.max(x, other=y), np.maximum, [CUBE, ROW], True),
    "max along": (lambda x: S.max(x, 1).values, lambda x: x.max(1), [CUBE], True),
    "max along, kept": (lambda x: S.max(x, -1, True)[0], lambda x: x.max(-1, keepdims=True), [CUBE], True),
    "min": (S.min, np.min, [CUBE], True),
    "min along": (lambda x: S.min(x, dim=0)[0], lambda x: x.min(0), [CUBE], True),
    "min along, nan": (lambda x: S.min(x, 2)[0], lambda x: x.min(2), [HOLES], False),
    "min of two": (S.min, np.minimum, [CUBE, MATRIX], True),
    "max of one": (S.max, np.max, [np.array(2.0)], True),
    "max of one along": (lambda x: S.max(x, 0).values, lambda x: x, [np.array(2.0)], True),
    "aminmax": (lambda x: S.aminmax(x, dim=1).max, lambda x: x.max(1), [CUBE], True),
    "aminmax of all": (lambda x: S.aminmax(x).min, np.min, [CUBE], True),
    "nansum": (lambda x: S.nansum(x, 1), lambda x: np.nansum(x, 1), [HOLES], False),
    "nansum of all": (S.nansum, np.nansum, [HOLES], False),
    "nanmean": (lambda x: S.nanmean(x, (0, 2), True), lambda x: np.nanmean(x, (0, 2), keepdims=True), [HOLES], False),
    "nanmean of numbers": (S.nanmean, np.mean, [CUBE], True),
    "norm": (matrix_properties.norm, lambda x: np.linalg.norm(x.ravel()), [CUBE], True),
    **{
        f"norm {p}": (lambda x, p=p: matrix_properties.norm(x, p, 1), lambda x, p=p: along(x, p, 1), [CUBE], p != 0)
        for p in (0, 0.5, 1, 2, 3, 2.5, -1, -2, INF, -INF)
    },
    "norm of rows": (lambda x: matrix_properties.norm(x, dim=(0, 2), keepdim=True), lambda x: np.sqrt((x * x).sum((0, 2), keepdims=True)), [CUBE], True),
    "vector_norm": (lambda x: S.vector_norm(x, 3), lambda x: (abs(x) ** 3).sum() ** (1 / 3), [CUBE], True),
    "norm of nothing": (matrix_properties.norm, lambda x: np.zeros(()), [np.zeros((0, 2))], False),
    "dist": (lambda x, y: S.dist(x, y, 1), lambda x, y: abs(x - y).sum(), [CUBE, MATRIX], True),
    "var, unbiased": (lambda x: reductions.var(x, 1, False), lambda x: x.var(1), [CUBE], True),
    "var of all": (lambda x: reductions.var(x, False), np.var, [CUBE], True),
    "std, unbiased": (lambda x: reductions.std(x, (0, 1), unbiased=True, keepdim=True), lambda x: x.std((0, 1), ddof=1, keepdims=True), [CUBE], True),
    "var_mean": (lambda x: S.var_mean(x, 1)[0], lambda x: x.var(1, ddof=1), [CUBE], True),
    "var_mean's mean": (lambda x: S.var_mean(x, 1, keepdim=True)[1], lambda x: x.mean(1, keepdims=True), [CUBE], True),
    "std_mean": (lambda x: S.std_mean(x, correction=0)[0], np.std, [CUBE], True),
    "cov": (S.cov, np.cov, [MATRIX], True),
    "cov of a row": (S.cov, np.cov, [ROW], True),
    "corrcoef": (S.corrcoef, np.corrcoef, [MATRIX], False),
    "diff": (Q.diff, np.diff, [CUBE], True),
    "diff twice": (lambda x: Q.diff(x, 2, 1), lambda x: np.diff(x, 2, 1), [CUBE], True),
    "diff with ends": (lambda x, y: Q.diff(x, dim=0, prepend=y, append=y), lambda x, y: np.diff(x, 1, 0, y, y), [CUBE, CUBE[:1]], True),
    "trapezoid": (Q.trapezoid, np.trapezoid, [CUBE], True),
    "trapezoid, dx": (lambda y: Q.trapezoid(y, dx=0.5, dim=1), lambda y: np.trapezoid(y, dx=0.5, axis=1), [CUBE], True),
    "trapezoid, x": (lambda y, x: Q.trapezoid(y, x), lambda y, x: np.trapezoid(y, x), [CUBE, ROW], True),
    "cumulative_trapezoid": (Q.cumulative_trapezoid, lambda y: np.cumsum((y[..., 1:] + y[..., :-1]) / 2, -1), [CUBE], True),
    "vander": (Q.vander, np.vander, [ROW], True),
    "vander, increasing": (lambda x: Q.vander(x, 3, True), lambda x: np.vander(x, 3, True), [ROW], True),
    "meshgrid": (lambda x, y: Q.meshgrid(x, y)[0], lambda x, y: np.meshgrid(x, y, indexing="ij")[0], [ROW, ROW[:2]], False),
    "meshgrid xy": (lambda x, y: Q.meshgrid([x, y], indexing="xy")[1], lambda x, y: np.meshgrid(x, y)[1], [ROW, ROW[:2]], False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values(name, dtype):
    function, reference, given, _ = CASES[name]
    given = [a.astype(dtype) for a in given]
    out, want = (
        function(*[Tensor(a.copy()) for a in given]),
        reference(*[a.astype(np.float64) for a in given]),
    )
    assert out.shape == np.shape(want) and out.dtype.numpy == dtype
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(out.numpy(), want, tolerance, tolerance)


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n][3]])
def test_gradients(name):
    function, _, given, _ = CASES[name]
    check_gradient(function, given)


def test_places_of_extrema():
    x = tensor([[1.0, 3.0, 3.0], [NAN, 0.0, 5.0]]).requires_grad_()
    out = x.max(1)
    assert (
        isinstance(out, ValuesIndices)
        and out.indices.tolist() == [1, 0]
        and math.isnan(out.values.tolist()[1])
    )
    assert grad([out.values], [x], [tensor([1.0, 1.0])])[0].tolist() == [[0, 1, 0], [1, 0, 0]]
    values, indices = tensor([[True, False], [True, True]]).min(dim=1, keepdim=True)
    assert values.tolist() == [[False], [True]] and indices.tolist() == [[1], [0]]
    assert tensor(4).max(0).indices.item() == 0
    assert isinstance(x.aminmax(), MinMax) and tensor([1, 5]).max().dtype.name == "int64"


def test_named_results_of_metas():
    meta = TABLE["cutaway.max"].meta(Tensor(CUBE, True).meta, 1)
    assert isinstance(meta, ValuesIndices) and meta.values.shape == meta.indices.shape == (2, 4)
    assert meta.values.requires_grad and not meta.indices.requires_grad and meta.indices.dtype.name == "int64"


def test_norms_at_zero_and_in_half_precision():
    for p in (0.5, 1, 2, 3):
        x = zeros(3).requires_grad_()
        assert grad([matrix_properties.norm(x, p)], [x])[0].tolist() == [0, 0, 0]
    # the squares would overflow
    assert matrix_properties.norm(tensor([300.0, 400.0]).to("float16")).item() == 500
    assert matrix_properties.norm(tensor([3.0, 4.0]), dtype=creation.dt.float64).dtype.name == "float64"


def test_counts():
    x = tensor([[0.0, NAN, -0.0], [1.0, 2.0, 0.0]])
    assert S.count_nonzero(x).item() == 3 and x.count_nonzero(1).tolist() == [1, 2]
    assert S.nansum(tensor([1, 2])).item() == 3 and math.isnan(S.nanmean(tensor([NAN])).item())


def test_spaced_numbers():
    for steps in (0, 1, 2, 7, 50):
        for dtype in ("float64", "float32"):
            out = Q.linspace(-1, 2.5, steps, dtype=dtype)
            np.testing.assert_allclose(out.numpy(), np.linspace(-1, 2.5, steps), 1e-6, 1e-6)
            assert out.dtype.name == dtype and (steps < 2 or out[-1].item() == 2.5)
    np.testing.assert_allclose(Q.logspace(-2, 2, 9).numpy(), np.logspace(-2, 2, 9), 1e-5)
    np.testing.assert_allclose(Q.logspace(0, 3, 4, 2).numpy(), [1, 2, 4, 8])
    assert Q.linspace(0, 10, 5, dtype=creation.dt.int64).tolist() == [0, 2, 5, 7, 10]
    assert Q.scalar_tensor(2).dtype.name == "float32" and Q.scalar_tensor(2).shape == ()


def test_grids_and_triangles():
    x, y = tensor([1, 2]), tensor([3, 4, 5])
    assert Q.cartesian_prod(x, y).tolist() == [[a, b] for a in (1, 2) for b in (3, 4, 5)]
    assert Q.tril_indices(3, 4, -1).tolist() == np.stack(np.tril_indices(3, -1, 4)).tolist()
    assert Q.triu_indices(2, 3, dtype=creation.dt.int32).dtype.name == "int32"
    assert Q.diff(tensor([True, False, False])).tolist() == [True, False]


ERRORS = {
    "max of nothing": (lambda: S.max(zeros(0), 0), IndexError, "non-zero size"),
    "max dim": (lambda: S.max(zeros(2), 1), IndexError, "Dimension out of range"),
    "norm of ints": (lambda: matrix_properties.norm(tensor([1])), RuntimeError, "Expected a floating point"),
    "norm of a name": (lambda: matrix_properties.norm(zeros(1), "one"), RuntimeError, "must be a number"),
    "inf norm of nothing": (
        lambda: matrix_properties.norm(zeros(0), INF),
        RuntimeError,
        "does not have an identity",
    ),
    "nanmean of ints": (lambda: S.nanmean(tensor([1])), RuntimeError, "floating point dtype"),
    "cov": (lambda: S.cov(zeros(1, 1, 1)), RuntimeError, "two or fewer dimensions"),
    "linspace": (lambda: Q.linspace(0, 1, -1), RuntimeError, "non-negative"),
    "meshgrid": (lambda: Q.meshgrid(zeros(2, 2)), RuntimeError, "0D or 1D"),
    "meshgrid indexing": (lambda: Q.meshgrid(zeros(2), indexing="yx"), RuntimeError, "indexing must be"),
    "diff": (lambda: Q.diff(tensor(1.0)), RuntimeError, "at least one-dimensional"),
    "vander": (lambda: Q.vander(zeros(2, 2)), RuntimeError, "one-dimensional"),
    "trapezoid": (lambda: Q.trapezoid(zeros(2), zeros(2), dx=1), RuntimeError, "not both"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    action, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        action()
