"""Membership, subscripts and formatting of abstract values, as Python defines them.

Input: abstract values. What is known at capture is decided now; a branch on a tensor's data is a break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage1_capture.capture.arithmetic import compare, truth
from stage1_capture.capture.attributes import special_method
from stage1_capture.capture.calls import attempt, call_function, must_be_local
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    ConstantVariable,
    ConstDictVariable,
    DictViewVariable,
    ListVariable,
    SliceVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    Variable,
    describe,
    from_constant,
    realize,
)

Tx = InstructionTranslator


def contains(tx: Tx, item: Variable, container: Variable) -> bool:
    """`item in container`."""
    match container:
        case ConstDictVariable(items=entries):
            return attempt(tx, "in", lambda: tx.constant(item, "a dict's key") in entries)
        case ListVariable(items=items) | TupleVariable(items=items) | DictViewVariable(items=items):
            return any(is_same_or_equal(tx, realize(i), item) for i in items)
        case ConstantVariable(value=constant):
            return attempt(tx, "in", lambda: tx.constant(item, "in") in constant)
        case UserDefinedObjectVariable():
            method = special_method(tx, container, "__contains__")
            if method is not None:
                return truth(tx, call_function(tx, method, [item], {}))
    tx.unsupported("GB0001", f"in {describe(container)}")


def is_same_or_equal(tx: Tx, left: Variable, right: Variable) -> bool:
    return left is right or truth(tx, compare(tx, "==", left, right))


def subscript(tx: Tx, container: Variable, key: Variable) -> Variable:
    """`container[key]`."""
    match container:
        case ListVariable(items=items) | TupleVariable(items=items):
            index = tx.constant(key, "an index")
            found = attempt(tx, "an index", lambda: items[index])
            return type(container)(found) if isinstance(index, slice) else found
        case ConstDictVariable(items=entries):
            name = tx.constant(key, "a dict's key")
            return attempt(tx, "a dict's lookup", lambda: entries[name])
        case ConstantVariable(value=constant):
            return attempt(tx, "an index", lambda: from_constant(constant[tx.constant(key, "an index")]))
    method = special_method(tx, container, "__getitem__")
    if method is None:
        tx.unsupported("GB0001", f"an item of {describe(container)}")
    return call_function(tx, method, [key], {})


def store_subscript(tx: Tx, container: Variable, key: Variable, value: Variable) -> None:
    """`container[key] = value`, on a container made inside or through an operator of the tensor."""
    match container:
        case ListVariable(items=items) if not isinstance(key, SliceVariable):
            must_be_local(tx, container, "an assignment to an item")
            attempt(tx, "an assignment", lambda: items.__setitem__(tx.constant(key, "an index"), value))
        case ConstDictVariable(items=entries):
            must_be_local(tx, container, "an assignment to an item")
            entries[tx.constant(key, "a dict's key")] = value
        case TensorVariable():
            method = special_method(tx, container, "__setitem__")
            assert method is not None
            call_function(tx, method, [key, value], {})
        case _:
            tx.unsupported("GB0006", f"an assignment to an item of {describe(container)}")


CONVERSIONS: tuple[Callable[[Any], Any] | None, ...] = (None, str, repr, ascii)


def format_value(tx: Tx, value: Variable, conversion: Callable[[Any], Any] | None, spec: str) -> Variable:
    """One {...} of an f-string."""
    constant = tx.constant(value, "an f-string")
    convert = conversion or (lambda v: v)
    return attempt(tx, "an f-string", lambda: ConstantVariable(format(convert(constant), spec)))
