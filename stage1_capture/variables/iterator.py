"""Iterators as values: the base class of all, those over constants, zip, enumerate, map and filter.

Input: a container is asked for its `iterator`. Containers are walked live, so that a loop sees what its body changes;
each iterator can be made again in its middle, for a break inside the loop. Those of a container are in its file.
"""

from __future__ import annotations

import types
from dataclasses import field
from typing import Any, ClassVar

from stage1_capture.state.machine import KINDS, Tx
from stage1_capture.variables.base import Variable, equal, from_constant, walked
from stage1_capture.variables.method import builtin_attribute


class IteratorVariable(Variable):
    """Base class of iterators: variables/iterator.py has one for each kind that Python has.

    `advance(tx)` gives the next value, or None at the end.
    """

    kind: ClassVar[type] = types.GeneratorType

    def advance(self, tx: Any) -> Variable | None:
        raise NotImplementedError

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        return builtin_attribute(tx, self, name)

    def iterator(self, tx: Tx) -> Variable:
        return self

    def next_variable(self, tx: Tx) -> Variable | None:
        return self.advance(tx)

    def contains(self, tx: Tx, item: Variable) -> bool:
        return any(equal(tx, found, item) for found in walked(tx, self))

    def is_iterator(self, tx: Tx) -> bool:
        return True


class ConstantIterator(IteratorVariable):
    """iter(range), iter(str), and any other iterator over constants that keeps nothing alive."""

    constant: Any = ()
    index: int = 0

    def advance(self, tx: Any) -> Variable | None:
        if self.index >= len(self.constant):
            return None
        self.index += 1
        return from_constant(self.constant[self.index - 1])

    def rebuild(self, r: Any) -> str:
        return f"iter({r.constant(self.constant[self.index :])})"

    def python_type(self, tx: Tx) -> type:
        return type(iter(self.constant))


class ZipIterator(IteratorVariable):
    iterators: list[Variable] = field(default_factory=list)
    strict: bool = False
    holds = ("iterators",)
    stands_for = zip

    def advance(self, tx: Any) -> Variable | None:
        row: list[Variable] = []
        for position, iterator in enumerate(self.iterators):
            item = iterator.next_variable(tx)
            if item is None:
                if self.strict:
                    self._check(tx, position)
                return None
            row.append(item)
        return KINDS["tuple"](row) if row else None

    def _check(self, tx: Any, ended: int) -> None:
        """zip(strict=True): the first to end must not be shorter, nor a later one longer."""
        if ended:
            before = f"argument{'s 1-' if ended > 1 else ' '}{ended}"
            tx.throw(ValueError, f"zip() argument {ended + 1} is shorter than {before}")
        for position, iterator in enumerate(self.iterators[1:], start=1):
            if iterator.next_variable(tx) is not None:
                before = f"argument{'s 1-' if position > 1 else ' '}{position}"
                tx.throw(ValueError, f"zip() argument {position + 1} is longer than {before}")

    def rebuild(self, r: Any) -> str:
        return f"zip({r.all(self.iterators)}{', strict=True' if self.strict else ''})"


class EnumerateIterator(IteratorVariable):
    inner: Variable = field(default_factory=Variable)
    count: int = 0
    holds = ("inner",)
    stands_for = enumerate

    def advance(self, tx: Any) -> Variable | None:
        item = self.inner.next_variable(tx)
        if item is None:
            return None
        self.count += 1
        return KINDS["tuple"]([from_constant(self.count - 1), item])

    def rebuild(self, r: Any) -> str:
        return f"enumerate({r.expression(self.inner)}, {self.count})"


class MapIterator(IteratorVariable):
    function: Variable = field(default_factory=Variable)
    iterators: list[Variable] = field(default_factory=list)
    holds = ("function", "iterators")
    stands_for = map

    def advance(self, tx: Any) -> Variable | None:
        row: list[Variable] = []
        for iterator in self.iterators:
            item = iterator.next_variable(tx)
            if item is None:
                return None
            row.append(item)
        return tx.call(self.function, row, {})

    def rebuild(self, r: Any) -> str:
        return f"map({', '.join([r.called_back(self.function), *map(r.expression, self.iterators)])})"


class FilterIterator(IteratorVariable):
    function: Variable = field(default_factory=Variable)
    inner: Variable = field(default_factory=Variable)
    holds = ("function", "inner")
    stands_for = filter

    def advance(self, tx: Any) -> Variable | None:
        plain = self.function.is_none()
        while (item := self.inner.next_variable(tx)) is not None:
            if (item if plain else tx.call(self.function, [item], {})).truth(tx):
                return item
        return None

    def rebuild(self, r: Any) -> str:
        return f"filter({r.called_back(self.function)}, {r.expression(self.inner)})"
