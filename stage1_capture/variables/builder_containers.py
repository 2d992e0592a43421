"""Containers from outside as abstract values: their items are looked at when something reads them.

Input: a real dict, deque, named tuple, partial, or an object of a class derived from one of Python's, and its source.
Their lengths and keys are guarded; a dict's keys may be constants, or objects known by identity.
"""

from __future__ import annotations

import enum
import math
import types
from collections import defaultdict, deque
from typing import Any

from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.mro import class_lookup
from stage1_capture.variables.base import Variable
from stage1_capture.variables.derived import (
    PLAIN_VALUE,
    constant_of,
    guard_keys,
    guard_length,
    item_source,
    plainly_read,
    python_base,
)
from stage1_capture.variables.function import PartialVariable
from stage1_capture.variables.keys import ObjectKey
from stage1_capture.variables.mapping import ConstDictVariable, DefaultDictVariable
from stage1_capture.variables.sequence import DequeVariable, ListVariable, TupleVariable
from stage_contracts.controls import register
from stage_contracts.source import AttrSource, CallSource, ItemSource, KeySource, RegisteredSource, Source

HASHED = (str, int, bool, float, bytes, type(None))  # whose equality and hash are Python's own
_ITSELF = (types.ModuleType, types.BuiltinFunctionType, types.FunctionType, Operator, enum.Enum, type)


def dict_items(output: OutputGraph, real: dict, source: Source | None) -> dict[Any, Variable] | None:
    """What a dict holds, by what stands for each key; None when a key's class computes its hash."""
    from stage1_capture.variables.builder import lazily, wrap

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


def _by_identity() -> tuple[Any, ...]:
    from stage0_eager.tensor import Tensor

    return object.__hash__, object.__eq__, class_lookup(Tensor, "__hash__"), class_lookup(Tensor, "__eq__")


_BY_IDENTITY = _by_identity()


def _literal(key: Any) -> bool:
    if type(key) is tuple:
        return all(map(_literal, key))
    return type(key) in HASHED and (type(key) is not float or math.isfinite(key))


def wrap_defaultdict(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    from stage1_capture.variables.builder import lazily, once, wrap_object

    items = dict_items(output, real, source)
    if items is None:
        return wrap_object(output, real, source)
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


def wrap_deque(output: OutputGraph, real: deque, source: Source | None) -> Variable:
    from stage1_capture.variables.builder import once

    output.guard("TYPE", source, type(real))
    output.guard("EQUALS", source and AttrSource(source, "maxlen"), real.maxlen)
    items = sequence_items(output, real, source)
    return once(output, real, source, lambda: DequeVariable(items, real.maxlen, source=source))


def sequence_items(output: OutputGraph, real: Any, source: Source | None) -> list[Variable]:
    from stage1_capture.variables.builder import lazily

    base = python_base(type(real)) or type(real)
    items = list(class_lookup(base, "__iter__")(real))
    guard_length(output, real, source, len(items))
    return [lazily(output, v, item_source(real, source, i)) for i, v in enumerate(items)]


def wrap_partial(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    from stage1_capture.variables.builder import lazily, once, wrap

    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    function = wrap(output, real.func, source and AttrSource(source, "func"))
    args = sequence_items(output, real.args, source and AttrSource(source, "args"))
    place = source and AttrSource(source, "keywords")
    output.guard("KEYS", place, tuple(real.keywords))
    kwargs: dict[str, Variable] = {}
    for name, value in real.keywords.items():
        kwargs[name] = lazily(output, value, place and ItemSource(place, name))
    build = lambda: PartialVariable(function, list(args), kwargs, source=source)  # noqa: E731
    return once(output, real, source, build)


def contents_of(output: OutputGraph, real: Any, source: Source | None) -> Variable | None:
    """What an object of a derived class holds; None where reading it would run code of its class."""
    base = python_base(type(real))
    if base is None or not plainly_read(type(real)):
        return None
    if issubclass(base, dict):
        items = dict_items(output, real, source)
        if items is None:
            return None
        guard_keys(output, real, source, tuple(class_lookup(base, "__iter__")(real)))
        kind = base if base is not dict else dict
        made: Variable
        if issubclass(base, defaultdict):
            from stage1_capture.variables.builder import lazily

            place = source and AttrSource(source, "default_factory")
            made = DefaultDictVariable(
                items, kind, lazily(output, real.default_factory, place), source=source
            )
        else:
            made = ConstDictVariable(items, kind, source=source)
        return made
    if base is deque:
        return DequeVariable(sequence_items(output, real, source), real.maxlen, source=source)
    if issubclass(base, (list, tuple)):
        kind_of = ListVariable if base is list else TupleVariable
        return kind_of(sequence_items(output, real, source), source=source)
    if base is set:
        return None
    made = constant_of(real, base)
    plain = source and CallSource(RegisteredSource(register(PLAIN_VALUE[base])), (source,))
    output.guard("EQUALS", plain, PLAIN_VALUE[base](real))
    return made
