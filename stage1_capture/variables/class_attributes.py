"""Attributes of classes, and those that super() finds: `Cls.name`, `super().name`.

Input: an abstract class or super object, and a name. Class methods are bound, plain functions are themselves; what a
metaclass computes with a property of its own is followed too.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import is_library, is_users
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import MISSING, class_lookup, lookup_behind, made_inside
from stage1_capture.variables.base import (
    ConstantVariable,
    LocalClassVariable,
    SuperVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    realize,
)
from stage1_capture.variables.binding import (
    OBJECT_METHODS,
    base_place,
    child,
    class_of,
    guard_metaclass,
    in_class,
    inherited,
    pending,
)
from stage1_capture.variables.builder import wrap
from stage_contracts.controls import register
from stage_contracts.source import AttrSource, CallSource, ItemSource, RegisteredSource, Source

_TEXTS = ("__name__", "__qualname__", "__module__", "__doc__")
_C_METHODS = (types.WrapperDescriptorType, types.MethodDescriptorType)


def class_attribute(tx: Tx, cls: UserDefinedObjectVariable, name: str) -> Variable | None:
    """`Cls.name`."""
    real = cls.real
    stored = pending(tx, real, name)
    if stored is not MISSING:
        return None if stored is None else realize(stored)
    if name == "__annotations__" and isinstance(cls, LocalClassVariable) and name in cls.names:
        return cls.names[name]
    if name in _TEXTS:
        return ConstantVariable(getattr(real, name))
    if name in ("__mro__", "__bases__"):
        rows = getattr(real, name)
        source = cls.source and AttrSource(cls.source, name)
        return TupleVariable(
            [wrap(tx.output, c, source and ItemSource(source, i)) for i, c in enumerate(rows)]
        )
    if name in ("__class__", "__base__"):
        return wrap(tx.output, getattr(real, name), child(cls, name))
    if name in ("__dict__", "__subclasses__"):
        tx.unsupported("GB0022", f"the attribute {name} of the class {real.__name__}")
    meta = class_lookup(type(real), name)
    if isinstance(meta, property) and isinstance(meta.fget, types.FunctionType):
        place = cls.source and AttrSource(AttrSource(AttrSource(cls.source, "__class__"), name), "fget")
        getter = wrap(tx.output, meta.fget, place)
        assert isinstance(getter, UserFunctionVariable)
        return tx.inline(getter, [cls], {})
    if meta is not MISSING and hasattr(type(meta), "__set__"):
        tx.unsupported("GB0022", f"the attribute {name} of the class {real.__name__}")
    found = class_lookup(real, name)
    if cls.source is not None:
        guard_metaclass(tx.output, cls.source, real, name)
        if is_users({"__name__": real.__module__}):
            tx.output.guard_plain(cls.source, real, name)
    if meta is MISSING and type(real) is not type:
        tx.output.guard("LACKS", cls.source and AttrSource(cls.source, "__class__"), name)
    if found is MISSING:
        return _on_metaclass(tx, cls, meta, name)
    if isinstance(found, staticmethod):
        found = found.__func__
    elif isinstance(found, (classmethod, types.ClassMethodDescriptorType)):
        if isinstance(found, types.ClassMethodDescriptorType):  # dict.fromkeys
            return UserDefinedObjectVariable(found.__get__(None, real))
        home = inherited(real, name)
        place = home and AttrSource(AttrSource(home, name), "__func__") or child(cls, name, "__func__")
        return UserMethodVariable(wrap(tx.output, found.__func__, place), cls)
    elif name == "__new__" and found is object.__new__:
        pass
    elif isinstance(found, _C_METHODS):  # list.append, object.__setattr__
        if is_users({"__name__": real.__module__}):  # which may get one of its own
            tx.output.guard("IDENTITY", child(cls, name), found)
        return UserDefinedObjectVariable(found)
    elif isinstance(found, property):
        return wrap(tx.output, found, in_class(cls.source, real, name))
    elif not isinstance(found, (types.FunctionType, Operator, functools._lru_cache_wrapper)) and hasattr(
        type(found), "__get__"
    ):
        if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
            return _described(tx, cls, found, name)
        tx.unsupported("GB0098", f"the descriptor {real.__name__}.{name}")
    home = inherited(real, name)
    return wrap(tx.output, found, home and AttrSource(home, name) or child(cls, name))


def _described(tx: Tx, cls: UserDefinedObjectVariable, found: Any, name: str) -> Variable:
    """A descriptor written in Python, asked without an instance."""
    from stage1_capture.variables.attributes import special_method

    method = special_method(tx, wrap(tx.output, found, in_class(cls.source, cls.real, name)), "__get__")
    assert method is not None
    return tx.call(method, [ConstantVariable(None), cls], {})


def _on_metaclass(tx: Tx, cls: UserDefinedObjectVariable, meta: Any, name: str) -> Variable | None:
    """What the class does not have and its metaclass may."""
    if isinstance(meta, types.FunctionType):
        source = cls.source and AttrSource(AttrSource(cls.source, "__class__"), name)
        return UserMethodVariable(wrap(tx.output, meta, source), cls)
    if meta is type.mro or meta is type.__subclasses__:
        return UserMethodVariable(UserDefinedObjectVariable(meta), cls)
    if meta is not MISSING or class_lookup(type(cls.real), "__getattr__") is not MISSING:
        tx.unsupported("GB0022", f"the attribute {name} of the class {cls.real.__name__}")
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
    index = next((i for i in range(start, len(order)) if name in order[i].__dict__), None)
    base = receiver.source if of_class else class_of(receiver)
    source: Source | None = None
    if base is not None and not made_inside(cls):
        source = CallSource(RegisteredSource(register(lookup_behind)), (base, start, name))
    if index is None:
        tx.output.guard("IDENTITY", source, MISSING)
        for outside in order[start:] if made_inside(cls) else ():
            tx.output.guard("LACKS", base_place(outside), name)
        return None
    found = order[index].__dict__[name]
    if made_inside(cls):
        home = base_place(order[index])
        source = home and ItemSource(AttrSource(home, "__dict__"), name)
    if isinstance(found, staticmethod) and source is not None:
        source = AttrSource(source, "__func__")
    if isinstance(found, staticmethod):  # __new__
        found = found.__func__
        unbound = True
    else:
        unbound = name == "__new__"
    if any(found is known for known in OBJECT_METHODS):
        bound = UserDefinedObjectVariable(found)
        return bound if unbound or of_class else UserMethodVariable(bound, receiver)
    if isinstance(found, types.BuiltinFunctionType) and name == "__new__":  # tuple.__new__
        return UserDefinedObjectVariable(found)
    if isinstance(found, _C_METHODS) and receiver.base is not None:
        return UserMethodVariable(UserDefinedObjectVariable(found), receiver)
    if isinstance(found, property) and not of_class:
        getter = wrap(tx.output, found.fget, source and AttrSource(source, "fget"))
        assert isinstance(getter, UserFunctionVariable)
        return tx.inline(getter, [receiver], {})
    if isinstance(found, classmethod):
        from stage1_capture.variables.binding import class_variable

        function = wrap(tx.output, found.__func__, source and AttrSource(source, "__func__"))
        return UserMethodVariable(function, receiver if of_class else class_variable(tx, receiver, cls))
    if not isinstance(found, types.FunctionType):
        if not hasattr(type(found), "__get__"):
            return wrap(tx.output, found, source)
        tx.unsupported("GB0022", f"super().{name}, which is not a plain method")
    function = wrap(tx.output, found, None if is_library(found.__globals__) else source)
    return function if unbound or of_class else UserMethodVariable(function, receiver)
