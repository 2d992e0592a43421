"""`@dataclass` on a class that the program defines: Python's decorator, on the prototype now and on the class later.

Input: a LocalClassVariable. What the decorator writes is followed as any other method; annotations and defaults must be
what the decorator can look at: constants and classes.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any, NoReturn

from stage1_capture.state.machine import BUILTINS, Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.class_ import AS_IT_IS, FieldVariable, LocalClassVariable, stand_in, stands_for
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.function import GeneratedFunctionVariable, PartialVariable, UserFunctionVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


def _refuse(tx: Tx, why: str) -> NoReturn:
    tx.unsupported("GB0056", f"a dataclass {why}")


def data_class(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`dataclass(cls, **options)`, or `dataclass(**options)`, which decorates later."""
    if not args:
        decorator = wrap(tx.output, dataclasses.dataclass, None)
        return PartialVariable(function=decorator, args=[], kwargs=kwargs)
    (cls,) = args
    options = {name: tx.constant(value, "an option of dataclass") for name, value in kwargs.items()}
    if not isinstance(cls, LocalClassVariable):
        _refuse(tx, "made of a class from outside")
    if options.get("slots") or options.get("weakref_slot"):
        _refuse(tx, "with slots, which is another class")
    if cls.attrs or cls.options is not None:
        _refuse(tx, "made of a class that was changed before")
    prototype = cls.real
    _read_annotations(tx, cls)
    for base in prototype.__mro__[1:]:
        for field in vars(base).get("__dataclass_fields__", {}).values():
            if id(field) not in tx.output.known:
                _check_inherited(tx, field)
    before = dict(vars(prototype))
    try:
        dataclasses.dataclass(prototype, **options)
    except (TypeError, ValueError) as error:
        _refuse(tx, f"that Python refuses: {error}")
    cls.options = options
    _find_again(tx, cls, before)
    return cls


def _read_annotations(tx: Tx, cls: LocalClassVariable) -> None:
    """The annotations and defaults, as the decorator reads them off the prototype."""
    annotations = cls.names.get("__annotations__", ConstDictVariable({}))
    if annotations.family() is not dict:
        _refuse(tx, "whose annotations are computed")
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
    for field in prototype.__dataclass_fields__.values():
        if id(field) not in tx.output.known:
            stands_for(tx, field, UserDefinedObjectVariable(field, private=True))


def _plain(tx: Tx, value: Variable, kinds: tuple[type, ...] = (type,)) -> Any:
    """An annotation or a default, as the decorator reads it."""
    match value:
        case ConstantVariable(value=constant) if (
            type(value) is ConstantVariable and type(constant) in AS_IT_IS
        ):
            return constant
        case UserDefinedObjectVariable(real=real) if isinstance(real, kinds):
            return real
    _refuse(tx, "with an annotation or a default that is neither a constant nor a class")


def _check_inherited(tx: Tx, field: Any) -> None:
    """A field of a base from outside has no guard of its own."""
    constant = field.default is dataclasses.MISSING or type(field.default) in AS_IT_IS
    if not constant or not isinstance(field.default_factory, (type, type(dataclasses.MISSING))):
        _refuse(tx, f"that inherits the field {field.name}")


BUILTINS[dataclasses.dataclass] = data_class

_OPTIONS = ("init", "repr", "hash", "compare", "kw_only")


def field(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`dataclasses.field(...)`."""
    options: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name == "default_factory" and isinstance(value, (UserFunctionVariable, UserDefinedObjectVariable)):
            options[name] = stand_in(tx, value)
        elif name == "default":
            options[name] = _plain(tx, value)
        elif name in _OPTIONS:
            options[name] = tx.constant(value, "an option of a field")
        else:
            _refuse(tx, f"with the option {name} of a field")
    if args:
        _refuse(tx, "with a field's options by position")
    try:
        real: Any = dataclasses.field(**options)
    except (TypeError, ValueError) as error:
        _refuse(tx, f"that Python refuses: {error}")
    made = FieldVariable(real, options=kwargs)
    stands_for(tx, real, made)
    return made


BUILTINS[dataclasses.field] = field
