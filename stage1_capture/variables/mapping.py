"""Dicts, defaultdicts, the `__dict__` of an object, and the views of a dict.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest. Keys are constants, or objects
as `ObjectKey`: variables/hash_keys.py.
"""

from __future__ import annotations

import enum
import math
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, NoReturn

from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import KINDS, Tx, attempt
from stage1_capture.variables.base import (
    FROM_CONSTANT,
    ContainerVariable,
    NotConstant,
    Variable,
    as_constant,
    equal,
    from_constant,
    iterate,
    realize,
)
from stage1_capture.variables.builder import (
    BUILDERS,
    REGISTRIES,
    class_variable,
    lazily,
    once,
    wrap,
    wrap_as_object,
)
from stage1_capture.variables.derived import EMPTY, HELD, guard_keys, item_sources
from stage1_capture.variables.hash_keys import ObjectKey, hashable, holds_object, object_keys
from stage1_capture.variables.iterator import IteratorVariable
from stage1_capture.variables.method import builtin_attribute
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.sequence_walks import SequenceIterator
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.controls import register
from stage_contracts.source import AttrSource, ItemSource, KeySource, RegisteredSource, Source


class ConstDictVariable(ContainerVariable):
    """A dict (or OrderedDict: `kind`) whose keys are constants.

    attrs: what is stored on an OrderedDict, as `_metadata` on a state_dict. A dict has no place for it.
    """

    items: dict[Any, Variable]
    kind: type = dict
    attrs: dict[str, Variable] = field(default_factory=dict, kw_only=True)

    def parts(self) -> list[Variable]:
        return [*object_keys(self.items), *self.items.values(), *self.attrs.values()]

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name == "__class__":
            return class_variable(tx, self, self.kind)
        if self.kind is OrderedDict and class_lookup(OrderedDict, name) is MISSING:
            attrs = self.all_stored(tx)
            return realize(attrs[name]) if name in attrs else None
        if self.kind is OrderedDict and name == "__dict__":
            tx.unsupported("GB0022", f"the attribute __dict__ of {self.describe()}")
        return builtin_attribute(tx, self, name, dict)

    def all_stored(self, tx: Tx) -> dict[str, Variable]:
        """Its attributes, guarded to be all that it has."""
        if self.kind is OrderedDict and self.source is not None:
            tx.output.guard("KEYS", self.child("__dict__"), tuple(self.attrs))
        return self.attrs

    def store_attribute(self, tx: Tx, name: str, value: Variable) -> None:
        made_inside = self.source is None and self.part_of is None
        if self.kind is not OrderedDict or not made_inside or class_lookup(OrderedDict, name) is not MISSING:
            super().store_attribute(tx, name, value)
        self.will_change(tx, "an assignment to an attribute")
        self.attrs[name] = value

    def contains(self, tx: Tx, item: Variable) -> bool:
        return hashable(tx, item) in self.items

    def tensors(self) -> list[Any]:
        return [t for item in self.items.values() for t in realize(item).tensors()]

    def mapped(self, change: Callable[[Variable], Variable]) -> Variable:
        return ConstDictVariable({key: change(value) for key, value in self.items.items()}, self.kind)

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return {k: realize(v).as_proxy(leaf, refuse) for k, v in self.items.items()}

    def family(self) -> Any:
        return dict

    def like(self, entries: dict[Any, Variable]) -> Variable:
        return ConstDictVariable(entries, self.kind)

    def merged(self, tx: Tx, symbol: str, right: Variable) -> Variable | None:
        """left | right, of the left one's kind, unless that is a plain dict; left |= right."""
        if symbol not in ("|", "|=") or right.family() is not dict:
            return None
        if symbol == "|=":
            self.will_change(tx, "|=")
            self.items.update(right.items)
            return self
        return (right if self.kind is dict else self).like({**self.items, **right.items})

    def binary_in_place(self, tx: Tx, symbol: str, right: Variable) -> Variable | None:
        if right.unwrapped() is right:
            tx.unsupported("GB0038", f"{symbol} on {self.describe()}")
        return None

    def compare_contents(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Any) -> Variable:
        if symbol not in ("==", "!="):
            words = f"{symbol!r} not supported between instances of 'dict' and 'dict'"
            tx.throw(TypeError, words)
        if self.kind is right.kind is OrderedDict and [*self.items] != [*right.items]:
            return from_constant(symbol == "!=")
        same = self.items.keys() == right.items.keys() and all(
            equal(tx, realize(value), realize(right.items[key])) for key, value in self.items.items()
        )
        return from_constant(same is (symbol == "=="))

    def subscript(self, tx: Tx, key: Variable) -> Variable:
        name = hashable(tx, key)
        return realize(self.items[name]) if name in self.items else self.missing(tx, name)

    def missing(self, tx: Tx, name: Any) -> Variable:
        tx.throw(KeyError, name)

    def store_subscript(self, tx: Tx, key: Variable, value: Variable) -> None:
        self.will_change(tx, "an assignment to an item")
        self.items[hashable(tx, key)] = value

    def delete_subscript(self, tx: Tx, key: Variable) -> None:
        name = hashable(tx, key)
        if name not in self.items:
            tx.throw(KeyError, name)
        self.will_change(tx, "a del of an item")
        del self.items[name]

    def iterator(self, tx: Tx) -> Variable:
        return DictIterator(walked=self, entries=self.items)

    def reversed(self, tx: Tx) -> Variable:
        return SequenceIterator(sequence=ListVariable(iterate(tx, self)[::-1]))

    def as_constant(self) -> Any:
        if self.kind not in (dict, OrderedDict) or self.attrs or any(map(holds_object, self.items)):
            raise NotConstant(self)
        return self.kind((key, as_constant(value)) for key, value in self.items.items())

    def hash_key(self, tx: Tx) -> Any:
        tx.throw(TypeError, f"unhashable type: {self.kind.__name__!r}")


class ObjectDictVariable(ConstDictVariable):
    """The `__dict__` of its owner."""

    def changed_one(self) -> Variable:
        return self.part_of

    def parts(self) -> list[Variable]:
        return [self.part_of]


class DefaultDictVariable(ConstDictVariable):
    """A defaultdict: `factory` makes what is missing."""

    factory: Variable | None = None

    def like(self, entries: dict[Any, Variable]) -> Variable:
        return DefaultDictVariable(entries, self.kind, self.factory)

    def parts(self) -> list[Variable]:
        return [*super().parts(), *([] if self.factory is None else [self.factory])]

    def missing(self, tx: Tx, name: Any) -> Variable:
        if self.factory is None:
            return super().missing(tx, name)
        self.will_change(tx, "a lookup")
        self.items[name] = tx.call(realize(self.factory), [], {})
        return self.items[name]


class DictViewVariable(Variable):
    """d.keys(), d.values(), d.items(): sees later changes of d."""

    mapping: ConstDictVariable
    name: str  # "keys", "values" or "items"
    holds = ("mapping",)

    @property
    def kind(self) -> type:
        return type(getattr({}, self.name)())

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name == "mapping":
            tx.unsupported("GB0022", f"the attribute mapping of {self.describe()}")
        return builtin_attribute(tx, self, name)

    def truth(self, tx: Tx) -> bool:
        return bool(self.items)

    def length(self, tx: Tx) -> Variable:
        return from_constant(len(self.items))

    def family(self) -> Any:
        return "values" if self.name == "values" else set

    def elements(self, tx: Tx) -> set[Any] | None:
        if self.name == "values":
            tx.unsupported("GB0038", f"a set operation on {self.describe()}")
        return {hashable(tx, item) for item in self.items}

    def binary(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Variable) -> Variable | None:
        others = right.elements(tx)
        if others is None:
            return None
        mine = self.elements(tx)
        return KINDS["set"](set(attempt(tx, symbol, lambda: function(mine, others))))

    def compare_contents(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Any) -> Variable:
        if self.name == "values":
            return from_constant((self is right) is (symbol == "=="))
        mine = self.elements(tx)
        return attempt(tx, symbol, lambda: from_constant(function(mine, right.elements(tx))))

    def contains(self, tx: Tx, item: Variable) -> bool:
        if self.name == "keys":
            return self.mapping.contains(tx, item)
        return any(equal(tx, realize(i), item) for i in self.items)

    def iterator(self, tx: Tx) -> Variable:
        return DictIterator(walked=self, entries=self.mapping.items, empty=getattr({}, self.name)())

    def reversed(self, tx: Tx) -> Variable:
        return SequenceIterator(sequence=ListVariable(iterate(tx, self)[::-1]))

    def pick(self, key: Any, value: Variable) -> Variable:
        """What it shows of a key and its value."""
        if self.name == "values":
            return value
        return from_constant(key) if self.name == "keys" else TupleVariable([from_constant(key), value])

    @property
    def items(self) -> list[Variable]:
        return [self.pick(key, value) for key, value in self.mapping.items.items()]

    def python_type(self, tx: Tx) -> type:
        return self.kind


FROM_CONSTANT[dict] = lambda value: ConstDictVariable({k: from_constant(v) for k, v in value.items()})


def _wrap_dict(output: OutputGraph, real: dict, source: Source | None) -> Variable:
    keys = tuple(real)
    registry = (
        isinstance(source, AttrSource) and source.base in output.module_sources and source.name in REGISTRIES
    )
    if registry and keys and not all(type(k) is str for k in keys):
        return _wrap_hooks(output, real, source)
    if registry:  # which Module made itself
        output.epoch_sources |= {ItemSource(source, key) for key in keys}  # type: ignore[arg-type]
    items = dict_items(output, real, source)
    if items is None:
        return wrap_as_object(output, real, source)
    if not registry:
        output.guard("TYPE", source, type(real), source in output.epoch_sources)
    output.guard("KEYS", source, keys, registry)
    attrs: dict[str, Variable] = {}
    for name, value in vars(real).items() if type(real) is OrderedDict else ():
        attrs[name] = lazily(output, value, source and AttrSource(source, name))
    made = lambda: ConstDictVariable(items, type(real), source=source, attrs=attrs)  # noqa: E731
    return once(output, real, source, made)


def _wrap_hooks(output: OutputGraph, real: dict, source: Source | None) -> Variable:
    """A module's hooks: their keys are objects of their own, which no other hook ever gets."""
    output.guard("KEYS", source, tuple(real), under_epoch=True)
    hooks: dict[Any, Variable] = {}
    for key, hook in real.items():
        known = wrap(output, key, RegisteredSource(register(key)))
        hooks[ObjectKey(known, id(known))] = lazily(output, hook, RegisteredSource(register(hook)))
    return once(output, real, source, lambda: ConstDictVariable(hooks, type(real), source=source))


HASHED = (str, int, bool, float, bytes, type(None))  # whose equality and hash are Python's own


_ITSELF = (types.ModuleType, types.BuiltinFunctionType, types.FunctionType, Operator, enum.Enum, type)


def dict_items(output: OutputGraph, real: dict, source: Source | None) -> dict[Any, Variable] | None:
    """What a dict holds, by what stands for each key; None when a key's class computes its hash."""
    items: dict[Any, Variable] = {}
    at = item_sources(real, source)
    for key, value in dict.items(real):
        if _literal(key):
            items[key] = lazily(output, value, at(key))
            continue
        cls = type(key)
        own = isinstance(key, _ITSELF) or (
            class_lookup(cls, "__hash__") in _BY_IDENTITY and class_lookup(cls, "__eq__") in _BY_IDENTITY
        )
        if not own:
            return None
        number = register(key)
        place: Source | None = at(RegisteredSource(number))
        if isinstance(place, ItemSource):
            place = KeySource(place.base, number)
        if isinstance(key, _ITSELF):
            items[key] = lazily(output, value, place)
        else:
            known = wrap(output, key, RegisteredSource(number))
            items[ObjectKey(known, id(known))] = lazily(output, value, place)
    return items


_BY_IDENTITY: tuple[Any, ...] = tuple(
    class_lookup(cls, name) for cls in (object, Tensor) for name in ("__hash__", "__eq__")
)


def _literal(key: Any) -> bool:
    if type(key) is tuple:
        return all(map(_literal, key))
    return type(key) in HASHED and (type(key) is not float or math.isfinite(key))


def _wrap_defaultdict(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    known = output.known.get(id(real))
    if known is not None and known.source == source:  # an optimizer's state is read once for each parameter
        return known
    items = dict_items(output, real, source)
    if items is None:
        return wrap_as_object(output, real, source)
    output.guard("TYPE", source, type(real))
    output.guard("KEYS", source, tuple(real))
    place, factory = source and AttrSource(source, "default_factory"), None
    if real.default_factory is None:
        output.guard("IDENTITY", place, None)
    else:
        factory = lazily(output, real.default_factory, place)
    build = lambda: DefaultDictVariable(items, type(real), factory, source=source)  # noqa: E731
    return once(output, real, source, build)


def _held(output: OutputGraph, real: Any, source: Source | None, base: type) -> Variable | None:
    """What an object of a class derived from a dict holds."""
    items = dict_items(output, real, source)
    if items is None:
        return None
    guard_keys(output, real, source, tuple(class_lookup(base, "__iter__")(real)))
    if base is not defaultdict:
        return ConstDictVariable(items, base, source=source)
    place = source and AttrSource(source, "default_factory")
    return DefaultDictVariable(items, base, lazily(output, real.default_factory, place), source=source)


BUILDERS.update({dict: _wrap_dict, OrderedDict: _wrap_dict, defaultdict: _wrap_defaultdict})
EMPTY[OrderedDict] = lambda: ConstDictVariable({}, OrderedDict)
EMPTY[defaultdict] = lambda: DefaultDictVariable({}, defaultdict)
EMPTY[dict] = lambda: ConstDictVariable({})
HELD.update(dict.fromkeys((OrderedDict, defaultdict, dict), _held))


class DictIterator(IteratorVariable):
    """iter(d), iter(d.values()), iter(d.items()), and the same of a set of constants."""

    walked: Variable = field(default_factory=Variable)
    entries: Any = ()  # the dict or set itself
    index: int = 0
    empty: Any = field(default_factory=dict)  # such a one
    holds = ("walked",)

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

    def rebuild(self, r: Any) -> str | None:
        if self.keys is None:
            return "iter(())"
        if self.size != len(self.entries):  # a new one would not notice
            return None
        mapping = self.walked.mapping if isinstance(self.walked, DictViewVariable) else self.walked
        before = r.codegen.output.effects.changed.get(id(mapping))
        # The iterator is made before the changes are replayed.
        if before is not None and list(before.items) != list(self.entries):
            return None
        name = r.name(self, f"iter({r.expression(self.walked)})")
        if self.index:
            r.lines.append(f"for _ in range({self.index}): next({name})")
        return name

    def python_type(self, tx: Tx) -> type:
        return type(iter(self.empty))
