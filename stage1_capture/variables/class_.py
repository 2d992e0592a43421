"""Classes that the program defines, and what their bodies hold: properties, class methods, fields.

Input: what the call of `__build_class__` is given, as abstract values: the body is followed. A prototype, to look names
up in, is a real class with the same bases and names; what lies in it are stand-ins, each known to stand for an abstract
value. residual/rebuild.py makes the real class.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from stage0_eager.nn import Module
from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import is_library_class
from stage1_capture.state.machine import BUILTINS, METHODS, Args, Kwargs, Tx, builtin
from stage1_capture.state.mro import MADE_INSIDE, MISSING, class_lookup, made_by_python
from stage1_capture.variables.base import NotConstant, Variable, as_constant, describe, realize
from stage1_capture.variables.binding import pending
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.derived import EMPTY
from stage1_capture.variables.function import CellVariable, PartialVariable, UserFunctionVariable
from stage1_capture.variables.hash_keys import by_identity
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.ndarray import NumpyNdarrayVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


@dataclass(eq=False)
class LocalClassVariable(UserDefinedObjectVariable):
    """A class that the program defined. `real` is its prototype.

    names: what its body stored, in order; `cell`: what `__class__` and super() find it in.
    attrs: what was stored on it later.
    """

    name: str = ""
    bases: list[Variable] = field(default_factory=list)
    names: dict[str, Variable] = field(default_factory=dict)
    cell: CellVariable | None = None
    options: dict[str, Any] | None = None  # of a dataclass

    def parts(self) -> list[Variable]:
        stored = [a for a in self.attrs.values() if a is not None]
        return [*self.bases, *self.names.values(), *stored, *([] if self.cell is None else [self.cell])]

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name == "__annotations__" and name in self.names and pending(tx, self.real, name) is MISSING:
            return self.names[name]
        return super().var_getattr(tx, name)

    def hash_key(self, tx: Tx) -> Any:
        return by_identity(tx, self)


@dataclass(eq=False)
class WrapperVariable(UserDefinedObjectVariable):
    """A property, classmethod or staticmethod made inside; `real` is one of the stand-ins of `functions`."""

    functions: list[Variable] = field(default_factory=list)

    def parts(self) -> list[Variable]:
        return self.functions

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        """`prop.fget`, `prop.setter`, `method.__func__`."""
        if isinstance(self.real, property):
            if name in _FUNCTIONS:
                return self.functions[_FUNCTIONS.index(name)]
            if name in ("getter", "setter", "deleter"):
                return UserMethodVariable(name, self)
        elif name in ("__func__", "__wrapped__"):
            return self.functions[0]
        tx.unsupported("GB0022", f"the attribute {name} of {describe(self)}")


_FUNCTIONS = ("fget", "fset", "fdel")


@dataclass(eq=False)
class FieldVariable(UserDefinedObjectVariable):
    """dataclasses.field(**options)."""

    options: dict[str, Variable] = field(default_factory=dict)

    def parts(self) -> list[Variable]:
        return [*self.options.values()]


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
    real = base.known_object()
    if not isinstance(real, type) or type(real) is not type:
        _refuse(tx, f"with a metaclass or with {describe(base)} as a base")
    if class_lookup(real, "__init_subclass__") is not object.__dict__["__init_subclass__"]:
        _refuse(tx, f"whose base {real.__name__} has __init_subclass__")
    if class_lookup(real, "__del__") is not MISSING:
        _refuse(tx, f"whose base {real.__name__} has __del__")
    if is_library_class(real) and real is not Module:
        _refuse(tx, f"whose base is {real.__name__}")
    if tx.output.class_stores:  # which the prototype would not show
        _refuse(tx, "after a change of a class")
    return real


def _check_kind(tx: Tx, prototype: type) -> None:
    for base in prototype.__mro__:
        followed = base is object or base in EMPTY or issubclass(base, BaseException)
        if not (made_by_python(base) or followed):
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
    if name == "__annotations__" and value.family() is dict:
        return stands_for(tx, {}, value)
    return stand_in(tx, value)


def _constant(tx: Tx, name: str, value: Variable) -> Any:
    try:
        return as_constant(value)
    except NotConstant:
        _refuse(tx, f"whose {name} is computed")


AS_IT_IS = (bool, int, float, str, bytes, type(None), type(...))
_ITSELF = (type, types.ModuleType, types.BuiltinFunctionType, Operator)


def stand_in(tx: Tx, value: Variable) -> Any:
    """A real object that binds as the value does when it is found in a class."""
    rule = next((STAND_INS[c] for c in type(value).__mro__ if c in STAND_INS), None)
    if rule is None:
        _refuse(tx, f"with {describe(value)} as an attribute")
    return rule(tx, value)


def _anything(tx: Tx, value: Any) -> Any:
    return stands_for(tx, StandIn(), value)


def _constant_itself(tx: Tx, value: Any) -> Any:
    constant = value.value  # which fixes an open number
    if type(value) is ConstantVariable and type(constant) in AS_IT_IS:
        return constant
    return _anything(tx, value)


def _function(tx: Tx, value: Any) -> Any:
    if value.real is not None:
        return value.real
    cells = tuple(types.CellType() for _ in value.code.co_freevars)
    return stands_for(tx, types.FunctionType(value.code, value.globals, value.name, None, cells), value)


def _object(tx: Tx, value: Any) -> Any:
    if isinstance(value.real, _ITSELF):
        return value.real
    if not value.fresh and tx.output.known.get(id(value.real)) is not value:
        _refuse(tx, f"with {describe(value)} as an attribute")
    return stands_for(tx, value.real, value) if value.fresh else value.real


STAND_INS: dict[type, Callable[[Tx, Any], Any]] = {
    **dict.fromkeys(
        (TensorVariable, NumpyNdarrayVariable, ListVariable, TupleVariable, ConstDictVariable), _anything
    ),
    **dict.fromkeys((SetVariable, PartialVariable, UserMethodVariable), _anything),
    ConstantVariable: _constant_itself,
    UserFunctionVariable: _function,
    UserDefinedObjectVariable: _object,
    WrapperVariable: lambda tx, value: value.real,
    FieldVariable: lambda tx, value: value.real,
}


# ---- property, classmethod, staticmethod ---------------------------------------------------------------


def _wrapper(tx: Tx, kind: Any, parts: list[Variable]) -> WrapperVariable:
    """`kind(*parts)`: of functions, or None."""
    reals = [stand_in(tx, part) for part in parts]
    for real, part in zip(reals, parts, strict=True):
        if not isinstance(real, types.FunctionType | None):
            tx.unsupported("GB0057", f"a {kind.__name__} of {describe(part)}")
    made = WrapperVariable(kind(*reals), functions=parts)
    stands_for(tx, made.real, made)
    return made


@builtin(property)
def _property(
    tx: Tx, fget: Variable = NONE, fset: Variable = NONE, fdel: Variable = NONE, doc: Variable = NONE
) -> Variable:
    if not doc.is_none():
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
        parts = list(owner.functions)
        parts[index] = function
        return _wrapper(tx, property, parts)

    return change


for _index, _name in enumerate(("getter", "setter", "deleter")):
    METHODS[WrapperVariable, _name] = _changed(_index)
