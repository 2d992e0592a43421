"""Methods with the object they are bound to: of a function, or, by its name, of one of Python's own classes.

Input: attribute lookup makes them.
"""

from __future__ import annotations

import types
from typing import Any

from stage1_capture.state.graph_builder import is_users_class
from stage1_capture.state.machine import Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, from_constant
from stage1_capture.variables.builder import class_variable
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.controls import LOGGING, is_ignored_method, register
from stage_contracts.source import RegisteredSource


class UserMethodVariable(Variable):
    """A callable (function, operator, or the name of a builtin container's method) with its self."""

    function: Variable | str
    receiver: Variable

    def python_type(self, tx: Tx) -> type:
        named = isinstance(self.function, str) and not self.receiver.is_tensor()
        of_c = isinstance(getattr(self.function, "real", None), types.MethodDescriptorType)
        return types.BuiltinFunctionType if named or of_c else types.MethodType

    def describe(self) -> str:
        name = self.function if isinstance(self.function, str) else self.function.describe()
        return f"the method {name} of {self.receiver.describe()}"

    def parts(self) -> list[Variable]:
        return [self.receiver] if isinstance(self.function, str) else [self.function, self.receiver]

    def call_function(self, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        if isinstance(self.function, str):
            return self.receiver.call_method(tx, self.function, args, kwargs)
        if LOGGING["ignore"] and is_ignored_method(
            getattr(self.function, "real", None), getattr(self.receiver, "real", None)
        ):
            return from_constant(None)
        return tx.call(self.function, [self.receiver, *args], kwargs)

    def same_as(self, tx: Tx, other: Variable) -> bool | None:
        if isinstance(other, UserMethodVariable):
            tx.unsupported("GB0046", "the identity of a bound method")
        return None

    def class_name(self) -> str:
        return "builtin_function_or_method" if isinstance(self.function, str) else self.function.class_name()

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        """Of a bound method: its own two, and the function's."""
        if name == "__self__":
            return self.receiver
        if isinstance(self.function, str):
            if name == "__name__":
                return from_constant(self.function)
            tx.unsupported("GB0022", f"the attribute {name} of {self.describe()}")
        if name == "__func__":
            return self.function
        if name == "__class__":
            return from_constant(types.MethodType)
        return self.function.var_getattr(tx, name)


def builtin_attribute(tx: Tx, value: Any, name: str, known: type | None = None) -> Variable | None:
    """An attribute of a container, slice or iterator: a method of its class. `known`: the class of Python's it derives
    from."""
    kind = value.kind
    found = class_lookup(kind, name)
    if name == "__class__" and isinstance(found, types.GetSetDescriptorType):
        return class_variable(tx, value, value.python_type(tx))
    there = found is not MISSING and name != "__dict__"
    if there and isinstance(class_lookup(type(found), "__get__"), types.FunctionType):
        tx.unsupported("GB0098", f"the descriptor {kind.__name__}.{name}")
    if not there and known not in (None, kind) and is_users_class(kind):
        place = value.child("__class__") or RegisteredSource(register(kind))
        tx.output.guard_members(place, kind, name)
    return UserMethodVariable(name, value) if there else None
