"""Indexing by numbers, slices, arrays and masks, to read and to write; picking, scattering, sorting, searching.

Input: none. Indices are operands of fixed dtype; what has an order is drawn without equals.
"""

import numpy as np

from tests.oracle.spec import ALL, FLOATS, NUMBERS, WIDE, B, I, S, T, V, declaring, internal, refuses

DATA = {
    "meta": "the shape of the result depends on the data",
    "aot_eager": "the shape of the result depends on the data",
}
NO_VMAP = {"vmap": "slices would have results of different shapes"}


moves = declaring(dtypes=ALL, units=1)


# ---- x[...] ----------------------------------------------------------------------------------------------------

_X = T(4, 3, 5)
_ROWS, _MASK = V([0, 2, -1], "int64"), V([True, False, True, True], "bool")
_INDICES = (1, -1, slice(1, 3), (slice(None), 0), (slice(None, None, 2), slice(1, None), 3), (..., 2), None, (0, None, ..., slice(0, 2)),
            (1, 2, 3), (), _ROWS, (_ROWS, 0), (slice(None), V([[0, 2], [1, 1]], "int64")), (_ROWS, slice(None), V([4, 0, 2], "int64")),
            (_ROWS, V([0, 1, 2], "int64")), _MASK, (slice(1, 2), V([True, False, True], "bool")), [0, 2], (0, [1, 2]), True)  # fmt: skip
moves("getitem", lambda x, i: x[tuple(i) if isinstance(i, tuple) else i], *[S(_X, i) for i in _INDICES], torch=lambda x, i: x[i],
      invalid=(refuses(IndexError, "", T(3), 5), refuses(IndexError, "too many indices", T(3), (0, 0)), refuses(ValueError, "step", T(3), slice(None, None, 0)),
               refuses(IndexError, "", T(3), "text")))  # fmt: skip


def set_and_get(x, i, v):
    """What setitem leaves in a copy of x: the function itself gives None."""
    out = x.copy()
    out[i] = v
    return out


_VALUES = ((1, T(3, 5)), (slice(1, 3), 2), ((..., 2), T(4, 1)), ((slice(None, None, 2), 0), T(5)), (_ROWS, T(3, 5)), (_MASK, T(3, 3, 5)), ((_MASK, 1), 0),
           ((_ROWS, slice(None), 0), T()), ((0, 0, 0), 1))  # fmt: skip
moves("setitem", set_and_get, *[S(_X, i, v) for i, v in _VALUES], torch=lambda x, i, v: x.__setitem__(i, v), in_place_of="setitem",
      exceptions={"vmap": "it gives None", "meta": "it gives None"}, invalid=(refuses(IndexError, "", T(3), 5, 1), refuses(RuntimeError, "", T(3), slice(0, 2), T(3))))  # fmt: skip


# x[index] raises IndexError, gather and scatter RuntimeError. tests/errors asks this of compiled calls too.
_OUT_OF_BOUNDS = refuses(RuntimeError, "out of bounds", T(3), 0, V([5], "int64"))

# ---- picking ---------------------------------------------------------------------------------------------------

moves("gather", lambda x, d, i: np.take_along_axis(x[tuple(slice(s if k != d % x.ndim else None) for k, s in enumerate(i.shape))], i, d),
      S(T(3, 4), 1, I(3, 2, below=4)), S(T(3, 4), 0, I(2, 4, below=3)), S(T(3, 4), -1, I(2, 5, below=4)),
      invalid=(refuses(RuntimeError, "", T(3, 4), 0, I(2, below=3)), refuses(RuntimeError, "int64", T(3), 0, T(2)), _OUT_OF_BOUNDS))  # fmt: skip
moves("index_select", lambda x, d, i: np.take(x, i, d), S(T(3, 4), 1, I(5, below=4)), S(T(3, 4), 0, I(2, below=3)), S(T(3), 0, I(0, below=3)),
      invalid=(refuses(IndexError, "", T(3, 4), 0, I(2, 2, below=3)), refuses(RuntimeError, "", T(3), 0, T(2))))  # fmt: skip
moves(
    "take",
    lambda x, i: np.take(x, i),
    S(T(3, 4), I(5, below=12)),
    S(T(3, 4), I(2, 2, below=12)),
    invalid=refuses(RuntimeError, "", T(3), T(2)),
)
moves("take_along_dim", lambda x, i, dim=None: np.take_along_axis(x, i, dim), S(T(3, 4), I(3, 2, below=4), 1), S(T(3, 4), I(1, 4, below=3), 0), S(T(3, 4), I(5, below=12)),
      torch=lambda x, i, dim=None: __import__("torch").take_along_dim(x.contiguous(), i, dim), invalid=refuses(RuntimeError, "", T(3, 4), I(2, below=3), 0))  # fmt: skip
moves("masked_select", lambda x, m: x[np.broadcast_to(m, x.shape)], S(T(3, 4), B(3, 4)), S(T(3, 4), B(4)), exceptions={**DATA, **NO_VMAP},
      invalid=refuses(RuntimeError, "", T(3), I(3, below=2)))  # fmt: skip
moves("masked_scatter", lambda x, m, s: np.place(y := np.array(x), np.broadcast_to(m, x.shape), s.ravel()) or y, S(T(3, 4), B(3, 4), T(12)), S(T(3, 4), B(4), T(3, 4)),
      invalid=refuses(RuntimeError, "", T(3), I(3, below=2), T(3)))  # fmt: skip
moves("nonzero", lambda x, as_tuple=False: np.nonzero(x) if as_tuple else np.argwhere(x), S(T(3, 4)), S(T(3, 4), as_tuple=True), S(T(0, 3)), exceptions={**DATA, **NO_VMAP},
      invalid=refuses(TypeError, "", "text"))  # fmt: skip
moves(
    "argwhere",
    np.argwhere,
    S(T(3, 4)),
    S(T(0, 3)),
    exceptions={**DATA, **NO_VMAP},
    invalid=refuses(TypeError, "", "text"),
)
moves("bincount", lambda x, w=None, minlength=0: np.bincount(x, w, minlength), S(I(7, below=5)), S(I(7, below=5), T(7)), S(I(4, below=3), minlength=6), dtypes=WIDE,
      exceptions={**DATA, **NO_VMAP}, units=4, edges=False, invalid=(refuses(RuntimeError, "1-d non-negative", I(2, 2, below=3)), refuses(RuntimeError, "1-d non-negative", V([-1], "int64"))))  # fmt: skip
moves("one_hot", lambda x, n: np.eye(n, dtype=int)[x], S(I(4, below=3), 3), S(I(2, 3, below=4), 5), dtypes=("int64",), edges=False,
      invalid=refuses(RuntimeError, "", T(3), 3))  # fmt: skip
moves(
    "embedding",
    lambda i, w: w[i],
    S(I(4, below=3), T(3, 2)),
    S(I(2, 3, below=3), T(3, 4)),
    dtypes=FLOATS,
    torch="nn.functional.embedding",
    invalid=refuses(RuntimeError, "", T(3), T(3, 2)),
)

# ---- scattering ------------------------------------------------------------------------------------------------


def at(operation):
    """NumPy's ufunc.at along a dimension."""

    def scattered(x, dim, index, src, **_):
        out = np.array(x)
        places = list(np.indices(index.shape))
        places[dim] = index
        source = (
            np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src[tuple(map(slice, index.shape))]
        )
        if operation is None:
            out[tuple(places)] = source
        else:
            operation.at(out, tuple(places), source)
        return out

    return scattered


_PLACES = V([[0, 1, 2], [2, 0, 1]], "int64")  # distinct along dim 0 in each column
_SCATTERED = (S(T(3, 4), 0, _PLACES, T(2, 3)), S(T(3, 4), 1, V([[3, 0], [1, 2]], "int64"), T(2, 2)))
_REFUSED = (
    refuses(RuntimeError, "", T(3, 4), 0, I(2, below=3), T(2)),
    refuses(RuntimeError, "out of bounds", T(3), 0, V([5], "int64"), T(1)),
)


def scatter(x, dim, index, src, reduce=None):
    return at({None: None, "add": np.add, "multiply": np.multiply}[reduce])(x, dim, index, src)


moves("scatter", scatter, *_SCATTERED, S(T(3, 4), 0, _PLACES, 2.0), S(T(3, 4), 0, I(2, 3, below=3), T(2, 3, grad=False), reduce="add"), dtypes=NUMBERS, units=4,
      invalid=(*_REFUSED, refuses(RuntimeError, "reduce argument must be", T(3), 0, I(2, below=3), T(2), reduce="sum")),
      exceptions={"torch's derivative": "torch differentiates no scatter with reduce"} if False else {})  # fmt: skip
moves(
    "scatter_add",
    at(np.add),
    S(T(3, 4), 0, I(2, 3, below=3), T(2, 3)),
    S(T(3, 4), 1, I(3, 6, below=4), T(3, 6)),
    units=4,
    dtypes=NUMBERS,
    invalid=_REFUSED,
)


def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    fold = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[
        reduce
    ]
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}[reduce]
    touched = at(np.add)(np.zeros(x.shape, int), dim, index, np.ones(index.shape, int))
    start = np.where(touched, neutral, x) if not include_self else x
    out = at(fold)(start.astype(float), dim, index, src)
    return out / np.where(touched, touched + include_self, 1) if reduce == "mean" else out


_D = {"distinct": True}
moves("scatter_reduce", scatter_reduce, *[S(T(3, 4, **_D), 0, I(2, 3, below=3), T(2, 3, low=4, high=9, **_D), r) for r in ("sum", "prod", "mean", "amax", "amin")],
      S(T(3, 4, low=1), 0, V([[0, 0, 0, 1], [1, 1, 1, 1]], "int64"), V([[0.0, 2.0, 0.0, 3.0], [0.0, 1.0, 0.0, 2.0]]), "prod"),
      S(V([[0.0, 2.0, 0.0, 3.0]]), 0, V([[0, 0, 0, 0]] * 2, "int64"), T(2, 4, low=1), "prod"),
      S(T(3, 4, **_D), 1, I(3, 6, below=4), T(3, 6, low=4, high=9, **_D), "sum", include_self=False), S(T(3, 4, **_D), 1, I(3, 6, below=4), T(3, 6, low=4, high=9, **_D), "amax", include_self=False),
      dtypes=FLOATS, units=8, invalid=(refuses(RuntimeError, "reduce argument must be", T(3), 0, I(2, below=3), T(2), "add"),))  # fmt: skip


def along(function):
    def into(x, dim, index, source, **options):
        out = np.array(x)
        function(
            np.moveaxis(out, dim, 0),
            index,
            np.moveaxis(source, dim, 0) if np.ndim(source) else source,
            **options,
        )
        return out

    return into


def _add(out, index, source, alpha=1):
    np.add.at(out, index, alpha * source)


def _set(out, index, source):
    out[index] = source


moves("index_add", along(_add), S(T(3, 4), 0, I(5, below=3), T(5, 4)), S(T(3, 4), 1, I(2, below=4), T(3, 2), alpha=2), units=4, dtypes=NUMBERS,
      invalid=refuses(RuntimeError, "", T(3), 0, T(2), T(2)))  # fmt: skip
moves(
    "index_copy",
    along(_set),
    S(T(3, 4), 0, V([2, 0], "int64"), T(2, 4)),
    S(T(3, 4), 1, V([1], "int64"), T(3, 1)),
    invalid=refuses(IndexError, "", T(3, 2), 0, I(2, below=3), T(3, 2)),
)
moves(
    "index_fill",
    along(_set),
    S(T(3, 4), 0, V([2, 0], "int64"), 1),
    S(T(3, 4), 1, V([1], "int64"), 0),
    S(T(3, 4), 0, V([1], "int64"), T()),
    S(T(3, 4), 0, V([2, 0, 2], "int64"), T()),
    invalid=refuses(IndexError, "", T(3), 0, T(2), 1.0),
)


def index_put(x, indices, values, accumulate=False):
    out = np.array(x)
    (np.add.at if accumulate else lambda o, i, v: o.__setitem__(i, v))(out, tuple(indices), values)
    return out


moves("index_put", index_put, S(T(3, 4), (V([2, 0], "int64"), V([1, 1], "int64")), T(2)), S(T(3, 4), (V([2, 0], "int64"),), T(4)),
      S(T(3, 4), (V([2, 2, 0], "int64"),), T(3, 4), True), S(T(3, 4), (B(3, 4),), T()), units=4, dtypes=NUMBERS,
      invalid=refuses(IndexError, "", T(3), (V([5], "int64"),), T(1)))  # fmt: skip

# ---- order -----------------------------------------------------------------------------------------------------


def ordered(x, dim=-1, descending=False, stable=False):
    """(values, places): equals in order, NaN last (first when descending), as in torch's stable sort."""
    if x.ndim == 0:
        return x, np.zeros((), int)
    key = -x.astype(np.float64) if descending else x
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    places = np.lexsort([key, ~nan if descending else nan], dim)
    return np.take_along_axis(x, places, dim), places


_SORTED = (S(T(3, 5, **_D)), S(T(3, 5, **_D), 0, True), S(T(3, 5, **_D), -1, False), S(T()), S(T(0, 3)))
moves(
    "sort",
    lambda x, dim=-1, descending=False: ordered(x, dim, descending),
    *_SORTED,
    dtypes=NUMBERS,
    edges=False,
    invalid=refuses(IndexError, "Dimension out of range", T(3), 2),
)
moves(
    "argsort",
    lambda x, dim=-1, descending=False: ordered(x, dim, descending)[1],
    *_SORTED,
    dtypes=NUMBERS,
    edges=False,
    invalid=refuses(IndexError, "Dimension out of range", T(3), 2),
)
moves(
    "msort",
    lambda x: np.sort(x, 0),
    S(T(3, 5, **_D)),
    S(T(4)),
    dtypes=NUMBERS,
    invalid=refuses(TypeError, "", "text"),
)


def topk(x, k, dim=-1, largest=True):
    return [np.take(part, range(k), dim) if x.ndim else part for part in ordered(x, dim, largest)]


moves("topk", topk, S(T(3, 5, **_D), 2), S(T(3, 5, **_D), 2, 0, False), S(T(3, 5, **_D), 5), S(T(), 1), dtypes=NUMBERS, edges=False, layouts=("contiguous", "transposed", "permuted", "strided", "backwards", "offset"),
      invalid=refuses(RuntimeError, "out of range", T(3), 5))  # fmt: skip
moves("kthvalue", lambda x, k, dim=-1, keepdim=False: [np.take(p, [k - 1] if keepdim else k - 1, dim) for p in ordered(x, dim)], S(T(3, 5, **_D), 2), S(T(3, 5, **_D), 1, 0, True),
      dtypes=NUMBERS, edges=False, layouts=("contiguous", "transposed", "permuted", "strided", "backwards", "offset"), invalid=refuses(RuntimeError, "out of range", T(3), 5))  # fmt: skip


def middle(x, dim=None, keepdim=False):
    if dim is None:
        return np.sort(x, None)[(x.size - 1) // 2]
    k = (x.shape[dim] - 1) // 2
    return [np.take(p, [k] if keepdim else k, dim) for p in ordered(x, dim)]


for _name in ("median", "nanmedian"):
    moves(_name, middle, S(T(3, 5, **_D)), S(T(3, 4, **_D), 1), S(T(3, 5, **_D), 0, True), dtypes=NUMBERS, edges=False,
          layouts=("contiguous", "transposed", "permuted", "strided", "backwards", "offset"), invalid=refuses(IndexError, "Dimension out of range", T(3), 2))  # fmt: skip
internal(median_of_vector="median")
REFERENCES = {"quantile": np.quantile, "nanquantile": np.nanquantile}
for _name in REFERENCES:
    moves(_name, lambda x, q, dim=None, keepdim=False, interpolation="linear", name=_name: REFERENCES[name](x, q, axis=dim, keepdims=keepdim, method=interpolation),
          S(T(3, 5, **_D), 0.3), S(T(3, 5, **_D), 0.5, 1), S(T(3, 5, **_D), V([0.1, 0.75], grad=False), 0, True), S(T(3, 5, **_D), 0.4, interpolation="nearest"),
          S(T(3, 5, **_D), 0.4, 1, interpolation="lower"), dtypes=WIDE, units=16, edges=False, invalid=refuses(RuntimeError, "", T(3), 1.5))  # fmt: skip

# ---- search ----------------------------------------------------------------------------------------------------

_STEPS = {"law": lambda a: np.sort(a, -1)}
moves("searchsorted", lambda s, v, right=False, side=None, out_int32=False: np.stack([np.searchsorted(r, w, side or ("right" if right else "left")) for r, w in zip(s, v)]) if s.ndim > 1 else np.searchsorted(s, v, side or ("right" if right else "left")),
      S(T(6, **_STEPS), T(2, 3)), S(T(6, **_STEPS), T(3), right=True), S(T(2, 6, **_STEPS), T(2, 3), side="right"), S(T(6, **_STEPS), T(3), out_int32=True), dtypes=NUMBERS, edges=False,
      layouts=("contiguous", "transposed", "offset"), invalid=refuses(RuntimeError, "", T(2, 6), T(3, 3)))  # fmt: skip
moves("bucketize", lambda v, b, right=False, out_int32=False: np.searchsorted(b, v, "right" if right else "left"), S(T(2, 3), T(6, **_STEPS)), S(T(3), T(6, **_STEPS), right=True), dtypes=NUMBERS, edges=False,
      layouts=("contiguous", "transposed", "offset"), invalid=refuses(RuntimeError, "", T(3), T(2, 3)))  # fmt: skip
moves("isin", lambda x, y, assume_unique=False, invert=False: np.isin(x, y, invert=invert), S(T(3, 4), T(3)), S(T(3, 4), T(5), invert=True), S(I(4, below=5), I(3, below=5)), S(T(3, 4), T(8, 5)), dtypes=NUMBERS)  # fmt: skip


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    found = np.unique(x, False, return_inverse, return_counts, dim)
    return found if isinstance(found, tuple) else (found,)


moves("unique", unique, S(T(12, low=0, high=4, ints=(0, 4))), S(I(3, 4, below=5), return_inverse=True, return_counts=True), S(I(4, 3, below=2), dim=0, return_counts=True), S(I(2, 3, 4, below=2), dim=-1), dtypes=NUMBERS, edges=False,
      exceptions={**DATA, **NO_VMAP}, invalid=refuses(TypeError, "", 3))  # fmt: skip


def consecutive(x, return_inverse=False, return_counts=False, dim=None):
    flat = x.ravel() if dim is None else x
    new = np.concatenate([[True], (flat[1:] != flat[:-1]).reshape(len(flat) - 1, -1).any(1)])
    found = [flat[new]] + ([np.cumsum(new).reshape(x.shape) - 1] if return_inverse else [])
    return found + ([np.diff(np.append(np.flatnonzero(new), len(flat)))] if return_counts else [])


moves("unique_consecutive", consecutive, S(I(12, below=2)), S(I(3, 4, below=2), return_inverse=True, return_counts=True), S(I(6, 2, below=2), dim=0, return_counts=True), dtypes=("int64",), edges=False,
      exceptions={**DATA, **NO_VMAP}, invalid=refuses(TypeError, "", 3))  # fmt: skip
