"""Sets and frozensets: their elements are constants, or objects as `ObjectKey`.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import FROM_CONSTANT, NotConstant, Variable
from stage1_capture.variables.builder import BUILDERS, once, wrap_as_object
from stage1_capture.variables.derived import EMPTY
from stage1_capture.variables.keys import holds_object
from stage1_capture.variables.mapping import HASHED
from stage_contracts.source import (
    Source,
)


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

    def snapshot(self) -> Any:
        return set(self.items)


FROM_CONSTANT[set] = FROM_CONSTANT[frozenset] = lambda value: SetVariable(set(value), type(value))


def _wrap_set(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    if not all(type(e) in HASHED or type(e) is type for e in real):
        return wrap_as_object(output, real, source)
    output.guard("EQUALS", source, type(real)(real))
    return once(output, real, source, lambda: SetVariable(set(real), type(real), source=source))


BUILDERS.update({set: _wrap_set, frozenset: _wrap_set})
EMPTY.update({set: lambda: SetVariable(set()), frozenset: lambda: SetVariable(set(), frozenset)})
