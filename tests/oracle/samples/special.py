"""Special functions, against SciPy; running reductions; distances between rows; histograms.

Input: none. Domains keep away from poles; edge values are walked where SciPy's conventions are torch's.
"""

import numpy as np
from scipy import special
from scipy.spatial import distance

from tests.oracle.spec import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    WIDE,
    Invalid,
    S,
    T,
    V,
    declare,
)

TEXT = Invalid(S("text"), TypeError)
DIM = Invalid(S(T(2, 3), 5), IndexError, "Dimension out of range")

# name: (reference, low, high, what edge values are compared with)
UNARY = {
    "lgamma": (special.gammaln, 0.3, 5), "gammaln": (special.gammaln, 0.3, 5), "digamma": (special.digamma, 0.3, 5),
    "psi": (special.digamma, 0.3, 5), "erfinv": (special.erfinv, -0.9, 0.9), "erfcx": (special.erfcx, -2, 3),
    "ndtri": (special.ndtri, 0.05, 0.95), "ndtr": (special.ndtr, -3, 3), "log_ndtr": (special.log_ndtr, -3, 3),
    "i0": (special.i0, -3, 3), "i0e": (special.i0e, -3, 3), "i1": (special.i1, -3, 3), "i1e": (special.i1e, -3, 3),
}  # fmt: skip

_TRIGAMMA = {"torch's derivative": "torch's trigamma has ten digits"}

for _name, (_function, _low, _high) in UNARY.items():
    _x = {"low": _low, "high": _high, "ints": (1, 3)}
    declare(
        _name, _function, S(T(3, 4, **_x)), S(T(**_x)), S(T(0, 3, **_x)), dtypes=WIDE, elementwise=True, edges=False,
        units=32, scale=1, invalid=(TEXT,), exceptions=_TRIGAMMA if _name in ("digamma", "psi") else {},
    )  # fmt: skip

_PAIR = {"elementwise": True, "edges": False, "units": 32, "scale": 1, "dtypes": WIDE}
_NO_DERIVATIVE = dict.fromkeys(
    ("derivative", "second derivative", "torch's derivative"),
    "neither torch nor Cutaway differentiates the first operand",
)
_ORDER = {"low": 0.5, "high": 4, "grad": False}
for _name, _function in (
    ("gammainc", special.gammainc), ("gammaincc", special.gammaincc),
    ("igamma", special.gammainc), ("igammac", special.gammaincc),
):  # fmt: skip
    declare(_name, _function, S(T(3, 4, **_ORDER), T(3, 4, low=0.2, high=5)), S(T(4, **_ORDER), T(3, 1, low=0.2)),
            invalid=(Invalid(S("text", T(2)), TypeError),), **_PAIR)  # fmt: skip
declare("zeta", special.zeta, S(T(3, 4, low=1.5, high=5, grad=False), T(3, 4, low=0.5, high=5)),
        invalid=(Invalid(S("text", T(2)), TypeError),), **_PAIR)  # fmt: skip
declare("polygamma", special.polygamma, S(1, T(3, 4, low=0.5, high=5)), S(2, T(3, low=0.5)), S(0, T(3, low=0.5)), exceptions={**_TRIGAMMA, "torch": _TRIGAMMA["torch's derivative"]},
        invalid=(Invalid(S(-1, T(2)), RuntimeError, "negative n"),), **_PAIR)  # fmt: skip
declare("mvlgamma", special.multigammaln, S(T(3, 4, low=2, high=5), 2), S(T(3, low=2.5), 3),
        invalid=(Invalid(S("text", 2), TypeError),), **{**_PAIR, "exceptions": {"NumPy": "SciPy takes scalars only"}})  # fmt: skip
declare("nextafter", None, S(T(3, 4), T(3, 4)), S(T(3), T(2, 1)), dtypes=WIDE, elementwise=True,
        exceptions={"NumPy": "the next number in float64 is another: torch is the reference", **_NO_DERIVATIVE},
        invalid=(Invalid(S(T(2), T(3)), RuntimeError, "must match"),))  # fmt: skip
for _name, _function in (("gcd", np.gcd), ("lcm", np.lcm)):
    declare(_name, _function, S(T(3, 4, ints=(-9, 9)), T(3, 4, ints=(-9, 9))), S(T(4, ints=(0, 9)), T(3, 1, ints=(0, 9))),
            dtypes=INTEGERS, elementwise=True, edges=False, invalid=(Invalid(S(T(2), T(3)), RuntimeError, "", "int64"),))  # fmt: skip
declare("frexp", np.frexp, S(T(3, 4)), S(T()), S(T(0, 3)), S(V([0.0, -0.0, 1.0, 0.5, 1024.0], grad=False)), dtypes=FLOATS, edges=False,
        invalid=(Invalid(S(T(3)), RuntimeError, "floating-point", "int64"),))  # fmt: skip

# ---- running reductions ----------------------------------------------------------------------------------------

_RUNS = (S(T(3, 4), 1), S(T(2, 3, 4), 0), S(T(), 0), S(T(0, 3), 0))


def running(fold):
    """(running extremum, the last place where it was met)."""

    def reference(x, dim):
        if x.ndim == 0:
            return x, np.int64(0)
        values = fold.accumulate(x, dim)
        met = (x == values) | (np.isnan(x) if x.dtype.kind == "f" else False)
        at = np.arange(x.shape[dim]).reshape([-1 if i == dim % x.ndim else 1 for i in range(x.ndim)])
        return values, np.maximum.accumulate(np.where(met, at, -1), dim)

    return reference


declare(
    "cumprod", lambda x, dim: np.cumprod(x, dim) if x.ndim else x, *_RUNS, dtypes=ALL, units=8, invalid=(DIM,)
)
declare(
    "logcumsumexp",
    lambda x, dim: np.logaddexp.accumulate(x, dim) if x.ndim else x,
    *_RUNS,
    units=8,
    invalid=(DIM,),
)
declare("cummax", running(np.maximum), *_RUNS, dtypes=NUMBERS, invalid=(DIM,))
declare("cummin", running(np.minimum), *_RUNS, dtypes=NUMBERS, invalid=(DIM,))


def mode(x, dim=-1, keepdim=False):
    if x.ndim == 0:
        return x, np.int64(0)
    x = np.moveaxis(x, dim, -1)
    values, places = np.empty(x.shape[:-1], x.dtype), np.empty(x.shape[:-1], int)
    for at in np.ndindex(x.shape[:-1]):
        found, counts = np.unique(x[at], return_counts=True)
        values[at] = found[counts.argmax()]
        places[at] = np.flatnonzero(x[at] == values[at])[-1]
    return [np.expand_dims(r, dim) if keepdim else r for r in (values, places)]


_FEW = {"low": 0, "high": 2, "law": np.round, "grad": False}
declare("mode", mode, S(T(3, 5, **_FEW)), S(T(3, 5, **_FEW), 0, True), S(T(2, 3, 7, **_FEW), 1), S(T()), dtypes=NUMBERS, edges=False,
        invalid=(Invalid(S(T(3), 2), IndexError, "Dimension out of range"),))  # fmt: skip

# ---- distances, histograms -------------------------------------------------------------------------------------

_METRIC = {1.0: "cityblock", 2.0: "euclidean", 3.0: "minkowski", np.inf: "chebyshev"}


def metric(p):
    return {"metric": _METRIC[p], **({"p": p} if p == 3.0 else {})}


def cdist(a, b, p=2.0):
    if a.ndim == 2:
        return distance.cdist(a, b, **metric(p))
    return np.stack([distance.cdist(x, y, **metric(p)) for x, y in zip(a, b)])


declare("cdist", cdist, S(T(3, 4), T(5, 4)), S(T(3, 4), T(5, 4), 1.0), S(T(2, 3, 4), T(2, 5, 4), 3.0), S(T(3, 4), T(5, 4), np.inf), dtypes=WIDE, units=32, edges=False,
        invalid=(Invalid(S(T(3), T(2, 3)), RuntimeError, "at least 2D"), Invalid(S(T(2, 3), T(2, 4)), RuntimeError, "columns")))  # fmt: skip
declare("pdist", lambda x, p=2.0: distance.pdist(x, **metric(p)), S(T(4, 3)), S(T(4, 3), 1.0), S(T(4, 3), 3.0), dtypes=WIDE, units=32, edges=False,
        invalid=(Invalid(S(T(3)), RuntimeError, "2D"),))  # fmt: skip
declare("histc", lambda x, bins=100, min=0, max=0: np.histogram(x, bins, (min, max) if min != max else None)[0], S(T(20), 5), S(T(4, 5), 4, -1, 2), dtypes=WIDE, edges=False,
        invalid=(Invalid(S(T(3), 0), RuntimeError, "bins must be > 0"), Invalid(S(T(3), 4, 2, 1), RuntimeError, "max must be larger")))  # fmt: skip
