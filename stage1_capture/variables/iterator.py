"""Iterators as values: one class for each kind, with its own place in what it walks.

Input: abstract containers and functions. Containers are walked live, so that a loop sees what its body changes;
each iterator can be made again in its middle, for a break inside the loop.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stage1_capture.state.entry import STACK_PREFIX
from stage1_capture.state.machine import Raised, Tx
from stage1_capture.state.mro import class_lookup
from stage1_capture.variables.base import IteratorVariable, Variable, describe, from_constant, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.mapping import ConstDictVariable, DictViewVariable
from stage1_capture.variables.ndarray import NumpyNdarrayVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


@dataclass(eq=False)
class SequenceIterator(IteratorVariable):
    """iter(list), iter(tuple). At its end it forgets what it walked, as Python's does."""

    sequence: ListVariable | TupleVariable | None = None
    index: int = 0

    def advance(self, tx: Any) -> Variable | None:
        if self.sequence is None or self.index >= len(self.sequence.items):
            self.sequence = None
            return None
        self.index += 1
        return realize(self.sequence.items[self.index - 1])

    def parts(self) -> list[Variable]:
        return [] if self.sequence is None else [self.sequence]

    def rebuild(self, r: Any) -> str:
        if self.sequence is None:
            return "iter(())"
        name = r.name(self, f"iter({r.expression(self.sequence)})")
        if self.index:
            r.lines.append(f"{name}.__setstate__({self.index})")
        return name

    def python_type(self, tx: Tx) -> type:
        if self.sequence is None:
            return super().python_type(tx)
        return type(iter(() if isinstance(self.sequence, TupleVariable) else []))


@dataclass(eq=False)
class ReversedIterator(IteratorVariable):
    """reversed(list), reversed(tuple): `index` is the next one to show."""

    sequence: ListVariable | TupleVariable | None = None
    index: int = 0

    def advance(self, tx: Any) -> Variable | None:
        if self.sequence is None or not 0 <= self.index < len(self.sequence.items):
            self.sequence = None
            return None
        self.index -= 1
        return realize(self.sequence.items[self.index + 1])

    def parts(self) -> list[Variable]:
        return [] if self.sequence is None else [self.sequence]

    def rebuild(self, r: Any) -> str:
        if self.sequence is None or self.index < 0:
            return "iter(())"
        name = r.name(self, f"reversed({r.expression(self.sequence)})")
        r.lines.append(f"{name}.__setstate__({self.index})")
        return name


@dataclass(eq=False)
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


@dataclass(eq=False)
class DictIterator(IteratorVariable):
    """iter(d), iter(d.values()), iter(d.items()), and the same of a set of constants."""

    walked: Variable = field(default_factory=Variable)
    entries: Any = ()  # the dict or set itself
    index: int = 0

    def __post_init__(self) -> None:
        self.keys: Iterator[Any] | None = iter(self.entries)
        self.size = len(self.entries)

    def advance(self, tx: Any) -> Variable | None:
        if self.keys is None:
            return None
        try:
            key = next(self.keys)
        except StopIteration:
            self.keys = None
            return None
        except RuntimeError as error:
            tx.throw(RuntimeError, *error.args)
        self.index += 1
        if isinstance(self.walked, DictViewVariable):
            return realize(self.walked.pick(key, self.walked.mapping.items[key]))
        return from_constant(key)

    def parts(self) -> list[Variable]:
        return [self.walked]

    def rebuild(self, r: Any) -> str | None:
        if self.keys is None:
            return "iter(())"
        if self.size != len(self.entries):  # a new one would not notice
            return None
        mapping = self.walked.mapping if isinstance(self.walked, DictViewVariable) else self.walked
        before = r.codegen.output.effects.changed.get(id(mapping))
        if before is not None and list(before.items) != list(
            self.entries
        ):  # it is made before they are replayed
            return None
        name = r.name(self, f"iter({r.expression(self.walked)})")
        if self.index:
            r.lines.append(f"for _ in range({self.index}): next({name})")
        return name

    def python_type(self, tx: Tx) -> type:
        empty = (
            set()
            if isinstance(self.walked, SetVariable)
            else getattr({}, getattr(self.walked, "name", "keys"))()
        )
        return type(iter(empty))


@dataclass(eq=False)
class RowIterator(IteratorVariable):
    """iter(tensor), iter(array): its rows, as views."""

    tensor: TensorVariable | NumpyNdarrayVariable | None = None
    index: int = 0

    def advance(self, tx: Any) -> Variable | None:
        from stage1_capture.variables.containers import subscript

        assert self.tensor is not None
        if self.index >= self.tensor.meta.shape[0]:
            return None
        self.index += 1
        return subscript(tx, self.tensor, ConstantVariable(self.index - 1))

    def parts(self) -> list[Variable]:
        assert self.tensor is not None
        return [self.tensor]

    def rebuild(self, r: Any) -> str:
        assert self.tensor is not None
        tensor = r.expression(self.tensor)
        return f"iter([{tensor}[i] for i in range({self.index}, len({tensor}))])"


@dataclass(eq=False)
class ZipIterator(IteratorVariable):
    iterators: list[Variable] = field(default_factory=list)
    strict: bool = False

    def advance(self, tx: Any) -> Variable | None:
        row: list[Variable] = []
        for position, iterator in enumerate(self.iterators):
            item = step(tx, iterator)
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
            if step(tx, iterator) is not None:
                before = f"argument{'s 1-' if position > 1 else ' '}{position}"
                tx.throw(ValueError, f"zip() argument {position + 1} is longer than {before}")

    def parts(self) -> list[Variable]:
        return self.iterators

    def rebuild(self, r: Any) -> str:
        return f"zip({r.all(self.iterators)}{', strict=True' if self.strict else ''})"

    def python_type(self, tx: Tx) -> type:
        return zip


@dataclass(eq=False)
class EnumerateIterator(IteratorVariable):
    iterator: Variable = field(default_factory=Variable)
    count: int = 0

    def advance(self, tx: Any) -> Variable | None:
        item = step(tx, self.iterator)
        if item is None:
            return None
        self.count += 1
        return TupleVariable([ConstantVariable(self.count - 1), item])

    def parts(self) -> list[Variable]:
        return [self.iterator]

    def rebuild(self, r: Any) -> str:
        return f"enumerate({r.expression(self.iterator)}, {self.count})"

    def python_type(self, tx: Tx) -> type:
        return enumerate


@dataclass(eq=False)
class MapIterator(IteratorVariable):
    function: Variable = field(default_factory=Variable)
    iterators: list[Variable] = field(default_factory=list)

    def advance(self, tx: Any) -> Variable | None:
        row: list[Variable] = []
        for iterator in self.iterators:
            item = step(tx, iterator)
            if item is None:
                return None
            row.append(item)
        return tx.call(self.function, row, {})

    def parts(self) -> list[Variable]:
        return [self.function, *self.iterators]

    def rebuild(self, r: Any) -> str:
        return f"map({', '.join([r.called_back(self.function), *map(r.expression, self.iterators)])})"

    def python_type(self, tx: Tx) -> type:
        return map


@dataclass(eq=False)
class FilterIterator(IteratorVariable):
    function: Variable = field(default_factory=Variable)
    iterator: Variable = field(default_factory=Variable)

    def advance(self, tx: Any) -> Variable | None:
        plain = isinstance(self.function, ConstantVariable)  # None
        while (item := step(tx, self.iterator)) is not None:
            if tx.truth(item if plain else tx.call(self.function, [item], {})):
                return item
        return None

    def parts(self) -> list[Variable]:
        return [self.function, self.iterator]

    def rebuild(self, r: Any) -> str:
        return f"filter({r.called_back(self.function)}, {r.expression(self.iterator)})"

    def python_type(self, tx: Tx) -> type:
        return filter


def step(tx: Any, iterator: Variable) -> Variable | None:
    """The next item of an iterator of any kind, None at its end."""
    from stage1_capture.variables.attributes import special_method

    if isinstance(iterator, IteratorVariable):
        return iterator.advance(tx)
    if is_foreign_iterator(iterator):
        source = str(iterator.source)
        if source.startswith(STACK_PREFIX):
            tx.unsupported("GB0085", "a loop in which the frame broke goes on with the iterator it had")
        tx.unsupported("GB0010", "an iterator from outside is walked")
    method = special_method(tx, iterator, "__next__")
    if method is None:
        tx.unsupported("GB0039", f"next of {describe(iterator)}")
    assert method is not None
    try:
        return tx.call(method, [], {})
    except Raised as raised:
        if not isinstance(raised.value.real, StopIteration):
            raise
        tx.resume_here()
        return None


def is_foreign_iterator(value: Variable) -> bool:
    """A real iterator of Python's own, in whatever state it is: only Python can take its next item."""
    if not isinstance(value, UserDefinedObjectVariable) or value.fresh:
        return False
    return isinstance(class_lookup(type(value.real), "__next__"), types.WrapperDescriptorType)


def walk(tx: Any, value: Variable) -> Variable | None:
    """The iterator over a value of Python's own; None for other objects."""
    match value:
        case IteratorVariable():
            return value
        case UserDefinedObjectVariable() if is_foreign_iterator(value):
            return value
        case ListVariable() | TupleVariable():
            return SequenceIterator(sequence=value)
        case ConstDictVariable(items=entries):
            return DictIterator(walked=value, entries=entries)
        case DictViewVariable(mapping=mapping):
            return DictIterator(walked=value, entries=mapping.items)
        case SetVariable(items=elements):
            return DictIterator(walked=value, entries=elements)
        case ConstantVariable(value=str() | bytes() | range() as constant):
            return ConstantIterator(constant=constant)
        case TensorVariable(meta=meta) | NumpyNdarrayVariable(meta=meta) if meta.shape:
            return RowIterator(tensor=value)
    return None
