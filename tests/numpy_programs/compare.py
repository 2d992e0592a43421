"""What a NumPy program did, as something to compare: results, what is left in its arguments, what shares memory.

Input: functions and fresh arguments. Scalars compare as arrays without dimensions, which compiled code returns.
"""

import contextlib
import io
import warnings
from dataclasses import dataclass

import numpy as np

import cutaway


@dataclass
class Outcome:
    """One call: `values` has every array, tensor and constant in the result, then in the arguments."""

    values: list
    printed: str
    error: str
    sharing: list


def leaves(tree, seen=None):
    """Every object in nested containers and instances that is no container itself, each container once."""
    seen = set() if seen is None else seen
    if isinstance(tree, (tuple, list, dict)) or (
        hasattr(tree, "__dict__") and not isinstance(tree, cutaway.Tensor)
    ):
        if id(tree) in seen:
            return
        seen.add(id(tree))
        items = (
            tree
            if isinstance(tree, (tuple, list))
            else (tree if isinstance(tree, dict) else vars(tree)).values()
        )
        for item in items:
            yield from leaves(item, seen)
    else:
        yield tree


def observe(function, args):
    """Run a call and keep all that can be seen of it. NumPy's warnings about numbers are not part of it."""
    np.random.seed(0)
    printed, result, error = io.StringIO(), None, ""
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy's newest release, about its own names
        try:
            result = function(*args)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
    values = [*leaves(result), *leaves(args)]
    arrays = [(i, v) for i, v in enumerate(values) if isinstance(v, np.ndarray) and v.ndim]
    sharing = [(i, j) for i, x in arrays for j, y in arrays if i < j and np.shares_memory(x, y)]
    return Outcome(values, printed.getvalue(), error, sharing)


def assert_same(got, want, what, exact=True):
    """Two calls did the same: dtypes and shapes always, bits if `exact`, else to a few units in the last place."""
    assert got.error == want.error, f"{what}: {got.error or 'no error'}, expected {want.error or 'none'}"
    assert got.printed == want.printed, what
    assert got.sharing == want.sharing, f"{what}: {got.sharing} share memory, expected {want.sharing}"
    assert len(got.values) == len(want.values), what
    for place, (one, other) in enumerate(zip(got.values, want.values, strict=True)):
        difference = differ(one, other, exact)
        assert not difference, f"{what}, value {place}: {difference}"


# how far two ways to round may be apart, relative and absolute: for sums of some dozen numbers of size 1
NEAR = {"float16": (4e-3, 1e-2), "float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12)}


def differ(one, other, exact):
    """What is different about two values; "" if nothing."""
    numeric = (np.ndarray, np.generic)
    if isinstance(one, numeric) is not isinstance(other, numeric):
        return f"{type(one).__name__}, expected {type(other).__name__}"
    if isinstance(other, cutaway.Tensor):
        one, other = one._data, other._data
    elif not isinstance(other, numeric):
        return "" if type(one) is type(other) and one == other else f"{one!r}, expected {other!r}"
    one, other = np.asarray(one), np.asarray(other)
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{one.dtype}{list(one.shape)}, expected {other.dtype}{list(other.shape)}"
    if one.dtype.kind != "f":
        return "" if np.array_equal(one, other) else f"{one}, expected {other}"
    signs = np.array_equal(np.signbit(one) & ~np.isnan(one), np.signbit(other) & ~np.isnan(other))
    if np.array_equal(one, other, equal_nan=True) and signs:
        return ""
    relative, absolute = NEAR[one.dtype.name]
    near = np.allclose(one.astype("d"), other.astype("d"), relative, absolute, equal_nan=True)
    return "" if near and not exact else f"{one}, expected {other}"
