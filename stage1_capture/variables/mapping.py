"""Dicts, defaultdicts, the `__dict__` of an object, and the views of a dict.

Input: variables/builder.py makes one of a real one, opcodes and builtins make the rest. Keys are constants, or objects
as `ObjectKey`: variables/keys.py.
"""

from __future__ import annotations

import enum
import math
import types
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any

from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import class_lookup
from stage1_capture.variables.base import FROM_CONSTANT, NotConstant, Variable, as_constant, from_constant
from stage1_capture.variables.builder import BUILDERS, REGISTRIES, lazily, once, wrap, wrap_as_object
from stage1_capture.variables.derived import EMPTY, HELD, guard_keys, item_source
from stage1_capture.variables.keys import ObjectKey, holds_object
from stage1_capture.variables.sequence import TupleVariable
from stage_contracts.controls import register
from stage_contracts.source import (
    AttrSource,
    ItemSource,
    KeySource,
    RegisteredSource,
    Source,
)


@dataclass(eq=False)
class ConstDictVariable(Variable):
    """A dict (or OrderedDict: `kind`) whose keys are constants."""

    items: dict[Any, Variable]
    kind: type = dict

    def python_type(self, tx: Tx) -> type:
        return self.kind

    def as_constant(self) -> Any:
        if self.kind not in (dict, OrderedDict) or any(map(holds_object, self.items)):
            raise NotConstant(self)
        return self.kind((key, as_constant(value)) for key, value in self.items.items())

    def hash_key(self, tx: Tx) -> Any:
        tx.throw(TypeError, f"unhashable type: {self.kind.__name__!r}")

    def snapshot(self) -> Any:
        return dict(self.items)


@dataclass(eq=False)
class ObjectDictVariable(ConstDictVariable):
    """The `__dict__` of its owner."""

    def changed_one(self) -> Variable:
        return self.part_of


@dataclass(eq=False)
class DefaultDictVariable(ConstDictVariable):
    """A defaultdict: `factory` makes what is missing."""

    factory: Variable | None = None


@dataclass(eq=False)
class DictViewVariable(Variable):
    """d.keys(), d.values(), d.items(): sees later changes of d."""

    mapping: ConstDictVariable
    name: str  # "keys", "values" or "items"

    def pick(self, key: Any, value: Variable) -> Variable:
        """What it shows of a key and its value."""
        if self.name == "values":
            return value
        return from_constant(key) if self.name == "keys" else TupleVariable([from_constant(key), value])

    @property
    def items(self) -> list[Variable]:
        return [self.pick(key, value) for key, value in self.mapping.items.items()]

    def python_type(self, tx: Tx) -> type:
        return type(getattr({}, self.name)())


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
    return once(output, real, source, lambda: ConstDictVariable(items, type(real), source=source))


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
    for key, value in dict.items(real):
        if _literal(key):
            items[key] = lazily(output, value, item_source(real, source, key))
            continue
        cls = type(key)
        own = isinstance(key, _ITSELF) or (
            class_lookup(cls, "__hash__") in _BY_IDENTITY and class_lookup(cls, "__eq__") in _BY_IDENTITY
        )
        if not own:
            return None
        number = register(key)
        place: Source | None = item_source(real, source, RegisteredSource(number))
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
    items = dict_items(output, real, source)
    if items is None:
        return wrap_as_object(output, real, source)
    output.guard("TYPE", source, type(real))
    output.guard("KEYS", source, tuple(real))
    none = real.default_factory is None
    factory = (
        None
        if none
        else lazily(output, real.default_factory, source and AttrSource(source, "default_factory"))
    )
    if none:
        output.guard("IDENTITY", source and AttrSource(source, "default_factory"), None)
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
EMPTY.update(
    {
        OrderedDict: lambda: ConstDictVariable({}, OrderedDict),
        defaultdict: lambda: DefaultDictVariable({}, defaultdict),
        dict: lambda: ConstDictVariable({}),
    }
)
HELD.update(dict.fromkeys((OrderedDict, defaultdict, dict), _held))
