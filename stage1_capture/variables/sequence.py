"""Lists, tuples, named tuples, deques and slices: abstract items in a row.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from stage0_eager.nn import Parameter
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import class_lookup
from stage1_capture.variables.base import FROM_CONSTANT, Variable, as_constant, from_constant
from stage1_capture.variables.builder import BUILDERS, Builder, in_arguments, lazily, once
from stage1_capture.variables.derived import EMPTY, HELD, guard_length, item_source, python_base
from stage1_capture.variables.keys import hashable
from stage_contracts.source import (
    AttrSource,
    ItemSource,
    Source,
)


@dataclass(eq=False)
class ListVariable(Variable):
    items: list[Variable]

    def python_type(self, tx: Tx) -> type:
        return list

    def as_constant(self) -> Any:
        return list(map(as_constant, self.items))

    def hash_key(self, tx: Tx) -> Any:
        tx.throw(TypeError, "unhashable type: 'list'")

    def snapshot(self) -> Any:
        return list(self.items)


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


def _wrap_sequence(kind: type) -> Builder:
    def build(output: OutputGraph, real: Any, source: Source | None) -> Variable:
        output.guard("TYPE", source, type(real), source in output.epoch_sources)
        if source is not None and _holds_parameters(output, real, source):
            output.guard("ITEMS", source, tuple(real))
            output.epoch_sources.update(ItemSource(source, i) for i in range(len(real)))
        else:
            output.guard("LENGTH", source, len(real))
        items = [lazily(output, v, source and ItemSource(source, i)) for i, v in enumerate(real)]
        return once(output, real, source, lambda: kind(items, source=source))

    return build


def _holds_parameters(output: OutputGraph, real: Any, source: Source) -> bool:
    """Whether it is a row of parameters, as an optimizer has: guarded as these very objects, which tell the epoch what
    changes about them. In an argument it may be another row at the next call."""
    many = len(real) > 1 and all(isinstance(item, Parameter) for item in real)
    return many and not in_arguments(output, ItemSource(source, 0), False)


def _wrap_slice(output: OutputGraph, real: slice, source: Source | None) -> Variable:
    output.guard("TYPE", source, slice, source in output.epoch_sources)
    fields = ("start", "stop", "step")
    items: list[Variable] = [
        lazily(output, getattr(real, name), source and AttrSource(source, name)) for name in fields
    ]
    return SliceVariable(items, source=source)


def _wrap_deque(output: OutputGraph, real: deque, source: Source | None) -> Variable:
    output.guard("TYPE", source, type(real))
    output.guard("EQUALS", source and AttrSource(source, "maxlen"), real.maxlen)
    items = sequence_items(output, real, source)
    return once(output, real, source, lambda: DequeVariable(items, real.maxlen, source=source))


def sequence_items(output: OutputGraph, real: Any, source: Source | None) -> list[Variable]:
    base = python_base(type(real)) or type(real)
    items = list(class_lookup(base, "__iter__")(real))
    guard_length(output, real, source, len(items))
    return [lazily(output, v, item_source(real, source, i)) for i, v in enumerate(items)]


BUILDERS.update(
    {
        list: _wrap_sequence(ListVariable),
        tuple: _wrap_sequence(TupleVariable),
        slice: _wrap_slice,
        deque: _wrap_deque,
    }
)
EMPTY.update(
    {deque: lambda: DequeVariable([]), list: lambda: ListVariable([]), tuple: lambda: TupleVariable([])}
)


def _held(kind: Any) -> Any:
    return lambda output, real, source, base: kind(sequence_items(output, real, source), source=source)


HELD.update({list: _held(ListVariable), tuple: _held(TupleVariable)})
HELD[deque] = lambda output, real, source, base: DequeVariable(
    sequence_items(output, real, source), real.maxlen, source=source
)
