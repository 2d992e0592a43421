"""Attributes of objects and modules, by Python's own order, with a guard for each thing found.

Input: an abstract object and a name, from `var_getattr` of variables/user_object.py. Properties are inlined; everything
else is read off `__dict__`s and registries, so that no user code runs. What cannot be followed (unknown
descriptors) is a break.
"""

from __future__ import annotations

import keyword
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any

from stage0_eager.nn import Module
from stage1_capture.state.graph_builder import is_library_class
from stage1_capture.state.machine import Raised, Tx
from stage1_capture.state.side_effects import DELETED
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.binding import (
    bind,
    call_descriptor,
    call_property,
    dict_source,
    guard_getters,
    guard_lacking,
    guard_plain,
    on_class,
    pending,
)
from stage1_capture.variables.builder import REGISTRIES, class_variable, watching
from stage1_capture.variables.object_dict import (
    attribute_source,
    dict_of,
    own_dict,
    read_by_class,
    refuse_second_way,
)
from stage_contracts.class_lookup import MISSING, class_lookup, has_dict
from stage_contracts.python_version import VERSION
from stage_contracts.source import AttrSource, CallSource, ItemSource, Source

if TYPE_CHECKING:
    from stage1_capture.variables.user_object import UserDefinedObjectVariable


def module_attribute(tx: Tx, module: UserDefinedObjectVariable, name: str) -> Variable | None:
    stored = tx.output.effects.global_of(vars(module.real), name)
    if stored is not None:
        return None if stored is DELETED else realize(stored)
    refuse_second_way(tx.output, module.real)
    if name in vars(module.real):
        return tx.wrap(vars(module.real)[name], module.child(name))
    if hasattr(types.ModuleType, name):  # `__dict__`
        tx.unsupported("GB0022", f"the attribute {name} of a module")
    own = "__getattr__" in vars(module.real)
    if own or class_lookup(type(module.real), "__getattr__") is not MISSING:
        tx.unsupported("GB0099", f"{name}, which {module.real.__name__} computes in __getattr__")
    tx.output.guard("TYPE", module.source, type(module.real))
    for absent in (name, "__getattr__"):  # which `hasattr` would ask
        tx.output.guard("ABSENT_KEY", module.child("__dict__"), absent)
    return None


# Classes of C's whose attributes lie where object.__getattribute__ does not find them.
_ELSEWHERE = frozenset(
    class_lookup(cls, "__getattribute__")
    for cls in (threading.local, weakref.ProxyType, weakref.CallableProxyType)
)


def instance_attribute(tx: Tx, value: UserDefinedObjectVariable, name: str) -> Variable | None:
    """By the class and the object; where that fails, a property too, by `__getattr__`."""
    if (asked := watching(type(value.real))) is not None:
        return _by_watcher(tx, value, asked, name)
    cls = type(value.real)
    if class_lookup(cls, "__getattribute__") in _ELSEWHERE and not is_library_class(cls):
        tx.unsupported("GB0052", f"the attribute {name} of {value.describe()}")
    computed = class_lookup(type(value.real), "__getattr__")
    try:
        found = plain_attribute(tx, value, name, registries=computed is Module.__getattr__)
    except Raised as raised:
        if computed is MISSING or not isinstance(raised.value.real, AttributeError):
            raise
        tx.resume_here()
        if computed is Module.__getattr__:  # which looks at the registries, and has a message of its own
            return _registered(tx, value, {} if value.fresh else own_dict(value.real), name)
        found = None
    if found is not None or computed in (MISSING, Module.__getattr__):
        return found
    if not isinstance(computed, types.FunctionType):
        tx.unsupported("GB0099", f"{name}, which {type(value.real).__name__} computes in __getattr__")
    getter = tx.wrap(computed, on_class(value, "__getattr__"))
    return tx.inline(getter, [value, from_constant(name)], {})


def _by_watcher(tx: Tx, value: UserDefinedObjectVariable, asked: types.FunctionType, name: str) -> Variable:
    """What the class's own `__getattribute__` says; where it raises AttributeError, its `__getattr__`."""
    guard_getters(tx.output, value)
    try:
        return tx.inline(
            tx.wrap(asked, on_class(value, "__getattribute__")), [value, from_constant(name)], {}
        )
    except Raised as raised:
        computed = class_lookup(type(value.real), "__getattr__")
        if not isinstance(computed, types.FunctionType) or not isinstance(raised.value.real, AttributeError):
            raise
        tx.resume_here()
    getter = tx.wrap(computed, on_class(value, "__getattr__"))
    return tx.inline(getter, [value, from_constant(name)], {})


def plain_attribute(
    tx: Tx, value: UserDefinedObjectVariable, name: str, registries: bool = False
) -> Variable | None:
    """object.__getattribute__(value, name): data descriptors, the object's own dict, the class. registries: what
    Module.__getattr__ finds too."""
    real, cls = value.real, type(value.real)
    guard_getters(tx.output, value)
    if name == "__class__":
        return class_variable(tx, value, cls)
    if name == "__dict__" and has_dict(real):
        return dict_of(tx.output, value)
    waiting = pending(tx, cls, name)
    found = class_lookup(cls, name) if waiting is MISSING else MISSING
    if not value.fresh:
        refuse_second_way(tx.output, real)
    stored: Any = value.attrs.get(name, MISSING)
    if stored is None:
        return _behind_deleted(tx, value, found, waiting, name)
    by_class = found is not MISSING and read_by_class(cls, name)
    if stored is not MISSING and not by_class:
        return realize(stored)
    if by_class or isinstance(found, (property, types.MemberDescriptorType)):
        return _by_descriptor(tx, value, found, name)
    own = {} if value.fresh else own_dict(real)
    if name in own:
        return tx.wrap(own[name], attribute_source(tx.output, value, name))
    if found is not MISSING:
        return bind(tx, value, found, name, on_instance=True)
    return _nowhere_in_class(tx, value, own, waiting, name, registries)


def _behind_deleted(
    tx: Tx, value: UserDefinedObjectVariable, found: Any, waiting: Any, name: str
) -> Variable | None:
    """What the class has, where the program deleted what the object had."""
    if isinstance(found, types.MemberDescriptorType):
        tx.throw(AttributeError, _empty_slot(type(value.real), name))
    if found is MISSING:
        return None if waiting in (MISSING, None) else realize(waiting)
    if isinstance(found, property) or read_by_class(type(value.real), name):
        return _by_descriptor(tx, value, found, name)
    return bind(tx, value, found, name, on_instance=False)


def _nowhere_in_class(
    tx: Tx, value: UserDefinedObjectVariable, own: dict[str, Any], waiting: Any, name: str, registries: bool
) -> Variable | None:
    """What the program stored on the class, else what a module has registered. If there is neither, this is guarded."""
    if waiting is not MISSING:
        if not value.fresh and has_dict(value.real):  # where one of that name would go first
            tx.output.guard("ABSENT_KEY", value.child("__dict__"), name)
        return None if waiting is None else realize(waiting)
    registered = _registered(tx, value, own, name) if registries else None
    if registered is not None:
        guard_plain(tx.output, value, name)
        return registered
    _guard_absent(tx, value, name, registries)
    return None


def _slot(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str) -> Variable:
    """What a slot of the class holds."""
    cls = type(value.real)
    guard_plain(tx.output, value, name)
    try:
        return tx.wrap(found.__get__(value.real, cls), _slot_source(value, name))
    except AttributeError:
        computed = class_lookup(cls, "__getattr__") is not MISSING
        if value.source is not None and computed:
            tx.unsupported("GB0104", f"the slot {name} of {value.describe()} is empty")
        tx.output.guard("ABSENT", value.source, name)
        # the class may get something else under the name, or lose it: Python says another thing then
        tx.output.guard("IDENTITY", dict_source(value, name), found)
        if value.fresh and not computed:
            guard_lacking(tx.output, value, "__getattr__")
        tx.throw(AttributeError, _empty_slot(cls, name))


def _by_descriptor(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str) -> Variable | None:
    """A data descriptor of the class, which goes before what the object has."""
    if isinstance(found, property):
        return call_property(tx, value, found, name)
    if isinstance(found, types.MemberDescriptorType):
        return _slot(tx, value, found, name)
    if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
        return call_descriptor(tx, value, found, name)
    if value.base is not None and isinstance(found, types.GetSetDescriptorType):
        return value.base.var_getattr(tx, name)
    tx.unsupported("GB0098", f"the descriptor {type(value.real).__name__}.{name}")


def _guard_absent(tx: Tx, value: UserDefinedObjectVariable, name: str, registries: bool) -> None:
    """Guard that there is nothing of that name, now or later."""
    computed = class_lookup(type(value.real), "__getattr__")
    if value.fresh:
        guard_lacking(tx.output, value, name)
        if computed is MISSING:
            guard_lacking(tx.output, value, "__getattr__")
    elif (registries or computed is MISSING) and watching(type(value.real)) is None:
        if registries and any(name in own_dict(value.real).get(place, ()) for place in REGISTRIES):
            # the program has just deleted it: when the call begins, it is there
            tx.output.guard("ABSENT_KEY", value.child("__dict__"), name)
        else:
            tx.output.guard("ABSENT", value.source, name)
        guard_lacking(tx.output, value, name)  # a descriptor that raises is something else
    elif value.source is not None:  # hasattr would ask the user's __getattr__
        guard_lacking(tx.output, value, name)
        if has_dict(value.real):
            tx.output.guard("ABSENT_KEY", value.child("__dict__"), name)


def _slot_source(value: UserDefinedObjectVariable, name: str) -> Source | None:
    """What a slot holds. An empty one is not to ask a user-defined `__getattr__`."""
    source = value.child(name)
    if source is None or class_lookup(type(value.real), "__getattr__") is MISSING:
        return source
    return CallSource(
        AttrSource(AttrSource(AttrSource(source.base, "__class__"), name), "__get__"), (source.base,)
    )


def _empty_slot(cls: type, name: str) -> str:
    """Python's message for a slot that holds nothing. From 3.13 on it has the class's full name."""
    full = VERSION >= (3, 13) and cls.__module__ not in ("builtins", "__main__")
    kind = f"{cls.__module__}.{cls.__qualname__}" if full else cls.__name__
    return f"{kind!r} object has no attribute {name!r}"


def _registered(tx: Tx, value: UserDefinedObjectVariable, own: dict[str, Any], name: str) -> Variable | None:
    """A parameter, buffer or submodule: where the program changed a registry, as it left it."""
    for place in REGISTRIES[:3]:
        stored = place in value.attrs  # another registry, or none any more
        registry: Any = value.attrs[place] if stored else tx.output.known.get(id(own.get(place)))
        if registry is not None and (stored or id(registry) in tx.output.effects.changed):
            if name in (entries := realize(registry).items):
                return realize(entries[name])
        elif not stored and name in own.get(place, ()):
            source: Source | None = value.source and AttrSource(value.source, name, place)
            spelled = name.isidentifier() and not keyword.iskeyword(name)
            shown = spelled and class_lookup(type(value.real), name) is MISSING  # a property would be asked
            if value.source is not None and not shown:  # getattr(self, "0")
                source = ItemSource(AttrSource(value.source, place), name)
            if source is not None:
                tx.output.epoch_sources.add(source)
            return tx.wrap(own[place][name], source)
    return None
