"""Attribute lookup on abstract values, by Python's own order, with a guard for each thing found.

Input: an abstract value and a name. Properties are inlined; everything else is read off `__dict__`s and
registries, so that no code of the user's runs. What cannot be followed (`__getattr__`, unknown descriptors)
is a break.
"""

from __future__ import annotations

import collections
import keyword
import types
from typing import Any

from stage0_eager.nn import Module
from stage0_eager.operator import Operator
from stage0_eager.state import STATE
from stage1_capture.capture.builder import REGISTRIES, wrap
from stage1_capture.capture.inline import inline_call
from stage1_capture.capture.numpy_arrays import FUNCTION_KINDS, array_attribute, function_attribute
from stage1_capture.capture.output_graph import is_library
from stage1_capture.capture.symbolic_convert import InstructionTranslator, Raised
from stage1_capture.capture.tensor_attributes import MISSING, class_lookup, tensor_attribute
from stage1_capture.capture.variables import (
    NONE,
    CellVariable,
    ConstantVariable,
    ConstDictVariable,
    DequeVariable,
    DictViewVariable,
    ExceptionVariable,
    IteratorVariable,
    ListVariable,
    NumpyNdarrayVariable,
    SetVariable,
    SliceVariable,
    SuperVariable,
    TensorVariable,
    TracebackVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    describe,
    from_constant,
    realize,
)
from stage_contracts.controls import register
from stage_contracts.device import Device
from stage_contracts.source import AttrSource, ItemSource, RegisteredSource, Source

Tx = InstructionTranslator
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: a class whose attributes nobody can rebind, as Python's own
_PYTHON_TYPES: dict[type, type] = {
    ListVariable: list,
    TupleVariable: tuple,
    ConstDictVariable: dict,
    SetVariable: set,
    DictViewVariable: type({}.values()),
    IteratorVariable: types.GeneratorType,
    DequeVariable: collections.deque,
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
            return f"type object {real.__name__!r} has no attribute {name!r}"
        case UserDefinedObjectVariable(real=real):
            kind = type(real).__name__
        case ConstantVariable(value=constant):
            kind = type(constant).__name__
        case TensorVariable():
            kind = "Tensor"
        case NumpyNdarrayVariable():
            kind = "numpy.ndarray"
        case _:
            kind = (_PYTHON_TYPES.get(type(value)) or type(value)).__name__
    return f"{kind!r} object has no attribute {name!r}"


def lookup(tx: Tx, value: Variable, name: str) -> Variable | None:
    """`value.name`, or None when it is not there (guarded, where a later call could find it)."""
    match value:
        case ExceptionVariable():
            return _exception_attribute(tx, value, name)
        case CellVariable(contents=inside) if name == "cell_contents":
            if inside is None:
                tx.throw(ValueError, "Cell is empty")
            return realize(inside)
        case UserFunctionVariable(attrs=attrs) if name in attrs:
            return attrs[name]
        case TupleVariable(items=items, kind=kind) if name in getattr(kind, "_fields", ()):
            return items[kind._fields.index(name)]  # type: ignore[attr-defined]
        case TupleVariable(kind=kind) if isinstance(class_lookup(kind, name), (types.FunctionType, property)):
            return _named_tuple_method(tx, value, class_lookup(kind, name), name)
        case TensorVariable():
            return tensor_attribute(tx, value, name)
        case NumpyNdarrayVariable():
            return array_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=types.ModuleType()):
            return _python_module_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=type()):
            return _class_object_attribute(tx, value, name)
        case UserDefinedObjectVariable(real=real) if real is STATE and name == "grad_enabled":
            return ConstantVariable(tx.output.grad_enabled)
        case UserDefinedObjectVariable(real=real) if real is STATE and name in tx.output.modes:
            return from_constant(tx.output.modes[name])
        case UserDefinedObjectVariable(real=real) if isinstance(real, FUNCTION_KINDS):
            return function_attribute(value, name)
        case UserDefinedObjectVariable():
            return _instance_attribute(tx, value, name)
        case SuperVariable(owner=owner, receiver=receiver):
            return _super_attribute(tx, owner, receiver, name)
        case ConstantVariable(value=constant):
            found = getattr(constant, name, MISSING)
            if found is MISSING:
                return None
            return UserMethodVariable(name, value) if callable(found) else from_constant(found)
        case UserFunctionVariable(real=types.FunctionType() as real) if name in ("__doc__", "__module__"):
            return ConstantVariable(getattr(real, name))
        case UserFunctionVariable(real=None) if name in ("__doc__", "__module__"):
            said = value.code.co_consts[:1] if name == "__doc__" else [value.globals.get("__name__")]
            return ConstantVariable(said[0] if said and isinstance(said[0], str) else None)
        case UserFunctionVariable(real=types.FunctionType() as real) if name in real.__dict__:
            return wrap(tx.output, real.__dict__[name], _child(value, name))
        case UserFunctionVariable() if name in ("__annotations__", "__type_params__"):
            tx.unsupported("GB0001", f"the attribute {name} of {describe(value)}")
        case UserFunctionVariable(name=own_name) if name in ("__name__", "__qualname__"):
            return ConstantVariable(value.code.co_qualname if name == "__qualname__" else own_name)
        case SliceVariable(items=[start, stop, step]) if name in ("start", "stop", "step"):
            return {"start": start, "stop": stop, "step": step}[name]
        case UserMethodVariable(receiver=receiver) if name == "__self__":
            return receiver
    known = next((_PYTHON_TYPES[c] for c in type(value).__mro__ if c in _PYTHON_TYPES), None)
    if known is not None:
        there = hasattr(getattr(value, "kind", known), name)
        return UserMethodVariable(name, value) if there else None
    tx.unsupported("GB0001", f"the attribute {name} of {describe(value)}")


def special_method(tx: Tx, value: Variable, name: str) -> Variable | None:
    """The method Python calls for an operation (`__add__`, `__call__`): looked up on the class only."""
    match value:
        case TensorVariable():
            return tensor_attribute(tx, value, name)
        case NumpyNdarrayVariable():
            return array_attribute(tx, value, name)
        case ConstantVariable(value=Device()) if name in ("__enter__", "__exit__"):
            return UserMethodVariable(wrap(tx.output, class_lookup(Device, name), None), value)
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
    if cls.source is None and not cls.real.__flags__ & _IMMUTABLE:  # reached by way of something made inside
        cls = UserDefinedObjectVariable(cls.real, source=RegisteredSource(register(cls.real)))
    found = class_lookup(cls.real, name)
    meta = class_lookup(type(cls.real), name)
    if meta is not MISSING and hasattr(type(meta), "__set__"):
        tx.unsupported("GB0001", f"the attribute {name} of the class {cls.real.__name__}")
    if found is MISSING:
        if meta is not MISSING or class_lookup(type(cls.real), "__getattr__") is not MISSING:
            tx.unsupported("GB0001", f"the attribute {name} of the class {cls.real.__name__}")
        tx.output.guard("ABSENT", cls.source, name)
        return None
    if isinstance(found, staticmethod):
        found = found.__func__
    elif isinstance(found, classmethod):
        return UserMethodVariable(wrap(tx.output, found.__func__, _child(cls, name, "__func__")), cls)
    elif name == "__new__" and found is object.__new__:
        pass
    elif isinstance(
        found, types.WrapperDescriptorType | types.MethodDescriptorType
    ):  # list.append, object.__setattr__
        return UserDefinedObjectVariable(found)
    elif not isinstance(found, (types.FunctionType, Operator)) and hasattr(type(found), "__get__"):
        tx.unsupported("GB0001", f"the descriptor {cls.real.__name__}.{name}")
    return wrap(tx.output, found, _child(cls, name))


def _instance_attribute(tx: Tx, value: UserDefinedObjectVariable, name: str) -> Variable | None:
    real, cls = value.real, type(value.real)
    if (
        not isinstance(class_lookup(cls, "__getattribute__"), types.WrapperDescriptorType)
        or name == "__dict__"
    ):
        tx.unsupported("GB0001", f"the attribute {name} of {describe(value)}")
    if name == "__class__":
        return UserDefinedObjectVariable(cls, source=class_of(value))
    found = class_lookup(cls, name)
    own = object.__getattribute__(real, "__dict__") if hasattr(cls, "__dict__") and _has_dict(real) else {}
    stored = value.attrs.get(name, MISSING)
    if stored is None:  # deleted here
        return _absent(tx, value, name)
    if stored is not MISSING and (
        found is MISSING
        or isinstance(found, types.MemberDescriptorType)
        or not hasattr(type(found), "__set__")
    ):
        return realize(stored)  # type: ignore[arg-type]
    if isinstance(found, property):
        return _call_property(tx, value, found, name)
    if isinstance(found, types.MemberDescriptorType):  # a slot
        try:
            return wrap(tx.output, found.__get__(real, cls), _child(value, name))
        except AttributeError:
            if class_lookup(cls, "__getattr__") is not MISSING:
                tx.unsupported("GB0001", f"the slot {name} of {describe(value)} is empty")
            tx.output.guard("ABSENT", value.source, name)
            return None
    if found is not MISSING and hasattr(type(found), "__set__"):
        if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
            return _call_descriptor(tx, value, found, name)
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
    if not value.fresh and class_lookup(cls, "__getattr__") in (MISSING, Module.__getattr__):
        tx.output.guard("ABSENT", value.source, name)
    elif not value.fresh and value.source is not None:  # hasattr would ask the user's __getattr__
        tx.output.guard("ABSENT", class_of(value), name)
        if _has_dict(real):
            tx.output.guard("ABSENT_KEY", AttrSource(value.source, "__dict__"), name)
    return _absent(tx, value, name)


def _absent(tx: Tx, value: UserDefinedObjectVariable, name: str) -> Variable | None:
    """Neither the object nor its class has it: a `__getattr__` of the user's is asked."""
    computed = class_lookup(type(value.real), "__getattr__")
    if computed in (MISSING, Module.__getattr__):
        return None
    if not isinstance(computed, types.FunctionType):
        tx.unsupported("GB0001", f"{name}, which {type(value.real).__name__} computes in __getattr__")
    getter = wrap(tx.output, computed, _on_class(value, "__getattr__"))
    assert isinstance(getter, UserFunctionVariable)
    try:
        return inline_call(tx, getter, [value, ConstantVariable(name)], {})
    except Raised as raised:
        if not isinstance(raised.value.real, AttributeError):
            raise
        tx.resume_here()
        return None


def _call_descriptor(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str) -> Variable:
    """A descriptor written in Python."""
    descriptor = wrap(tx.output, found, dict_source(value, name))
    method = special_method(tx, descriptor, "__get__")
    from stage1_capture.capture.calls import call_function

    assert method is not None
    return call_function(tx, method, [value, UserDefinedObjectVariable(type(value.real))], {})


def _named_tuple_method(tx: Tx, value: TupleVariable, found: Any, name: str) -> Variable:
    """A method or property that the user wrote in a NamedTuple, or one of those that all named tuples have."""
    if name in ("_replace", "_asdict"):
        return UserMethodVariable(name, value)
    base = AttrSource(value.source, "__class__") if value.source is not None else value.class_source
    if base is None:
        tx.unsupported("GB0001", f"the attribute {name} of a named tuple")
    if isinstance(found, property):
        getter = wrap(tx.output, found.fget, AttrSource(AttrSource(base, name), "fget"))
        assert isinstance(getter, UserFunctionVariable)
        return inline_call(tx, getter, [value], {})
    return UserMethodVariable(wrap(tx.output, found, AttrSource(base, name)), value)


def dict_source(value: UserDefinedObjectVariable, name: str) -> Source | None:
    """A class attribute as it lies in the class, where reading it would call its `__get__`."""
    cls = type(value.real)
    base = class_of(value)
    home = next((i for i, c in enumerate(cls.__mro__) if name in c.__dict__), None)
    if base is None or home is None:
        return None
    return ItemSource(AttrSource(ItemSource(AttrSource(base, "__mro__"), home), "__dict__"), name)


_EXCEPTION_FIELDS = ("__cause__", "__context__", "__suppress_context__", "__traceback__", "args")


def _exception_attribute(tx: Tx, value: ExceptionVariable, name: str) -> Variable | None:
    if name in value.attrs or name not in (*_EXCEPTION_FIELDS, "value", "with_traceback"):
        if isinstance(
            class_lookup(type(value.real), name), types.GetSetDescriptorType | types.MemberDescriptorType
        ):
            tx.unsupported("GB0001", f"the attribute {name} of an exception")
        return _instance_attribute(tx, value, name)
    if not value.fresh:
        tx.unsupported("GB0001", f"{name} of an exception from outside")
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
            return TracebackVariable()
        case "value" if isinstance(value.real, StopIteration):
            return value.args[0] if value.args else NONE
        case "with_traceback":
            return UserMethodVariable(name, value)
    return None


def _has_dict(real: Any) -> bool:
    try:
        return isinstance(object.__getattribute__(real, "__dict__"), dict)
    except AttributeError:
        return False


def _super_attribute(tx: Tx, owner: type, receiver: Variable, name: str) -> Variable | None:
    real = receiver.real  # type: ignore[attr-defined]
    cls = real if isinstance(real, type) else type(real)
    rest = cls.__mro__[cls.__mro__.index(owner) + 1 :]
    found = next((c.__dict__[name] for c in rest if name in c.__dict__), MISSING)
    if isinstance(found, staticmethod):  # __new__
        found = found.__func__
    if found is MISSING:
        return None
    if found in (
        object.__init__,
        object.__new__,
        object.__setattr__,
        object.__getattribute__,
        BaseException.__init__,
        Exception.__init__,
    ):
        bound = UserDefinedObjectVariable(found)
        return bound if found is object.__new__ else UserMethodVariable(bound, receiver)
    if isinstance(found, property) and not isinstance(real, type):
        index = cls.__mro__.index(next(c for c in rest if name in c.__dict__))
        mro = class_of(receiver) and AttrSource(class_of(receiver), "__mro__")  # type: ignore[arg-type]
        getter = wrap(
            tx.output, found.fget, mro and AttrSource(AttrSource(ItemSource(mro, index), name), "fget")
        )
        assert isinstance(getter, UserFunctionVariable)
        return inline_call(tx, getter, [receiver], {})
    if isinstance(found, classmethod) or not isinstance(found, types.FunctionType):
        tx.unsupported("GB0001", f"super().{name}, which is not a plain method")
    known = is_library(found.__globals__)
    home = next(c for c in rest if name in c.__dict__)
    index = cls.__mro__.index(home)
    base = receiver.source if isinstance(real, type) else class_of(receiver)
    mro = base and AttrSource(base, "__mro__")
    source = None if known or mro is None else AttrSource(ItemSource(mro, index), name)
    function = wrap(tx.output, found, source)
    return function if name == "__new__" else UserMethodVariable(function, receiver)


# ---- binding -------------------------------------------------------------------------------------


def class_of(value: Variable) -> Source | None:
    """Where the class of an object is found: of one made inside, where the program found it."""
    if value.source is not None:
        return AttrSource(value.source, "__class__")
    return value.class_source if isinstance(value, UserDefinedObjectVariable) else None


def _on_class(value: Variable, name: str, *names: str) -> Source | None:
    """The source of something on the class of `value`."""
    base = class_of(value)
    for part in (name, *names):
        base = base and AttrSource(base, part)
    return base


def _child(value: Variable, name: str, *names: str) -> AttrSource | None:
    """The source of value.name, value.name.other, ...; None where the value has none."""
    if value.source is None:
        return None
    source = AttrSource(value.source, name)
    for inner in names:
        source = AttrSource(source, inner)
    return source


def _call_property(tx: Tx, value: UserDefinedObjectVariable, found: property, name: str) -> Variable:
    source = _on_class(value, name, "fget")
    if not isinstance(found.fget, types.FunctionType):
        tx.unsupported("GB0001", f"the property {name} of {describe(value)}")
    getter = wrap(tx.output, found.fget, None if is_library(found.fget.__globals__) else source)
    assert isinstance(getter, UserFunctionVariable)
    return inline_call(tx, getter, [value], {})


def _bind(tx: Tx, value: UserDefinedObjectVariable, found: Any, name: str, on_instance: bool) -> Variable:
    """A class attribute seen from an instance: methods are bound, plain values are themselves."""
    on_class = _on_class(value, name)
    if isinstance(found, types.FunctionType):
        if is_library(found.__globals__):
            on_class = None
        function = wrap(tx.output, found, on_class)
        if (
            on_instance and not value.fresh
        ):  # nobody has put another one on the instance; on a module that would bump the epoch
            on_module = isinstance(value.real, Module)
            tx.output.guard("IDENTITY", _child(value, name, "__func__"), found, under_epoch=on_module)
        return UserMethodVariable(function, value)
    if isinstance(found, Operator):
        return UserMethodVariable(wrap(tx.output, found, on_class), value)
    if isinstance(found, staticmethod):
        return wrap(tx.output, found.__func__, _seen_from(value, name))
    if isinstance(found, classmethod):
        method = wrap(tx.output, found.__func__, _seen_from(value, name, "__func__"))
        return UserMethodVariable(method, UserDefinedObjectVariable(type(value.real), source=class_of(value)))
    if found is object.__init__ or found in (BaseException.__init__, Exception.__init__, object.__setattr__):
        return UserMethodVariable(UserDefinedObjectVariable(found), value)
    if hasattr(type(found), "__get__"):
        if isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
            return _call_descriptor(tx, value, found, name)
        tx.unsupported("GB0001", f"the descriptor {type(value.real).__name__}.{name}")
    return wrap(tx.output, found, _seen_from(value, name))


def _seen_from(value: Variable, name: str, *names: str) -> Source | None:
    """A class attribute as the object shows it, so that one put on the object is noticed."""
    fresh = isinstance(value, UserDefinedObjectVariable) and value.fresh
    return _on_class(value, name, *names) if fresh else _child(value, name, *names)
