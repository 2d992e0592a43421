"""functools, itertools, operator, collections and copy on abstract values: the rest of the table of variables/calls.py.

Input: abstract arguments. Functions that are C in CPython are followed as the Python of state/polyfills.py.
"""

from __future__ import annotations

import binascii
import bisect
import cmath
import collections
import datetime
import functools
import heapq
import itertools
import json
import math
import operator
import struct
import types
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Any

from stage1_capture.builtins.python import dict_
from stage1_capture.state import polyfills
from stage1_capture.state.graph_builder import SkipFrame, is_library
from stage1_capture.state.machine import BUILTINS, FOLDED, Args, Kwargs, Tx, builtin, builtins_
from stage1_capture.variables.arithmetic import (
    BINARY,
    COMPARISONS,
    UNARY,
    binary,
    compare,
    fold,
    is_same,
    unary,
)
from stage1_capture.variables.base import (
    SEQUENCES,
    Variable,
    equal,
    iterate,
    load_attribute,
    walked,
)
from stage1_capture.variables.builder import object_of
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.function import PartialVariable, UserFunctionVariable, function_variable
from stage1_capture.variables.generator import GeneratorVariable
from stage1_capture.variables.mapping import ConstDictVariable, DefaultDictVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.sequence import DequeVariable, ListVariable

_NAMES = ("chain", "count", "cycle", "repeat", "islice", "accumulate", "product", "pairwise", "starmap", "takewhile",
          "dropwhile", "filterfalse", "compress", "zip_longest", "combinations", "permutations",
          "combinations_with_replacement", "tee", "groupby", "batched")  # fmt: skip
POLYFILLS: dict[Any, Any] = {
    functools.reduce: polyfills.reduce,
    functools.cmp_to_key: polyfills.cmp_to_key,
    functools.update_wrapper: polyfills.update_wrapper,
    math.prod: polyfills.prod,
    **{getattr(heapq, name): getattr(polyfills.heapq, name)
       for name in ("heappush", "heappop", "heapreplace", "heappushpop", "heapify")},
    **{getattr(bisect, name): getattr(polyfills.bisect, name)
       for name in ("bisect_left", "bisect_right", "insort_left", "insort_right")},
    collections._count_elements: polyfills.count_elements,  # type: ignore[attr-defined]
    itertools.chain.from_iterable: polyfills.chain_from_iterable,
    **{getattr(itertools, name): getattr(polyfills, name) for name in _NAMES if hasattr(itertools, name)},
}  # fmt: skip


def _followed(polyfill: Any, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    return tx.inline(function_variable(tx.output, polyfill, None), args, kwargs)


def _fromkeys(cls: type, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    return _followed(polyfills.fromkeys, tx, [object_of(cls), *args], kwargs)


BUILTINS.update({original: partial(_followed, polyfill) for original, polyfill in POLYFILLS.items()})
BUILTINS.update(
    {c.fromkeys: partial(_fromkeys, c) for c in (dict, collections.OrderedDict, collections.defaultdict)}
)


@builtin(polyfills.copy_attributes)
def _copy_attributes(tx: Tx, wrapper: Variable, wrapped: Variable) -> Variable:
    """What the program, or the module that made it, put on a function."""
    names: list[str] = []
    if isinstance(wrapped, UserFunctionVariable):
        names = [n for n in wrapped.attrs if not n.startswith("__") or n == "__wrapped__"]
        names += [n for n in getattr(wrapped.identity(tx), "__dict__", {}) if n not in names]
    elif not isinstance(wrapped, (UserMethodVariable, PartialVariable)):
        tx.unsupported("GB0069", f"functools.wraps of {wrapped.describe()}")
    for name in names:
        wrapper.store_attribute(tx, name, load_attribute(tx, wrapped, name))
    return NONE


_SYMBOLS = {function: symbol for symbol, (function, _) in BINARY.items()}
_IN_PLACE = {getattr(operator, "i" + name): symbol + "=" for symbol, (_, name) in BINARY.items()
             if hasattr(operator, "i" + name)}  # fmt: skip
_IN_PLACE |= {operator.iand: "&=", operator.ior: "|="}


_COMPARED = {function: symbol for symbol, (function, *_) in COMPARISONS.items()}
_UNARY = {function: name for name, (function, _) in UNARY.items()} | {operator.inv: "UNARY_INVERT"}


def _operation(compute: Callable[..., Variable], word: str, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    return compute(tx, word, *args)


BUILTINS.update({f: partial(_operation, binary, symbol) for f, symbol in (_SYMBOLS | _IN_PLACE).items()})
BUILTINS.update({f: partial(_operation, compare, symbol) for f, symbol in _COMPARED.items()})
BUILTINS.update({f: partial(_operation, unary, name) for f, name in _UNARY.items()})


def _index_of(tx: Tx, items: Variable, value: Variable) -> Variable:
    for place, item in enumerate(walked(tx, items)):
        if equal(tx, item, value):
            return ConstantVariable(place)
    tx.throw(ValueError, "sequence.index(x): x not in sequence")


def _concatenated(symbol: str, tx: Tx, left: Variable, right: Variable) -> Variable:
    for value in (left, right):
        text = value.is_python_constant() and isinstance(value.value, (str, bytes))
        if not (text or value.family() in SEQUENCES):
            tx.unsupported("GB0069", f"operator.concat of {value.describe()}")
    return binary(tx, symbol, left, right)


builtins_(
    {
        operator.getitem: lambda tx, container, key: container.subscript(tx, key),
        operator.setitem: lambda tx, container, *entry: container.store_subscript(tx, *entry),
        operator.delitem: lambda tx, container, key: container.delete_subscript(tx, key),
        operator.contains: lambda tx, container, item: ConstantVariable(container.contains(tx, item)),
        operator.not_: lambda tx, value: ConstantVariable(not value.truth(tx)),
        operator.truth: lambda tx, value: ConstantVariable(value.truth(tx)),
        operator.is_: lambda tx, left, right: ConstantVariable(is_same(tx, left, right)),
        operator.is_not: lambda tx, left, right: ConstantVariable(not is_same(tx, left, right)),
        operator.countOf: lambda tx, items, value: ConstantVariable(
            sum(equal(tx, item, value) for item in iterate(tx, items))
        ),
        operator.indexOf: _index_of,
        operator.call: lambda tx, function, *args, **kwargs: tx.call(function, list(args), kwargs),
        operator.concat: partial(_concatenated, "+"),
        operator.iconcat: partial(_concatenated, "+="),
        math.fsum: lambda tx, values: fold(tx, math.fsum, [ListVariable(iterate(tx, values))], {}),
        pow: lambda tx, base, exp, mod=None: (
            binary(tx, "**", base, exp) if mod is None else fold(tx, pow, [base, exp, mod], {})
        ),
    }
)


BUILTINS[operator.abs] = BUILTINS[abs]


@builtin(functools.partial)
def _partial(tx: Tx, function: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    if isinstance(function, PartialVariable):
        return PartialVariable(function.function, [*function.args, *args], {**function.kwargs, **kwargs})
    return PartialVariable(function, list(args), kwargs)


FOLDED.update({json.dumps, json.loads, struct.pack, struct.unpack, struct.calcsize, bytes.maketrans})
FOLDED.update(
    {binascii.b2a_base64, binascii.a2b_base64, datetime.date.fromisoformat, datetime.datetime.fromisoformat}
)
for _module in (cmath, unicodedata):
    FOLDED.update(f for f in vars(_module).values() if isinstance(f, types.BuiltinFunctionType))


@builtin(operator.length_hint)
def _length_hint(tx: Tx, value: Variable, *default: Variable) -> Variable:
    if isinstance(value, GeneratorVariable) and is_library(value.frame.function.globals):
        # the generator that stands for it has none, and Python would get that
        raise SkipFrame("length_hint of an iterator of itertools", tx.output.origin(), code="GB0002")
    return _followed(polyfills.length_hint, tx, [value, *default], {})


@builtin(collections.OrderedDict)
def _ordered_dict(tx: Tx, values: Variable | None = None, /, **more: Variable) -> Variable:
    return ConstDictVariable(dict_(tx, values, **more).items, collections.OrderedDict)


@builtin(collections.defaultdict)
def _defaultdict(
    tx: Tx, factory: Variable = NONE, values: Variable | None = None, /, **more: Variable
) -> Variable:
    none = factory.is_python_constant()
    if none and factory.value is not None:
        tx.throw(TypeError, "first argument must be callable or None")
    entries = dict_(tx, values, **more).items
    return DefaultDictVariable(entries, collections.defaultdict, None if none else factory)


@builtin(collections.deque)
def _deque(tx: Tx, values: Variable | None = None, maxlen: Variable = NONE) -> Variable:
    limit = tx.constant(maxlen, "a deque's length")
    items = [] if values is None else iterate(tx, values)
    return DequeVariable(
        items if limit is None else items[len(items) - min(limit, len(items)) :], limit=limit
    )
