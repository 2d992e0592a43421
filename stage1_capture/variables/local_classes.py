"""Classes that the program defines while it is captured: the body followed, and a prototype to look names up in.

Input: what the call of `__build_class__` is given, as abstract values. A prototype is a real class with the same bases
and names; what lies in it are stand-ins, each known to stand for an abstract value. residual/rebuild.py makes the
real class.
"""

from __future__ import annotations

import builtins
import types
from dataclasses import dataclass
from typing import Any, NoReturn

from stage0_eager.nn import Module
from stage0_eager.table.operator import Operator
from stage1_capture.builtins.python import builtin
from stage1_capture.state.graph_builder import is_library
from stage1_capture.state.machine import BUILTINS, METHODS, Args, Kwargs, Tx
from stage1_capture.state.mro import MADE_INSIDE, MISSING, class_lookup
from stage1_capture.variables.base import (
    NONE,
    CellVariable,
    ConstantVariable,
    ConstDictVariable,
    FieldVariable,
    ListVariable,
    LocalClassVariable,
    NotConstant,
    NumpyNdarrayVariable,
    PartialVariable,
    SetVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    WrapperVariable,
    as_constant,
    describe,
    realize,
)
from stage1_capture.variables.derived import EMPTY

_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that Python code made
# tuples that Python reads when it makes the class, and capture later
_READ_NOW = ("__slots__", "__match_args__")
# Python runs these at times of its own, or for what capture does with a blank object of the class.
_REFUSED = ("__del__", "__getattribute__", "__set_name__")


@dataclass(eq=False)
class StandIn:
    """A class attribute without `__get__`."""


def _refuse(tx: Tx, why: str) -> NoReturn:
    tx.unsupported("GB0056", f"a class definition {why}")


# ---- the statement -------------------------------------------------------------------------------


def build_class(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`class name(*bases): body`. A metaclass or a user-defined hook, which may do anything, is a break."""
    body, name, *bases = args
    if kwargs:
        _refuse(tx, "with keywords")
    if not isinstance(body, UserFunctionVariable) or body.code.co_argcount:
        _refuse(tx, f"whose body is {describe(body)}")
    kinds = [_base(tx, base) for base in bases]
    names = {key: realize(value) for key, value in tx.class_body(body).items()}
    cell = names.pop("__classcell__", None)
    assert cell is None or isinstance(cell, CellVariable)
    for refused in _REFUSED:
        if refused in names:
            _refuse(tx, f"with {refused}")
    inside = {key: _in_class(tx, key, value) for key, value in names.items()}
    called = tx.constant(name, "a class's name")
    try:
        prototype = type(called, tuple(kinds), inside)
    except (TypeError, ValueError) as error:
        _refuse(tx, f"that Python refuses: {error}")
    _check_kind(tx, prototype)
    made = LocalClassVariable(prototype, name=called, bases=bases, names=names, cell=cell)
    setattr(prototype, MADE_INSIDE, made)
    stands_for(tx, prototype, made)
    tx.output.prototypes.append(prototype)
    if cell is not None:
        cell.contents = made
    return made


BUILTINS[builtins.__build_class__] = build_class


def _base(tx: Tx, base: Variable) -> type:
    """A base class that leaves the making of classes to Python."""
    base = realize(base)
    real = base.real if isinstance(base, UserDefinedObjectVariable) else None
    if not isinstance(real, type) or type(real) is not type:
        _refuse(tx, f"with a metaclass or with {describe(base)} as a base")
    if class_lookup(real, "__init_subclass__") is not object.__dict__["__init_subclass__"]:
        _refuse(tx, f"whose base {real.__name__} has __init_subclass__")
    if class_lookup(real, "__del__") is not MISSING:
        _refuse(tx, f"whose base {real.__name__} has __del__")
    if is_library({"__name__": real.__module__}) and real is not Module:
        _refuse(tx, f"whose base is {real.__name__}")
    if tx.output.class_stores:  # which the prototype would not show
        _refuse(tx, "after a change of a class")
    return real


def _check_kind(tx: Tx, prototype: type) -> None:
    for base in prototype.__mro__:
        followed = base is object or base in EMPTY or issubclass(base, BaseException)
        if not (base.__flags__ & _HEAP or followed):
            _refuse(tx, f"whose base is {base.__name__}")


# ---- what lies in the prototype ----------------------------------------------------------------------


def stands_for(tx: Tx, real: Any, value: Variable) -> Any:
    """From now on, who finds `real` has found `value`."""
    tx.output.known[id(real)] = value
    tx.output.kept.append(real)
    return real


def _in_class(tx: Tx, name: str, value: Variable) -> Any:
    """The stand-in of a value under a name of a class."""
    if isinstance(value, UserDefinedObjectVariable):
        setter = class_lookup(type(value.real), "__set_name__")  # a field hands it on to its default
        known = isinstance(value, FieldVariable) or isinstance(value.real, type)
        if isinstance(setter, types.FunctionType) and not known:
            _refuse(tx, f"in which {name} has __set_name__")
    if name in _READ_NOW:
        return _constant(tx, name, value)
    if name == "__annotations__" and isinstance(value, ConstDictVariable):
        return stands_for(tx, {}, value)
    return stand_in(tx, value)


def _constant(tx: Tx, name: str, value: Variable) -> Any:
    try:
        return as_constant(value)
    except NotConstant:
        _refuse(tx, f"whose {name} is computed")


AS_IT_IS = (bool, int, float, str, bytes, type(None), type(...))
_ITSELF = (type, types.ModuleType, types.BuiltinFunctionType, Operator)
_PLAIN = (
    ConstantVariable,
    TensorVariable,
    NumpyNdarrayVariable,
    ListVariable,
    TupleVariable,
    ConstDictVariable,
    SetVariable,
    PartialVariable,
    UserMethodVariable,
)


def stand_in(tx: Tx, value: Variable) -> Any:
    """A real object that binds as the value does when it is found in a class."""
    match value:
        case ConstantVariable(value=constant) if (
            type(value) is ConstantVariable and type(constant) in AS_IT_IS
        ):
            return constant
        case UserFunctionVariable(real=None):
            cells = tuple(types.CellType() for _ in value.code.co_freevars)
            made = types.FunctionType(value.code, value.globals, value.name, None, cells)
            return stands_for(tx, made, value)
        case UserFunctionVariable(real=types.FunctionType() as real):
            return real
        case UserDefinedObjectVariable(real=real) if isinstance(real, _ITSELF):
            return real
        case WrapperVariable(real=real) | FieldVariable(real=real):
            return real
        case UserDefinedObjectVariable(real=real, fresh=True):
            return stands_for(tx, real, value)
        case UserDefinedObjectVariable(real=real) if tx.output.known.get(id(real)) is value:
            return real
    if not isinstance(value, _PLAIN):
        _refuse(tx, f"with {describe(value)} as an attribute")
    return stands_for(tx, StandIn(), value)


# ---- property, classmethod, staticmethod ---------------------------------------------------------------

_FUNCTIONS = ("fget", "fset", "fdel")


def _wrapper(tx: Tx, kind: Any, parts: list[Variable]) -> WrapperVariable:
    """`kind(*parts)`: of functions, or None."""
    reals = [stand_in(tx, part) for part in parts]
    for real, part in zip(reals, parts, strict=True):
        if not isinstance(real, types.FunctionType | None):
            tx.unsupported("GB0057", f"a {kind.__name__} of {describe(part)}")
    made = WrapperVariable(kind(*reals), parts=parts)
    stands_for(tx, made.real, made)
    return made


@builtin(property)
def _property(
    tx: Tx, fget: Variable = NONE, fset: Variable = NONE, fdel: Variable = NONE, doc: Variable = NONE
) -> Variable:
    if not (isinstance(doc, ConstantVariable) and doc.value is None):
        tx.unsupported("GB0057", "a property with a doc")
    return _wrapper(tx, property, [fget, fset, fdel])


@builtin(staticmethod)
def _static(tx: Tx, function: Variable) -> Variable:
    return _wrapper(tx, staticmethod, [function])


@builtin(classmethod)
def _class_method(tx: Tx, function: Variable) -> Variable:
    return _wrapper(tx, classmethod, [function])


def _changed(index: int) -> Any:
    """`prop.setter(function)` and its like: another property."""

    def change(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        owner, function = args
        assert isinstance(owner, WrapperVariable)
        parts = list(owner.parts)
        parts[index] = function
        return _wrapper(tx, property, parts)

    return change


for _index, _name in enumerate(("getter", "setter", "deleter")):
    METHODS[WrapperVariable, _name] = _changed(_index)


def wrapper_attribute(tx: Tx, value: WrapperVariable, name: str) -> Variable | None:
    """`prop.fget`, `prop.setter`, `method.__func__`."""
    if isinstance(value.real, property):
        if name in _FUNCTIONS:
            return value.parts[_FUNCTIONS.index(name)]
        if name in ("getter", "setter", "deleter"):
            return UserMethodVariable(name, value)
    elif name in ("__func__", "__wrapped__"):
        return value.parts[0]
    tx.unsupported("GB0022", f"the attribute {name} of {describe(value)}")
