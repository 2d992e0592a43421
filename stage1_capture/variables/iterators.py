"""Iterators as values: zip, enumerate, map and filter, each with its own place in what it walks.

Input: builtins/python.py makes them. Each can be made again in its middle, for a break inside the loop.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from stage1_capture.variables.base import Variable, from_constant
from stage1_capture.variables.iterator import IteratorVariable
from stage1_capture.variables.sequence import TupleVariable


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
        return TupleVariable(row) if row else None

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
        return TupleVariable([from_constant(self.count - 1), item])

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
