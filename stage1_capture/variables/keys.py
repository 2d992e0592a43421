"""Keys of dicts and elements of sets: Python's constants are themselves, an object stands for itself as an ObjectKey.

Input: abstract values that the program uses as keys. An object whose class leaves hash and equality to Python is
known by its identity; a frozen dataclass by its fields.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from typing import Any

from stage0_eager.table.operator import Operator
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import class_lookup
from stage1_capture.variables.base import (
    ConstDictVariable,
    IdVariable,
    ListVariable,
    LocalClassVariable,
    ObjectKey,
    SetVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    Variable,
    realize,
)

_ITSELF = (types.ModuleType, types.BuiltinFunctionType, Operator, enum.Enum, type)


def hashable(tx: Tx, key: Variable) -> Any:
    """What stands for the key in a Python dict: a constant, or an ObjectKey."""
    key = realize(key)
    match key:
        case UserDefinedObjectVariable(base=inside) if inside is not None:
            if class_lookup(type(key.real), "__hash__") is not type(as_base(key)).__hash__:
                tx.unsupported("GB0058", f"a key whose class {type(key.real).__name__} computes its hash")
            return hashable(tx, inside)
        case LocalClassVariable():
            return _by_identity(tx, key)
        case UserDefinedObjectVariable(real=real, fresh=False) if isinstance(real, _ITSELF):
            return real
        case UserDefinedObjectVariable():
            return _object(tx, key)
        case TensorVariable():
            return _by_identity(tx, key)
        case UserFunctionVariable(real=types.FunctionType() as real):
            return real
        case IdVariable(of=target):
            return ObjectKey(key, ("id", _by_identity(tx, target).identity))
        case UserFunctionVariable():
            return ObjectKey(key, id(key))
        case TupleVariable(items=items):
            return tuple(hashable(tx, item) for item in items)
        case ListVariable() | ConstDictVariable() | SetVariable() if kind_of(key) is not frozenset:
            tx.throw(TypeError, f"unhashable type: {kind_of(key).__name__!r}")
    constant = tx.constant(key, "a key")
    try:
        hash(constant)
    except TypeError as error:
        tx.throw(TypeError, *error.args)
    return constant


def as_base(key: UserDefinedObjectVariable) -> Any:
    """The value inside an object of a class derived from one of Python's."""
    base = key.base
    return getattr(base, "value", ()) if base is not None else None


def kind_of(value: Variable) -> type:
    """list, or the class of a dict or set."""
    return getattr(value, "kind", list)


def _object(tx: Tx, key: UserDefinedObjectVariable) -> ObjectKey:
    cls = type(key.real)
    equal, hashed = class_lookup(cls, "__eq__"), class_lookup(cls, "__hash__")
    if hashed is None:
        tx.throw(TypeError, f"unhashable type: {cls.__name__!r}")
    if equal is object.__eq__ and hashed is object.__hash__:
        return _by_identity(tx, key)
    if _made_by_dataclass(cls, equal, hashed):
        return ObjectKey(key, (cls, _fields(tx, key)))
    tx.unsupported("GB0058", f"a key whose class {cls.__name__} computes its hash")


def _by_identity(tx: Tx, key: Any) -> ObjectKey:
    """Objects from outside that are different keys here must be different ones at every call."""
    if key.source is not None and key not in tx.output.keys:
        for other in tx.output.keys:
            if type(other) is type(key):
                tx.output.guard("NOT_ALIASED", key.source, other.source)
        tx.output.keys[key] = None
    return ObjectKey(key, id(key))


def _made_by_dataclass(cls: type, equal: Any, hashed: Any) -> bool:
    """Whether a frozen dataclass compares and hashes its fields, as the decorator wrote it."""
    params = getattr(cls, "__dataclass_params__", None)
    generated = all(
        isinstance(m, types.FunctionType) and m.__code__.co_filename == "<string>" for m in (equal, hashed)
    )
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    plain = all(f.compare and f.hash is None for f in fields)
    return params is not None and params.frozen and params.eq and generated and plain


def _fields(tx: Tx, key: UserDefinedObjectVariable) -> tuple:
    from stage1_capture.variables.attributes import load_attribute

    return tuple(hashable(tx, load_attribute(tx, key, f.name)) for f in dataclasses.fields(key.real))
