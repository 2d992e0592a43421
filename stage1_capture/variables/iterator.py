"""Iterators as values: the base class of all, and those over constants; those of a container are in its file.

Input: a container is asked for its `iterator`. Containers are walked live, so that a loop sees what its body changes;
each iterator can be made again in its middle, for a break inside the loop.
"""

from __future__ import annotations

import types
from typing import Any, ClassVar

from stage1_capture.state.machine import Tx
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
