"""functools, itertools, operator, collections and copy on abstract values: the rest of the table of calls.py.

Input: abstract arguments. Functions that are C in CPython are followed as the Python of polyfills.py.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import types
from typing import Any

from stage1_capture.capture import polyfills
from stage1_capture.capture.arithmetic import BINARY, COMPARISONS, binary, compare, is_same, truth, unary
from stage1_capture.capture.attributes import load_attribute
from stage1_capture.capture.builder import function_variable
from stage1_capture.capture.builtin_functions import builtin, dict_
from stage1_capture.capture.calls import BUILTINS, Args, Kwargs, iterate
from stage1_capture.capture.containers import contains, delete_subscript, store_subscript, subscript
from stage1_capture.capture.inline import inline_call
from stage1_capture.capture.store import store_attribute
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    NONE,
    ConstantVariable,
    ConstDictVariable,
    DefaultDictVariable,
    DequeVariable,
    PartialVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    describe,
)

Tx = InstructionTranslator

# ---- followed as Python --------------------------------------------------------------------------

_NAMES = ("chain", "count", "cycle", "repeat", "islice", "accumulate", "product", "pairwise", "starmap", "takewhile",
          "dropwhile", "filterfalse", "compress", "zip_longest", "combinations", "permutations",
          "combinations_with_replacement", "tee", "groupby", "batched")  # fmt: skip
POLYFILLS: dict[Any, Any] = {
    functools.reduce: polyfills.reduce,
    functools.update_wrapper: polyfills.update_wrapper,
    dict.fromkeys: polyfills.dict_fromkeys,
    collections._count_elements: polyfills.count_elements,  # type: ignore[attr-defined]
    itertools.chain.from_iterable: polyfills.chain_from_iterable,
    **{getattr(itertools, name): getattr(polyfills, name) for name in _NAMES if hasattr(itertools, name)},
}


def _followed(polyfill: types.FunctionType) -> Any:
    def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        return inline_call(tx, function_variable(tx.output, polyfill, None), args, kwargs)

    return call


BUILTINS.update({original: _followed(polyfill) for original, polyfill in POLYFILLS.items()})


@builtin(polyfills.copy_attributes)
def _copy_attributes(tx: Tx, wrapper: Variable, wrapped: Variable) -> Variable:
    """What the program, or the module that made it, put on a function."""
    names: list[str] = []
    if isinstance(wrapped, UserFunctionVariable):
        names = [n for n in wrapped.attrs if not n.startswith("__") or n == "__wrapped__"]
        names += [n for n in getattr(wrapped.real, "__dict__", {}) if n not in names]
    elif not isinstance(wrapped, (UserMethodVariable, PartialVariable)):
        tx.unsupported("GB0002", f"functools.wraps of {describe(wrapped)}")
    for name in names:
        store_attribute(tx, wrapper, name, load_attribute(tx, wrapped, name))
    return NONE


# ---- operator ------------------------------------------------------------------------------------

_SYMBOLS = {function: symbol for symbol, (function, _) in BINARY.items()}
_IN_PLACE = {getattr(operator, "i" + name): symbol + "=" for symbol, (_, name) in BINARY.items()
             if hasattr(operator, "i" + name)}  # fmt: skip
_IN_PLACE |= {operator.iand: "&=", operator.ior: "|="}


def _binary_call(symbol: str) -> Any:
    return lambda tx, args, kwargs: binary(tx, symbol, *args)


def _compare_call(symbol: str) -> Any:
    return lambda tx, args, kwargs: compare(tx, symbol, *args)


BUILTINS.update({function: _binary_call(symbol) for function, symbol in (_SYMBOLS | _IN_PLACE).items()})
BUILTINS.update({function: _compare_call(symbol) for symbol, (function, *_) in COMPARISONS.items()})
for _function, _name in ((operator.neg, "NEGATIVE"), (operator.pos, "POSITIVE"), (operator.invert, "INVERT")):
    BUILTINS[_function] = (lambda name: lambda tx, args, kwargs: unary(tx, f"UNARY_{name}", *args))(_name)


@builtin(operator.getitem)
def _getitem(tx: Tx, container: Variable, key: Variable) -> Variable:
    return subscript(tx, container, key)


@builtin(operator.setitem)
def _setitem(tx: Tx, container: Variable, key: Variable, value: Variable) -> Variable:
    store_subscript(tx, container, key, value)
    return NONE


@builtin(operator.delitem)
def _delitem(tx: Tx, container: Variable, key: Variable) -> Variable:
    delete_subscript(tx, container, key)
    return NONE


@builtin(operator.contains)
def _contains(tx: Tx, container: Variable, item: Variable) -> Variable:
    return ConstantVariable(contains(tx, item, container))


@builtin(operator.not_)
def _not(tx: Tx, value: Variable) -> Variable:
    return ConstantVariable(not truth(tx, value))


@builtin(operator.truth)
def _truth(tx: Tx, value: Variable) -> Variable:
    return ConstantVariable(truth(tx, value))


@builtin(operator.is_)
def _is(tx: Tx, left: Variable, right: Variable) -> Variable:
    return ConstantVariable(is_same(tx, left, right))


# ---- functools -----------------------------------------------------------------------------------


@builtin(functools.partial)
def _partial(tx: Tx, function: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    if isinstance(function, PartialVariable):
        return PartialVariable(function.function, [*function.args, *args], {**function.kwargs, **kwargs})
    return PartialVariable(function, list(args), kwargs)


# ---- collections ---------------------------------------------------------------------------------


@builtin(collections.OrderedDict)
def _ordered_dict(tx: Tx, *values: Variable, **more: Variable) -> Variable:
    return ConstDictVariable(dict_(tx, *values, **more).items, collections.OrderedDict)


@builtin(collections.defaultdict)
def _defaultdict(tx: Tx, factory: Variable = NONE, *values: Variable, **more: Variable) -> Variable:
    none = isinstance(factory, ConstantVariable)
    entries = dict_(tx, *values, **more).items
    return DefaultDictVariable(entries, collections.defaultdict, None if none else factory)


@builtin(collections.deque)
def _deque(tx: Tx, values: Variable | None = None, maxlen: Variable = NONE) -> Variable:
    limit = tx.constant(maxlen, "a deque's length")
    items = [] if values is None else iterate(tx, values)
    return DequeVariable(
        items if limit is None else items[len(items) - min(limit, len(items)) :], limit=limit
    )
