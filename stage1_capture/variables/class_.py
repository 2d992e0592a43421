"""Classes that the program defines, and what their bodies hold: properties, class methods, fields.

Input: what the call of `__build_class__` is given, as abstract values: the body is followed. A prototype, to look names
up in, is a real class with the same bases and names; what lies in it are stand-ins, each known to stand for an abstract
value. residual/rebuild.py makes the real class. `@dataclass` is Python's decorator, on the prototype now and on the
class later: what it writes is followed as any other method; annotations and defaults must be constants and classes.
"""

from __future__ import annotations

import builtins
import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from stage0_eager.nn import Module
from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import is_library_class
from stage1_capture.state.machine import BUILTINS, METHODS, Args, Kwargs, Tx, builtin
from stage1_capture.state.prototypes import MADE_INSIDE
from stage1_capture.variables.base import NotConstant, Variable, as_constant, realize
from stage1_capture.variables.binding import pending
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.derived import EMPTY
from stage1_capture.variables.function import (
    CellVariable,
    GeneratedFunctionVariable,
    PartialVariable,
    UserFunctionVariable,
)
from stage1_capture.variables.hash_keys import by_identity
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.ndarray import NumpyNdarrayVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import MISSING, class_lookup, made_by_python


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
        held = (*self.bases, *self.names.values(), *self.attrs.values(), self.cell)
        return [value for value in held if value is not None]

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name == "__annotations__" and name in self.names and pending(tx, self.real, name) is MISSING:
            return self.names[name]
        return super().var_getattr(tx, name)

    def hash_key(self, tx: Tx) -> Any:
        return by_identity(tx, self)


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
        tx.unsupported("GB0022", f"the attribute {name} of {self.describe()}")


_FUNCTIONS = ("fget", "fset", "fdel")


class FieldVariable(UserDefinedObjectVariable):
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


def build_class(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`class name(*bases): body`. A metaclass or a user-defined hook, which may do anything, is a break."""
    body, name, *bases = args
    if kwargs:
        _refuse(tx, "with keywords")
    if not isinstance(body, UserFunctionVariable) or body.code.co_argcount:
        _refuse(tx, f"whose body is {body.describe()}")
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
        _refuse(tx, f"with a metaclass or with {base.describe()} as a base")
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
        _refuse(tx, f"with {value.describe()} as an attribute")
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
        return value.identity(tx)
    cells = tuple(types.CellType() for _ in value.code.co_freevars)
    return stands_for(tx, types.FunctionType(value.code, value.globals, value.name, None, cells), value)


def _object(tx: Tx, value: Any) -> Any:
    if isinstance(value.real, _ITSELF):
        return value.real
    if not value.fresh and tx.output.known.get(id(value.real)) is not value:
        _refuse(tx, f"with {value.describe()} as an attribute")
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


def _wrapper(tx: Tx, kind: Any, parts: list[Variable]) -> WrapperVariable:
    """`kind(*parts)`: of functions, or None."""
    reals = [stand_in(tx, part) for part in parts]
    for real, part in zip(reals, parts, strict=True):
        if not isinstance(real, types.FunctionType | None):
            tx.unsupported("GB0057", f"a {kind.__name__} of {part.describe()}")
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


def _changed(index: int, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`prop.setter(function)` and its like: another property."""
    owner, function = args
    parts = list(owner.functions)
    parts[index] = function
    return _wrapper(tx, property, parts)


for _index, _name in enumerate(("getter", "setter", "deleter")):
    METHODS[WrapperVariable, _name] = partial(_changed, _index)


def _refuse_data(tx: Tx, why: str) -> NoReturn:
    tx.unsupported("GB0056", f"a dataclass {why}")


def data_class(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`dataclass(cls, **options)`, or `dataclass(**options)`, which decorates later."""
    if not args:
        decorator = wrap(tx.output, dataclasses.dataclass, None)
        return PartialVariable(function=decorator, args=[], kwargs=kwargs)
    (cls,) = args
    options = {name: tx.constant(value, "an option of dataclass") for name, value in kwargs.items()}
    if not isinstance(cls, LocalClassVariable):
        _refuse_data(tx, "made of a class from outside")
    if options.get("slots") or options.get("weakref_slot"):
        _refuse_data(tx, "with slots, which is another class")
    if cls.attrs or cls.options is not None:
        _refuse_data(tx, "made of a class that was changed before")
    prototype = cls.real
    _read_annotations(tx, cls)
    for base in prototype.__mro__[1:]:
        for one in vars(base).get("__dataclass_fields__", {}).values():
            if id(one) not in tx.output.known:
                _check_inherited(tx, one)
    before = dict(vars(prototype))
    try:
        dataclasses.dataclass(prototype, **options)
    except (TypeError, ValueError) as error:
        _refuse_data(tx, f"that Python refuses: {error}")
    cls.options = options
    _find_again(tx, cls, before)
    return cls


def _read_annotations(tx: Tx, cls: LocalClassVariable) -> None:
    """The annotations and defaults, as the decorator reads them off the prototype."""
    annotations = cls.names.get("__annotations__", ConstDictVariable({}))
    if annotations.family() is not dict:
        _refuse_data(tx, "whose annotations are computed")
    own = vars(cls.real).get("__annotations__", {})
    for name, value in annotations.items.items():
        own[name] = _plain(tx, realize(value), (type, types.GenericAlias, types.UnionType))
        default = cls.names.get(name)
        if default is not None and not isinstance(default, FieldVariable):
            _plain(tx, default)


def _find_again(tx: Tx, cls: LocalClassVariable, before: dict[str, Any]) -> None:
    """What the decorator wrote into the class, and its fields, are found in the class that is made again."""
    prototype: Any = cls.real
    for name, value in vars(prototype).items():
        written = isinstance(value, types.FunctionType) and value is not before.get(name)
        if written and id(value) not in tx.output.known:
            followed = wrap(tx.output, value, None)
            fields = {f.name: getattr(followed, f.name) for f in dataclasses.fields(followed)}
            stands_for(tx, value, GeneratedFunctionVariable(**fields, owner=cls, attribute=name))
    for one in prototype.__dataclass_fields__.values():
        if id(one) not in tx.output.known:
            stands_for(tx, one, UserDefinedObjectVariable(one, private=True))


def _plain(tx: Tx, value: Variable, kinds: tuple[type, ...] = (type,)) -> Any:
    """An annotation or a default, as the decorator reads it."""
    match value:
        case ConstantVariable(value=constant) if (
            type(value) is ConstantVariable and type(constant) in AS_IT_IS
        ):
            return constant
        case UserDefinedObjectVariable(real=real) if isinstance(real, kinds):
            return real
    _refuse_data(tx, "with an annotation or a default that is neither a constant nor a class")


def _check_inherited(tx: Tx, field: Any) -> None:
    """A field of a base from outside has no guard of its own."""
    constant = field.default is dataclasses.MISSING or type(field.default) in AS_IT_IS
    if not constant or not isinstance(field.default_factory, (type, type(dataclasses.MISSING))):
        _refuse_data(tx, f"that inherits the field {field.name}")


BUILTINS[dataclasses.dataclass] = data_class

_OPTIONS = ("init", "repr", "hash", "compare", "kw_only")


def _field(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    options: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name == "default_factory" and isinstance(value, (UserFunctionVariable, UserDefinedObjectVariable)):
            options[name] = stand_in(tx, value)
        elif name == "default":
            options[name] = _plain(tx, value)
        elif name in _OPTIONS:
            options[name] = tx.constant(value, "an option of a field")
        else:
            _refuse_data(tx, f"with the option {name} of a field")
    if args:
        _refuse_data(tx, "with a field's options by position")
    try:
        real: Any = dataclasses.field(**options)
    except (TypeError, ValueError) as error:
        _refuse_data(tx, f"that Python refuses: {error}")
    made = FieldVariable(real, options=kwargs)
    stands_for(tx, real, made)
    return made


BUILTINS[dataclasses.field] = _field
