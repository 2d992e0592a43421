"""Membership, subscripts and formatting of abstract values, as Python defines them.

Input: abstract values. What is known at capture is decided now; a branch on a tensor's data is a break.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

from stage0_eager.triton.kernels import is_triton_kernel
from stage1_capture.state.graph_builder import is_users
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import MISSING, class_lookup
from stage1_capture.variables.arithmetic import equal, truth
from stage1_capture.variables.attributes import special_method
from stage1_capture.variables.base import IteratorVariable, Variable, describe, from_constant, realize
from stage1_capture.variables.calls import attempt, call_function, iterate, must_be_local, walked
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.function import TritonLaunchVariable
from stage1_capture.variables.keys import hashable
from stage1_capture.variables.mapping import ConstDictVariable, DefaultDictVariable, DictViewVariable
from stage1_capture.variables.ndarray import NumpyNdarrayVariable
from stage1_capture.variables.sequence import DequeVariable, ListVariable, SliceVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.shown import in_text, stand_in
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


def contains(tx: Tx, item: Variable, container: Variable) -> bool:
    """`item in container`."""
    match container:
        case ConstDictVariable(items=entries):
            return hashable(tx, item) in entries
        case SetVariable(items=elements):
            return hashable(tx, item) in elements
        case DictViewVariable(mapping=mapping, name="keys"):
            return hashable(tx, item) in mapping.items
        case ListVariable(items=items) | TupleVariable(items=items) | DictViewVariable(items=items):
            return any(is_same_or_equal(tx, realize(i), item) for i in items)
        case ConstantVariable(value=constant):
            return attempt(tx, "in", lambda: tx.constant(item, "in") in constant, exact=True)
        case UserDefinedObjectVariable():
            method = special_method(tx, container, "__contains__")
            if method is not None:
                return truth(tx, call_function(tx, method, [item], {}))
            return any(equal(tx, found, item) for found in walked(tx, container))
        case IteratorVariable():
            return any(equal(tx, found, item) for found in walked(tx, container))
    tx.unsupported("GB0040", f"in {describe(container)}")


def is_same_or_equal(tx: Tx, left: Variable, right: Variable) -> bool:
    return equal(tx, left, right)


def subscript(tx: Tx, container: Variable, key: Variable) -> Variable:
    """`container[key]`."""
    match container:
        case ListVariable(items=items) | TupleVariable(items=items):
            index = tx.constant(key, "an index")
            kind = "list" if isinstance(container, ListVariable) else "tuple"
            if isinstance(container, DequeVariable):
                kind = "deque"
                if not isinstance(index, int):
                    tx.throw(TypeError, f"sequence index must be integer, not {type(index).__name__!r}")
            if not isinstance(index, (int, slice)):
                words = f"{kind} indices must be integers or slices, not {type(index).__name__}"
                tx.throw(TypeError, words)
            if not isinstance(index, slice) and not -len(items) <= index < len(items):
                tx.throw(IndexError, f"{kind} index out of range")
            found: Any = items[index]
            if not isinstance(index, slice):
                return found
            return ListVariable(found) if isinstance(container, ListVariable) else TupleVariable(found)
        case ConstDictVariable(items=entries):
            return look_up(tx, container, entries, hashable(tx, key))
        case ConstantVariable(value=constant):
            index = tx.constant(key, "an index")
            return attempt(tx, "an index", lambda: from_constant(constant[index]), exact=True)
        case UserDefinedObjectVariable(real=real) if is_triton_kernel(real):
            return TritonLaunchVariable(real, key)
    if isinstance(container, UserDefinedObjectVariable) and _takes_types(container.real):
        return _parametrised(tx, container, key)
    method = special_method(tx, container, "__getitem__")
    if method is None:
        tx.unsupported("GB0040", f"an item of {describe(container)}")
    return call_function(tx, method, [key], {})


_FORMS = (type(typing.Optional), type(typing.List), types.GenericAlias, type(typing.List[int]))  # noqa: UP006


def _takes_types(real: Any) -> bool:
    """list, a generic class, typing.Optional: what is in brackets says types."""
    generic = isinstance(real, type) and class_lookup(type(real), "__getitem__") is MISSING
    own = class_lookup(real, "__class_getitem__") if generic else MISSING
    own = getattr(own, "__func__", own)
    return isinstance(real, _FORMS) or (generic and own is not MISSING and not is_users(_globals_of(own)))


def _globals_of(function: Any) -> dict[str, Any]:
    return getattr(function, "__globals__", {"__name__": "builtins"})


def _parametrised(tx: Tx, generic: UserDefinedObjectVariable, key: Variable) -> Variable:
    keys = [realize(k) for k in key.items] if isinstance(key, TupleVariable) else [key]
    words = [k.real if isinstance(k, UserDefinedObjectVariable) else tx.constant(k, "a type") for k in keys]
    made = generic.real[tuple(words) if isinstance(key, TupleVariable) else words[0]]
    return UserDefinedObjectVariable(made)


def look_up(tx: Tx, container: Variable, entries: dict[Any, Variable], key: Any) -> Variable:
    """d[key]; a defaultdict makes what is missing."""
    if key in entries:
        return realize(entries[key])
    if isinstance(container, DefaultDictVariable) and container.factory is not None:
        must_be_local(tx, container, "a lookup")
        entries[key] = call_function(tx, realize(container.factory), [], {})
        return entries[key]
    tx.throw(KeyError, key)


def delete_subscript(tx: Tx, container: Variable, key: Variable) -> None:
    """`del container[key]`."""
    match container:
        case ListVariable(items=items):
            must_be_local(tx, container, "a del of an item")
            index = tx.constant(key, "an index")
            if not isinstance(index, slice) and not -len(items) <= index < len(items):
                tx.throw(IndexError, "list assignment index out of range")
            del items[index]
        case ConstDictVariable(items=entries):
            name = hashable(tx, key)
            if name not in entries:
                tx.throw(KeyError, name)
            must_be_local(tx, container, "a del of an item")
            del entries[name]
        case UserDefinedObjectVariable() if (
            method := special_method(tx, container, "__delitem__")
        ) is not None:
            call_function(tx, method, [key], {})
        case _:
            tx.unsupported("GB0006", f"a del of an item of {describe(container)}")


def store_subscript(tx: Tx, container: Variable, key: Variable, value: Variable) -> None:
    """`container[key] = value`, on a container made inside or through an operator of the tensor."""
    match container:
        case ListVariable(items=items) if not isinstance(key, SliceVariable):
            must_be_local(tx, container, "an assignment to an item")
            index = tx.constant(key, "an index")
            if not isinstance(index, int):
                words = f"list indices must be integers or slices, not {type(index).__name__}"
                tx.throw(TypeError, words)
            if not -len(items) <= index < len(items):
                tx.throw(IndexError, "list assignment index out of range")
            items[index] = value
        case ListVariable(items=items):
            must_be_local(tx, container, "an assignment to a slice")
            new, place = iterate(tx, value), tx.constant(key, "a slice")
            attempt(tx, "an assignment", lambda: items.__setitem__(place, new))
        case ConstDictVariable(items=entries):
            must_be_local(tx, container, "an assignment to an item")
            entries[hashable(tx, key)] = value
        case TensorVariable() | NumpyNdarrayVariable() | UserDefinedObjectVariable() if (
            method := special_method(tx, container, "__setitem__")
        ) is not None:
            call_function(tx, method, [key, value], {})
        case _:
            tx.unsupported("GB0006", f"an assignment to an item of {describe(container)}")


CONVERSIONS: tuple[Callable[[Any], Any] | None, ...] = (None, str, repr, ascii)


def format_value(tx: Tx, value: Variable, conversion: Callable[[Any], Any] | None, spec: str) -> Variable:
    """One {...} of an f-string."""
    convert = conversion or (lambda v: v)
    return in_text(tx, "an f-string", lambda: format(convert(stand_in(tx, value)), spec))
