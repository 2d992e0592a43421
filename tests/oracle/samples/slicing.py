"""Pieces cut out and put back, diagonals, blocks, combinations, windows of signals; what is nothing for real numbers.

Input: none. Every dtype where no arithmetic is done.
"""

import itertools

import numpy as np
from scipy.linalg import block_diag
from scipy.signal import windows

from tests.oracle.samples.views import moves, sections
from tests.oracle.spec import FLOATS, NUMBERS, WIDE, I, S, T, declare, internal, refuses

for _name in ("split_with_sizes", "unsafe_split_with_sizes"):
    moves(
        _name,
        sections,
        S(T(5, 3), [2, 3]),
        S(T(3, 5), [1, 4], 1),
        invalid=refuses(RuntimeError, "", T(5), [1, 2]),
    )
moves("narrow_copy", lambda x, d, a, n: np.take(x, range(a, a + n), d), S(T(3, 5), 1, 1, 3), S(T(3, 5), 0, 2, 1),
      invalid=refuses(RuntimeError, "", T(3), 0, 2, 4))  # fmt: skip


def written(place):
    """A copy of x with src at `place(*where)`."""

    def reference(x, src, *where, **named):
        out = np.array(x)
        out[place(*where, **named)] = src
        return out

    return reference


def part(dim=0, start=None, end=None, step=1):
    return (*[slice(None)] * dim, slice(start, end, step))


moves("slice_scatter", written(part), S(T(4, 3), T(2, 3), 0, 1, 3), S(T(4, 5), T(4, 2), 1, 0, 4, 2), S(T(4), T(4)),
      invalid=refuses(RuntimeError, "", T(4, 3), T(3, 3), 0, 1, 3))  # fmt: skip
moves("select_scatter", written(lambda dim, i: (*[slice(None)] * dim, i)), S(T(4, 3), T(3), 0, 1), S(T(4, 3), T(4), 1, -1),
      invalid=(refuses(IndexError, "", T(3), T(), 0, 5), refuses(RuntimeError, "", T(4, 3), T(4), 0, 1)))  # fmt: skip


def diagonal_scatter(x, src, offset=0):
    out = np.array(x)
    i = np.arange(src.shape[0])
    out[i + max(-offset, 0), i + max(offset, 0)] = src
    return out


moves(
    "diagonal_scatter",
    diagonal_scatter,
    S(T(3, 3), T(3)),
    S(T(3, 4), T(3), 1),
    S(T(4, 4), T(3), -1),
    invalid=refuses(RuntimeError, "", T(3, 3), T(2)),
)
moves(
    "diagflat",
    np.diagflat,
    S(T(3)),
    S(T(2, 2), 1),
    S(T(2), -1),
    S(T()),
    invalid=refuses(TypeError, "", "text"),
)
moves(
    "block_diag",
    lambda *xs: block_diag(*xs),
    S(T(2, 3), T(1, 2)),
    S(T(2), T(), T(3, 1)),
    invalid=refuses(RuntimeError, "2 or fewer", T(1, 1, 1)),
)
internal(block_diag_of="block_diag")
moves("unravel_index", lambda i, shape: np.unravel_index(i, shape), S(I(5, below=24), (2, 3, 4)), S(I(2, 2, below=6), (6,)), dtypes=("int64",), edges=False,
      invalid=refuses(TypeError, "integer dtype", T(3), (4,)))  # fmt: skip


def renorm(x, p, dim, most):
    axes = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    norms = (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)
    return x * np.where(norms > most, most / (norms + 1e-7), 1)


declare("renorm", renorm, S(T(3, 4), 2, 0, 2.0), S(T(2, 3, 4), 1, 1, 5.0), S(T(3, 4), 2, -1, 100.0), dtypes=FLOATS, units=16, edges=False,
        invalid=(refuses(IndexError, "", T(3, 3), 2, 5, 1.0),))  # fmt: skip
for _name in ("hsplit", "vsplit", "dsplit"):
    moves(
        _name,
        getattr(np, _name),
        S(T(4, 6, 4), 2),
        S(T(4, 6, 4), [1, 3]),
        invalid=refuses(RuntimeError, "", T(), 2),
    )
moves("combinations", lambda x, r=2, with_replacement=False: np.array(list((itertools.combinations_with_replacement if with_replacement else itertools.combinations)(x, r))),
      S(T(4)), S(T(4), 3), S(T(3), 2, True), invalid=refuses(RuntimeError, "1D vector", T(2, 2)))  # fmt: skip
declare("gradient", lambda x, **k: np.gradient(x, axis=k.get("dim")), S(T(5)), S(T(3, 4)), S(T(3, 4), dim=1), dtypes=WIDE, units=8, edges=False,
        invalid=(refuses(RuntimeError, "", T(1)),))  # fmt: skip

# ---- real numbers ----------------------------------------------------------------------------------------------

for _name in (
    "conj",
    "conj_physical",
    "resolve_conj",
    "resolve_neg",
    "real",
):  # the input itself: nothing is looked at, nothing refused
    moves(_name, np.copy, S(T(2, 3)), S(T()), S(T(0, 3)))
declare(
    "angle",
    lambda x: np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0)),
    S(T(3, 4)),
    S(T()),
    S(T(0, 3)),
    dtypes=NUMBERS,
    elementwise=True,
    invalid=(refuses(TypeError, "", "text"),),
)

# ---- windows ---------------------------------------------------------------------------------------------------


def window(name, numpy):
    declare(
        name,
        numpy,
        S(8),
        S(7, periodic=False),
        S(1),
        dtypes=("float32",),
        edges=False,
        units=8,
        layouts=("contiguous",),
        invalid=(refuses(RuntimeError, "", -1),),
    )


window("hann_window", lambda n, periodic=True: windows.hann(n, not periodic))
window("hamming_window", lambda n, periodic=True: windows.hamming(n, not periodic))
window("blackman_window", lambda n, periodic=True: windows.blackman(n, not periodic))
window("bartlett_window", lambda n, periodic=True: windows.bartlett(n, not periodic))
window("kaiser_window", lambda n, periodic=True: windows.kaiser(n, 12.0, not periodic))
