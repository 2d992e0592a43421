"""A class attribute seen from an instance: methods bound, descriptors asked; and how classes are reached again.

Input: what lies in a class, and the abstract object it was looked up on. Functions found there are guarded by their
place in the class.
"""

from __future__ import annotations

import functools
import random
import types
from typing import TYPE_CHECKING, Any

from stage0_eager.nn import Module
from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import (
    OutputGraph,
    is_library,
    is_library_class,
    is_users,
    is_users_class,
)
from stage1_capture.state.machine import Tx, attempt
from stage1_capture.state.prototypes import made_inside
from stage1_capture.variables.base import Variable
from stage1_capture.variables.builder import REGISTRIES, class_variable, object_of
from stage1_capture.variables.method import UserMethodVariable
from stage_contracts.class_lookup import MISSING, class_lookup, has_dict, made_by_python
from stage_contracts.controls import register
from stage_contracts.source import AttrSource, CallSource, ItemSource, RegisteredSource, Source, depth

if TYPE_CHECKING:
    from stage1_capture.variables.user_object import UserDefinedObjectVariable

# Methods of C's that variables/calls.py knows by the object itself.
OBJECT_METHODS: tuple[Any, ...] = (
    *(getattr(object, f"__{name}__") for name in (
        "init new setattr delattr getattribute repr str eq ne hash format dir init_subclass").split()),
    type.__call__, type.__new__, type.__init__, BaseException.__init__, Exception.__init__,
)  # fmt: skip
_CACHED = functools._lru_cache_wrapper  # binds as a function does
_GENERIC: dict[str, Any] = {
    name: getattr(object, name) for name in ("__getattribute__", "__setattr__", "__delattr__")
}
_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def on_class(value: Variable, name: str, *names: str) -> Source | None:
    """The source of something on the class of `value`."""
    cls = type(getattr(value, "real", None))
    base = value.class_place() or inherited(cls, name)
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
    ours = made_inside(base) or not made_by_python(base) or is_library_class(base)
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
    return in_class(value.class_place(), type(value.real), name)


def pending(tx: Tx, cls: type, name: str, start: int = 0) -> Any:
    """What the program stored on a class under this name (None: deleted it), as instances see it, and super() from
    `start` on; else MISSING."""
    for c in cls.__mro__[start:] if tx.output.class_stores else ():
        if name in (stored := tx.output.class_stores.get(c, {})):
            return stored[name]
        if name in c.__dict__:
            return MISSING
    return MISSING


def call_property(tx: Tx, value: UserDefinedObjectVariable, found: property, name: str) -> Variable:
    guard_member(tx.output, value, name)
    source = on_class(value, name, "fget")
    getter = found.fget
    if getter is None:
        tx.output.guard("IDENTITY", dict_source(value, name), found)
        # Python says so: it knows the name that the property was made under
        attempt(tx, name, lambda: found.__get__(value.real), exact=True)
    if not isinstance(getter, types.FunctionType):
        tx.unsupported("GB0098", f"the property {name} of {value.describe()}")
    function = tx.wrap(getter, None if is_library(getter.__globals__) else source)
    return tx.inline(function, [value], {})


def call_descriptor(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str) -> Variable:
    """A descriptor written in Python."""
    descriptor = tx.wrap(found, dict_source(value, name))
    return descriptor.ask(tx, "__get__", value, class_variable(tx, value, type(value.real)))


def guard_lacking(output: OutputGraph, value: UserDefinedObjectVariable, name: str) -> None:
    """Guard that a user-defined class lacks a method: it may get it later, and no epoch would tell."""
    output.guard_members(class_place(output, value), type(value.real), name)


def guard_getters(output: OutputGraph, value: UserDefinedObjectVariable) -> None:
    """A user-defined class may get a `__getattribute__` or a `__getattr__` later: they would see reads of guards."""
    cls = type(value.real)
    if (place := class_place(output, value)) is not None:
        output.guard_members(place, cls, "__getattribute__", "__getattr__")


def guard_plain(output: OutputGraph, value: UserDefinedObjectVariable, name: str) -> None:
    """A user-defined class may compute the attribute later: its code is not to run where a guard reads it."""
    cls = type(value.real)
    if issubclass(cls, Module) and (name in REGISTRIES or name == "training"):
        return  # what Module itself has, not to be described anew
    if (place := class_place(output, value)) is not None:
        output.guard_plain(place, cls, name)
        guard_metaclass(output, place, cls, name)


def guard_member(output: OutputGraph, value: UserDefinedObjectVariable, name: str) -> None:
    """A user-defined method or property, as it lies in its class: a descriptor in its place is not to be asked."""
    cls = type(value.real)
    if (place := class_place(output, value)) is not None:
        output.guard_members(place, cls, name)
        guard_metaclass(output, place, cls, name)
        own = value.class_place()
        if own is not None and (place == own or ("TYPE", value.source, None) in output.guards):
            # which says all that an IDENTITY of these would
            output.described |= {AttrSource(own, name), AttrSource(AttrSource(own, name), "fget")}


def guard_metaclass(output: OutputGraph, place: Source, cls: type, name: str) -> None:
    """What a user-defined metaclass computes for its classes: it sees where a guard reads `C.name`."""
    if is_users_class(type(cls)):
        output.guard_members(AttrSource(place, "__class__"), type(cls), "__getattribute__", "__getattr__")
        output.guard_plain(AttrSource(place, "__class__"), type(cls), name)


def guard_present(output: OutputGraph, value: UserDefinedObjectVariable, name: str) -> None:
    """An attribute that is gone by now is not to be asked of a user-defined `__getattr__`, where a guard reads it."""
    asked = class_lookup(type(value.real), "__getattr__")
    if isinstance(asked, types.FunctionType) and is_users(asked.__globals__) and value.source is not None:
        output.guard("PRESENT", AttrSource(value.source, "__dict__"), name)


def class_place(output: OutputGraph, value: UserDefinedObjectVariable) -> Source | None:
    """Where guards find the class of an object: one place for all its objects, as near as any. None for classes that
    do not change, and for those made inside."""
    cls = type(value.real)
    if not made_by_python(cls) or not is_users_class(cls):
        return None
    place = value.class_place()
    if place is None:
        return None
    if depth(place) < depth(output.class_places.setdefault(cls, place)):
        output.class_places[cls] = place
    return output.class_places[cls]


def guard_class(output: OutputGraph, target: UserDefinedObjectVariable, name: str) -> None:
    """That the user-defined class describes a name as it does now: it may get a property later, or lose one."""
    found = class_lookup(type(target.real), name)
    if found is MISSING:
        guard_lacking(output, target, name)
    elif not isinstance(target.real, Module) or is_users_class(type(target.real)):
        output.guard("IDENTITY", dict_source(target, name), found)


def guard_storing(output: OutputGraph, target: UserDefinedObjectVariable, name: str) -> None:
    """That a user-defined class stores as Python does: it may get a `__setattr__` later."""
    cls = type(target.real)
    if class_lookup(cls, name) is getattr(object, name) and made_by_python(cls):
        source = target.class_place()
        output.guard("IDENTITY", source and AttrSource(source, name), getattr(object, name))


def bind(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str, on_instance: bool) -> Variable:
    """A class attribute seen from an instance: methods are bound, plain values are themselves."""
    place = on_class(value, name)
    if isinstance(found, (types.FunctionType, staticmethod, classmethod)):
        guard_member(tx.output, value, name)
    if isinstance(found, types.FunctionType):
        if is_library(found.__globals__):
            place = None
        function = tx.wrap(found, place)
        # The instance has no attribute of this name; on a module, storing one would change the epoch.
        if on_instance and not value.fresh:
            on_module = isinstance(value.real, Module)
            tx.output.guard("IDENTITY", value.child(name, "__func__"), found, under_epoch=on_module)
        return UserMethodVariable(function, value)
    if isinstance(found, Operator):
        return UserMethodVariable(tx.wrap(found, place), value)
    shown = seen_from if on_instance else on_class
    if isinstance(found, staticmethod):
        source = shown(value, name)
        if isinstance(source, CallSource):  # it lies there as it is
            source = AttrSource(source, "__func__")
        return tx.wrap(found.__func__, source)
    if isinstance(found, classmethod):
        method = tx.wrap(found.__func__, shown(value, name, "__func__"))
        return UserMethodVariable(method, class_variable(tx, value, type(value.real)))
    of_c = _method_of_c(tx, value, found, name)
    if of_c is not None:
        return of_c
    guard_plain(tx.output, value, name)
    if not hasattr(type(found), "__get__"):
        return tx.wrap(found, shown(value, name))
    if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
        if on_instance and not value.fresh and has_dict(value.real):
            tx.output.guard("ABSENT_KEY", value.child("__dict__"), name)  # which would go first
        return call_descriptor(tx, value, found, name)
    if isinstance(found, _CACHED):
        return UserMethodVariable(tx.wrap(found, dict_source(value, name)), value)
    tx.unsupported("GB0098", f"the descriptor {type(value.real).__name__}.{name}")


def _method_of_c(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str) -> Variable | None:
    """A method that the class has from one of C's, bound; None for anything else."""
    if name in _GENERIC and isinstance(found, types.WrapperDescriptorType):  # each class of C's has its own
        guard_member(tx.output, value, name)
        return UserMethodVariable(object_of(_GENERIC[name]), value)
    if value.base is not None and isinstance(found, _C_METHODS):
        return UserMethodVariable(name, value)
    if type(value.real) is random.Random and isinstance(found, _C_METHODS) and value.source is not None:
        tx.output.guard("ABSENT_KEY", AttrSource(value.source, "__dict__"), name)
        return UserMethodVariable(object_of(found), value)  # of builtins/random.py, or a break
    known = any(found is method for method in OBJECT_METHODS)
    return UserMethodVariable(object_of(found), value) if known else None


def seen_from(value: Variable, name: str, *names: str) -> Source | None:
    """A class attribute as the object shows it, so that one put on the object is noticed."""
    fresh = getattr(value, "fresh", False)
    return on_class(value, name, *names) if fresh else value.child(name, *names)
