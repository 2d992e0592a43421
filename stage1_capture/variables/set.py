"""Sets and frozensets: their elements are constants, or objects as `ObjectKey`.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import FROM_CONSTANT, NotConstant, Variable
from stage1_capture.variables.keys import holds_object


@dataclass(eq=False)
class SetVariable(Variable):
    """A set (or frozenset: `kind`) of constants. Its order is Python's own, for the elements are."""

    items: set[Any]
    kind: type = set

    def python_type(self, tx: Tx) -> type:
        return self.kind

    def as_constant(self) -> Any:
        if any(map(holds_object, self.items)):
            raise NotConstant(self)
        return self.kind(self.items)

    def hash_key(self, tx: Tx) -> Any:
        if self.kind is not frozenset:
            tx.throw(TypeError, f"unhashable type: {self.kind.__name__!r}")
        return super().hash_key(tx)


FROM_CONSTANT[set] = FROM_CONSTANT[frozenset] = lambda value: SetVariable(set(value), type(value))
