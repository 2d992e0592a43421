"""Attributes of classes, those that super() finds, and types in brackets: `Cls.name`, `super().name`, `list[int]`.

Input: an abstract class or super object, and a name. Class methods are bound, plain functions are themselves; what a
metaclass computes with a property of its own is followed too.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import TYPE_CHECKING, Any

from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import is_library, is_users, is_users_class
from stage1_capture.state.machine import Tx, attempt
from stage1_capture.state.prototypes import made_inside
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.binding import (
    OBJECT_METHODS,
    base_place,
    guard_metaclass,
    in_class,
    inherited,
    pending,
)
from stage1_capture.variables.builder import class_variable, object_of
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.sequence import TupleVariable
from stage_contracts.class_lookup import MISSING, class_lookup, lookup_behind
from stage_contracts.controls import register
from stage_contracts.source import AttrSource, CallSource, ItemSource, RegisteredSource, Source

if TYPE_CHECKING:
    from stage1_capture.variables.user_object import SuperVariable, UserDefinedObjectVariable


_TEXTS = ("__name__", "__qualname__", "__module__", "__doc__")
_OF_TYPE = (*_TEXTS, "__mro__", "__bases__", "__class__", "__base__", "__dict__", "__subclasses__")
_AS_IT_IS = (types.FunctionType, Operator, functools._lru_cache_wrapper)
_C_METHODS = (types.WrapperDescriptorType, types.MethodDescriptorType)


def class_attribute(tx: Tx, cls: UserDefinedObjectVariable, name: str) -> Variable | None:
    real = cls.real
    stored = pending(tx, real, name)
    if stored is not MISSING:
        return None if stored is None else realize(stored)
    if name in _OF_TYPE:
        return _of_type(tx, cls, name)
    _refuse_new_on_metaclass(tx, real, name)
    meta = class_lookup(type(real), name)
    if isinstance(meta, property) and isinstance(meta.fget, types.FunctionType):
        return tx.inline(tx.wrap(meta.fget, cls.child("__class__", name, "fget")), [cls], {})
    if meta is not MISSING and hasattr(type(meta), "__set__"):
        tx.unsupported("GB0105", f"the attribute {name} of the class {real.__name__}")
    found = class_lookup(real, name)
    _guard_read(tx, cls, name)
    if meta is MISSING and type(real) is not type:
        tx.output.guard_members(cls.child("__class__"), type(real), name)
    if found is MISSING:
        return _on_metaclass(tx, cls, meta, name)
    if isinstance(found, staticmethod):
        found = found.__func__
    elif (shown := _shown(tx, cls, found, name)) is not None:
        return shown
    home = inherited(real, name)
    return tx.wrap(found, home and AttrSource(home, name) or cls.child(name))


def _refuse_new_on_metaclass(tx: Tx, real: type, name: str) -> None:
    if pending(tx, type(real), name) is not MISSING:
        tx.unsupported(
            "GB0105", f"the attribute {name} of the class {real.__name__}, whose metaclass has just got it"
        )


def _guard_read(tx: Tx, cls: UserDefinedObjectVariable, name: str) -> None:
    """Neither the class nor its metaclass is to run code where a guard reads `Cls.name`."""
    if cls.source is not None:
        guard_metaclass(tx.output, cls.source, cls.real, name)
        if is_users_class(cls.real):
            tx.output.guard_plain(cls.source, cls.real, name)


def _of_type(tx: Tx, cls: UserDefinedObjectVariable, name: str) -> Variable:
    """What `type` itself says of a class."""
    if name in _TEXTS:
        return from_constant(getattr(cls.real, name))
    if name in ("__mro__", "__bases__"):
        rows, source = getattr(cls.real, name), cls.child(name)
        return TupleVariable([tx.wrap(c, source and ItemSource(source, i)) for i, c in enumerate(rows)])
    if name in ("__class__", "__base__"):
        return tx.wrap(getattr(cls.real, name), cls.child(name))
    tx.unsupported("GB0022", f"the attribute {name} of the class {cls.real.__name__}")


def _shown(tx: Tx, cls: UserDefinedObjectVariable, found: Any, name: str) -> Variable | None:
    """A class attribute for which the class shows something other than what lies in it."""
    real = cls.real
    if isinstance(found, types.ClassMethodDescriptorType):  # dict.fromkeys
        return object_of(found.__get__(None, real))
    if isinstance(found, classmethod):
        home = inherited(real, name)
        place = home and AttrSource(AttrSource(home, name), "__func__") or cls.child(name, "__func__")
        return UserMethodVariable(tx.wrap(found.__func__, place), cls)
    if name == "__new__" and found is object.__new__:
        return None
    if isinstance(found, _C_METHODS):  # list.append, object.__setattr__
        if is_users_class(real):  # which may get one of its own
            tx.output.guard("IDENTITY", cls.child(name), found)
        return object_of(found)
    if isinstance(found, property):
        return tx.wrap(found, in_class(cls.source, real, name))
    if isinstance(found, _AS_IT_IS) or not hasattr(type(found), "__get__"):
        return None
    if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
        return tx.wrap(found, in_class(cls.source, real, name)).ask(tx, "__get__", from_constant(None), cls)
    tx.unsupported("GB0098", f"the descriptor {real.__name__}.{name}")


def _on_metaclass(tx: Tx, cls: UserDefinedObjectVariable, meta: Any, name: str) -> Variable | None:
    """What the class does not have and its metaclass may."""
    if isinstance(meta, types.FunctionType):
        source = cls.source and AttrSource(AttrSource(cls.source, "__class__"), name)
        return UserMethodVariable(tx.wrap(meta, source), cls)
    if meta is type.mro or meta is type.__subclasses__:
        return UserMethodVariable(object_of(meta), cls)
    if meta is not MISSING or class_lookup(type(cls.real), "__getattr__") is not MISSING:
        tx.unsupported("GB0105", f"the attribute {name} of the class {cls.real.__name__}")
    tx.output.guard("ABSENT", cls.source, name)
    return None


def super_attribute(tx: Tx, value: SuperVariable, name: str) -> Variable | None:
    """`super().name`: the lookup begins behind `owner` in the order of the receiver's classes."""
    receiver: Any = value.receiver
    real = receiver.real
    of_class = isinstance(real, type) and issubclass(real, value.owner)
    cls = real if of_class else type(real)
    order = cls.__mro__
    start = order.index(value.owner) + 1
    if (stored := pending(tx, cls, name, start)) is not MISSING:
        return None if stored is None else realize(stored)
    index = next((i for i in range(start, len(order)) if name in order[i].__dict__), None)
    if index is None:
        _guard_nothing_behind(tx, receiver, cls, start, name, of_class)
        return None
    found = order[index].__dict__[name]
    source = _place_behind(receiver, cls, start, index, name, of_class)
    return _descriptor_behind(tx, receiver, found, source, name, of_class)


def _descriptor_behind(
    tx: Tx, receiver: Any, found: Any, source: Source | None, name: str, of_class: bool
) -> Variable | None:
    """What super() makes of what it found: bound to the receiver, or to its class. of_class: the receiver is one."""
    if isinstance(found, classmethod):
        function = tx.wrap(found.__func__, source and AttrSource(source, "__func__"))
        cls = receiver if of_class else class_variable(tx, receiver, type(receiver.real))
        return UserMethodVariable(function, cls)
    if isinstance(found, property) and not of_class:
        return tx.inline(tx.wrap(found.fget, source and AttrSource(source, "fget")), [receiver], {})
    if isinstance(found, staticmethod):
        return _seen_by(tx, receiver, found.__func__, source and AttrSource(source, "__func__"), name, True)
    return _seen_by(tx, receiver, found, source, name, unbound=of_class or name == "__new__")


def _seen_by(tx: Tx, receiver: Any, found: Any, source: Source | None, name: str, unbound: bool) -> Variable:
    """What super() shows of something it found. unbound: as it is, without the receiver."""
    if any(found is known for known in OBJECT_METHODS):
        return object_of(found) if unbound else UserMethodVariable(object_of(found), receiver)
    if isinstance(found, types.BuiltinFunctionType) and name == "__new__":  # tuple.__new__
        return object_of(found)
    if isinstance(found, _C_METHODS) and receiver.base is not None:
        return UserMethodVariable(object_of(found), receiver)
    if isinstance(found, types.FunctionType):
        function = tx.wrap(found, None if is_library(found.__globals__) else source)
        return function if unbound else UserMethodVariable(function, receiver)
    if hasattr(type(found), "__get__"):
        tx.unsupported("GB0098", f"super().{name}, which is not a plain method")
    return tx.wrap(found, source)


def _place_behind(
    receiver: Any, cls: type, start: int, index: int, name: str, of_class: bool
) -> Source | None:
    """How what super() finds is reached again."""
    if made_inside(cls):
        home = base_place(cls.__mro__[index])
        return home and ItemSource(AttrSource(home, "__dict__"), name)
    return _found_behind(receiver, start, name, of_class)


def _found_behind(receiver: Any, start: int, name: str, of_class: bool) -> Source | None:
    base = receiver.source if of_class else receiver.class_place()
    return base and CallSource(RegisteredSource(register(lookup_behind)), (base, start, name))


def _guard_nothing_behind(tx: Tx, receiver: Any, cls: type, start: int, name: str, of_class: bool) -> None:
    """Guard that super() still finds nothing: it might later."""
    if not made_inside(cls):
        tx.output.guard("IDENTITY", _found_behind(receiver, start, name, of_class), MISSING)
    for outside in cls.__mro__[start:] if made_inside(cls) else ():
        tx.output.guard_members(base_place(outside), outside, name)


_FORMS = (type(typing.Optional), type(typing.List), types.GenericAlias, type(typing.List[int]))  # noqa: UP006


def takes_types(real: Any) -> bool:
    """list, a generic class, typing.Optional: what is in brackets says types."""
    generic = isinstance(real, type) and class_lookup(type(real), "__getitem__") is MISSING
    own = class_lookup(real, "__class_getitem__") if generic else MISSING
    own = getattr(own, "__func__", own)
    return isinstance(real, _FORMS) or (
        generic and own is not MISSING and not is_users(getattr(own, "__globals__", {"__name__": "builtins"}))
    )


def parametrised(tx: Tx, generic: UserDefinedObjectVariable, key: Variable) -> Variable:
    keys = [realize(k) for k in key.items] if key.family() is tuple else [key]
    words = [k.type_word(tx) for k in keys]
    chosen = tuple(words) if key.family() is tuple else words[0]
    return object_of(attempt(tx, f"{generic.describe()} in brackets", lambda: generic.real[chosen]))
