"""isinstance and issubclass: by the class of the value, an ABC's register, a union's members, a protocol's names.

Input: an abstract value and abstract classes. A metaclass that answers in Python is followed.
"""

from __future__ import annotations

import abc
import types
import typing
from typing import Any

from stage0_eager.nn import Parameter
from stage0_eager.tensor import Tensor
from stage1_capture.capture.arithmetic import truth
from stage1_capture.capture.attributes import lookup_quietly, special_method
from stage1_capture.capture.builtin_functions import builtin
from stage1_capture.capture.builtin_types import python_type
from stage1_capture.capture.calls import call_function
from stage1_capture.capture.mro import class_lookup
from stage1_capture.capture.output_graph import is_users
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    ConstantVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    Variable,
    describe,
    realize,
)

Tx = InstructionTranslator
_UNION = (types.UnionType, type(typing.Union[int, str]))  # noqa: UP007


@builtin(isinstance)
def isinstance_(tx: Tx, value: Variable, classes: Variable) -> Variable:
    return ConstantVariable(any(_is_instance(tx, value, cls) for cls in _classes(tx, classes)))


@builtin(issubclass)
def issubclass_(tx: Tx, cls: Variable, classes: Variable) -> Variable:
    if not isinstance(cls, UserDefinedObjectVariable) or not isinstance(cls.real, type):
        tx.throw(TypeError, "issubclass() arg 1 must be a class")
    return ConstantVariable(any(_is_subclass(tx, cls.real, wanted) for wanted in _classes(tx, classes)))


def _classes(tx: Tx, value: Variable) -> list[Variable]:
    """A class, or what a tuple or a union names."""
    if isinstance(value, TupleVariable):
        return [cls for item in value.items for cls in _classes(tx, realize(item))]
    real = value.real if isinstance(value, UserDefinedObjectVariable) else None
    if isinstance(real, _UNION):
        return [UserDefinedObjectVariable(type(None) if c is None else c) for c in typing.get_args(real)]
    if not isinstance(real, type):
        if isinstance(value, ConstantVariable) and value.value is None:
            return [UserDefinedObjectVariable(type(None))]
        tx.unsupported("GB0001", f"isinstance of {describe(value)}")
    return [value]


def _is_instance(tx: Tx, value: Variable, cls: Any) -> bool:
    wanted: Any = cls.real
    if getattr(wanted, "_is_protocol", False) and getattr(wanted, "_is_runtime_protocol", False):
        return all(lookup_quietly(tx, value, name) is not None for name in _protocol_names(wanted))
    asked = class_lookup(type(wanted), "__instancecheck__")
    if isinstance(value, UserDefinedObjectVariable) and type(value.real) is wanted:
        return True  # nobody is asked
    if isinstance(asked, types.FunctionType) and is_users(asked.__globals__):
        method = special_method(tx, cls, "__instancecheck__")
        assert method is not None
        return truth(tx, call_function(tx, method, [value], {}))
    if isinstance(value, TensorVariable) and issubclass(Tensor, wanted) is issubclass(Parameter, wanted):
        return issubclass(Tensor, wanted)  # the same for both classes a tensor may have
    return _is_subclass(tx, python_type(tx, value), cls)


def _is_subclass(tx: Tx, found: type, cls: Any) -> bool:
    wanted: Any = cls.real
    asked = class_lookup(type(wanted), "__subclasscheck__")
    hook = class_lookup(wanted, "__subclasshook__")
    own = getattr(hook, "__func__", None)
    users = isinstance(own, types.FunctionType) and is_users(own.__globals__)
    if users or (
        isinstance(asked, types.FunctionType) and asked is not _ABC_CHECK and is_users(asked.__globals__)
    ):
        tx.unsupported("GB0001", f"whether a class is a subclass of {describe(cls)}, which says it in Python")
    return issubclass(found, wanted)


_ABC_CHECK = abc.ABCMeta.__subclasscheck__


def _protocol_names(protocol: Any) -> set[str]:
    names = getattr(protocol, "__protocol_attrs__", None)
    return names if names is not None else typing._get_protocol_attrs(protocol)  # type: ignore[attr-defined]
