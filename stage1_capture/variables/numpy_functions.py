"""Functions of NumPy's: which they are, what is called in place of them, and what NumPy keeps to itself.

Input: a callable that the program found. Its source is not followed: builtins/numpy has a row for it, or it runs in
NumPy.
"""

from __future__ import annotations

import types
from typing import Any, NoReturn

import numpy as np

from stage1_capture.state.machine import BUILTINS, FOLDED, Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, from_constant
from stage1_capture.variables.builder import object_of
from stage_contracts import config
from stage_contracts.source import AttrSource

# the classes of NumPy's functions beside Python's own
FUNCTION_KINDS: tuple[type, ...] = (np.ufunc, type(np.sum))


_NAMED: tuple[type, ...] = (types.FunctionType, types.BuiltinFunctionType, type, *FUNCTION_KINDS)


def left(tx: Tx, what: str) -> NoReturn:
    """Break: NumPy computes this, on real arrays."""
    tx.unsupported("GB0030", what)


def is_numpys(real: Any) -> bool:
    """Whether something callable is part of NumPy, so that its source is not followed."""
    if isinstance(real, _NAMED):
        # of a method: a generator of random numbers. A class is not asked: its metaclass may be the user's
        owner = None if isinstance(real, type) else getattr(real, "__self__", None)
        home = getattr(real, "__module__", None) or type(owner).__module__
        return str(home).split(".")[0] == "numpy" and not (
            isinstance(real, type) and issubclass(real, BaseException)
        )
    # The functions of np.random have this class.
    if type(real).__name__ == "cython_function_or_method":
        return str(real.__module__ or type(real.__self__).__module__).split(".")[0] == "numpy"
    return type(real).__module__.split(".")[0] == "numpy"


def function_attribute(function: Any, name: str) -> Variable | None:
    """An attribute of a ufunc, which is guarded itself: `np.add.reduce`. What calls it breaks."""
    found = getattr(function.real, name, None)
    if found is None:
        return None
    source = function.source and AttrSource(function.source, name)
    return object_of(found, source) if callable(found) else from_constant(found)


def call_in_numpy(tx: Tx, real: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A call of something of NumPy's: a row of builtins/numpy/calls.py, or a break."""
    try:
        known, folded = real in BUILTINS, real in FOLDED
    except TypeError:  # it cannot be hashed
        known = folded = False
    if known and config.current().capture.trace_numpy:
        return BUILTINS[real](tx, args, kwargs)
    if folded:
        return tx.fold(real, args, kwargs)
    left(tx, f"a call of {name_of(real)}")


def name_of(real: Any) -> str:
    """The name that a person would use: `np.add.reduce`, `np.random.rand`."""
    owner = getattr(real, "__self__", None)
    name = getattr(real, "__name__", type(real).__name__)
    if isinstance(owner, np.ufunc):
        return f"np.{owner.__name__}.{name}"
    home = str(
        getattr(real, "__module__", None) or (type(owner).__module__ if owner is not None else "numpy")
    )
    if home.startswith("numpy.random"):
        return f"np.random.{name}"
    return f"{home.replace('numpy', 'np', 1)}.{name}"
