"""Dicts, defaultdicts, the `__dict__` of an object, and the views of a dict.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest. Keys are constants, or objects
as `ObjectKey`: variables/keys.py.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import FROM_CONSTANT, NotConstant, Variable, as_constant, from_constant
from stage1_capture.variables.keys import holds_object
from stage1_capture.variables.sequence import TupleVariable


@dataclass(eq=False)
class ConstDictVariable(Variable):
    """A dict (or OrderedDict: `kind`) whose keys are constants."""

    items: dict[Any, Variable]
    kind: type = dict

    def python_type(self, tx: Tx) -> type:
        return self.kind

    def as_constant(self) -> Any:
        if self.kind not in (dict, OrderedDict) or any(map(holds_object, self.items)):
            raise NotConstant(self)
        return self.kind((key, as_constant(value)) for key, value in self.items.items())

    def hash_key(self, tx: Tx) -> Any:
        tx.throw(TypeError, f"unhashable type: {self.kind.__name__!r}")


@dataclass(eq=False)
class ObjectDictVariable(ConstDictVariable):
    """The `__dict__` of its owner."""


@dataclass(eq=False)
class DefaultDictVariable(ConstDictVariable):
    """A defaultdict: `factory` makes what is missing."""

    factory: Variable | None = None


@dataclass(eq=False)
class DictViewVariable(Variable):
    """d.keys(), d.values(), d.items(): sees later changes of d."""

    mapping: ConstDictVariable
    name: str  # "keys", "values" or "items"

    def pick(self, key: Any, value: Variable) -> Variable:
        """What it shows of a key and its value."""
        if self.name == "values":
            return value
        return from_constant(key) if self.name == "keys" else TupleVariable([from_constant(key), value])

    @property
    def items(self) -> list[Variable]:
        return [self.pick(key, value) for key, value in self.mapping.items.items()]

    def python_type(self, tx: Tx) -> type:
        return type(getattr({}, self.name)())


FROM_CONSTANT[dict] = lambda value: ConstDictVariable({k: from_constant(v) for k, v in value.items()})
