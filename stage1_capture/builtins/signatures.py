"""inspect.signature of a function or method: the Signature object, with its parameters by name.

Input: an abstract function. What a signature says lies in the function's code, defaults and annotations, which the
function's own guards hold.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import Variable, describe, from_constant, realize
from stage1_capture.variables.derived import blank
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable

_ELSEWHERE = (
    "__wrapped__",
    "__signature__",
    "__text_signature__",
)  # what says another signature than the code's


@builtin(inspect.signature)
def signature(tx: Tx, value: Variable) -> Variable:
    bound = isinstance(value, UserMethodVariable)
    function: Any = getattr(value, "function", None) if bound else value
    real = getattr(function, "real", None)
    if not isinstance(function, UserFunctionVariable) or not isinstance(real, types.FunctionType):
        tx.unsupported("GB0002", f"a call of inspect.signature on {describe(value)}")
    if any(name in vars(real) or name in function.attrs for name in _ELSEWHERE):
        tx.unsupported("GB0002", f"a call of inspect.signature on {describe(value)}, which is decorated")
    said = inspect.signature(real)
    parameters = {name: _parameter(tx, function, p) for name, p in said.parameters.items()}
    if bound:
        first = next(iter(said.parameters.values()), None)
        if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
            tx.unsupported("GB0002", f"a call of inspect.signature on {describe(value)}")
        del parameters[first.name]
    entries = ConstDictVariable(parameters)
    return _object(
        inspect.Signature, _parameters=entries, _return_annotation=tx.wrap(said.return_annotation, None)
    )


def _parameter(tx: Tx, function: UserFunctionVariable, parameter: inspect.Parameter) -> Variable:
    name = parameter.name
    default: Variable = tx.wrap(inspect.Parameter.empty, None)
    if name in function.kwdefaults:
        default = realize(function.kwdefaults[name])
    elif parameter.default is not inspect.Parameter.empty:
        names = function.code.co_varnames[: function.code.co_argcount]
        default = realize(function.defaults[names.index(name) - len(names)])
    return _object(
        inspect.Parameter,
        _name=from_constant(name),
        _kind=tx.wrap(parameter.kind, None),
        _default=default,
        _annotation=tx.wrap(parameter.annotation, None),
    )


def _object(cls: type, **slots: Any) -> Variable:
    """An object of one of inspect's classes, for the program to ask, not to hand on."""
    return UserDefinedObjectVariable(blank(cls), slots, fresh=True, private=True)
