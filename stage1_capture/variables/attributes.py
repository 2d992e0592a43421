"""Attribute lookup on abstract values, by Python's own order, with a guard for each thing found.

Input: an abstract value and a name. Properties are inlined; everything else is read off `__dict__`s and
registries, so that no user code runs. What cannot be followed (`__getattr__`, unknown descriptors)
is a break.
"""

from __future__ import annotations

import collections
import keyword
import types
from typing import Any

import numpy as np

from stage0_eager.nn import Module
from stage0_eager.state import STATE
from stage1_capture.state.graph_builder import is_users
from stage1_capture.state.machine import Raised, Tx
from stage1_capture.state.mro import MISSING, class_lookup, full_name, has_dict
from stage1_capture.state.side_effects import DELETED
from stage1_capture.variables.base import (
    NONE,
    CellVariable,
    ConstantVariable,
    ConstDictVariable,
    DequeVariable,
    DictViewVariable,
    IteratorVariable,
    ListVariable,
    NumpyNdarrayVariable,
    PartialVariable,
    SetVariable,
    SliceVariable,
    SuperVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    WrapperVariable,
    describe,
    from_constant,
    realize,
)
from stage1_capture.variables.binding import (
    bind,
    call_descriptor,
    call_property,
    child,
    class_variable,
    dict_source,
    guard_getters,
    guard_lacking,
    guard_plain,
    on_class,
    pending,
)
from stage1_capture.variables.builder import REGISTRIES, wrap
from stage1_capture.variables.exception import ExceptionVariable, TracebackVariable
from stage1_capture.variables.function_attributes import function_attribute as callable_attribute
from stage1_capture.variables.function_attributes import method_attribute, partial_attribute
from stage1_capture.variables.ndarray import FUNCTION_KINDS, array_attribute, function_attribute
from stage1_capture.variables.object_dict import (
    attribute_source,
    dict_of,
    own_dict,
    read_by_class,
    refuse_second_way,
)
from stage1_capture.variables.tensor_attributes import tensor_attribute
from stage_contracts.controls import register
from stage_contracts.device import Device
from stage_contracts.python_version import VERSION
from stage_contracts.source import AttrSource, CallSource, ItemSource, RegisteredSource, Source

_FIELD = type(collections.namedtuple("_OneField", "first").first)  # type: ignore[attr-defined]
_PYTHON_TYPES: dict[type, type] = {
    ListVariable: list,
    TupleVariable: tuple,
    ConstDictVariable: dict,
    SetVariable: set,
    DictViewVariable: type({}.values()),
    IteratorVariable: types.GeneratorType,
    DequeVariable: collections.deque,
    SliceVariable: slice,
}


def load_attribute(tx: Tx, value: Variable, name: str) -> Variable:
    """`value.name`. Raises the program's AttributeError when there is no such thing."""
    found = lookup(tx, value, name)
    if found is None:
        tx.throw(AttributeError, missing(value, name))
    return found


def missing(value: Variable, name: str) -> str:
    """Python's message for an attribute that is not there."""
    match value:
        case UserDefinedObjectVariable(real=types.ModuleType() as real):
            return f"module {real.__name__!r} has no attribute {name!r}"
        case UserDefinedObjectVariable(real=type() as real):
            return f"type object {full_name(real)!r} has no attribute {name!r}"
        case UserDefinedObjectVariable(real=real):
            kind = full_name(type(real))
        case UserFunctionVariable() | UserMethodVariable(function=UserFunctionVariable()):
            kind = "function"
        case UserMethodVariable(function=UserDefinedObjectVariable(real=function)):
            kind = full_name(type(function))
        case ConstantVariable(value=constant):
            kind = full_name(type(constant))
        case TensorVariable(real=real):
            kind = "Tensor" if real is None else type(real).__name__
        case NumpyNdarrayVariable(scalar=scalar, meta=meta):
            kind = full_name(meta.dtype.numpy.type if scalar else np.ndarray)
        case _:
            kind = full_name(getattr(value, "kind", _PYTHON_TYPES.get(type(value)) or type(value)))
    return f"{kind!r} object has no attribute {name!r}"


def lookup(tx: Tx, value: Variable, name: str) -> Variable | None:
    """`value.name`, or None when it is not there (guarded, where a later call could find it)."""
    match value:
        case (
            TensorVariable() | ConstantVariable() | ListVariable() | TupleVariable() | ConstDictVariable()
        ) if name == "__class__":
            return class_variable(tx, value, value.python_type(tx))
        case ExceptionVariable():
            return _exception_attribute(tx, value, name)
        case CellVariable(contents=inside) if name == "cell_contents":
            if inside is None:
                tx.throw(ValueError, "Cell is empty")
            return realize(inside)
        case TupleVariable(items=items, kind=kind) if name in getattr(kind, "_fields", ()):
            field = class_lookup(kind, name)
            if type(field) is not _FIELD:  # the user put something else there
                tx.unsupported("GB0022", f"the attribute {name} of {describe(value)}")
            if is_users({"__name__": kind.__module__}):
                place = child(value, "__class__") or RegisteredSource(register(kind))
                tx.output.guard("IDENTITY", AttrSource(place, name), field)
            return items[kind._fields.index(name)]  # type: ignore[attr-defined]
        case TupleVariable(kind=kind) if isinstance(class_lookup(kind, name), (types.FunctionType, property)):
            return _named_tuple_method(tx, value, class_lookup(kind, name), name)
        case TensorVariable():
            return tensor_attribute(tx, value, name)
        case NumpyNdarrayVariable():
            return array_attribute(tx, value, name)
        case WrapperVariable():
            from stage1_capture.variables.local_classes import wrapper_attribute

            return wrapper_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=types.ModuleType()):
            return _python_module_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=type()):
            from stage1_capture.variables.class_attributes import class_attribute

            return class_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=real) if real is STATE and name == "grad_enabled":
            return ConstantVariable(tx.output.grad_enabled)
        case UserDefinedObjectVariable(real=real) if real is STATE and name in tx.output.modes:
            return from_constant(tx.output.modes[name])
        case UserDefinedObjectVariable(real=real) if isinstance(real, FUNCTION_KINDS):
            return function_attribute(value, name)
        case UserDefinedObjectVariable(private=True, real=np.finfo() | np.iinfo()) if name in value.attrs:
            return value.attrs[name]  # which NumPy would compute
        case UserDefinedObjectVariable():
            return _instance_attribute(tx, value, name)
        case SuperVariable():
            from stage1_capture.variables.class_attributes import super_attribute

            return super_attribute(tx, value, name)
        case ConstantVariable(value=np.dtype() as dtype) if name == "type":
            return UserDefinedObjectVariable(dtype.type)
        case ConstantVariable(value=constant):
            found = getattr(constant, name, MISSING)
            if found is MISSING:
                return None
            bound = isinstance(found, (types.BuiltinFunctionType, types.MethodWrapperType))
            return UserMethodVariable(name, value) if bound else from_constant(found)
        case UserFunctionVariable():
            return callable_attribute(tx, value, name)
        case PartialVariable():
            return partial_attribute(tx, value, name)
        case SliceVariable(items=[start, stop, step]) if name in ("start", "stop", "step"):
            return {"start": start, "stop": stop, "step": step}[name]
        case UserMethodVariable():
            return method_attribute(tx, value, name)
    if isinstance(value, DictViewVariable):
        known: type | None = type(getattr({}, value.name)())
        if name == "mapping":
            tx.unsupported("GB0022", f"the attribute mapping of {describe(value)}")
    else:
        known = next((_PYTHON_TYPES[c] for c in type(value).__mro__ if c in _PYTHON_TYPES), None)
    if known is not None:
        kind = getattr(value, "kind", known)
        found = class_lookup(kind, name)
        there = found is not MISSING and name != "__dict__"
        if there and isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
            tx.unsupported("GB0098", f"the descriptor {kind.__name__}.{name}")
        if not there and kind is not known and is_users({"__name__": kind.__module__}):
            tx.output.guard("LACKS", child(value, "__class__") or RegisteredSource(register(kind)), name)
        return UserMethodVariable(name, value) if there else None
    tx.unsupported("GB0022", f"the attribute {name} of {describe(value)}")


def special_method(tx: Tx, value: Variable, name: str) -> Variable | None:
    """The method Python calls for an operation (`__add__`, `__call__`): looked up on the class only."""
    match value:
        case TensorVariable():
            return tensor_attribute(tx, value, name)
        case NumpyNdarrayVariable():
            return array_attribute(tx, value, name)
        case ConstantVariable() if name in ("__enter__", "__exit__") and isinstance(value.value, Device):
            return UserMethodVariable(wrap(tx.output, class_lookup(Device, name), None), value)
        case UserDefinedObjectVariable(real=real) if not isinstance(real, (type, types.ModuleType)):
            found = class_lookup(type(real), name)
            if found is MISSING:
                guard_lacking(tx.output, value, name)
            return (
                None if found is MISSING or found is None else bind(tx, value, found, name, on_instance=False)
            )
        case UserDefinedObjectVariable(real=type() as real) if type(real) is not type:
            found = class_lookup(type(real), name)
            if isinstance(found, types.FunctionType):  # of the metaclass
                return UserMethodVariable(wrap(tx.output, found, on_class(value, name)), value)
    return None


# ---- one function per kind of value --------------------------------------------------------------


def _python_module_attribute(tx: Tx, module: UserDefinedObjectVariable, name: str) -> Variable | None:
    stored = tx.output.effects.global_of(vars(module.real), name)
    if stored is not None:
        return None if stored is DELETED else realize(stored)
    refuse_second_way(tx.output, module.real)
    if name in vars(module.real):
        return wrap(tx.output, vars(module.real)[name], child(module, name))
    if hasattr(types.ModuleType, name):  # `__dict__`
        tx.unsupported("GB0022", f"the attribute {name} of a module")
    own = "__getattr__" in vars(module.real)
    if own or class_lookup(type(module.real), "__getattr__") is not MISSING:
        tx.unsupported("GB0099", f"{name}, which {module.real.__name__} computes in __getattr__")
    tx.output.guard("ABSENT", module.source, name)
    return None


def _instance_attribute(tx: Tx, value: UserDefinedObjectVariable, name: str) -> Variable | None:
    """By the class and the object; where that fails, a property too, by `__getattr__`."""
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
    getter = wrap(tx.output, computed, on_class(value, "__getattr__"))
    return call_python(tx, getter, [value, ConstantVariable(name)])


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
    own = {} if value.fresh else own_dict(real)
    stored = value.attrs.get(name, MISSING)
    deleted = stored is None  # here
    if not value.fresh:
        refuse_second_way(tx.output, real)
    if deleted:
        if isinstance(found, types.MemberDescriptorType):
            tx.throw(AttributeError, _empty_slot(cls, name))
        if found is MISSING and waiting is MISSING:
            return None
        own, stored = {}, MISSING
    by_class = found is not MISSING and read_by_class(cls, name)
    if stored is not MISSING and not by_class:
        return realize(stored)  # type: ignore[arg-type]
    if isinstance(found, property):
        return call_property(tx, value, found, name)
    if isinstance(found, types.MemberDescriptorType):  # a slot
        guard_plain(tx.output, value, name)
        try:
            return wrap(tx.output, found.__get__(real, cls), _slot_source(value, name))
        except AttributeError:
            if value.source is not None and class_lookup(cls, "__getattr__") is not MISSING:
                tx.unsupported("GB0022", f"the slot {name} of {describe(value)} is empty")
            tx.output.guard("ABSENT", value.source, name)
            if value.fresh:  # the class may get something else under the name
                tx.output.guard("IDENTITY", dict_source(value, name), found)
                if class_lookup(cls, "__getattr__") is MISSING:
                    guard_lacking(tx.output, value, "__getattr__")
            tx.throw(AttributeError, _empty_slot(cls, name))
    if by_class:
        if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
            return call_descriptor(tx, value, found, name)
        if value.base is not None and isinstance(found, types.GetSetDescriptorType):
            return lookup(tx, value.base, name)
        tx.unsupported("GB0098", f"the descriptor {cls.__name__}.{name}")
    if name in own:
        return wrap(tx.output, own[name], attribute_source(tx.output, value, name))
    if registries and found is MISSING and waiting is MISSING:
        registered = _registered(tx, value, own, name)
        if registered is not None:
            guard_plain(tx.output, value, name)
            return registered
    if waiting is not MISSING:
        if not deleted and not value.fresh and has_dict(real):  # where one of that name would go first
            tx.output.guard("ABSENT_KEY", value.source and AttrSource(value.source, "__dict__"), name)
        return None if waiting is None else realize(waiting)
    if found is not MISSING:
        return bind(tx, value, found, name, on_instance=not deleted)
    if value.fresh:
        guard_lacking(tx.output, value, name)
        if class_lookup(cls, "__getattr__") is MISSING:
            guard_lacking(tx.output, value, "__getattr__")
    elif registries or class_lookup(cls, "__getattr__") is MISSING:
        tx.output.guard("ABSENT", value.source, name)
        guard_lacking(tx.output, value, name)  # a descriptor that raises is something else
    elif value.source is not None:  # hasattr would ask the user's __getattr__
        guard_lacking(tx.output, value, name)
        if has_dict(real):
            tx.output.guard("ABSENT_KEY", AttrSource(value.source, "__dict__"), name)
    return None


def _slot_source(value: UserDefinedObjectVariable, name: str) -> Source | None:
    """What a slot holds. An empty one is not to ask the user's `__getattr__`."""
    source = child(value, name)
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
        registry: Any = value.attrs.get(place) if value.fresh else tx.output.known.get(id(own.get(place)))
        if registry is not None and (value.fresh or id(registry) in tx.output.effects.changed):
            if name in (entries := realize(registry).items):  # type: ignore[attr-defined]
                return realize(entries[name])
        elif name in own.get(place, ()):
            source: Source | None = child(value, name)
            spelled = name.isidentifier() and not keyword.iskeyword(name)
            if value.source is not None and not spelled:  # getattr(self, "0")
                source = ItemSource(AttrSource(value.source, place), name)
            if source is not None:
                tx.output.epoch_sources.add(source)
            return wrap(tx.output, own[place][name], source)
    return None


def call_python(tx: Tx, function: Variable, args: list[Variable]) -> Variable:
    assert isinstance(function, UserFunctionVariable)
    return tx.inline(function, args, {})


def lookup_quietly(tx: Tx, value: Variable, name: str) -> Variable | None:
    """`value.name` for who may go without: an AttributeError of a property says that it is not there."""
    try:
        return lookup(tx, value, name)
    except Raised as raised:
        if not isinstance(raised.value.real, AttributeError):
            raise
        tx.resume_here()
        return None


def _named_tuple_method(tx: Tx, value: TupleVariable, found: Any, name: str) -> Variable:
    """A method or property that the user wrote in a NamedTuple, or one of those that all named tuples have."""
    if name in ("_replace", "_asdict"):
        return UserMethodVariable(name, value)
    base = AttrSource(value.source, "__class__") if value.source is not None else value.class_source
    base = base or RegisteredSource(register(value.kind))
    if isinstance(found, property):
        getter = wrap(tx.output, found.fget, AttrSource(AttrSource(base, name), "fget"))
        assert isinstance(getter, UserFunctionVariable)
        return tx.inline(getter, [value], {})
    return UserMethodVariable(wrap(tx.output, found, AttrSource(base, name)), value)


_EXCEPTION_FIELDS = ("__cause__", "__context__", "__suppress_context__", "__traceback__", "args", "add_note")


def _exception_attribute(tx: Tx, value: ExceptionVariable, name: str) -> Variable | None:
    if name in value.attrs or name not in (*_EXCEPTION_FIELDS, "value", "with_traceback"):
        if isinstance(
            class_lookup(type(value.real), name), types.GetSetDescriptorType | types.MemberDescriptorType
        ):
            tx.unsupported("GB0022", f"the attribute {name} of an exception")
        return _instance_attribute(tx, value, name)
    if not value.fresh:
        tx.unsupported("GB0022", f"{name} of an exception from outside")
    match name:
        case "args":
            return TupleVariable(value.args)
        case "__cause__":
            return value.cause or NONE
        case "__context__":
            return value.context or NONE
        case "__suppress_context__":
            return ConstantVariable(value.suppress)
        case "__traceback__":
            return NONE if value.place is None else TracebackVariable()
        case "value" if isinstance(value.real, StopIteration):
            return value.args[0] if value.args else NONE
        case "with_traceback" | "add_note":
            return UserMethodVariable(name, value)
    return None
