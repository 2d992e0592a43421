"""Attribute lookup on abstract values, by Python's own order, with a guard for each thing found.

Input: an abstract value and a name. Properties are inlined; everything else is read off `__dict__`s and
registries, so that no code of the user's runs. What cannot be followed (`__getattr__`, unknown descriptors)
is a break.
"""

from __future__ import annotations

import keyword
import types
from typing import Any

from stage0_eager.nn import Module
from stage0_eager.operator import Operator
from stage1_capture.capture.builder import REGISTRIES, wrap
from stage1_capture.capture.inline import inline_call
from stage1_capture.capture.output_graph import is_library
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.tensor_attributes import MISSING, class_lookup, tensor_attribute
from stage1_capture.capture.variables import (
    ConstantVariable,
    ConstDictVariable,
    DictViewVariable,
    IteratorVariable,
    ListVariable,
    SliceVariable,
    SuperVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    describe,
    from_constant,
)
from stage_contracts.source import AttrSource, ItemSource, Source

Tx = InstructionTranslator
_PYTHON_TYPES = {
    ListVariable: list,
    TupleVariable: tuple,
    ConstDictVariable: dict,
    DictViewVariable: type({}.values()),
    IteratorVariable: type(iter([])),
}


def load_attribute(tx: Tx, value: Variable, name: str) -> Variable:
    """`value.name`, or a break when there is no such thing: eager raises the AttributeError."""
    found = lookup(tx, value, name)
    if found is None:
        tx.unsupported("GB0001", f"{describe(value)} has no attribute {name!r}")
    return found


def lookup(tx: Tx, value: Variable, name: str) -> Variable | None:
    """`value.name`, or None when it is not there (guarded, where a later call could find it)."""
    match value:
        case TupleVariable(items=items, kind=kind) if name in getattr(kind, "_fields", ()):
            return items[kind._fields.index(name)]  # type: ignore[attr-defined]
        case TensorVariable():
            return tensor_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=types.ModuleType()):
            return _python_module_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=type()):
            return _class_object_attribute(tx, value, name)
        case UserDefinedObjectVariable():
            return _instance_attribute(tx, value, name)
        case SuperVariable(owner=owner, receiver=receiver):
            return _super_attribute(tx, owner, receiver, name)
        case ConstantVariable(value=constant):
            found = getattr(constant, name, MISSING)
            if found is MISSING:
                return None
            return UserMethodVariable(name, value) if callable(found) else from_constant(found)
        case UserFunctionVariable(name=own_name) if name in ("__name__", "__qualname__"):
            return ConstantVariable(value.code.co_qualname if name == "__qualname__" else own_name)
        case SliceVariable(items=[start, stop, step]) if name in ("start", "stop", "step"):
            return {"start": start, "stop": stop, "step": step}[name]
        case UserMethodVariable(receiver=receiver) if name == "__self__":
            return receiver
    if type(value) in _PYTHON_TYPES:
        return UserMethodVariable(name, value) if hasattr(_PYTHON_TYPES[type(value)], name) else None
    tx.unsupported("GB0001", f"the attribute {name} of {describe(value)}")


def special_method(tx: Tx, value: Variable, name: str) -> Variable | None:
    """The method Python calls for an operation (`__add__`, `__call__`): looked up on the class only."""
    match value:
        case TensorVariable():
            return tensor_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=real) if not isinstance(real, (type, types.ModuleType)):
            found = class_lookup(type(real), name)
            return None if found is MISSING else _bind(tx, value, found, name, on_instance=False)
    return None


# ---- one function per kind of value --------------------------------------------------------------


def _python_module_attribute(tx: Tx, module: UserDefinedObjectVariable, name: str) -> Variable | None:
    if name in vars(module.real):
        return wrap(tx.output, vars(module.real)[name], _child(module, name))
    own = "__getattr__" in vars(module.real)
    if own or class_lookup(type(module.real), "__getattr__") is not MISSING:
        tx.unsupported("GB0001", f"{name}, which {module.real.__name__} computes in __getattr__")
    tx.output.guard("ABSENT", module.source, name)
    return None


def _class_object_attribute(tx: Tx, cls: UserDefinedObjectVariable, name: str) -> Variable | None:
    if name in ("__name__", "__qualname__", "__module__"):
        return ConstantVariable(getattr(cls.real, name))
    found = class_lookup(cls.real, name)
    if found is MISSING:
        tx.unsupported("GB0001", f"the class {cls.real.__name__} has no attribute {name!r}")
    if isinstance(found, staticmethod):
        found = found.__func__
    elif isinstance(found, classmethod):
        return UserMethodVariable(wrap(tx.output, found.__func__, _child(cls, name, "__func__")), cls)
    elif not isinstance(found, (types.FunctionType, Operator)) and hasattr(type(found), "__get__"):
        tx.unsupported("GB0001", f"the descriptor {cls.real.__name__}.{name}")
    return wrap(tx.output, found, _child(cls, name))


def _instance_attribute(tx: Tx, value: UserDefinedObjectVariable, name: str) -> Variable | None:
    real, cls = value.real, type(value.real)
    if class_lookup(cls, "__getattribute__") is not object.__getattribute__ or name == "__dict__":
        tx.unsupported("GB0001", f"the attribute {name} of {describe(value)}")
    if name == "__class__":
        return UserDefinedObjectVariable(cls)
    found = class_lookup(cls, name)
    own = object.__getattribute__(real, "__dict__") if hasattr(cls, "__dict__") and _has_dict(real) else {}
    if isinstance(found, property):
        return _call_property(tx, value, found, name)
    if isinstance(found, types.MemberDescriptorType):  # a slot
        try:
            return wrap(tx.output, found.__get__(real, cls), _child(value, name))
        except AttributeError:
            tx.unsupported("GB0001", f"the slot {name} of {describe(value)} is empty")
    if found is not MISSING and hasattr(type(found), "__set__"):
        tx.unsupported("GB0001", f"the descriptor {cls.__name__}.{name}")
    homes = {"__dict__": own}
    if isinstance(real, Module):
        homes |= {registry: own.get(registry, {}) for registry in REGISTRIES[:3]}
    for place, home in homes.items():
        if name in home and (home is own or found is MISSING):
            child: Source | None = _child(value, name)
            spelled = name.isidentifier() and not keyword.iskeyword(name)
            if value.source is not None and not spelled:  # getattr(self, "0")
                child = ItemSource(AttrSource(value.source, place), name)
            if child is not None and isinstance(real, Module):
                tx.output.epoch_sources.add(child)
            return wrap(tx.output, home[name], child)
    if found is not MISSING:
        return _bind(tx, value, found, name, on_instance=True)
    if class_lookup(cls, "__getattr__") not in (MISSING, Module.__getattr__):
        tx.unsupported("GB0001", f"{name}, which {cls.__name__} computes in __getattr__")
    tx.output.guard("ABSENT", value.source, name)
    return None


def _has_dict(real: Any) -> bool:
    try:
        return isinstance(object.__getattribute__(real, "__dict__"), dict)
    except AttributeError:
        return False


def _super_attribute(tx: Tx, owner: type, receiver: Variable, name: str) -> Variable | None:
    cls = type(receiver.real)  # type: ignore[attr-defined]
    rest = cls.__mro__[cls.__mro__.index(owner) + 1 :]
    found = next((c.__dict__[name] for c in rest if name in c.__dict__), MISSING)
    if not isinstance(found, types.FunctionType):
        tx.unsupported("GB0001", f"super().{name}, which is not a plain method")
    known = is_library(found.__globals__)
    home = next(c for c in rest if name in c.__dict__)
    index = cls.__mro__.index(home)
    mro = receiver.source and AttrSource(AttrSource(receiver.source, "__class__"), "__mro__")
    source = None if known or mro is None else AttrSource(ItemSource(mro, index), name)
    return UserMethodVariable(wrap(tx.output, found, source), receiver)


# ---- binding -------------------------------------------------------------------------------------


def _child(value: Variable, name: str, *names: str) -> AttrSource | None:
    """The source of value.name, value.name.other, ...; None where the value has none."""
    if value.source is None:
        return None
    source = AttrSource(value.source, name)
    for inner in names:
        source = AttrSource(source, inner)
    return source


def _call_property(tx: Tx, value: UserDefinedObjectVariable, found: property, name: str) -> Variable:
    source = _child(value, "__class__", name, "fget")
    if not isinstance(found.fget, types.FunctionType):
        tx.unsupported("GB0001", f"the property {name} of {describe(value)}")
    getter = wrap(tx.output, found.fget, None if is_library(found.fget.__globals__) else source)
    assert isinstance(getter, UserFunctionVariable)
    return inline_call(tx, getter, [value], {})


def _bind(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str, on_instance: bool) -> Variable:
    """A class attribute seen from an instance: methods are bound, plain values are themselves."""
    on_class = _child(value, "__class__", name)
    if isinstance(found, types.FunctionType):
        if is_library(found.__globals__):
            on_class = None
        function = wrap(tx.output, found, on_class)
        if on_instance:  # nobody has put another one on the instance; on a module that would bump the epoch
            on_module = isinstance(value.real, Module)
            tx.output.guard("IDENTITY", _child(value, name, "__func__"), found, under_epoch=on_module)
        return UserMethodVariable(function, value)
    if isinstance(found, Operator):
        return UserMethodVariable(wrap(tx.output, found, on_class), value)
    if isinstance(found, staticmethod):
        return wrap(tx.output, found.__func__, _child(value, name))
    if isinstance(found, classmethod):
        method = wrap(tx.output, found.__func__, _child(value, name, "__func__"))
        return UserMethodVariable(method, UserDefinedObjectVariable(type(value.real)))
    if hasattr(type(found), "__get__"):
        tx.unsupported("GB0001", f"the descriptor {type(value.real).__name__}.{name}")
    return wrap(tx.output, found, _child(value, name))
