"""The special methods of Python's own containers, strings and numbers, called by name: `super().__setitem__(k, v)`.

Input: what an object of a derived class holds, or a container itself. Each is the operation it is the method of.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from stage1_capture.builtins.python import repr_
from stage1_capture.state.machine import SPECIAL_METHODS, Tx
from stage1_capture.variables.arithmetic import BINARY, COMPARISONS, DECLINED, binary, compare
from stage1_capture.variables.base import Variable
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


def _compared(symbol: str) -> Any:
    def call(tx: Tx, receiver: Variable, other: Variable) -> Variable:
        other = other.unwrapped()
        constants = receiver.is_python_constant() and other.is_python_constant()
        alike = receiver.family() is not None and receiver.family() is other.family()
        return compare(tx, symbol, receiver, other) if constants or alike else DECLINED

    return call


def _operated(symbol: str, swapped: bool = False) -> Any:
    def call(tx: Tx, receiver: Variable, other: Variable) -> Variable:
        other = other.unwrapped()
        alike = receiver.family() is not None and receiver.family() is other.family()
        counted = other.is_python_constant() and (symbol.startswith("*") or receiver.is_python_constant())
        walked = symbol == "+=" and receiver.family() in (list, deque)  # which takes whatever can be walked
        if not (alike or counted or walked):
            return DECLINED
        return binary(tx, symbol, other, receiver) if swapped else binary(tx, symbol, receiver, other)

    return call


def _store(tx: Tx, receiver: Variable, key: Variable, value: Variable) -> Variable:
    receiver.store_subscript(tx, key, value)
    return NONE


def _delete(tx: Tx, receiver: Variable, key: Variable) -> Variable:
    receiver.delete_subscript(tx, key)
    return NONE


SPECIAL_METHODS.update(
    {
        "__init__": lambda tx, receiver, *args, **kwargs: NONE,
        "__getitem__": lambda tx, receiver, key: receiver.subscript(tx, key),
        "__setitem__": _store,
        "__delitem__": _delete,
        "__contains__": lambda tx, receiver, item: ConstantVariable(receiver.contains(tx, item)),
        "__len__": lambda tx, receiver: receiver.length(tx),
        "__iter__": lambda tx, receiver: receiver.iterator(tx),
        "__reversed__": lambda tx, receiver: receiver.reversed(tx),
        "__bool__": lambda tx, receiver: ConstantVariable(receiver.truth(tx)),
        "__repr__": repr_,
        "__str__": lambda tx, r: tx.call(UserDefinedObjectVariable(str), [r], {}),
        "__hash__": lambda tx, r: tx.call(UserDefinedObjectVariable(hash), [r], {}),
        "__format__": lambda tx, r, s: tx.call(UserDefinedObjectVariable(format), [r, s], {}),
        **{names[1]: _compared(symbol) for symbol, names in COMPARISONS.items()},
        **{f"__{name}__": _operated(symbol) for symbol, (_, name) in BINARY.items()},
        **{f"__r{name}__": _operated(symbol, swapped=True) for symbol, (_, name) in BINARY.items()},
        **{f"__i{name}__": _operated(symbol + "=") for symbol, (_, name) in BINARY.items()},
    }
)
