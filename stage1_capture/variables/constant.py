"""Constants: immutable Python values the graph is specialised on.

Input: variables/builder.py, folding and opcodes make them, by `from_constant`. What reads its `value` may rely on it.
"""

from __future__ import annotations

import datetime
import re
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import KINDS, Args, Kwargs, Tx, attempt
from stage1_capture.variables.base import FROM_CONSTANT, FROM_CONSTANT_BY_CLASS, Variable, from_constant, yes
from stage1_capture.variables.builder import BUILDERS, Builder, class_variable, object_of
from stage1_capture.variables.iterator import ConstantIterator
from stage1_capture.variables.method import UserMethodVariable
from stage_contracts.class_lookup import MISSING, class_lookup, full_name
from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.memory_format import MemoryFormat
from stage_contracts.source import Source


class ConstantVariable(Variable):
    """A number, string, None, dtype, device, range: an immutable value the graph is specialised on."""

    value: Any
    is_plain_data = yes
    is_python_constant = yes
    is_immutable = yes
    is_compared_by_identity = yes

    def python_type(self, tx: Tx) -> type:
        return type(self.value)

    def class_name(self) -> str:
        return full_name(type(self.value))

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        constant = self.value
        if name == "__class__":
            return class_variable(tx, self, self.python_type(tx))
        if name == "type" and isinstance(constant, np.dtype):
            return from_constant(constant.type)
        found = getattr(constant, name, MISSING)
        if found is MISSING:
            return None
        bound = isinstance(found, (types.BuiltinFunctionType, types.MethodWrapperType))
        return UserMethodVariable(name, self) if bound else from_constant(found)

    def special_method(self, tx: Tx, name: str) -> Variable | None:
        if name in ("__enter__", "__exit__") and isinstance(self.value, Device):
            return UserMethodVariable(tx.wrap(class_lookup(Device, name), None), self)
        return None

    def has_special_method(self, args: Args) -> bool:
        return any(a.unwrapped() is not a for a in args)

    def call_other_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name in ("finditer", "scanner"):
            return super().call_other_method(tx, name, args, kwargs)
        value = tx.constant(self, f"the method {name}")
        return tx.fold(getattr(value, name), args, kwargs)

    def truth(self, tx: Tx) -> bool:
        return bool(self.value)

    def contains(self, tx: Tx, item: Variable) -> bool:
        return attempt(tx, "in", lambda: tx.constant(item, "in") in self.value, exact=True)

    def subscript(self, tx: Tx, key: Variable) -> Variable:
        index = tx.constant(key, "an index")
        return attempt(tx, "an index", lambda: from_constant(self.value[index]), exact=True)

    def iterator(self, tx: Tx) -> Variable:
        if isinstance(constant := self.value, (str, bytes, range)):
            return ConstantIterator(constant=constant)
        return super().iterator(tx)

    def refuse_walk(self, tx: Tx) -> NoReturn:
        tx.throw(TypeError, f"{type(self.value).__name__!r} object is not iterable")

    def reversed(self, tx: Tx) -> Variable:
        if isinstance(constant := self.value, (str, range)):
            return ConstantIterator(constant=constant[::-1])
        return super().reversed(tx)

    def as_constant(self) -> Any:
        return self.value

    def operand_class(self) -> type | None:
        return type(self.value)

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return self.value

    def union_member(self) -> tuple[Any, ...]:
        return (None,) if self.is_none() else ()

    def binary(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Variable) -> Variable | None:
        return union(symbol, self, right)

    def same_as(self, tx: Tx, other: Variable) -> bool | None:
        a = self.value  # which fixes an open number, whatever it is compared with
        if not isinstance(other, ConstantVariable):
            return None
        b = other.value
        if a is b or type(a) is not type(b) or a != b:
            return a is b
        tx.unsupported("GB0046", f"the identity of the constant {a!r}")

    def is_none(self) -> bool:
        return self.value is None

    def describe(self) -> str:
        return repr(self.value)


NONE = KINDS["none"] = ConstantVariable(None)
FROM_CONSTANT_BY_CLASS[object] = ConstantVariable
FROM_CONSTANT.update(dict.fromkeys((str, int, float, bool, type(None)), ConstantVariable))  # found at once

# Constants that may be folded: immutable, with operations that run no user code.
CONSTANT_TYPES = (bool, int, float, str, bytes, type(None), type(...), range, frozenset, complex)


# Objects of C's that never change, whose methods only compute: they are constants.
IMMUTABLE = (
    complex, re.Pattern, datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone,
    types.CodeType,
)  # fmt: skip


def wrap_constant(kind: str, make: Callable[[Any], Variable] = ConstantVariable) -> Builder:
    def build(output: OutputGraph, real: Any, source: Source | None) -> Variable:
        output.guard(kind, source, real, source in output.epoch_sources)
        return make(real)

    return build


BUILDERS.update(
    dict.fromkeys((bool, type(None), type(...), type(NotImplemented), DType), wrap_constant("IDENTITY"))
)
BUILDERS.update(dict.fromkeys((str, bytes, range, Device, MemoryFormat, *IMMUTABLE), wrap_constant("EQUALS")))


def union(symbol: str, left: Variable, right: Variable) -> Variable | None:
    """`int | None`."""
    members = left.union_member(), right.union_member()
    if symbol != "|" or not all(members):
        return None
    return object_of(members[0][0] | members[1][0])
