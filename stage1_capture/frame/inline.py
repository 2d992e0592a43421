"""Inlining begins here: a call's arguments are bound to the parameters of a Python function.

Input: a function as an abstract value, and abstract arguments. The translator (`inline`) then interprets the body on
the locals that come out.
"""

from __future__ import annotations

import inspect

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.sequence import TupleVariable


def bind_arguments(
    tx: Tx,
    function: UserFunctionVariable,
    args: list[Variable],
    kwargs: dict[str, Variable],
) -> dict[str, Variable]:
    """The callee's first locals, by Python's rules. A call that Python rejects is a break."""
    code = function.code
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    stars = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    by_position_only = positional[: code.co_posonlyargcount]

    bound = dict(zip(positional, args))
    surplus = args[len(positional) :]
    if code.co_flags & inspect.CO_VARARGS:
        bound[next(stars)] = TupleVariable(list(surplus))
    elif surplus:
        _does_not_fit(tx, function, f"{len(args)} positional arguments for {len(positional)} parameters")

    unknown: dict[str, Variable] = {}
    for name, value in kwargs.items():
        if name in bound and name in positional and name not in by_position_only:
            _does_not_fit(tx, function, f"two values for {name}")
        if name in keyword_only or (name in positional and name not in by_position_only):
            bound[name] = value
        else:
            unknown[name] = value
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[next(stars)] = ConstDictVariable(unknown)
    elif unknown:
        _does_not_fit(tx, function, f"no parameter {next(iter(unknown))}")

    first_default = len(positional) - len(function.defaults)
    defaults = dict(zip(positional[first_default:], function.defaults)) | function.kwdefaults
    for name in (*positional, *keyword_only):
        if name not in bound:
            if name not in defaults:
                _does_not_fit(tx, function, f"no value for {name}")
            bound[name] = defaults[name]
    return bound


def _does_not_fit(tx: Tx, function: UserFunctionVariable, why: str) -> None:
    tx.unsupported("GB0065", f"the call does not fit {function.name}: {why}")
