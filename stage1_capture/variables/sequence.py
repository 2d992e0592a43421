"""Lists, tuples, named tuples, deques and slices: abstract items in a row.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest.
"""

from __future__ import annotations

import collections
import operator
import types
from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from stage0_eager.nn import Parameter
from stage1_capture.state.graph_builder import OutputGraph, is_users_class
from stage1_capture.state.machine import KINDS, Args, Kwargs, Tx, attempt
from stage1_capture.state.prototypes import made_inside
from stage1_capture.variables.base import (
    FROM_CONSTANT,
    ContainerVariable,
    Variable,
    as_constant,
    equal,
    from_constant,
    iterate,
    realize,
    yes,
)
from stage1_capture.variables.builder import BUILDERS, class_variable, in_arguments, lazily, once, wrap
from stage1_capture.variables.derived import EMPTY, HELD, guard_length, item_sources, python_base
from stage1_capture.variables.hash_keys import hashable
from stage1_capture.variables.method import UserMethodVariable, builtin_attribute
from stage1_capture.variables.sequence_walks import ReversedIterator, SequenceIterator
from stage_contracts.class_lookup import class_lookup
from stage_contracts.controls import register
from stage_contracts.source import AttrSource, ExpressionSource, ItemSource, RegisteredSource, Source

_FIELD = type(collections.namedtuple("_OneField", "first").first)  # type: ignore[attr-defined]
_BOUNDS = ("start", "stop", "step")


class SequenceVariable(ContainerVariable):
    """What lists and tuples have in common."""

    items: list[Variable]
    kind: ClassVar[type]
    known: ClassVar[type]

    def parts(self) -> list[Variable]:
        return self.items

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name == "__class__":
            return class_variable(tx, self, self.python_type(tx))
        return builtin_attribute(tx, self, name, self.known)

    def contains(self, tx: Tx, item: Variable) -> bool:
        return any(equal(tx, realize(i), item) for i in self.items)

    def tensors(self) -> list[Any]:
        return [t for item in self.items for t in realize(item).tensors()]

    def family(self) -> Any:
        return self.known

    def like(self, items: list[Variable]) -> Variable:
        """One of these items. What is made of a named tuple is a tuple."""
        return self.sliced(items)

    def binary(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Variable) -> Variable | None:
        if symbol == "+" and right.family() is self.known:
            return self.like([*self.items, *right.items])
        if symbol == "+" and right.family() in _WORDS and right.unwrapped() is right:
            mine, other = self.known.__name__, _WORDS[right.family()]
            tx.throw(TypeError, f'can only concatenate {mine} (not "{other}") to {mine}')
        return self.reflected(tx, symbol, function, right)

    def reflected(self, tx: Tx, symbol: str, function: Callable[..., Any], left: Variable) -> Variable | None:
        if symbol != "*" or not left.is_python_constant():
            return None
        return self.like(attempt(tx, symbol, lambda: self.items * as_constant(left)))

    def compare_contents(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Any) -> Variable:
        for one, other in zip(self.items, right.items):
            if not equal(tx, realize(one), realize(other)):
                if symbol in ("==", "!="):
                    return from_constant(symbol == "!=")
                return tx.compare(symbol, realize(one), realize(other))
        return from_constant(function(len(self.items), len(right.items)))

    def subscript(self, tx: Tx, key: Variable) -> Variable:
        index = tx.constant(key, "an index")
        name = self.known.__name__
        if not isinstance(index, (int, slice)):
            self.refuse_index(tx, index)
        if isinstance(index, slice):
            return self.sliced(self.items[index])
        if not -len(self.items) <= index < len(self.items):
            tx.throw(IndexError, f"{name} index out of range")
        return self.items[index]

    def refuse_index(self, tx: Tx, index: Any) -> NoReturn:
        words = f"{self.known.__name__} indices must be integers or slices, not {type(index).__name__}"
        tx.throw(TypeError, words)

    def sliced(self, items: list[Variable]) -> Variable:
        raise NotImplementedError

    def iterator(self, tx: Tx) -> Variable:
        return SequenceIterator(sequence=self, state=self.state())

    def reversed(self, tx: Tx) -> Variable:
        return ReversedIterator(sequence=self, index=len(self.items) - 1, state=self.state())

    def state(self) -> Any:
        """What must not change while it is walked."""
        return None


_WORDS: dict[Any, str] = {list: "list", tuple: "tuple", dict: "dict"}


class ListVariable(SequenceVariable):
    """`unread` looks at the items of one from outside, and guards how many there are: when something asks for `items`.
    Until then only `added` is known, what the program put behind them, so that a list may grow from call to call; and
    `counted`, how many came: a number that is open where it has changed between captures, None where it has not."""

    kind: ClassVar[type] = list
    known: ClassVar[type] = list
    unread: Callable[[], list[Variable]] | None = None
    counted: Callable[[], Variable | None] | None = None
    came_at: Callable[[int], Variable] | None = None  # the item that came at an index
    added: list[Variable] = field(default_factory=list)
    limit: int | None = None  # of a deque
    came: list[Variable] | None = None  # of one that was changed unread: what was in it before

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "items" or self.unread is None:
                raise AttributeError(name)
            read = self.unread()
            if self.came is not None:
                self.came += read
            self.items = self.kept([*read, *self.added])
            return self.items

    def is_unread(self) -> bool:
        return "items" not in vars(self)

    def grow(self, new: list[Variable]) -> None:
        (self.added if self.is_unread() else self.items).extend(new)

    def parts(self) -> list[Variable]:
        return self.added if self.is_unread() else self.items

    def length(self, tx: Tx) -> Variable:
        came = self.counted() if self.is_unread() and self.counted is not None else None
        return super().length(tx) if came is None else self.length_with(tx, came)

    def length_with(self, tx: Tx, came: Variable) -> Variable:
        """How many items there are, where so many came."""
        many = from_constant(len(self.added))
        return tx.call(tx.wrap(operator.add, None), [came, many], {}) if self.added else came

    def truth(self, tx: Tx) -> bool:
        return self.length(tx).truth(tx) if self.is_unread() else super().truth(tx)

    def subscript(self, tx: Tx, key: Variable) -> Variable:
        found = self._one_unread(tx, tx.constant(key, "an index")) if self.is_unread() else None
        return super().subscript(tx, key) if found is None else found

    def _one_unread(self, tx: Tx, index: Any) -> Variable | None:
        """One item, such as the last one, of a list whose length is open: it needs to be long enough, no more."""
        if type(index) is not int or self.counted is None or self.came_at is None:
            return None
        if -len(self.added) <= index < 0:
            return self.added[index]
        came = self.counted()
        if came is None or (self.added and self.limit is not None):  # a full deque loses its first item
            return None
        at = index + len(self.added) if index < 0 else index
        enough = from_constant(at + 1 if at >= 0 else -at)
        return self.came_at(at) if tx.compare(">=", came, enough).truth(tx) else None

    def snapshot(self) -> Any:
        if not self.is_unread():
            return super().snapshot()
        self.came = []
        return self.came

    def sliced(self, items: list[Variable]) -> Variable:
        return ListVariable(items)

    def mapped(self, change: Callable[[Variable], Variable]) -> Variable:
        return ListVariable(list(map(change, self.items)))

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return [realize(v).as_proxy(leaf, refuse) for v in self.items]

    def kept(self, items: list[Variable]) -> list[Variable]:
        return items

    def binary_in_place(self, tx: Tx, symbol: str, right: Variable) -> Variable | None:
        if symbol == "+=":
            new = iterate(tx, right)
            self.will_change(tx, "+=")
            self.grow(new)
            return self
        if symbol == "*=" and right.is_python_constant():
            self.will_change(tx, symbol)
            self.items[:] = self.kept(attempt(tx, symbol, lambda: self.items * as_constant(right)))
            return self
        if right.unwrapped() is right:
            tx.unsupported("GB0038", f"{symbol} on {self.describe()}")
        return None

    def store_subscript(self, tx: Tx, key: Variable, value: Variable) -> None:
        if isinstance(key, SliceVariable):
            self.will_change(tx, "an assignment to a slice")
            new, place = iterate(tx, value), tx.constant(key, "a slice")
            attempt(tx, "an assignment", lambda: self.items.__setitem__(place, new))
            return
        self.will_change(tx, "an assignment to an item")
        index = tx.constant(key, "an index")
        if not isinstance(index, int):
            tx.throw(TypeError, f"list indices must be integers or slices, not {type(index).__name__}")
        if not -len(self.items) <= index < len(self.items):
            tx.throw(IndexError, "list assignment index out of range")
        self.items[index] = value

    def delete_subscript(self, tx: Tx, key: Variable) -> None:
        self.will_change(tx, "a del of an item")
        index = tx.constant(key, "an index")
        if not isinstance(index, slice) and not -len(self.items) <= index < len(self.items):
            tx.throw(IndexError, "list assignment index out of range")
        del self.items[index]

    def as_constant(self) -> Any:
        return list(map(as_constant, self.items))

    def hash_key(self, tx: Tx) -> Any:
        tx.throw(TypeError, "unhashable type: 'list'")


class DequeVariable(ListVariable):
    """A collections.deque."""

    moves: int = 0  # how often items came, went, or were turned
    kind: ClassVar[type] = deque
    known: ClassVar[type] = deque

    def kept(self, items: list[Variable]) -> list[Variable]:
        return items if self.limit is None else items[max(len(items) - self.limit, 0) :]

    def state(self) -> Any:
        return len(self.items), self.moves

    def grow(self, new: list[Variable]) -> None:
        super().grow(new)
        self.moves += bool(new)
        if not self.is_unread():
            self.items[:] = self.kept(self.items)

    def length_with(self, tx: Tx, came: Variable) -> Variable:
        total, limit = super().length_with(tx, came), from_constant(self.limit)
        full = self.limit is not None and bool(self.added) and tx.compare(">", total, limit).truth(tx)
        return limit if full else total

    def like(self, items: list[Variable]) -> Variable:
        return DequeVariable(self.kept(items), limit=self.limit)

    def subscript(self, tx: Tx, key: Variable) -> Variable:
        index = tx.constant(key, "an index")
        if not isinstance(index, int):
            tx.throw(TypeError, f"sequence index must be integer, not {type(index).__name__!r}")
        return super().subscript(tx, key)

    def as_constant(self) -> Any:
        return deque(map(as_constant, self.items), self.limit)


class TupleVariable(SequenceVariable):
    kind: type = tuple  # type: ignore[misc]  # or a named tuple's class
    class_source: Source | None = None  # where the program found that
    known: ClassVar[type] = tuple
    is_immutable = yes

    def mapped(self, change: Callable[[Variable], Variable]) -> Variable:
        return TupleVariable(list(map(change, self.items)), self.kind)

    def row(self) -> list[Variable]:
        return self.items

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return tuple([realize(v).as_proxy(leaf, refuse) for v in self.items])

    def sliced(self, items: list[Variable]) -> Variable:
        return TupleVariable(items)

    def binary_in_place(self, tx: Tx, symbol: str, right: Variable) -> Variable | None:
        return self.binary(tx, symbol.removesuffix("="), operator.add, right)  # of a tuple += makes another

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        """Of a named tuple also its fields, and what the user wrote in its class."""
        found = class_lookup(self.kind, name)
        if is_users_class(self.kind) and not made_inside(self.kind):
            tx.output.guard_members(self._class_place(), self.kind, "__getattribute__", "__getattr__", name)
        if name in getattr(self.kind, "_fields", ()) and name != "__class__":
            if type(found) is not _FIELD:  # the user put something else there
                tx.unsupported("GB0106", f"the attribute {name} of {self.describe()}")
            return self.items[self.kind._fields.index(name)]  # type: ignore[attr-defined]
        if isinstance(found, (staticmethod, classmethod)):
            return class_variable(tx, self, self.kind).var_getattr(tx, name)
        if not isinstance(found, (types.FunctionType, property)) or name == "__class__":
            return super().var_getattr(tx, name)
        if name in ("_replace", "_asdict"):
            return UserMethodVariable(name, self)
        base = self._class_place()
        if isinstance(found, property):
            getter = tx.wrap(found.fget, AttrSource(AttrSource(base, name), "fget"))
            return tx.inline(getter, [self], {})
        return UserMethodVariable(tx.wrap(found, AttrSource(base, name)), self)

    def _class_place(self) -> Source:
        return self.class_place() or self.class_source or RegisteredSource(register(self.kind))

    def call_other_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> Variable:
        own = not hasattr(tuple, name) or name in ("__getattribute__", "__setattr__", "__delattr__")
        if self.kind is not tuple and own:
            tx.unsupported("GB0071", f"the method {name} of a named tuple")
        return tx.fold(getattr(tx.constant(self, f"the method {name}"), name), args, kwargs)

    def as_constant(self) -> Any:
        return tuple(map(as_constant, self.items))

    def hash_key(self, tx: Tx) -> Any:
        return tuple(hashable(tx, item) for item in self.items)


class SliceVariable(Variable):
    items: list[Variable]  # start, stop, step
    kind: ClassVar[type] = slice
    holds = ("items",)
    stands_for = slice

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return slice(*[realize(v).as_proxy(leaf, refuse) for v in self.items])

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name in _BOUNDS:
            return self.items[_BOUNDS.index(name)]
        return builtin_attribute(tx, self, name)

    def call_other_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> Variable:
        return tx.fold(getattr(tx.constant(self, f"the method {name}"), name), args, kwargs)

    def as_constant(self) -> Any:
        return slice(*map(as_constant, self.items))


FROM_CONSTANT[tuple] = lambda value: TupleVariable([from_constant(v) for v in value])
FROM_CONSTANT[list] = lambda value: ListVariable([from_constant(v) for v in value])
FROM_CONSTANT[slice] = lambda v: SliceVariable([from_constant(i) for i in (v.start, v.stop, v.step)])


def _wrap_sequence(kind: type, output: OutputGraph, real: Any, source: Source | None) -> Variable:
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    if source is not None and _holds_parameters(output, real, source):
        output.guard("ITEMS", source, tuple(real))
        output.epoch_sources.update(ItemSource(source, i) for i in range(len(real)))
    elif kind is ListVariable and source is not None:
        return once(output, real, source, lambda: _unread(ListVariable, output, real, source))
    else:
        fixed = type(real) is tuple and source in output.epoch_sources  # another tuple there tells the epoch
        output.guard("LENGTH", source, len(real), fixed)
        if source is not None and fixed:
            output.epoch_sources.update(ItemSource(source, i) for i in range(len(real)))
    items = [lazily(output, v, source and ItemSource(source, i)) for i, v in enumerate(real)]
    return once(output, real, source, lambda: kind(items, source=source))


def _unread(kind: Any, output: OutputGraph, real: Any, source: Source, **more: Any) -> ListVariable:
    def counted() -> Variable | None:
        place = ExpressionSource(f"len({source.expression()})", f"len({source})")
        return wrap(output, many, place) if output.policy.opens_number(place.expression(), many) else None

    many, unread, at = len(real), lambda: sequence_items(output, real, source), item_sources(real, source)
    came_at = lambda index: lazily(output, real[index], at(index))  # noqa: E731
    made: ListVariable = kind([], source=source, unread=unread, counted=counted, came_at=came_at, **more)
    del made.items
    return made


def _holds_parameters(output: OutputGraph, real: Any, source: Source) -> bool:
    """Whether it is a row of parameters, as an optimizer has: guarded as these very objects, which tell the epoch what
    changes about them. In an argument it may be another row at the next call."""
    many = len(real) > 1 and all(isinstance(item, Parameter) for item in real)
    return many and not in_arguments(output, ItemSource(source, 0), False)


def _wrap_slice(output: OutputGraph, real: slice, source: Source | None) -> Variable:
    output.guard("TYPE", source, slice, source in output.epoch_sources)
    bounds = (lazily(output, getattr(real, n), source and AttrSource(source, n)) for n in _BOUNDS)
    return SliceVariable([*bounds], source=source)


def _wrap_deque(output: OutputGraph, real: deque, source: Source | None) -> Variable:
    output.guard("TYPE", source, type(real))
    output.guard("EQUALS", source and AttrSource(source, "maxlen"), real.maxlen)
    if source is not None:
        return once(
            output, real, source, lambda: _unread(DequeVariable, output, real, source, limit=real.maxlen)
        )
    return once(
        output, real, source, lambda: DequeVariable(sequence_items(output, real, source), limit=real.maxlen)
    )


def sequence_items(output: OutputGraph, real: Any, source: Source | None) -> list[Variable]:
    base = python_base(type(real)) or type(real)
    items = list(class_lookup(base, "__iter__")(real))
    guard_length(output, real, source, len(items))
    at = item_sources(real, source)
    return [lazily(output, v, at(i)) for i, v in enumerate(items)]


BUILDERS[list] = partial(_wrap_sequence, ListVariable)
BUILDERS[tuple] = partial(_wrap_sequence, TupleVariable)
BUILDERS[slice] = _wrap_slice
BUILDERS[deque] = _wrap_deque
EMPTY[deque] = lambda: DequeVariable([])
EMPTY[list] = lambda: ListVariable([])
EMPTY[tuple] = lambda: TupleVariable([])


def _held(kind: Any) -> Any:
    return lambda output, real, source, base: kind(sequence_items(output, real, source), source=source)


HELD.update({list: _held(ListVariable), tuple: _held(TupleVariable)})
HELD[deque] = lambda output, real, source, base: DequeVariable(
    sequence_items(output, real, source), limit=real.maxlen, source=source
)


KINDS["tuple"] = TupleVariable
