"""Iterators over lists, tuples and deques, forwards and backwards: where each is, and how it is made again.

Input: sequence.py makes them of its values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from stage1_capture.state.machine import METHODS, Tx
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.iterator import IteratorVariable


class _Walk(IteratorVariable):
    """An iterator over a value with items in a row. The next item is at `index`. state: the value's, at first."""

    sequence: Any = None  # a SequenceVariable, until the end
    index: int = 0
    state: Any = None
    holds = ("sequence",)

    def check_state(self, tx: Tx) -> None:
        if self.sequence is not None and self.sequence.state() != self.state:
            tx.throw(RuntimeError, "deque mutated during iteration")

    def remaining(self) -> int:
        raise NotImplementedError


METHODS[_Walk, "__length_hint__"] = lambda tx, args, kwargs: from_constant(args[0].remaining())


def _walk_of_deque(r: Any, walk: _Walk, walked: Callable[[Any], Any], gone: int) -> str:
    """Iterators of deques cannot be set to a place, but be made past `gone` items."""
    if walk.sequence.state() != walk.state:
        return r.name(walk, f"{r.named(_refusing)}({r.named(walked)})")
    return r.name(walk, f"{r.named(type(walked(deque())))}({r.expression(walk.sequence)}, {gone})")


def _refusing(walked: Callable[[Any], Any]) -> Any:
    """An iterator of a deque that has changed since."""
    changed = deque((None,))
    walk = walked(changed)
    changed.append(None)
    return walk


class SequenceIterator(_Walk):
    """iter(list), iter(tuple). At its end it forgets what it walked, as Python's does."""

    def remaining(self) -> int:
        return 0 if self.sequence is None else max(len(self.sequence.items) - self.index, 0)

    def advance(self, tx: Any) -> Variable | None:
        self.check_state(tx)
        if self.sequence is None or self.index >= len(self.sequence.items):
            self.sequence = None
            return None
        self.index += 1
        return realize(self.sequence.items[self.index - 1])

    def rebuild(self, r: Any) -> str:
        if self.sequence is None:
            return "iter(())"
        if self.sequence.family() is deque:
            return _walk_of_deque(r, self, iter, self.index)
        name = r.name(self, f"iter({r.expression(self.sequence)})")
        if self.index:
            r.lines.append(f"{name}.__setstate__({self.index})")
        return name

    def python_type(self, tx: Tx) -> type:
        if self.sequence is None:
            return super().python_type(tx)
        return type(iter(self.sequence.known()))


class ReversedIterator(_Walk):
    """reversed(list), reversed(tuple)."""

    def remaining(self) -> int:
        return 0 if self.sequence is None else min(self.index + 1, len(self.sequence.items))

    def python_type(self, tx: Tx) -> type:
        if self.sequence is None:
            return super().python_type(tx)
        return type(reversed(self.sequence.known()))

    def advance(self, tx: Any) -> Variable | None:
        if self.sequence is not None and self.index >= 0:
            self.check_state(tx)
        if self.sequence is None or not 0 <= self.index < len(self.sequence.items):
            self.sequence = None
            return None
        self.index -= 1
        return realize(self.sequence.items[self.index + 1])

    def rebuild(self, r: Any) -> str:
        if self.sequence is None or self.index < 0:
            return "iter(())"
        if self.sequence.family() is deque:
            return _walk_of_deque(r, self, reversed, len(self.sequence.items) - 1 - self.index)
        name = r.name(self, f"reversed({r.expression(self.sequence)})")
        r.lines.append(f"{name}.__setstate__({self.index})")
        return name
