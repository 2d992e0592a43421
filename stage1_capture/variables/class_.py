"""Classes that the program defines, and what their bodies hold: properties, class methods, fields.

Input: variables/local_classes.py and variables/local_dataclasses.py make them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable
from stage1_capture.variables.function import CellVariable
from stage1_capture.variables.keys import by_identity
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

    def hash_key(self, tx: Tx) -> Any:
        return by_identity(tx, self)


@dataclass(eq=False)
class WrapperVariable(UserDefinedObjectVariable):
    """A property, classmethod or staticmethod made inside; `real` is one of the stand-ins of `parts`."""

    parts: list[Variable] = field(default_factory=list)


@dataclass(eq=False)
class FieldVariable(UserDefinedObjectVariable):
    """dataclasses.field(**options)."""

    options: dict[str, Variable] = field(default_factory=dict)
