"""NumPy's small helpers that are objects: errstate, finfo and iinfo, s_ and index_exp, ix_.

Input: abstract calls of them, met in programs on arrays. They change nothing but what their results are used for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from stage0_eager import numpy_api
from stage1_capture.builtins.numpy.calls import apply, constant_scalar, dtype_of
from stage1_capture.state.machine import BUILTINS, Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.numpy_functions import left
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.array_guards import CAPTURED_DTYPES


class Silence:
    """np.errstate in a graph: it gives no warnings in any case."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def _errstate(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    asked = {tx.constant(v, "np.errstate") for v in kwargs.values()}
    if args or not asked <= {"ignore", "warn"}:  # an error that is asked for is NumPy's to raise
        left(tx, "np.errstate that raises or calls")
    made = UserDefinedObjectVariable(Silence(), private=True)
    made.trusted = True
    return made


# What np.finfo or np.iinfo says of a dtype. Some are computed when they are read, so capture reads them all at once.
_FACTS = "eps epsneg max min tiny smallest_normal smallest_subnormal resolution bits precision".split()


def _limits(function: Any, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    value = realize(args[0]) if len(args) == 1 and not kwargs else None
    if value is None:
        left(tx, f"such a call of np.{function.__name__}")
    dtype = value.meta.dtype if value.is_array() else dtype_of(tx, value)
    try:
        found = function(dtype.numpy)
    except ValueError:
        left(tx, f"np.{function.__name__} of {dtype.name}")
    made = UserDefinedObjectVariable(found, private=True)
    made.trusted = True
    for name, fact in [(name, getattr(found, name)) for name in _FACTS if hasattr(found, name)]:
        known = isinstance(fact, np.generic) and fact.dtype.num in CAPTURED_DTYPES
        made.attrs[name] = constant_scalar(fact) if known else ConstantVariable(fact)
    return made


def _index_expression(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """np.s_[...], np.index_exp[...]: the index itself."""
    maker, index = map(realize, args)
    whole = not maker.real.maketuple or index.family() is tuple
    return index if whole else TupleVariable([index])


def _open_mesh(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """np.ix_: each sequence along an axis of its own."""
    parts: list[Variable] = []
    for axis, arg in enumerate(args):
        made = apply(tx, numpy_api.ROWS["asarray"], {"a": arg})
        if not made.is_array() or made.meta.ndim != 1 or made.meta.dtype.name == "bool":
            left(tx, f"np.ix_ of {made.describe()}")
        size = made.meta.shape[0]
        shape = TupleVariable([ConstantVariable(int(size) if d == axis else 1) for d in range(len(args))])
        parts.append(apply(tx, numpy_api.ROWS["reshape"], {"a": made, "shape": shape}))
    return TupleVariable(parts)


BUILTINS.update({kind: partial(_limits, kind) for kind in (np.finfo, np.iinfo)})
BUILTINS.update({np.errstate: _errstate, np.ix_: _open_mesh})
BUILTINS[type(np.s_).__getitem__] = _index_expression
