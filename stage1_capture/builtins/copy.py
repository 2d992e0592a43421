"""copy.copy and copy.deepcopy on abstract values: containers, tensors made in the graph, plain objects, modules.

Input: abstract arguments. An object is copied attribute by attribute, as Python does without a method of its class that
says otherwise.
"""

from __future__ import annotations

import copy
import types
from typing import Any

from stage0_eager import TABLE
from stage0_eager.nn import Module
from stage1_capture.builtins.python import builtin
from stage1_capture.state.machine import METHODS, Tx
from stage1_capture.state.mro import MISSING, class_lookup, has_dict
from stage1_capture.variables.attributes import load_attribute, special_method
from stage1_capture.variables.base import (
    ConstantVariable,
    ConstDictVariable,
    DefaultDictVariable,
    DequeVariable,
    ListVariable,
    NumpyNdarrayVariable,
    SetVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    Variable,
    describe,
    realize,
)
from stage1_capture.variables.binding import class_variable, guard_class
from stage1_capture.variables.calls import call_function
from stage1_capture.variables.derived import blank
from stage1_capture.variables.object_dict import dict_of
from stage1_capture.variables.operators import call_operator


@builtin(copy.copy)
def copy_(tx: Tx, value: Variable) -> Variable:
    match value:
        case ConstantVariable() | TupleVariable() | UserFunctionVariable():
            return value
        case ListVariable() | ConstDictVariable() | SetVariable() | NumpyNdarrayVariable():
            method = next(METHODS[c, "copy"] for c in type(value).__mro__ if (c, "copy") in METHODS)
            return method(tx, [value], {})
        case UserDefinedObjectVariable():
            return _object(tx, value, "__copy__", lambda v: v)
    tx.unsupported("GB0028", f"copy of {describe(value)}")


@builtin(copy.deepcopy)
def deepcopy_(tx: Tx, value: Variable, memo: Variable | None = None) -> Variable:
    if memo is not None:
        tx.unsupported("GB0028", "deepcopy with a memo")
    return _deep(tx, value, {})


def _deep(tx: Tx, value: Variable, made: dict[int, Variable]) -> Variable:
    value = realize(value)
    if id(value) in made:
        return made[id(value)]
    again = lambda v: _deep(tx, v, made)  # noqa: E731
    match value:
        case ConstantVariable() | UserFunctionVariable():
            return value
        case TensorVariable(meta=meta, real=real) if not meta.requires_grad and real is None:
            made[id(value)] = call_operator(tx, TABLE["cutaway.clone"], [value], {})
            return made[id(value)]
        case NumpyNdarrayVariable():
            made[id(value)] = METHODS[NumpyNdarrayVariable, "copy"](tx, [value], {})
            return made[id(value)]
        case SetVariable(items=elements, kind=kind):
            return SetVariable(set(elements), kind)
        case ListVariable(items=items):
            limit = value.limit if isinstance(value, DequeVariable) else None
            new = ListVariable([]) if type(value) is ListVariable else DequeVariable([], limit=limit)
            made[id(value)] = new
            new.items += map(again, items)
            return new
        case TupleVariable(items=items, kind=kind):
            return TupleVariable([again(i) for i in items], kind)
        case DefaultDictVariable(items=entries, kind=kind, factory=factory):
            held = made[id(value)] = DefaultDictVariable({}, kind, factory)
            held.items.update({k: again(v) for k, v in entries.items()})
            return held
        case ConstDictVariable(items=entries) if type(value) is ConstDictVariable:
            copied = made[id(value)] = ConstDictVariable({}, value.kind)
            copied.items.update({k: again(v) for k, v in entries.items()})
            return copied
        case UserDefinedObjectVariable(real=type() | types.BuiltinFunctionType()):
            return value
        case UserDefinedObjectVariable():
            return _object(tx, value, "__deepcopy__", again, made)
    tx.unsupported("GB0028", f"deepcopy of {describe(value)}")


def _object(
    tx: Tx, value: UserDefinedObjectVariable, name: str, inside: Any, made: dict | None = None
) -> Variable:
    """A new object of the same class, its attributes copied by `inside`."""
    cls = type(value.real)
    if value.base is not None:  # C copies it, and keeps its class
        tx.unsupported("GB0028", f"{name.strip('_')} of {describe(value)}")
    if special_method(tx, value, name) is not None and name == "__copy__":
        return call_function(tx, load_attribute(tx, value, name), [], {})
    if not all(class_lookup(cls, n) in (getattr(object, n, MISSING), MISSING, *more) for n, *more in _ASKED):
        tx.unsupported("GB0028", f"{name.strip('_')} of {describe(value)}")
    special = isinstance(value.real, types.ModuleType) or hasattr(cls, "__slots__")
    entries = {} if special or not has_dict(value.real) else dict_of(tx.output, value).items
    if special or not has_dict(value.real) or any(n in entries for n in _ON_THE_OBJECT):
        tx.unsupported("GB0028", f"{name.strip('_')} of {describe(value)}")
    for asked, *_ in _ASKED:
        if class_lookup(cls, asked) in (MISSING, Module.__getattr__):  # the class may get one later
            guard_class(tx.output, value, asked)
    new = UserDefinedObjectVariable(
        blank(cls), fresh=True, class_source=class_variable(tx, value, cls).source
    )
    if made is not None:
        made[id(value)] = new
    for key, attribute in list(entries.items()):
        new.attrs[key] = inside(attribute)
    return new


# What copying asks of a class, and what else than object's says nothing new. It asks the new object too, so that a
# `__getattr__` would answer; and it calls the class's `__new__`.
_ASKED: tuple[tuple[Any, ...], ...] = (
    ("__reduce_ex__",), ("__reduce__",), ("__getstate__",), ("__setstate__",), ("__deepcopy__",), ("__new__",),
    ("__getnewargs__",), ("__getnewargs_ex__",), ("__getattribute__",), ("__getattr__", Module.__getattr__),
)  # fmt: skip
_ON_THE_OBJECT = ("__deepcopy__", "__setstate__")
