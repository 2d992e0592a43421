"""A class attribute seen from an instance: methods bound, descriptors asked; and how classes are reached again.

Input: what lies in a class, and the abstract object it was looked up on. Functions found there are guarded by their
place in the class.
"""

from __future__ import annotations

import functools
import random
import types
from typing import Any

from stage0_eager.nn import Module
from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import OutputGraph, is_library, is_users
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import MISSING, class_lookup, has_dict, made_inside
from stage1_capture.variables.base import (
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    describe,
)
from stage1_capture.variables.builder import REGISTRIES, wrap
from stage_contracts.controls import register
from stage_contracts.guard_constants import getters
from stage_contracts.source import AttrSource, CallSource, ItemSource, RegisteredSource, Source, depth

# Methods of C's that variables/calls.py knows by the object itself.
OBJECT_METHODS: tuple[Any, ...] = (
    object.__init__,
    object.__new__,
    object.__setattr__,
    object.__delattr__,
    object.__getattribute__,
    object.__repr__,
    object.__str__,
    object.__eq__,
    object.__ne__,
    object.__hash__,
    object.__format__,
    object.__dir__,
    object.__init_subclass__,
    type.__call__,
    type.__new__,
    type.__init__,
    BaseException.__init__,
    Exception.__init__,
)
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that Python code made
_CACHED = functools._lru_cache_wrapper  # binds as a function does
_GENERIC: dict[str, Any] = {
    name: getattr(object, name) for name in ("__getattribute__", "__setattr__", "__delattr__")
}
_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def class_of(value: Variable) -> Source | None:
    """Where the class of an object is found: of one made inside, where the program found it."""
    if value.source is not None:
        return AttrSource(value.source, "__class__")
    if not isinstance(value, UserDefinedObjectVariable) or made_inside(type(value.real)):
        return None
    if (
        value.class_source is None
        and value.fresh
        and not is_library({"__name__": type(value.real).__module__})
    ):
        return RegisteredSource(register(type(value.real)))
    return value.class_source


def class_variable(tx: Tx, value: Variable, cls: type) -> UserDefinedObjectVariable:
    """The class of an object, as a value: the one there is of it, or one that the object's own guards describe."""
    known = tx.output.known.get(id(cls))
    if known is None:
        known = UserDefinedObjectVariable(cls, source=class_of(value))
        tx.output.known[id(cls)] = known
        tx.output.kept.append(cls)
    elif known.source is None:
        known.source = class_of(value)
    return known


def on_class(value: Variable, name: str, *names: str) -> Source | None:
    """The source of something on the class of `value`."""
    cls = type(getattr(value, "real", None))
    base = class_of(value) or inherited(cls, name)
    if base is not None and type(cls) is not type and class_lookup(type(cls), name) is not MISSING:
        base = in_class(base, cls, name)  # which the metaclass may give another meaning
    else:
        base = base and AttrSource(base, name)
    for part in names:
        base = base and AttrSource(base, part)
    return base


def inherited(cls: type, name: str) -> Source | None:
    """Where a class that was made inside has an attribute from: the base class from outside, if it is one's."""
    home = next((c for c in cls.__mro__ if name in c.__dict__), None)
    return None if home is None or not made_inside(cls) else base_place(home)


def base_place(base: type) -> Source | None:
    """How a base of a class that was made inside is reached again; None for one made inside too, and for Python's."""
    ours = made_inside(base) or not base.__flags__ & _HEAP or is_library({"__name__": base.__module__})
    return None if ours else RegisteredSource(register(base))


def in_class(base: Source | None, cls: type, name: str) -> Source | None:
    """A class attribute as it lies in the class or a base of it, where reading it would call its `__get__`."""
    if base is None or class_lookup(cls, name) is MISSING:
        return None
    return CallSource(RegisteredSource(register(class_lookup)), (base, name))


def dict_source(value: UserDefinedObjectVariable, name: str) -> Source | None:
    home = inherited(type(value.real), name)
    if home is not None:
        return ItemSource(AttrSource(home, "__dict__"), name)
    return in_class(class_of(value), type(value.real), name)


def child(value: Variable, name: str, *names: str) -> AttrSource | None:
    """The source of value.name, value.name.other, ...; None where the value has none."""
    if value.source is None:
        return None
    source = AttrSource(value.source, name)
    for inner in names:
        source = AttrSource(source, inner)
    return source


def pending(tx: Tx, cls: type, name: str) -> Any:
    """What the program stored on a class under this name (None: deleted it), as instances see it; else MISSING."""
    for c in cls.__mro__ if tx.output.class_stores else ():
        if name in (stored := tx.output.class_stores.get(c, {})):
            return stored[name]
        if name in c.__dict__:
            return MISSING
    return MISSING


def call_property(tx: Tx, value: UserDefinedObjectVariable, found: property, name: str) -> Variable:
    source = on_class(value, name, "fget")
    getter = found.fget
    if getter is None:
        try:
            found.__get__(value.real)  # Python says so: it knows the name that the property was made under
        except AttributeError as error:
            tx.output.guard("IDENTITY", dict_source(value, name), found)
            tx.throw(AttributeError, *error.args)
    if not isinstance(getter, types.FunctionType):
        tx.unsupported("GB0098", f"the property {name} of {describe(value)}")
    function = wrap(tx.output, getter, None if is_library(getter.__globals__) else source)
    assert isinstance(function, UserFunctionVariable)
    return tx.inline(function, [value], {})


def call_descriptor(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str) -> Variable:
    """A descriptor written in Python."""
    from stage1_capture.variables.attributes import special_method

    descriptor = wrap(tx.output, found, dict_source(value, name))
    method = special_method(tx, descriptor, "__get__")
    assert method is not None
    return tx.call(method, [value, class_variable(tx, value, type(value.real))], {})


def guard_lacking(output: OutputGraph, value: UserDefinedObjectVariable, name: str) -> None:
    """A user-defined class may get the method later. Those of modules are taken for what they are."""
    cls = type(value.real)
    if cls.__flags__ & _HEAP and is_users({"__name__": cls.__module__}):
        output.guard("LACKS", class_of(value), name)  # of which no module's epoch tells


def guard_getters(output: OutputGraph, value: UserDefinedObjectVariable) -> None:
    """A class of the user's may get a `__getattribute__` or a `__getattr__` later: they would see reads of guards."""
    cls = type(value.real)
    if (place := class_place(output, value)) is not None:
        output.guard("READS", place, getters(cls))


def guard_plain(output: OutputGraph, value: UserDefinedObjectVariable, name: str) -> None:
    """A class of the user's may compute the attribute later: its code is not to run where a guard reads it."""
    cls = type(value.real)
    if isinstance(value.real, Module) and (name in REGISTRIES or name == "training"):
        return  # what Module itself has, not to be described anew
    if (place := class_place(output, value)) is not None:
        output.guard_plain(place, cls, name)
        guard_metaclass(output, place, cls, name)


def guard_metaclass(output: OutputGraph, place: Source, cls: type, name: str) -> None:
    """What a metaclass of the user's computes for its classes: it sees where a guard reads `C.name`."""
    if is_users({"__name__": type(cls).__module__}):
        output.guard("READS", AttrSource(place, "__class__"), getters(type(cls)))
        output.guard_plain(AttrSource(place, "__class__"), type(cls), name)


def guard_present(output: OutputGraph, value: UserDefinedObjectVariable, name: str) -> None:
    """An attribute that is gone by now is not to be asked of a `__getattr__` of the user's, where a guard reads it."""
    asked = class_lookup(type(value.real), "__getattr__")
    if isinstance(asked, types.FunctionType) and is_users(asked.__globals__) and value.source is not None:
        output.guard("PRESENT", AttrSource(value.source, "__dict__"), name)


def class_place(output: OutputGraph, value: UserDefinedObjectVariable) -> Source | None:
    """Where guards find the class of an object: one place for all its objects, as near as any. None for classes that
    do not change, and for those made inside."""
    cls, place = type(value.real), class_of(value)
    if place is None or not cls.__flags__ & _HEAP or not is_users({"__name__": cls.__module__}):
        return None
    if depth(place) < depth(output.class_places.setdefault(cls, place)):
        output.class_places[cls] = place
    return output.class_places[cls]


def guard_class(output: OutputGraph, target: UserDefinedObjectVariable, name: str) -> None:
    """That the user-defined class describes a name as it does now: it may get a property later, or lose one."""
    found = class_lookup(type(target.real), name)
    if found is MISSING:
        guard_lacking(output, target, name)
    elif not isinstance(target.real, Module) or is_users({"__name__": type(target.real).__module__}):
        output.guard("IDENTITY", dict_source(target, name), found)


def guard_storing(output: OutputGraph, target: UserDefinedObjectVariable, name: str) -> None:
    """That a user-defined class stores as Python does: it may get a `__setattr__` later."""
    cls = type(target.real)
    if class_lookup(cls, name) is getattr(object, name) and cls.__flags__ & _HEAP:
        source = class_of(target)
        output.guard("IDENTITY", source and AttrSource(source, name), getattr(object, name))


def bind(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str, on_instance: bool) -> Variable:
    """A class attribute seen from an instance: methods are bound, plain values are themselves."""
    place = on_class(value, name)
    if isinstance(found, types.FunctionType):
        if is_library(found.__globals__):
            place = None
        function = wrap(tx.output, found, place)
        if (
            on_instance and not value.fresh
        ):  # nobody has put another one on the instance; on a module that would bump the epoch
            on_module = isinstance(value.real, Module)
            tx.output.guard("IDENTITY", child(value, name, "__func__"), found, under_epoch=on_module)
        return UserMethodVariable(function, value)
    if isinstance(found, Operator):
        return UserMethodVariable(wrap(tx.output, found, place), value)
    shown = seen_from if on_instance else on_class
    if isinstance(found, staticmethod):
        source = shown(value, name)
        if isinstance(source, CallSource):  # it lies there as it is
            source = AttrSource(source, "__func__")
        return wrap(tx.output, found.__func__, source)
    if isinstance(found, classmethod):
        method = wrap(tx.output, found.__func__, shown(value, name, "__func__"))
        return UserMethodVariable(method, class_variable(tx, value, type(value.real)))
    if name in _GENERIC and isinstance(found, types.WrapperDescriptorType):  # each class of C's has its own
        return UserMethodVariable(UserDefinedObjectVariable(_GENERIC[name]), value)
    if value.base is not None and isinstance(found, _C_METHODS):
        return UserMethodVariable(name, value)
    if type(value.real) is random.Random and isinstance(found, _C_METHODS) and value.source is not None:
        tx.output.guard("ABSENT_KEY", AttrSource(value.source, "__dict__"), name)
        return UserMethodVariable(
            UserDefinedObjectVariable(found), value
        )  # of builtins/random.py, or a break
    if any(found is known for known in OBJECT_METHODS):
        return UserMethodVariable(UserDefinedObjectVariable(found), value)
    guard_plain(tx.output, value, name)
    if hasattr(type(found), "__get__"):
        if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
            if on_instance and not value.fresh and has_dict(value.real):
                place = value.source and AttrSource(value.source, "__dict__")
                tx.output.guard("ABSENT_KEY", place, name)  # which would go first
            return call_descriptor(tx, value, found, name)
        if isinstance(found, _CACHED):
            return UserMethodVariable(wrap(tx.output, found, dict_source(value, name)), value)
        tx.unsupported("GB0098", f"the descriptor {type(value.real).__name__}.{name}")
    return wrap(tx.output, found, shown(value, name))


def seen_from(value: Variable, name: str, *names: str) -> Source | None:
    """A class attribute as the object shows it, so that one put on the object is noticed."""
    fresh = isinstance(value, UserDefinedObjectVariable) and value.fresh
    return on_class(value, name, *names) if fresh else child(value, name, *names)
