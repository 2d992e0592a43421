"""Lists, tuples, named tuples, deques and slices: abstract items in a row.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import FROM_CONSTANT, Variable, as_constant, from_constant
from stage1_capture.variables.keys import hashable
from stage_contracts.source import Source


@dataclass(eq=False)
class ListVariable(Variable):
    items: list[Variable]

    def python_type(self, tx: Tx) -> type:
        return list

    def as_constant(self) -> Any:
        return list(map(as_constant, self.items))

    def hash_key(self, tx: Tx) -> Any:
        tx.throw(TypeError, "unhashable type: 'list'")


@dataclass(eq=False)
class DequeVariable(ListVariable):
    """A collections.deque."""

    limit: int | None = None

    def python_type(self, tx: Tx) -> type:
        return deque

    def as_constant(self) -> Any:
        return deque(map(as_constant, self.items), self.limit)


@dataclass(eq=False)
class TupleVariable(Variable):
    items: list[Variable]
    kind: type = tuple  # or a named tuple's class
    class_source: Source | None = None  # where the program found that

    def python_type(self, tx: Tx) -> type:
        return self.kind

    def as_constant(self) -> Any:
        return tuple(map(as_constant, self.items))

    def hash_key(self, tx: Tx) -> Any:
        return tuple(hashable(tx, item) for item in self.items)


@dataclass(eq=False)
class SliceVariable(Variable):
    items: list[Variable]  # start, stop, step

    def python_type(self, tx: Tx) -> type:
        return slice

    def as_constant(self) -> Any:
        return slice(*map(as_constant, self.items))


FROM_CONSTANT[tuple] = lambda value: TupleVariable([from_constant(v) for v in value])
FROM_CONSTANT[list] = lambda value: ListVariable([from_constant(v) for v in value])
FROM_CONSTANT[slice] = lambda v: SliceVariable([from_constant(i) for i in (v.start, v.stop, v.step)])
