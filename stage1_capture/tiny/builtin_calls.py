"""Builtin functions and the methods of builtin containers, on abstract values: two tables that calls.py reads.

Input: abstract arguments. Pure functions of constants are folded by Python itself; the others here work on the
structure (len, zip, isinstance, list.append) and touch no data.
"""

from __future__ import annotations

import abc
import math
import types
from typing import Any

from stage0_eager import is_grad_enabled
from stage0_eager.tensor import Tensor
from stage1_capture.tiny.attributes import lookup, special_method
from stage1_capture.tiny.calls import (
    BUILTINS,
    FOLDED,
    METHODS,
    Args,
    Builtin,
    Kwargs,
    attempt,
    call_function,
    fold,
    iterate,
    make_iterator,
)
from stage1_capture.tiny.python_ops import binary, must_be_local, truth
from stage1_capture.tiny.symbolic_convert import InstructionTranslator
from stage1_capture.tiny.variables import (
    NONE,
    CellVariable,
    ConstantVariable,
    ConstDictVariable,
    DictViewVariable,
    IteratorVariable,
    ListVariable,
    SliceVariable,
    SuperVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    describe,
    from_constant,
    realize,
)
from stage_contracts.device import device_of
from stage_contracts.dtype import dtype_of

Tx = InstructionTranslator

FOLDED.update({abs, ascii, chr, divmod, hex, max, min, oct, ord, pow, range, repr, round, sorted, str})
FOLDED.update({int, float, bytes, device_of, dtype_of})
FOLDED.update(f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType))

_PYTHON_TYPES: dict[type, type] = {
    ListVariable: list,
    TupleVariable: tuple,
    SliceVariable: slice,
    UserFunctionVariable: types.FunctionType,
    UserMethodVariable: types.MethodType,
}


def builtin(*functions: Any) -> Any:
    """Decorator: enter a handler of (tx, *args, **kwargs) for builtins; a call that does not fit is a break."""

    def enter(handler: Any) -> Any:
        def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
            try:
                return handler(tx, *args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # not the call itself: an error of our own
                tx.unsupported("GB0002", f"a call of {functions[0].__name__}: {error}")

        BUILTINS.update(dict.fromkeys(functions, call))
        return handler

    return enter


# ---- size, truth, sums -----------------------------------------------------------------------------------------


@builtin(len)
def len_(tx: Tx, value: Variable) -> Variable:
    match value:
        case ListVariable(items=items) | TupleVariable(items=items) | DictViewVariable(items=items):
            return ConstantVariable(len(items))
        case ConstDictVariable(items=entries):
            return ConstantVariable(len(entries))
    method = special_method(tx, value, "__len__")
    return call_function(tx, method, [], {}) if method else fold(tx, len, [value], {})


@builtin(bool)
def bool_(tx: Tx, value: Variable = ConstantVariable(False)) -> Variable:
    return ConstantVariable(truth(tx, value))


@builtin(any)
def any_(tx: Tx, values: Variable) -> Variable:
    return ConstantVariable(any(truth(tx, v) for v in iterate(tx, values)))


@builtin(all)
def all_(tx: Tx, values: Variable) -> Variable:
    return ConstantVariable(all(truth(tx, v) for v in iterate(tx, values)))


@builtin(sum)
def sum_(tx: Tx, values: Variable, start: Variable = ConstantVariable(0)) -> Variable:
    for value in iterate(tx, values):
        start = binary(tx, "+", start, value)
    return start


# ---- containers and iterators ----------------------------------------------------------------------------------


@builtin(list)
def list_(tx: Tx, values: Variable = TupleVariable([])) -> Variable:  # noqa: B008
    return ListVariable(iterate(tx, values))


@builtin(tuple)
def tuple_(tx: Tx, values: Variable = TupleVariable([])) -> Variable:  # noqa: B008
    return values if isinstance(values, TupleVariable) else TupleVariable(iterate(tx, values))


@builtin(dict)
def dict_(tx: Tx, values: Variable | None = None, /, **more: Variable) -> Variable:
    entries: dict[Any, Variable] = {}
    if isinstance(values, ConstDictVariable):
        entries.update(values.items)
    elif values is not None:
        for pair in iterate(tx, values):
            key, value = iterate(tx, pair)
            entries[tx.constant(key, "a dict's key")] = value
    return ConstDictVariable({**entries, **more})


@builtin(slice)
def slice_(tx: Tx, *bounds: Variable) -> Variable:
    start, stop, step = {1: (NONE, *bounds, NONE), 2: (*bounds, NONE), 3: bounds}[len(bounds)]
    return SliceVariable([start, stop, step])


@builtin(iter)
def iter_(tx: Tx, values: Variable) -> Variable:
    return make_iterator(tx, values)


@builtin(next)
def next_(tx: Tx, iterator: Variable, *default: Variable) -> Variable:
    if not isinstance(iterator, IteratorVariable):
        tx.unsupported("GB0002", f"next of {describe(iterator)}")
    found = next(iterator.iterator, default[0] if default else None)
    if found is None:
        tx.unsupported("GB0002", "next of an iterator that is used up")
    return realize(found)


@builtin(enumerate)
def enumerate_(tx: Tx, values: Variable, start: Variable = ConstantVariable(0)) -> Variable:
    first = tx.constant(start, "enumerate")
    pairs = enumerate(make_iterator(tx, values).iterator, first)
    return IteratorVariable(TupleVariable([ConstantVariable(i), v]) for i, v in pairs)


@builtin(zip)
def zip_(tx: Tx, *several: Variable, strict: Variable = ConstantVariable(False)) -> Variable:
    if truth(tx, strict):
        return IteratorVariable(
            TupleVariable(list(row))
            for row in attempt(tx, "zip", lambda: list(zip(*[iterate(tx, v) for v in several], strict=True)))
        )
    return IteratorVariable(TupleVariable(list(r)) for r in zip(*[make_iterator(tx, v).iterator for v in several]))


@builtin(reversed)
def reversed_(tx: Tx, values: Variable) -> Variable:
    return IteratorVariable(iter(iterate(tx, values)[::-1]))


@builtin(map)
def map_(tx: Tx, function: Variable, *several: Variable) -> Variable:
    rows = zip(*[make_iterator(tx, v).iterator for v in several])
    return IteratorVariable(call_function(tx, function, [realize(v) for v in row], {}) for row in rows)


# ---- what a value is -------------------------------------------------------------------------------------------


def python_type(tx: Tx, value: Variable) -> type:
    """The class of the object that the value stands for."""
    match value:
        case ConstantVariable(value=constant):
            return type(constant)
        case TensorVariable(real=real) if real is not None:
            tx.output.guard("TYPE", value.source, type(real))
            return type(real)
        case TensorVariable():
            return Tensor
        case ConstDictVariable(kind=kind):
            return kind
        case UserDefinedObjectVariable(real=real):
            return type(real)
    if type(value) not in _PYTHON_TYPES:
        tx.unsupported("GB0001", f"the class of {describe(value)}")
    return _PYTHON_TYPES[type(value)]


@builtin(type)
def type_(tx: Tx, value: Variable) -> Variable:
    return UserDefinedObjectVariable(python_type(tx, value))


@builtin(isinstance)
def isinstance_(tx: Tx, value: Variable, classes: Variable) -> Variable:
    return ConstantVariable(issubclass(python_type(tx, value), _classes(tx, classes)))


@builtin(issubclass)
def issubclass_(tx: Tx, cls: Variable, classes: Variable) -> Variable:
    return ConstantVariable(issubclass(_classes(tx, cls)[0], _classes(tx, classes)))


def _classes(tx: Tx, value: Variable) -> tuple[type, ...]:
    """A class or a tuple of classes, none of which answers isinstance with code of its own."""
    if isinstance(value, TupleVariable):
        return tuple(cls for item in value.items for cls in _classes(tx, realize(item)))
    real = value.real if isinstance(value, UserDefinedObjectVariable) else None
    if type(real) not in (type, abc.ABCMeta):
        tx.unsupported("GB0001", f"isinstance of {describe(value)}")
    return (real,)


@builtin(callable)
def callable_(tx: Tx, value: Variable) -> Variable:
    known = isinstance(value, (UserFunctionVariable, UserMethodVariable))
    return ConstantVariable(known or hasattr(python_type(tx, value), "__call__"))


@builtin(getattr)
def getattr_(tx: Tx, value: Variable, name: Variable, *default: Variable) -> Variable:
    found = lookup(tx, value, tx.constant(name, "getattr"))
    if found is None and not default:
        tx.unsupported("GB0001", f"{describe(value)} has no attribute {tx.constant(name, 'getattr')!r}")
    return found or default[0]


@builtin(hasattr)
def hasattr_(tx: Tx, value: Variable, name: Variable) -> Variable:
    return ConstantVariable(lookup(tx, value, tx.constant(name, "hasattr")) is not None)


@builtin(super)
def super_(tx: Tx, *explicit: Variable) -> Variable:
    """super() finds the class in the frame's cell and self in its first argument."""
    if not explicit:
        first = tx.function.code.co_varnames[0]
        cell = tx.locals[first]
        receiver = cell.contents if isinstance(cell, CellVariable) else cell
        assert receiver is not None
        explicit = (realize(tx.load_cell("__class__")), realize(receiver))
    owner, receiver = explicit
    if not isinstance(owner, UserDefinedObjectVariable) or not isinstance(receiver, UserDefinedObjectVariable):
        tx.unsupported("GB0001", "super() outside a method of a plain object")
    return SuperVariable(owner.real, receiver)


def _grad_mode(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    return ConstantVariable(is_grad_enabled())  # the GRAD_MODE guard is always there


BUILTINS[is_grad_enabled] = _grad_mode

# ---- methods of containers -------------------------------------------------------------------------------------


def _on_items(name: str, *, changes: bool) -> Builtin:
    """A method that Python's own list or dict has, applied to the items."""

    def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        receiver, *rest = args
        assert isinstance(receiver, (ListVariable, ConstDictVariable))
        if changes:
            must_be_local(tx, receiver, f"the method {name}")
        keyed = isinstance(receiver, ConstDictVariable) or name in ("pop", "insert")
        words: list[Any] = [tx.constant(w, name) if keyed and i == 0 else w for i, w in enumerate(rest)]
        found = attempt(tx, name, lambda: getattr(receiver.items, name)(*words, **kwargs))
        return NONE if found is None else found if isinstance(found, Variable) else type(receiver)(found)

    return call


def _extend(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    must_be_local(tx, args[0], "the method extend")
    args[0].items.extend(iterate(tx, args[1]))  # type: ignore[attr-defined]
    return NONE


def _update(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    must_be_local(tx, args[0], "the method update")
    args[0].items.update({**dict_(tx, *args[1:]).items, **kwargs})  # type: ignore[attr-defined]
    return NONE


def _view(kind: str) -> Builtin:
    def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        entries: dict[Any, Variable] = args[0].items  # type: ignore[attr-defined]
        pairs = [(from_constant(k), v) for k, v in entries.items()]
        match kind:
            case "keys":
                return DictViewVariable([k for k, _ in pairs])
            case "values":
                return DictViewVariable([v for _, v in pairs])
        return DictViewVariable([TupleVariable(list(pair)) for pair in pairs])

    return call


METHODS.update({(ListVariable, n): _on_items(n, changes=True) for n in ("append", "insert", "pop", "reverse", "clear")})
METHODS.update({(ConstDictVariable, n): _on_items(n, changes=True) for n in ("pop", "setdefault", "clear")})
METHODS.update({(kind, "copy"): _on_items("copy", changes=False) for kind in (ListVariable, ConstDictVariable)})
METHODS.update({(ConstDictVariable, n): _view(n) for n in ("keys", "values", "items")})
METHODS[ConstDictVariable, "get"] = _on_items("get", changes=False)
METHODS[ListVariable, "extend"] = _extend
METHODS[ConstDictVariable, "update"] = _update
METHODS[IteratorVariable, "__next__"] = lambda tx, args, kwargs: next_(tx, *args)
