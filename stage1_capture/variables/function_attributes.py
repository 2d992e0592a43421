"""Attributes of functions, methods and partials: `f.__name__`, `f.__defaults__`, `f.__get__`, `p.func`.

Input: an abstract callable and a name. Those of a function made inside are what its def said.
"""

from __future__ import annotations

import types
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable, describe
from stage1_capture.variables.binding import child
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.function import PartialVariable, UserFunctionVariable, UserMethodVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.object_dict import refuse_second_way
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable

_READ = ("__defaults__", "__kwdefaults__", "__annotations__", "__closure__", "__type_params__")


def function_attribute(tx: Tx, value: UserFunctionVariable, name: str) -> Variable | None:
    """`function.name`; None when there is no such thing."""
    real: Any = value.real
    if name in value.attrs:
        return value.attrs[name]
    if real is not None:
        refuse_second_way(tx.output, real)
    if name == "__name__":
        return (
            ConstantVariable(value.name)
            if real is None
            else wrap(tx.output, real.__name__, child(value, name))
        )
    if name == "__qualname__" and real is None:
        return ConstantVariable(value.code.co_qualname)
    if name == "__qualname__":
        return wrap(tx.output, real.__qualname__, child(value, name))
    if name == "__code__":
        return ConstantVariable(value.code)
    if name in ("__get__", "__call__"):
        return UserMethodVariable(name, value)
    if name == "__class__":
        return UserDefinedObjectVariable(types.FunctionType)
    if real is None:
        return _of_one_made_inside(tx, value, name)
    if name in ("__doc__", "__module__"):
        return wrap(tx.output, getattr(real, name), child(value, name))
    if name in _READ and hasattr(real, name):
        return wrap(tx.output, getattr(real, name), child(value, name))
    if name in real.__dict__:
        return wrap(tx.output, real.__dict__[name], child(value, name))
    if hasattr(types.FunctionType, name):
        tx.unsupported("GB0022", f"the attribute {name} of {describe(value)}")
    tx.output.guard("ABSENT", value.source, name)
    return None


def _of_one_made_inside(tx: Tx, value: UserFunctionVariable, name: str) -> Variable | None:
    match name:
        case "__defaults__":
            return TupleVariable(value.defaults) if value.defaults else NONE
        case "__kwdefaults__":
            return ConstDictVariable(value.kwdefaults) if value.kwdefaults else NONE
        case "__closure__":
            return TupleVariable(list(value.closure)) if value.closure else NONE
        case "__annotations__":
            value.attrs[name] = ConstDictVariable(dict(value.annotations))
            return value.attrs[name]
        case "__type_params__":
            return TupleVariable([])
        case "__module__":
            return ConstantVariable(value.globals.get("__name__"))
        case "__doc__":
            code = value.code
            return ConstantVariable(
                code.co_consts[0] if code.co_consts and type(code.co_consts[0]) is str else None
            )
    if hasattr(types.FunctionType, name):
        tx.unsupported("GB0022", f"the attribute {name} of {describe(value)}")
    return None


def partial_attribute(tx: Tx, value: PartialVariable, name: str) -> Variable | None:
    """`partial.func`, `.args`, `.keywords`."""
    match name:
        case "func":
            return value.function
        case "args":
            return TupleVariable(list(value.args))
        case "keywords":
            return ConstDictVariable(dict(value.kwargs))
    tx.unsupported("GB0022", f"the attribute {name} of a partial")


def method_attribute(tx: Tx, value: UserMethodVariable, name: str) -> Variable | None:
    """Of a bound method: its own two, and the function's."""
    if name == "__self__":
        return value.receiver
    if isinstance(value.function, str):
        if name == "__name__":
            return ConstantVariable(value.function)
        tx.unsupported("GB0022", f"the attribute {name} of {describe(value)}")
    if name == "__func__":
        return value.function
    if name == "__class__":
        return UserDefinedObjectVariable(types.MethodType)
    from stage1_capture.variables.attributes import lookup

    return lookup(tx, value.function, name)
