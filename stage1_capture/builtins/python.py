"""Builtin functions on abstract values: the table that variables/calls.py looks a builtin up in.

Input: abstract arguments. Pure functions of constants are folded by Python itself; the others here work on
the structure (len, zip, enumerate) and touch no data.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import math
import operator
import os
import re
import sys
import types
from functools import partial
from typing import Any

from stage0_eager.arrays import gpu_is_there
from stage0_eager.type_info import finfo, iinfo
from stage1_capture.state import polyfills
from stage1_capture.state.machine import BUILTINS, FOLDED, Args, Kwargs, Tx, builtin, builtins_
from stage1_capture.variables.arithmetic import binary, compare, fold
from stage1_capture.variables.base import (
    Variable,
    gathered,
    iterate,
    load_attribute,
    realize,
    walked,
)
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.formatting import in_text, stand_in
from stage1_capture.variables.function import function_variable
from stage1_capture.variables.generator import GeneratorVariable
from stage1_capture.variables.hash_keys import hashable
from stage1_capture.variables.iterator import (
    EnumerateIterator,
    FilterIterator,
    IteratorVariable,
    MapIterator,
    ZipIterator,
)
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.sequence import ListVariable, SliceVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.special_method_results import CHECKED, checked_result
from stage1_capture.variables.unbacked_bounds import absolute, chosen
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import dtype_of

# Defaults of the builtins below.
FALSE, ZERO, BLANK, EMPTY = *map(ConstantVariable, (False, 0, "")), TupleVariable([])

FOLDED.update({abs, ascii, ord, range, Device, device_of, dtype_of, finfo, gpu_is_there, iinfo})
FOLDED.update(
    {re.compile, re.match, re.search, re.fullmatch, re.sub, re.subn, re.split, re.findall, re.escape}
)
FOLDED.update({datetime.date, datetime.time, datetime.datetime, datetime.timedelta})
FOLDED.update({os.fspath, sys.intern, str.maketrans, bytes.fromhex, float.fromhex, int.from_bytes})
FOLDED.update(f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType))


def repr_(tx: Tx, value: Variable) -> Variable:
    return in_text(tx, "repr", lambda: repr(stand_in(tx, value)))


def _elements(tx: Tx, values: Variable) -> set[Any]:
    return {hashable(tx, v) for v in iterate(tx, values)}


builtins_(
    {
        len: lambda tx, value: value.length(tx),
        bool: lambda tx, value=FALSE: ConstantVariable(value.truth(tx)),
        any: lambda tx, values: ConstantVariable(any(v.truth(tx) for v in walked(tx, values))),
        all: lambda tx, values: ConstantVariable(all(v.truth(tx) for v in walked(tx, values))),
        set: lambda tx, values=EMPTY: SetVariable(_elements(tx, values)),
        frozenset: lambda tx, values=EMPTY: SetVariable(_elements(tx, values), frozenset),
        reversed: lambda tx, values: values.reversed(tx),
        enumerate: lambda tx, iterable, start=ZERO: EnumerateIterator(
            inner=iterable.iterator(tx), count=tx.constant(start, "enumerate")
        ),
        zip: lambda tx, *several, strict=FALSE: ZipIterator(
            iterators=[v.iterator(tx) for v in several], strict=strict.truth(tx)
        ),
        map: lambda tx, function, *several: MapIterator(
            function=function, iterators=[v.iterator(tx) for v in several]
        ),
        filter: lambda tx, function, values: FilterIterator(function=function, inner=values.iterator(tx)),
        list: lambda tx, values=EMPTY: ListVariable(gathered(tx, values)),
        repr: repr_,
        abs: lambda tx, value: absolute(tx, value) or value.ask(tx, "__abs__") or fold(tx, abs, [value], {}),
    }
)


@builtin(sum)
def sum_(tx: Tx, values: Variable, start: Variable = ZERO) -> Variable:
    for value in walked(tx, values):
        start = binary(tx, "+", start, value)
    return start


@builtin(tuple)
def tuple_(tx: Tx, values: Variable = EMPTY) -> Variable:
    if values.family() is tuple:  # itself, but the items of a named tuple
        return values if values.kind is tuple else TupleVariable(list(values.items))
    return TupleVariable(gathered(tx, values))


def as_mapping(tx: Tx, value: Variable) -> dict[Any, Variable] | None:
    """The keys and values of a dict, or of what has `keys()`; None for anything else."""
    inside = value.unwrapped()
    if inside.family() is dict and (value is inside or _plain_mapping(type(value.real))):
        return dict(inside.items)
    if not isinstance(value, UserDefinedObjectVariable) or class_lookup(type(value.real), "keys") is MISSING:
        return None
    keys = iterate(tx, tx.call(load_attribute(tx, value, "keys"), [], {}))
    return {hashable(tx, key): value.ask(tx, "__getitem__", key) for key in keys}


def _plain_mapping(cls: type) -> bool:
    """Whether a class derived from dict leaves walking over it to Python."""
    return not any(
        isinstance(class_lookup(cls, n), types.FunctionType) for n in ("keys", "__iter__", "__getitem__")
    )


@builtin(dict)
def dict_(tx: Tx, values: Variable | None = None, /, **more: Variable) -> Variable:
    entries: dict[Any, Variable] = {}
    if values is not None and (mapping := as_mapping(tx, values)) is not None:
        entries.update(mapping)
    elif values is not None:
        for place, pair in enumerate(iterate(tx, values)):
            if pair.is_python_constant() and not isinstance(pair.value, (str, bytes, range)):
                words = f"cannot convert dictionary update sequence element #{place} to a sequence"
                tx.throw(TypeError, words)
            items = iterate(tx, pair)
            if len(items) != 2:
                words = f"dictionary update sequence element #{place} has length {len(items)}; 2 is required"
                tx.throw(ValueError, words)
            entries[hashable(tx, items[0])] = items[1]
    return ConstDictVariable({**entries, **more})


@builtin(slice)
def slice_(tx: Tx, *bounds: Variable) -> Variable:
    start, stop, step = {1: (NONE, *bounds, NONE), 2: (*bounds, NONE), 3: bounds}[len(bounds)]
    return SliceVariable([start, stop, step])


@builtin(iter)
def iter_(tx: Tx, values: Variable, *sentinel: Variable) -> Variable:
    if sentinel:
        until: Any = polyfills.call_until
        return tx.call(function_variable(tx.output, until, None), [values, *sentinel], {})
    return values.iterator(tx)


@builtin(next)
def next_(tx: Tx, iterator: Variable, *default: Variable) -> Variable:
    if isinstance(iterator, GeneratorVariable) and not default:
        return iterator.send(tx, NONE)
    if iterator.is_foreign_iterator():
        tx.unsupported("GB0010", "next of an iterator from outside")
    method = None if isinstance(iterator, IteratorVariable) else iterator.special_method(tx, "__next__")
    if not isinstance(iterator, IteratorVariable) and method is None:
        tx.unsupported("GB0039", f"next of {iterator.describe()}")
    if method is not None and not default:  # what it raises has a value
        return tx.call(method, [], {})
    found = iterator.next_variable(tx)
    if found is None:
        return default[0] if default else tx.throw(StopIteration)
    return realize(found)


def _best(
    name: str, symbol: str, tx: Tx, *values: Variable, key: Variable = NONE, default: Variable | None = None
) -> Variable:
    items = iterate(tx, values[0]) if len(values) == 1 else list(values)
    if not items:  # versions of Python say it in words of their own
        return default if values and default else fold(tx, vars(builtins)[name], list(values), {})
    keys = _keys(tx, items, key)
    best, most = items[0], keys[0]
    for item, rank in zip(items[1:], keys[1:], strict=True):
        more = compare(tx, symbol, rank, most)
        one_of = None if more.is_python_constant() or not key.is_none() else chosen(tx, name, most, rank)
        if one_of is not None:
            best = most = one_of
        elif more.truth(tx):
            best, most = item, rank
    return best


builtins_({max: partial(_best, "max", ">"), min: partial(_best, "min", "<")})


@builtin(sorted)
def sorted_(tx: Tx, values: Variable, *, key: Variable = NONE, reverse: Variable = FALSE) -> ListVariable:
    """A stable sort by abstract comparisons, which are constants or a break."""
    items = gathered(tx, values)
    keys = _keys(tx, items, key)
    less = lambda a, b: compare(tx, "<", keys[a], keys[b]).truth(tx)  # noqa: E731
    # sorted() only asks whether a < b, and the key only whether that is negative: Python's own questions, in its order
    order = sorted(range(len(items)), key=functools.cmp_to_key(lambda a, b: -less(a, b)),
                   reverse=reverse.truth(tx))  # fmt: skip
    return ListVariable([items[i] for i in order])


def _keys(tx: Tx, items: list[Variable], key: Variable) -> list[Variable]:
    if key.is_python_constant():
        return items
    return [tx.call(key, [item], {}) for item in items]


@builtin(str)
def str_(tx: Tx, value: Variable = BLANK, *encoding: Variable) -> Variable:
    if encoding:
        return fold(tx, str, [value, *encoding], {})
    return in_text(tx, "str", lambda: str(stand_in(tx, value)))


@builtin(format)
def format_(tx: Tx, value: Variable, spec: Variable = BLANK) -> Variable:
    return in_text(tx, "format", lambda: format(stand_in(tx, value), tx.constant(spec, "format")))


# ---- numbers made of objects ---------------------------------------------------------------------

_AS_NUMBERS: dict[Any, tuple[str, ...]] = {
    int: ("__int__", "__index__", "__trunc__"),
    float: ("__float__", "__index__"),
    complex: ("__complex__", "__float__", "__index__"),
    bytes: ("__bytes__",),
    hash: ("__hash__",),
    round: ("__round__",),
    divmod: ("__divmod__",),
    math.floor: ("__floor__", "__float__"),
    math.ceil: ("__ceil__", "__float__"),
    math.trunc: ("__trunc__",),
    **dict.fromkeys((hex, oct, bin, chr, operator.index), ("__index__",)),
}


def _of_object(function: Any, names: tuple[str, ...], tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    value = realize(args[0]) if args else NONE
    if isinstance(value, UserDefinedObjectVariable) and not isinstance(value.real, type):
        if function is hash and class_lookup(type(value.real), "__hash__") is None:
            tx.output.guard_members(value.class_place(), type(value.real), "__hash__")
            tx.throw(TypeError, f"unhashable type: {type(value.real).__name__!r}")
        for name in names:
            if isinstance(class_lookup(type(value.real), name), types.FunctionType):
                found = tx.call(value.special_method(tx, name), args[1:], kwargs)  # type: ignore[arg-type]
                found = checked_result(tx, value, name, found) if name in CHECKED else found
                again = name in ("__index__", "__float__") and function is not operator.index
                return fold(tx, function, [found], {}) if again else found
    return fold(tx, function, [realize(a).unwrapped() for a in args], kwargs)


BUILTINS.update({function: partial(_of_object, function, names) for function, names in _AS_NUMBERS.items()})
