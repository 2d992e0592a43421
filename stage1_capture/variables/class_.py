"""Classes that the program defines, and what their bodies hold: properties, class methods, fields.

Input: variables/local_classes.py and variables/local_dataclasses.py make them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import MISSING
from stage1_capture.variables.base import Variable, describe
from stage1_capture.variables.binding import pending
from stage1_capture.variables.function import CellVariable
from stage1_capture.variables.hash_keys import by_identity
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


@dataclass(eq=False)
class LocalClassVariable(UserDefinedObjectVariable):
    """A class that the program defined. `real` is its prototype: variables/local_classes.py.

    names: what its body stored, in order; `cell`: what `__class__` and super() find it in.
    attrs: what was stored on it later.
    """

    name: str = ""
    bases: list[Variable] = field(default_factory=list)
    names: dict[str, Variable] = field(default_factory=dict)
    cell: CellVariable | None = None
    options: dict[str, Any] | None = None  # of a dataclass

    def parts(self) -> list[Variable]:
        stored = [a for a in self.attrs.values() if a is not None]
        return [*self.bases, *self.names.values(), *stored, *([] if self.cell is None else [self.cell])]

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name == "__annotations__" and name in self.names and pending(tx, self.real, name) is MISSING:
            return self.names[name]
        return super().var_getattr(tx, name)

    def hash_key(self, tx: Tx) -> Any:
        return by_identity(tx, self)


@dataclass(eq=False)
class WrapperVariable(UserDefinedObjectVariable):
    """A property, classmethod or staticmethod made inside; `real` is one of the stand-ins of `functions`."""

    functions: list[Variable] = field(default_factory=list)

    def parts(self) -> list[Variable]:
        return self.functions

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        """`prop.fget`, `prop.setter`, `method.__func__`."""
        if isinstance(self.real, property):
            if name in _FUNCTIONS:
                return self.functions[_FUNCTIONS.index(name)]
            if name in ("getter", "setter", "deleter"):
                return UserMethodVariable(name, self)
        elif name in ("__func__", "__wrapped__"):
            return self.functions[0]
        tx.unsupported("GB0022", f"the attribute {name} of {describe(self)}")


_FUNCTIONS = ("fget", "fset", "fdel")


@dataclass(eq=False)
class FieldVariable(UserDefinedObjectVariable):
    """dataclasses.field(**options)."""

    options: dict[str, Variable] = field(default_factory=dict)

    def parts(self) -> list[Variable]:
        return [*self.options.values()]
