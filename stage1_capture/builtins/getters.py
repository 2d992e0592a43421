"""operator.itemgetter, attrgetter and methodcaller, functools' caches and dispatch: C objects that call back.

Input: abstract arguments. A getter of constants is the object itself, which is then followed as the lookups it does.
A cached function's result comes from its cache, which the guards ask again, once it is known to do nothing else.
"""

from __future__ import annotations

import functools
import operator
import types
from typing import Any

from stage1_capture.state.graph_builder import is_library
from stage1_capture.state.machine import BUILTINS, CALLED_BY_CLASS, CALLED_BY_CODE, Args, Kwargs, Tx, builtin
from stage1_capture.state.polyfills import cached_property_get
from stage1_capture.variables.base import Variable, from_constant, load_attribute
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.constant import CONSTANT_TYPES
from stage1_capture.variables.function import UserFunctionVariable, function_variable
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import class_lookup
from stage_contracts.controls import register
from stage_contracts.source import CallSource, RegisteredSource, Source


def _getter(kind: Any, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    values = [tx.constant(a, kind.__name__) for a in args]
    options = {k: tx.constant(v, kind.__name__) for k, v in kwargs.items()}
    return UserDefinedObjectVariable(kind(*values, **options))


for _kind in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    BUILTINS[_kind] = functools.partial(_getter, _kind)


def _one_or_row(found: list[Variable]) -> Variable:
    return found[0] if len(found) == 1 else TupleVariable(found)


def _call_itemgetter(tx: Tx, getter: Any, args: Args, kwargs: Kwargs) -> Variable:
    (value,) = args
    return _one_or_row([value.subscript(tx, from_constant(key)) for key in getter.real.__reduce__()[1]])


def _call_attrgetter(tx: Tx, getter: Any, args: Args, kwargs: Kwargs) -> Variable:
    def get(value: Variable, path: str) -> Variable:
        for name in path.split("."):
            value = load_attribute(tx, value, name)
        return value

    return _one_or_row([get(args[0], path) for path in getter.real.__reduce__()[1]])


def _call_methodcaller(tx: Tx, caller: Any, args: Args, kwargs: Kwargs) -> Variable:
    made, given = caller.real.__reduce__()
    with_keywords = isinstance(made, functools.partial)  # of methodcaller, with the name and the keywords
    options = made.keywords if with_keywords else {}
    name, *words = (*made.args, *given) if with_keywords else given
    method = load_attribute(tx, args[0], name)
    return tx.call(
        method, [from_constant(w) for w in words], {k: from_constant(v) for k, v in options.items()}
    )


CALLED_BY_CLASS[operator.itemgetter] = _call_itemgetter
CALLED_BY_CLASS[operator.attrgetter] = _call_attrgetter
CALLED_BY_CLASS[operator.methodcaller] = _call_methodcaller


def _call_cached(tx: Tx, cached: Any, args: Args, kwargs: Kwargs) -> Variable:
    """functools.lru_cache and cache. The wrapped function is followed first, to see that it only computes.

    Then the cache is asked, now and by a guard at each call: what it gives is what eager gets, also where the function
    would give something else by now.
    """
    real = cached.real
    wrapped = real.__wrapped__
    words = [_word(tx, a, real) for a in args]
    options = {k: _word(tx, v, real) for k, v in kwargs.items()}
    known = _is_librarys(real)
    if not known:
        _only_computes(
            tx, function_variable(tx.output, wrapped, RegisteredSource(register(wrapped))), args, kwargs
        )
    source = CallSource(
        cached.source or RegisteredSource(register(real)),
        tuple(w for w, _ in words),
        tuple((k, w) for k, (w, _) in options.items()),
    )
    value = real(*[v for _, v in words], **{k: v for k, (_, v) in options.items()})
    return wrap(tx.output, value, None if known else source)


def _is_librarys(cached: Any) -> bool:
    return isinstance(cached.__wrapped__, types.FunctionType) and is_library(cached.__wrapped__.__globals__)


def _word(tx: Tx, value: Variable, cached: Any) -> tuple[Any, Any]:
    """An argument as guards write it, and as it is."""
    real = getattr(value, "real", None)
    if real is not None and value.source is not None and not getattr(value, "attrs", None):
        if class_lookup(type(real), "__hash__") is not object.__hash__ and not isinstance(real, type):
            tx.unsupported("GB0059", f"{cached.__name__}, which caches, of {value.describe()}")
        return value.source, real
    constant = tx.constant(value, f"{cached.__name__}, which caches,")
    if not _is_plain(constant) and not _is_librarys(cached):
        tx.unsupported("GB0059", f"{cached.__name__}, which caches, of {value.describe()}")
    return constant, constant


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in CONSTANT_TYPES


def _only_computes(tx: Tx, function: Variable, args: Args, kwargs: Kwargs) -> None:
    """Follow a call for what it does besides its result; it is undone again."""
    output = tx.output
    before = (dict(output.effects.changed), dict(output.effects.globals), len(output.graph.nodes))
    draws = len(output.draws)
    depth = len(output.frames)
    tx.call(function, args, kwargs)
    del output.frames[depth:]
    changed = (dict(output.effects.changed), dict(output.effects.globals)) != before[:2]
    new = list(output.graph.nodes)[before[2] :]
    random = any(getattr(node.target, "is_random", False) or "rand" in node.name for node in new)
    if changed or random or output.mutated or len(output.draws) > draws:
        tx.unsupported("GB0059", f"{function.describe()}, which caches and does more than compute")
    for node in reversed(new):
        if node.op != "placeholder":
            output.graph.erase_node(node)


CALLED_BY_CLASS[functools._lru_cache_wrapper] = _call_cached


def _dispatched(tx: Tx, function: UserFunctionVariable, args: Args, kwargs: Kwargs) -> Variable:
    """singledispatch's `dispatch(cls)`: asked now, and by a guard at each call, for functions may be registered."""
    (cls,) = args
    place: Source = RegisteredSource(register(function.real))
    found = function.real(cls.real)
    return wrap(tx.output, found, CallSource(place, (RegisteredSource(register(cls.real)),)))


CALLED_BY_CODE[functools.singledispatch(len).dispatch.__code__] = _dispatched


@builtin(functools.cached_property.__get__)
def _cached_property(tx: Tx, *args: Variable) -> Variable:
    """Without its lock, which 3.11 takes: nothing else runs meanwhile."""
    follow: Any = cached_property_get
    return tx.call(function_variable(tx.output, follow, None), list(args), {})
