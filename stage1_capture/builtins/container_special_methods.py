"""The special methods of Python's own containers, strings and numbers, called by name: `super().__setitem__(k, v)`.

Input: what an object of a derived class holds, or a container itself. Each is the operation it is the method of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage1_capture.builtins.container_methods import extend_items, update_entries
from stage1_capture.builtins.python import len_, repr_, reversed_
from stage1_capture.state.machine import DUNDERS, Tx
from stage1_capture.variables.arithmetic import BINARY, COMPARISONS, binary, compare, family, truth
from stage1_capture.variables.base import (
    NONE,
    ConstantVariable,
    ConstDictVariable,
    DefaultDictVariable,
    DequeVariable,
    ListVariable,
    SetVariable,
    UserDefinedObjectVariable,
    Variable,
)
from stage1_capture.variables.calls import call_function, iterate, make_iterator, must_be_local
from stage1_capture.variables.containers import contains, delete_subscript, store_subscript, subscript
from stage1_capture.variables.derived import unwrapped
from stage1_capture.variables.keys import hashable

DECLINED = ConstantVariable(NotImplemented)


def _nothing(change: Callable[..., None]) -> Any:
    def call(tx: Tx, *args: Variable) -> Variable:
        change(tx, *args)
        return NONE

    return call


def _compared(symbol: str) -> Any:
    def call(tx: Tx, receiver: Variable, other: Variable) -> Variable:
        other = unwrapped(other)
        if isinstance(receiver, ConstantVariable) and isinstance(other, ConstantVariable):
            return compare(tx, symbol, receiver, other)
        if family(receiver) is None or family(receiver) is not family(other):
            return DECLINED
        return compare(tx, symbol, receiver, other)

    return call


def _operated(symbol: str, swapped: bool = False) -> Any:
    def call(tx: Tx, receiver: Variable, other: Variable) -> Variable:
        other = unwrapped(other)
        fits = family(receiver) is family(other) and family(receiver) is not None
        counted = symbol.startswith("*") and isinstance(other, ConstantVariable)
        numbers = isinstance(receiver, ConstantVariable) and isinstance(other, ConstantVariable)
        fits |= symbol == "+=" and isinstance(receiver, ListVariable)  # it takes whatever can be walked
        if not (fits or counted or numbers):
            return DECLINED
        return binary(tx, symbol, other, receiver) if swapped else binary(tx, symbol, receiver, other)

    return call


def _initialise(tx: Tx, receiver: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    """`__init__` of a list, dict, set or deque: it is filled anew."""
    match receiver:
        case DefaultDictVariable():
            if args:
                none = isinstance(args[0], ConstantVariable)
                receiver.factory = None if none else args[0]
            update_entries(tx, receiver, *args[1:], **kwargs)
        case ConstDictVariable():
            update_entries(tx, receiver, *args, **kwargs)
        case DequeVariable():
            made = call_function(tx, UserDefinedObjectVariable(type(receiver).kind), list(args), kwargs)  # type: ignore
            receiver.items[:], receiver.limit = made.items, made.limit  # type: ignore[attr-defined]
        case ListVariable():
            must_be_local(tx, receiver, "__init__")
            receiver.items.clear()
            if args:
                extend_items(tx, receiver, args[0])
        case SetVariable():
            must_be_local(tx, receiver, "__init__")
            elements = {hashable(tx, v) for v in iterate(tx, args[0])} if args else set()
            receiver.items.clear()
            receiver.items |= elements
    return NONE


DUNDERS.update(
    {
        "__init__": _initialise,
        "__getitem__": subscript,
        "__setitem__": _nothing(store_subscript),
        "__delitem__": _nothing(delete_subscript),
        "__contains__": lambda tx, receiver, item: ConstantVariable(contains(tx, item, receiver)),
        "__len__": len_,
        "__iter__": make_iterator,
        "__reversed__": reversed_,
        "__bool__": lambda tx, receiver: ConstantVariable(truth(tx, receiver)),
        "__repr__": repr_,
        "__str__": lambda tx, r: call_function(tx, UserDefinedObjectVariable(str), [r], {}),
        "__hash__": lambda tx, r: call_function(tx, UserDefinedObjectVariable(hash), [r], {}),
        "__format__": lambda tx, r, s: call_function(tx, UserDefinedObjectVariable(format), [r, s], {}),
        **{names[1]: _compared(symbol) for symbol, names in COMPARISONS.items()},
        **{f"__{name}__": _operated(symbol) for symbol, (_, name) in BINARY.items()},
        **{f"__r{name}__": _operated(symbol, swapped=True) for symbol, (_, name) in BINARY.items()},
        **{f"__i{name}__": _operated(symbol + "=") for symbol, (_, name) in BINARY.items()},
    }
)
