"""Reductions, scans, norms and spreads, over all, one or several dimensions, with 0-d and empty operands among them.

Input: none. References take torch's `dim` and `keepdim` and hand them to NumPy as axis and keepdims.
"""

import numpy as np
from scipy import special

from tests.oracle.spec import ALL, FLOATS, NUMBERS, WIDE, Invalid, S, T, V, declare

TEXT = Invalid(S("text"), TypeError)
DIM = Invalid(S(T(2, 3), 5), IndexError, "Dimension out of range")
NEEDS_FLOATS = Invalid(S(T(3)), RuntimeError, "", dtype="int64")


def axes(dim):
    return dim if dim is None or isinstance(dim, int) else tuple(dim) or None


def folded(function):
    """A NumPy reduction with torch's parameters."""
    return lambda x, dim=None, keepdim=False, dtype=None: function(
        x if dtype is None else x.astype(dtype.numpy), axis=axes(dim), keepdims=keepdim
    )


def forms(*shape, one=True, several=True, empty=True, **options):
    """All; along one dim; along several; kept; of a 0-d and of an empty tensor."""
    x = T(*shape, **options)
    found = [S(x), S(x, 1), S(x, -1, True)]
    found += [S(x, (0, 2)), S(x, (0, 1), keepdim=True)] if several else []
    found += [S(T(**options))]
    found += [S(T(0, 3, **options), 1), S(T(2, 0, 3, **options), 0)] if empty else []
    return found


_SUM = forms(2, 3, 4)
declare("sum", folded(np.sum), *_SUM, S(T(0, 3)), S(T(2, 3), dtype=None), dtypes=ALL, invalid=(TEXT, DIM))
declare(
    "prod",
    folded(np.prod),
    *forms(2, 3, 4, several=False, low=0.5, high=1.5),
    S(T(0, 3)),
    dtypes=ALL,
    invalid=(TEXT, DIM),
)
declare("mean", folded(np.mean), *_SUM, S(T(0, 3)), dtypes=FLOATS, invalid=(TEXT, DIM, NEEDS_FLOATS))
declare("nansum", folded(np.nansum), *_SUM, dtypes=NUMBERS, invalid=(TEXT, DIM))
declare(
    "wide_sum",
    lambda x, dims, keepdim: np.sum(x, axis=dims, keepdims=keepdim),
    S(T(3, 4), (1,), False),
    S(T(3, 4, 2), (0, 2), True),
    torch=lambda x, dims, keepdim: (x.float() if x.dtype.itemsize == 2 else x).sum(dims, keepdim),
)
declare("nanmean", folded(np.nanmean), *_SUM, dtypes=FLOATS, invalid=(TEXT,))
declare(
    "amax",
    folded(np.amax),
    *forms(2, 3, 4, empty=False, distinct=True),
    S(T(2, 0, 3), 0),
    dtypes=ALL,
    invalid=(TEXT, DIM),
)
declare(
    "amin",
    folded(np.amin),
    *forms(2, 3, 4, empty=False, distinct=True),
    S(T(2, 0, 3), 0),
    dtypes=ALL,
    invalid=(TEXT, DIM),
)
_NO_DIM = S(T(2, 3), ())  # folds nothing: of all reductions any and all alone
for _name, _fold in (("any", np.any), ("all", np.all)):
    declare(_name, lambda x, dim=None, keepdim=False, fold=_fold: folded(fold)(x, dim, keepdim) if dim != () else x != 0,
            *_SUM, _NO_DIM, dtypes=ALL, invalid=(TEXT, DIM))  # fmt: skip
declare(
    "count_nonzero", lambda x, dim=None: np.count_nonzero(x, axis=axes(dim)),
    S(T(2, 3, 4)), S(T(2, 3, 4), 1), S(T(2, 3, 4), (0, 2)), S(T()), S(T(0, 3), 1), dtypes=ALL, invalid=(TEXT,),
)  # fmt: skip


def spread(function):
    def reference(x, dim=None, unbiased=None, keepdim=False, *, correction=1):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        return function(
            x, axis=axes(dim), ddof=correction if unbiased is None else int(unbiased), keepdims=keepdim
        )

    return reference


def mean_beside(x, dim=None, keepdim=False, **_):
    return np.mean(x, axis=None if isinstance(dim, bool) else axes(dim), keepdims=keepdim)


_SPREADS = (S(T(2, 3, 4)), S(T(2, 3, 4), 1), S(T(2, 3, 4), (0, 2), keepdim=True), S(T(2, 3, 4), -1, False),
            S(T(2, 3), 1, correction=0), S(T(4), False))  # fmt: skip
_PAIRS = (*_SPREADS[:3], S(T(2, 3), False), S(T(4), True))
_WELFORD = {"torch": "torch's running mean of an infinity is NaN; here, as for mean, an infinity"}
declare("var", spread(np.var), *_SPREADS, units=16, invalid=(TEXT, NEEDS_FLOATS))
declare("std", spread(np.std), *_SPREADS, units=16, invalid=(TEXT, NEEDS_FLOATS))
declare("var_mean", lambda x, dim=None, **k: (spread(np.var)(x, dim, **k), mean_beside(x, dim, **k)),
        *_PAIRS, units=16, edge_exceptions=_WELFORD, invalid=(NEEDS_FLOATS,))  # fmt: skip
declare("std_mean", lambda x, dim=None, **k: (spread(np.std)(x, dim, **k), mean_beside(x, dim, **k)),
        *_PAIRS, units=16, edge_exceptions=_WELFORD, invalid=(NEEDS_FLOATS,))  # fmt: skip


def position(function):
    return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim)


_PLACES = (S(T(2, 3, 4, distinct=True)), S(T(2, 3, 4, distinct=True), 1), S(T(2, 3, 4, distinct=True), -1, True), S(T()),
           S(T(0, 3), 1), S(V([3.0, 1.0, 3.0, 1.0]), 0), S(T(2, 3, 4, distinct=True), None, True))  # fmt: skip
declare(
    "argmax",
    position(np.argmax),
    *_PLACES,
    dtypes=NUMBERS,
    invalid=(TEXT, DIM, Invalid(S(T(0)), IndexError, "")),
)
declare(
    "argmin",
    position(np.argmin),
    *_PLACES,
    dtypes=NUMBERS,
    invalid=(TEXT, DIM, Invalid(S(T(0)), IndexError, "")),
)


def extremum(fold, place, pair):
    def reference(x, dim=None, keepdim=False, other=None):
        other = dim if isinstance(dim, np.ndarray) else other
        if other is not None:
            return pair(x, other)
        if dim is None:
            return fold(x)
        if x.ndim == 0:
            return x, np.int64(0)
        return fold(x, axis=dim, keepdims=keepdim), place(x, axis=dim, keepdims=keepdim)

    return reference


_EXTREMA = (S(T(2, 3, 4, distinct=True)), S(T(2, 3, 4, distinct=True), 1), S(T(2, 3, 4, distinct=True), -1, True),
            S(T(3, 4), T(4)), S(T()), S(T(), 0), S(T(0, 3), 1))  # fmt: skip
declare(
    "max",
    extremum(np.max, np.argmax, np.maximum),
    *_EXTREMA,
    dtypes=NUMBERS,
    invalid=(TEXT, DIM, Invalid(S(T(0)), RuntimeError, "")),
)
declare(
    "min",
    extremum(np.min, np.argmin, np.minimum),
    *_EXTREMA,
    dtypes=NUMBERS,
    invalid=(TEXT, DIM, Invalid(S(T(0)), RuntimeError, "")),
)
declare("aminmax", lambda x, dim=None, keepdim=False: (np.min(x, dim, keepdims=keepdim), np.max(x, dim, keepdims=keepdim)),
        S(T(3, 4, distinct=True)), S(T(3, 4, distinct=True), dim=1), S(T(3, 4, distinct=True), dim=0, keepdim=True), dtypes=NUMBERS,
        invalid=(TEXT, Invalid(S(T(0)), RuntimeError, "")))  # fmt: skip

# ---- softmax and the like ---------------------------------------------------------------------------------------

_ALONG = (S(T(3, 4), 1), S(T(2, 3, 4), 0), S(T(2, 3, 4), -2), S(T(), 0), S(T(0, 3), 1))
_NO_DIM = (Invalid(S(T(2, 3), 5), IndexError, "Dimension out of range"),)
declare(
    "softmax", lambda x, dim: special.softmax(x, dim if x.ndim else None), *_ALONG, units=8, invalid=_NO_DIM
)
declare(
    "softmin", lambda x, dim: special.softmax(-x, dim if x.ndim else None), *_ALONG, units=8, invalid=_NO_DIM
)
declare("log_softmax", lambda x, dim: special.log_softmax(x, dim if x.ndim else None), *_ALONG, units=8, invalid=_NO_DIM,
        edge_exceptions={"NumPy": "SciPy gives finite numbers beside an infinity where the formula gives NaN"})  # fmt: skip
declare("logsumexp", lambda x, dim, keepdim=False: np.log(np.sum(np.exp(x), axis=axes(dim), keepdims=keepdim)), S(T(3, 4), 1), S(T(2, 3, 4), (0, 2)),
        S(T(2, 3), -1, True), S(T(2, 0), 1), units=8, invalid=_NO_DIM)  # fmt: skip
declare("cumsum", lambda x, dim: np.cumsum(x, dim) if x.ndim else x, S(T(3, 4), 1), S(T(2, 3, 4), 0), S(T(), 0), S(T(0, 3), 0), dtypes=ALL,
        invalid=_NO_DIM)  # fmt: skip

# ---- norms -----------------------------------------------------------------------------------------------------


def power_norm(x, p=2, dim=None, keepdim=False, dtype=None):
    p = 2 if p in (None, "fro") else p
    size, axis = np.abs(x), axes(dim)
    if p == np.inf or p == -np.inf:
        return (np.max if p > 0 else np.min)(size, axis=axis, keepdims=keepdim)
    if p == 0:
        return np.sum(size != 0, axis=axis, keepdims=keepdim).astype(float)
    return np.sum(size**p, axis=axis, keepdims=keepdim) ** (1 / p)


_X = T(2, 3, 4, low=0.3, high=3)
_NORMS = (S(_X), S(_X, 1), S(_X, 3, 1), S(_X, np.inf, -1), S(_X, -np.inf, 0), S(_X, 0, 1), S(_X, 0.5, (0, 2), True), S(_X, -1, 2),
          S(T(0, 3), 2, 0))  # fmt: skip
declare(
    "vector_norm",
    power_norm,
    *_NORMS,
    units=16,
    edges=False,
    torch="linalg.vector_norm",
    invalid=(Invalid(S(T(3)), RuntimeError, "floating", dtype="int64"),),
)
declare(
    "norm",
    power_norm,
    *_NORMS,
    units=16,
    edges=False,
    invalid=(Invalid(S(T(3)), RuntimeError, "floating", dtype="int64"),),
)
declare("dist", lambda x, y, p=2: power_norm(x - y, p), S(T(3, 4), T(3, 4)), S(T(3, 4), T(4), 1), S(T(3, 4), T(3, 4), np.inf), S(T(3, 4), T(3, 4), 3), units=16,
        edges=False, invalid=(Invalid(S(T(2), T(3)), RuntimeError, "must match"),))  # fmt: skip
declare("cov", lambda x, correction=1: np.cov(x, ddof=correction), S(T(3, 5)), S(T(3, 5), correction=0), S(T(5)), S(T(1, 5)), units=16, edges=False,
        dtypes=FLOATS, invalid=(Invalid(S(T(2, 2, 2)), RuntimeError, "two or fewer"),))  # fmt: skip
declare("corrcoef", np.corrcoef, S(T(3, 5)), S(T(5)), S(T(1, 5)), units=64, edges=False, dtypes=WIDE, invalid=(Invalid(S(T(2, 2, 2)), RuntimeError, "two or fewer"),),
        exceptions={"second derivative": "the diagonal is clamped at 1, where rounding decides the side"})  # fmt: skip

# ---- neighbours along a dimension ------------------------------------------------------------------------------

declare("diff", lambda x, n=1, dim=-1, prepend=None, append=None: np.diff(x, n, dim, *[v if v is not None else np._NoValue for v in (prepend, append)]),
        S(T(3, 4)), S(T(3, 4), 2, 0), S(T(3, 4), prepend=T(3, 1), append=T(3, 2)), S(T(3, 1)), S(T(3), 0), dtypes=ALL,
        invalid=(Invalid(S(T()), RuntimeError, "at least one-dimensional"), Invalid(S(T(3), -1), RuntimeError, "non-negative")))  # fmt: skip
_TRAPEZOIDS = (S(T(3, 4)), S(T(3, 4), dx=0.5), S(T(3, 4), T(4)), S(T(3, 4), T(3, 4), dim=0))


def trapezoid(y, x=None, dx=1.0, dim=-1):
    return np.trapezoid(y, x, dx, dim)


def cumulative_trapezoid(y, x=None, dx=1.0, dim=-1):
    from scipy import integrate

    return integrate.cumulative_trapezoid(y, x, dx, dim)


declare(
    "trapezoid",
    trapezoid,
    *_TRAPEZOIDS,
    units=16,
    edge_exceptions={
        "torch": "torch subtracts half of each end from the sum, which makes NaN of an infinite end"
    },
    invalid=(Invalid(S(T(3), T(4)), RuntimeError, ""),),
)
declare(
    "cumulative_trapezoid",
    cumulative_trapezoid,
    *_TRAPEZOIDS,
    units=16,
    invalid=(Invalid(S(T(3), T(4)), RuntimeError, ""),),
)
