"""Sets and frozensets: their elements are constants, or objects as `ObjectKey`.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import KINDS, Tx, attempt
from stage1_capture.variables.base import (
    FROM_CONSTANT,
    ContainerVariable,
    NotConstant,
    Variable,
    from_constant,
)
from stage1_capture.variables.builder import BUILDERS, once, wrap_as_object
from stage1_capture.variables.derived import EMPTY
from stage1_capture.variables.hash_keys import hashable, holds_object, object_keys
from stage1_capture.variables.mapping import HASHED, DictIterator
from stage1_capture.variables.method import builtin_attribute
from stage_contracts.source import Source


class SetVariable(ContainerVariable):
    """A set (or frozenset: `kind`) of constants. Its order is Python's own, for the elements are."""

    items: set[Any]
    kind: type = set

    def parts(self) -> list[Variable]:
        return object_keys(self.items)

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        return builtin_attribute(tx, self, name, set)

    def like(self, elements: set[Any]) -> Variable:
        return self if self.kind is frozenset else SetVariable(elements, self.kind)

    def contains(self, tx: Tx, item: Variable) -> bool:
        return hashable(tx, item) in self.items

    def iterator(self, tx: Tx) -> Variable:
        return DictIterator(walked=self, entries=self.items, empty=set())

    def family(self) -> Any:
        return set

    def elements(self, tx: Tx) -> set[Any] | None:
        return self.items

    def binary(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Variable) -> Variable | None:
        others = right.elements(tx)
        if others is None:
            return None
        result = attempt(tx, symbol, lambda: function(self.items, others))
        if not symbol.endswith("=") or self.kind is frozenset:
            return SetVariable(set(result), self.kind)
        self.will_change(tx, symbol)
        self.items.clear()
        self.items |= result
        return self

    def compare_contents(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Any) -> Variable:
        return attempt(tx, symbol, lambda: from_constant(function(self.items, right.elements(tx))))

    def will_change(self, tx: Tx, what: str) -> None:
        if self.kind is frozenset:
            tx.unsupported("GB0066", f"{what} of a frozenset")
        super().will_change(tx, what)

    def as_constant(self) -> Any:
        in_order = isinstance(self.items, InOrder) and self.items.is_as_it_came()
        if in_order or any(map(holds_object, self.items)):
            raise NotConstant(self)
        return self.kind(self.items)

    def hash_key(self, tx: Tx) -> Any:
        if self.kind is not frozenset:
            tx.throw(TypeError, f"unhashable type: {self.kind.__name__!r}")
        return super().hash_key(tx)


FROM_CONSTANT[set] = FROM_CONSTANT[frozenset] = lambda value: SetVariable(set(value), type(value))


class InOrder(set):
    """The elements of a set whose order no copy has: one that has shrunk, or grew otherwise."""

    order: tuple = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.order) if self.is_as_it_came() else super().__iter__()

    def is_as_it_came(self) -> bool:
        return len(self.order) == len(self) and self.issuperset(self.order)


def _wrap_set(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    if not all(type(e) in HASHED or type(e) is type for e in real):
        return wrap_as_object(output, real, source)
    items = set(real)
    if list(items) == list(real):
        output.guard("EQUALS", source, type(real)(real))
    else:
        items = InOrder(real)
        items.order = tuple(real)
        output.guard("TYPE", source, type(real))
        output.guard("KEYS", source, items.order)
    return once(output, real, source, lambda: SetVariable(items, type(real), source=source))


BUILDERS.update({set: _wrap_set, frozenset: _wrap_set})
EMPTY.update({set: lambda: SetVariable(set()), frozenset: lambda: SetVariable(set(), frozenset)})
KINDS["set"] = SetVariable
