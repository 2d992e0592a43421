"""Builtin functions on abstract values: the table that calls.py looks a builtin up in.

Input: abstract arguments. Pure functions of constants are folded by Python itself; the others here work on
the structure (len, zip, enumerate) and touch no data.
"""

from __future__ import annotations

import functools
import math
import types
from typing import Any

from stage0_eager.type_info import finfo, iinfo
from stage1_capture.capture.arithmetic import binary, compare, truth
from stage1_capture.capture.attributes import load_attribute, special_method
from stage1_capture.capture.calls import (
    BUILTINS,
    FOLDED,
    Args,
    Kwargs,
    call_function,
    fold,
    iterate,
    make_iterator,
    walked,
)
from stage1_capture.capture.derived import unwrapped
from stage1_capture.capture.generators import GeneratorVariable
from stage1_capture.capture.iterators import (
    ConstantIterator,
    EnumerateIterator,
    FilterIterator,
    MapIterator,
    ReversedIterator,
    SequenceIterator,
    ZipIterator,
    is_foreign_iterator,
    step,
)
from stage1_capture.capture.keys import hashable
from stage1_capture.capture.mro import MISSING, class_lookup
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    NONE,
    ConstantVariable,
    ConstDictVariable,
    DictViewVariable,
    ExceptionVariable,
    IteratorVariable,
    ListVariable,
    SetVariable,
    SliceVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    Variable,
    describe,
    realize,
)
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import dtype_of

Tx = InstructionTranslator

# Defaults of the builtins below.
FALSE, ZERO, BLANK, EMPTY = (
    ConstantVariable(False),
    ConstantVariable(0),
    ConstantVariable(""),
    TupleVariable([]),
)

FOLDED.update({abs, ascii, chr, divmod, hex, oct, ord, pow, range, repr, round, format, hash})
FOLDED.update({int, float, complex, bytes, Device, device_of, dtype_of, finfo, iinfo})
FOLDED.update(f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType))


def builtin(*functions: Any) -> Any:
    """Decorator: enter a handler of (tx, *args, **kwargs); a call that does not fit it is a break."""

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


# ---- size, truth, sums ---------------------------------------------------------------------------


@builtin(len)
def len_(tx: Tx, value: Variable) -> Variable:
    match value:
        case ListVariable(items=items) | TupleVariable(items=items) | DictViewVariable(items=items):
            return ConstantVariable(len(items))
        case ConstDictVariable(items=entries) | SetVariable(items=entries):
            return ConstantVariable(len(entries))
    method = special_method(tx, value, "__len__")
    return call_function(tx, method, [], {}) if method else fold(tx, len, [value], {})


@builtin(bool)
def bool_(tx: Tx, value: Variable = FALSE) -> Variable:
    return ConstantVariable(truth(tx, value))


@builtin(any)
def any_(tx: Tx, values: Variable) -> Variable:
    return ConstantVariable(any(truth(tx, v) for v in walked(tx, values)))


@builtin(all)
def all_(tx: Tx, values: Variable) -> Variable:
    return ConstantVariable(all(truth(tx, v) for v in walked(tx, values)))


@builtin(sum)
def sum_(tx: Tx, values: Variable, start: Variable = ZERO) -> Variable:
    for value in walked(tx, values):
        start = binary(tx, "+", start, value)
    return start


# ---- containers and iterators --------------------------------------------------------------------


@builtin(list)
def list_(tx: Tx, values: Variable = EMPTY) -> Variable:
    return ListVariable(iterate(tx, values))


@builtin(tuple)
def tuple_(tx: Tx, values: Variable = EMPTY) -> Variable:
    return values if isinstance(values, TupleVariable) else TupleVariable(iterate(tx, values))


def as_mapping(tx: Tx, value: Variable) -> dict[Any, Variable] | None:
    """The keys and values of a dict, or of what has `keys()`; None for anything else."""
    inside = unwrapped(value)
    if isinstance(inside, ConstDictVariable) and (value is inside or _plain_mapping(type(value.real))):  # type: ignore
        return dict(inside.items)
    if not isinstance(value, UserDefinedObjectVariable) or class_lookup(type(value.real), "keys") is MISSING:
        return None
    keys = iterate(tx, call_function(tx, load_attribute(tx, value, "keys"), [], {}))
    getter = special_method(tx, value, "__getitem__")
    assert getter is not None
    return {hashable(tx, key): call_function(tx, getter, [key], {}) for key in keys}


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
        for pair in iterate(tx, values):
            items = iterate(tx, pair)
            if len(items) != 2:
                tx.unsupported("GB0002", "dict of something that is not pairs")
            entries[hashable(tx, items[0])] = items[1]
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
    if isinstance(iterator, GeneratorVariable) and not default:
        return iterator.send(tx, NONE)
    if is_foreign_iterator(iterator):
        tx.unsupported("GB0010", "next of an iterator from outside")
    if not isinstance(iterator, IteratorVariable) and special_method(tx, iterator, "__next__") is None:
        tx.unsupported("GB0002", f"next of {describe(iterator)}")
    found = step(tx, iterator)
    if found is None:
        return default[0] if default else tx.throw(StopIteration)
    return realize(found)


@builtin(enumerate)
def enumerate_(tx: Tx, iterable: Variable, start: Variable = ZERO) -> Variable:
    return EnumerateIterator(iterator=make_iterator(tx, iterable), count=tx.constant(start, "enumerate"))


@builtin(zip)
def zip_(tx: Tx, *several: Variable, strict: Variable = FALSE) -> Variable:
    return ZipIterator(iterators=[make_iterator(tx, v) for v in several], strict=truth(tx, strict))


@builtin(reversed)
def reversed_(tx: Tx, values: Variable) -> Variable:
    match values:
        case ListVariable(items=items) | TupleVariable(items=items):
            return ReversedIterator(sequence=values, index=len(items) - 1)
        case ConstantVariable(value=range() | str() as constant):
            return ConstantIterator(constant=constant[::-1])
        case ConstDictVariable() | DictViewVariable():
            return SequenceIterator(sequence=ListVariable(iterate(tx, values)[::-1]))
    method = special_method(tx, values, "__reversed__")
    if method is None:
        tx.unsupported("GB0001", f"reversed of {describe(values)}")
    return call_function(tx, method, [], {})


@builtin(map)
def map_(tx: Tx, function: Variable, *several: Variable) -> Variable:
    return MapIterator(function=function, iterators=[make_iterator(tx, v) for v in several])


@builtin(filter)
def filter_(tx: Tx, function: Variable, values: Variable) -> Variable:
    return FilterIterator(function=function, iterator=make_iterator(tx, values))


@builtin(set)
def set_(tx: Tx, values: Variable = EMPTY) -> Variable:
    return SetVariable({hashable(tx, v) for v in iterate(tx, values)})


@builtin(frozenset)
def frozenset_(tx: Tx, values: Variable = EMPTY) -> Variable:
    return SetVariable({hashable(tx, v) for v in iterate(tx, values)}, frozenset)


# ---- order ---------------------------------------------------------------------------------------


def _best(name: str, symbol: str) -> Any:
    def best(tx: Tx, *values: Variable, key: Variable = NONE, default: Variable | None = None) -> Variable:
        items = iterate(tx, values[0]) if len(values) == 1 else list(values)
        if not items:
            return default or tx.throw(ValueError, f"{name}() iterable argument is empty")
        keys = _keys(tx, items, key)
        chosen = 0
        for i in range(1, len(items)):
            if truth(tx, compare(tx, symbol, keys[i], keys[chosen])):
                chosen = i
        return items[chosen]

    return best


max_, min_ = builtin(max)(_best("max", ">")), builtin(min)(_best("min", "<"))


@builtin(sorted)
def sorted_(tx: Tx, values: Variable, *, key: Variable = NONE, reverse: Variable = FALSE) -> ListVariable:
    """A stable sort by abstract comparisons, which are constants or a break."""
    items = iterate(tx, values)
    keys = _keys(tx, items, key)
    less = lambda a, b: truth(tx, compare(tx, "<", keys[a], keys[b]))  # noqa: E731
    order = sorted(range(len(items)), key=functools.cmp_to_key(lambda a, b: less(b, a) - less(a, b)),
                   reverse=truth(tx, reverse))  # fmt: skip
    return ListVariable([items[i] for i in order])


def _keys(tx: Tx, items: list[Variable], key: Variable) -> list[Variable]:
    if isinstance(key, ConstantVariable):
        return items
    return [call_function(tx, key, [item], {}) for item in items]


@builtin(str)
def str_(tx: Tx, value: Variable = BLANK) -> Variable:
    if isinstance(value, ExceptionVariable) and (made := _same_error(tx, value)) is not None:
        return ConstantVariable(str(made))
    if isinstance(value, UserDefinedObjectVariable) and type(value.real) is type:
        return ConstantVariable(str(value.real))
    if isinstance(value, UserDefinedObjectVariable):
        for name in ("__str__", "__repr__"):
            if isinstance(class_lookup(type(value.real), name), types.FunctionType):
                method = special_method(tx, value, name)
                assert method is not None
                return call_function(tx, method, [], {})
    return fold(tx, str, [value], {})


def _same_error(tx: Tx, value: ExceptionVariable) -> BaseException | None:
    """An exception that shows what this one shows, unless its class says it in Python."""
    cls: Any = type(value.real)
    methods = (class_lookup(cls, name) for name in ("__str__", "__repr__"))
    if not value.fresh or any(isinstance(m, types.FunctionType) for m in methods):
        return None
    made = cls.__new__(cls)
    made.args = tuple(tx.constant(a, "an exception's text") for a in value.args)
    return made


@builtin(repr)
def repr_(tx: Tx, value: Variable) -> Variable:
    if isinstance(value, ExceptionVariable) and (made := _same_error(tx, value)) is not None:
        return ConstantVariable(repr(made))
    if isinstance(value, UserDefinedObjectVariable) and isinstance(
        class_lookup(type(value.real), "__repr__"), types.FunctionType
    ):
        method = special_method(tx, value, "__repr__")
        assert method is not None
        return call_function(tx, method, [], {})
    return fold(tx, repr, [value], {})


@builtin(abs)
def abs_(tx: Tx, value: Variable) -> Variable:
    method = special_method(tx, value, "__abs__")
    return call_function(tx, method, [], {}) if method else fold(tx, abs, [value], {})
