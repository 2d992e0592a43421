"""Methods of lists, dicts, sets, deques and iterators, applied to the abstract items; special methods called by name.

Input: the receiver is args[0]. A method that changes a receiver from outside is a side effect. A special method
(`super().__setitem__(k, v)`) is the operation it is the method of.
"""

from __future__ import annotations

import collections
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from stage1_capture.builtins.python import dict_, next_, repr_, sorted_
from stage1_capture.state.machine import METHODS, SPECIAL_METHODS, Args, Kwargs, Tx, attempt, method
from stage1_capture.variables.arithmetic import BINARY, COMPARISONS, DECLINED, binary, compare
from stage1_capture.variables.base import ContainerVariable, Variable, equal, from_constant, iterate, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.exception import ExceptionVariable, as_exception
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.generator import GeneratorVariable
from stage1_capture.variables.hash_keys import hashable
from stage1_capture.variables.iterator import IteratorVariable
from stage1_capture.variables.mapping import ConstDictVariable, DefaultDictVariable, DictViewVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.sequence import (
    DequeVariable,
    ListVariable,
    SequenceVariable,
    SliceVariable,
    TupleVariable,
)
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable

ONE, TRUE = ConstantVariable(1), ConstantVariable(True)


def _number(tx: Tx, value: Variable) -> int:
    return tx.constant(value, "an index")


# ---- lists and deques ----------------------------------------------------------------------------


def _on_items(name: str, numbers: int, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """A method that Python's own list has, applied to the items. Its first `numbers` arguments are indices."""
    receiver, *rest = args
    receiver.will_change(tx, f"the method {name}")
    words: list[Any] = [_number(tx, w) if i < numbers else w for i, w in enumerate(rest)]
    found = attempt(tx, name, lambda: getattr(receiver.items, name)(*words))
    return NONE if found is None else realize(found)


METHODS[ListVariable, "reverse"] = partial(_on_items, "reverse", 0)
METHODS[ContainerVariable, "clear"] = partial(_on_items, "clear", 0)
METHODS.update({(ListVariable, n): partial(_on_items, n, 1) for n in ("insert", "pop")})


method(ContainerVariable, "copy", "__copy__")(lambda tx, receiver: receiver.like(receiver.items.copy()))
method(SequenceVariable, "count")(
    lambda tx, receiver, value: ConstantVariable(sum(equal(tx, realize(i), value) for i in receiver.items))
)


@method(ListVariable, "extend")
def extend_items(tx: Tx, receiver: ListVariable, values: Variable) -> None:
    new = iterate(tx, values)
    receiver.will_change(tx, "the method extend")
    receiver.grow(new)


@method(ListVariable, "append")
def _append(tx: Tx, receiver: ListVariable, value: Variable) -> None:
    receiver.will_change(tx, "the method append")
    receiver.grow([value])


@method(ListVariable, "__init__")
def _fill_list(tx: Tx, receiver: ListVariable, *values: Variable) -> None:
    receiver.will_change(tx, "__init__")
    receiver.items.clear()
    if values:
        extend_items(tx, receiver, values[0])


@method(DequeVariable, "__init__")
def _fill_deque(tx: Tx, receiver: DequeVariable, *args: Variable, **options: Variable) -> None:
    made: Any = tx.call(UserDefinedObjectVariable(collections.deque), list(args), options)
    receiver.items[:], receiver.limit = made.items, made.limit


@method(SequenceVariable, "index")
def _index(tx: Tx, receiver: Any, value: Variable, *bounds: Variable) -> Variable:
    first, last = (*(_number(tx, b) for b in bounds), None, None)[:2]
    begin, end, _ = slice(first, last).indices(len(receiver.items))
    for i in range(begin, end):
        if equal(tx, realize(receiver.items[i]), value):
            return ConstantVariable(i)
    if receiver.family() is tuple:
        tx.throw(ValueError, "tuple.index(x): x not in tuple")
    if not value.is_python_constant():
        tx.unsupported("GB0066", "index of a value that is not in the list")
    _refused(tx, receiver, "index", value)


def _refused(tx: Tx, receiver: ListVariable, name: str, *words: Variable) -> NoReturn:
    """Raise what Python's own empty one raises, in its version's words."""
    empty: Any = collections.deque() if isinstance(receiver, DequeVariable) else []
    values = [tx.constant(word, f"the method {name}") for word in words]
    attempt(tx, name, lambda: getattr(empty, name)(*values), exact=True)
    raise AssertionError(f"{name} of nothing")


@method(ListVariable, "remove")
def _remove(tx: Tx, receiver: ListVariable, value: Variable) -> None:
    for i, item in enumerate(receiver.items):
        if equal(tx, realize(item), value):
            receiver.will_change(tx, "the method remove")
            del receiver.items[i]
            return
    _refused(tx, receiver, "remove", value)


@method(ListVariable, "sort")
def _sort(tx: Tx, receiver: ListVariable, **options: Variable) -> None:
    """While it is sorted a list is empty; what a key or a comparison puts into it is an error, and gone."""
    receiver.will_change(tx, "the method sort")
    result, receiver.items = receiver.items, []
    try:
        result = sorted_(tx, ListVariable(result), **options).items
    finally:
        changed, receiver.items = receiver.items, result
    if changed:
        tx.throw(ValueError, "list modified during sort")


def _deque(name: str, change: Callable[[list, list], Any], tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    receiver, *rest = args
    assert isinstance(receiver, DequeVariable)
    words = iterate(tx, rest[0]) if name.startswith("extend") else rest
    if name.startswith("pop") and not receiver.items:
        tx.throw(IndexError, "pop from an empty deque")
    receiver.will_change(tx, f"the method {name}")
    receiver.moves += bool(words) or name.startswith("pop")
    found = change(receiver.items, words)
    if receiver.limit is not None:
        del receiver.items[receiver.limit :]
    return found if isinstance(found, Variable) else NONE


_OF_DEQUES: dict[str, Callable[[list, list], Any]] = {
    "appendleft": lambda items, words: items.insert(0, words[0]),
    "extendleft": lambda items, words: items.__setitem__(slice(0, 0), words[::-1]),
    "pop": lambda items, words: realize(items.pop()),
    "popleft": lambda items, words: realize(items.pop(0)),
}
METHODS.update({(DequeVariable, name): partial(_deque, name, change) for name, change in _OF_DEQUES.items()})


@method(DequeVariable, "insert")
def _insert(tx: Tx, receiver: DequeVariable, index: Variable, value: Variable) -> None:
    if receiver.limit is not None and len(receiver.items) >= receiver.limit:
        tx.throw(IndexError, "deque already at its maximum size")
    receiver.will_change(tx, "the method insert")
    receiver.items.insert(_number(tx, index), value)


@method(DequeVariable, "rotate")
def _rotate(tx: Tx, receiver: DequeVariable, by: Variable = ONE) -> None:
    receiver.will_change(tx, "the method rotate")
    receiver.moves += len(receiver.items) > 1
    if receiver.items:
        shift = -_number(tx, by) % len(receiver.items)
        receiver.items[:] = receiver.items[shift:] + receiver.items[:shift]


# ---- dicts ---------------------------------------------------------------------------------------


@method(ConstDictVariable, "pop")
def _pop(tx: Tx, receiver: ConstDictVariable, key: Variable, *default: Variable) -> Variable:
    name = hashable(tx, key)
    if name not in receiver.items:
        return default[0] if default else tx.throw(KeyError, name)
    receiver.will_change(tx, "the method pop")
    return realize(receiver.items.pop(name))


@method(ConstDictVariable, "popitem")
def _popitem(tx: Tx, receiver: ConstDictVariable, last: Variable = TRUE) -> Variable:
    if not receiver.items:
        attempt(tx, "popitem", lambda: receiver.kind().popitem(), exact=True)
    receiver.will_change(tx, "the method popitem")
    key = list(receiver.items)[-1 if last.truth(tx) else 0]
    return TupleVariable([from_constant(key), realize(receiver.items.pop(key))])


@method(ConstDictVariable, "setdefault")
def _setdefault(tx: Tx, receiver: ConstDictVariable, key: Variable, default: Variable = NONE) -> Variable:
    name = hashable(tx, key)
    if name not in receiver.items:
        receiver.will_change(tx, "the method setdefault")
        receiver.items[name] = default
    return realize(receiver.items[name])


@method(ConstDictVariable, "update")
def update_entries(
    tx: Tx, receiver: ConstDictVariable, values: Variable | None = None, /, **more: Variable
) -> None:
    new = {**dict_(tx, values).items, **more}
    receiver.will_change(tx, "the method update")
    receiver.items.update(new)


METHODS[ConstDictVariable, "__init__"] = METHODS[ConstDictVariable, "update"]


@method(DefaultDictVariable, "__init__")
def _fill_defaultdict(tx: Tx, receiver: DefaultDictVariable, *args: Variable, **more: Variable) -> None:
    if args:
        receiver.factory = None if args[0].is_python_constant() else args[0]
    update_entries(tx, receiver, *args[1:], **more)


@method(ConstDictVariable, "fromkeys")
def _fromkeys(tx: Tx, receiver: ConstDictVariable, *args: Variable) -> Variable:
    if receiver.kind not in (dict, collections.OrderedDict, collections.defaultdict):
        tx.unsupported("GB0071", f"fromkeys of a {receiver.kind.__name__}")
    return tx.call(UserDefinedObjectVariable(receiver.kind.fromkeys), list(args), {})


@method(ConstDictVariable, "move_to_end")
def _move_to_end(tx: Tx, receiver: ConstDictVariable, key: Variable, last: Variable = TRUE) -> None:
    name = hashable(tx, key)
    if name not in receiver.items:
        tx.throw(KeyError, name)
    receiver.will_change(tx, "the method move_to_end")
    value = receiver.items.pop(name)
    rest = {} if last.truth(tx) else dict(receiver.items)
    if rest:
        receiver.items.clear()
    receiver.items[name] = value
    receiver.items.update(rest)


def _view(name: str, tx: Tx, receiver: ConstDictVariable) -> Variable:
    return DictViewVariable(receiver, name)


for _name in ("keys", "values", "items"):
    method(ConstDictVariable, _name)(partial(_view, _name))
method(ConstDictVariable, "get")(
    lambda tx, receiver, key, default=NONE: realize(receiver.items.get(hashable(tx, key), default))
)


# ---- sets ----------------------------------------------------------------------------------------


def _elements(tx: Tx, value: Variable) -> set[Any]:
    return {hashable(tx, v) for v in iterate(tx, value)}


def _set_method(name: str, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    receiver, *rest = args
    several = [_elements(tx, value) for value in rest]
    if name.endswith("update"):
        receiver.will_change(tx, f"the method {name}")
    found = getattr(receiver.items, name)(*several)
    return SetVariable(found, receiver.kind) if isinstance(found, set) else ConstantVariable(found)


for _name in ("intersection", "difference", "symmetric_difference"):
    METHODS[SetVariable, _name] = partial(_set_method, _name)
    METHODS[SetVariable, f"{_name}_update"] = partial(_set_method, f"{_name}_update")
for _name in ("union", "issubset", "issuperset", "isdisjoint", "update"):
    METHODS[SetVariable, _name] = partial(_set_method, _name)


@method(SetVariable, "__init__")
def _fill_set(tx: Tx, receiver: SetVariable, *values: Variable) -> None:
    receiver.will_change(tx, "__init__")
    elements = _elements(tx, values[0]) if values else set()
    receiver.items.clear()
    receiver.items |= elements


def _on_element(name: str, tx: Tx, receiver: SetVariable, value: Variable) -> None:
    element = hashable(tx, value)
    if name == "remove" and element not in receiver.items:
        tx.throw(KeyError, element)
    receiver.will_change(tx, f"the method {name}")
    getattr(receiver.items, name)(element)


for _name in ("add", "discard", "remove"):
    method(SetVariable, _name)(partial(_on_element, _name))


@method(SetVariable, "pop")
def _pop_element(tx: Tx, receiver: SetVariable) -> Variable:
    if not receiver.items:
        tx.throw(KeyError, "pop from an empty set")
    if receiver.source is not None:
        tx.unsupported("GB0097", "pop from a set from outside")
    return from_constant(receiver.items.pop())


method(DictViewVariable, "isdisjoint")(
    lambda tx, receiver, other: ConstantVariable(_elements(tx, receiver).isdisjoint(_elements(tx, other)))
)


@method(SliceVariable, "indices")
def _indices(tx: Tx, receiver: SliceVariable, length: Variable) -> Variable:
    bounds = tx.constant(receiver, "a slice")
    return attempt(
        tx, "indices", lambda: from_constant(bounds.indices(tx.constant(length, "a length"))), exact=True
    )


@method(UserFunctionVariable, "__get__")
def _bind_function(
    tx: Tx, receiver: UserFunctionVariable, instance: Variable, owner: Variable = NONE
) -> Variable:
    unbound = instance.is_none()
    return receiver if unbound else UserMethodVariable(receiver, instance)


METHODS[IteratorVariable, "__next__"] = lambda tx, args, kwargs: next_(tx, *args)
METHODS[IteratorVariable, "__iter__"] = lambda tx, args, kwargs: args[0]
METHODS[GeneratorVariable, "__next__"] = lambda tx, args, kwargs: args[0].send(tx, NONE)
METHODS[GeneratorVariable, "send"] = lambda tx, args, kwargs: args[0].send(tx, args[1])
METHODS[GeneratorVariable, "close"] = lambda tx, args, kwargs: args[0].close(tx)


@method(GeneratorVariable, "throw")
def _throw(tx: Tx, receiver: GeneratorVariable, kind: Variable, *more: Variable) -> Variable:
    value = more[0] if more and not more[0].is_none() else kind
    words = f"exceptions must be classes or instances deriving from BaseException, not {value.class_name()}"
    return receiver.throw(tx, as_exception(tx, value, words))


@method(ExceptionVariable, "add_note")
def _add_note(tx: Tx, receiver: ExceptionVariable, note: Variable) -> None:
    if note.is_python_constant() and not isinstance(note.value, str):
        tx.throw(TypeError, f"note must be a str, not {type(note.value).__name__!r}")
    tx.output.will_change(receiver)
    notes = receiver.attrs.get("__notes__")
    if notes is None:
        notes = receiver.attrs["__notes__"] = ListVariable([])
    notes.items.append(note)


method(UserFunctionVariable, "__call__")(
    lambda tx, receiver, *args, **kwargs: tx.call(receiver, [*args], kwargs)
)
method(ExceptionVariable, "with_traceback")(lambda tx, receiver, traceback: receiver)
method(TupleVariable, "_asdict")(
    lambda tx, receiver: ConstDictVariable(dict(zip(receiver.kind._fields, receiver.items, strict=True)))
)


@method(TupleVariable, "_replace")
def _replace(tx: Tx, receiver: TupleVariable, **changes: Variable) -> Variable:
    fields = receiver.kind._fields  # type: ignore[attr-defined]
    unknown = [name for name in changes if name not in fields]
    if unknown:
        kind = TypeError if sys.version_info >= (3, 13) else ValueError
        tx.throw(kind, f"Got unexpected field names: {unknown!r}")
    items = [changes.get(name, item) for name, item in zip(fields, receiver.items, strict=True)]
    return TupleVariable(items, receiver.kind, receiver.class_source)


def _compared(symbol: str, tx: Tx, receiver: Variable, other: Variable) -> Variable:
    other = other.unwrapped()
    constants = receiver.is_python_constant() and other.is_python_constant()
    alike = receiver.family() is not None and receiver.family() is other.family()
    return compare(tx, symbol, receiver, other) if constants or alike else DECLINED


def _operated(symbol: str, swapped: bool, tx: Tx, receiver: Variable, other: Variable) -> Variable:
    other = other.unwrapped()
    alike = receiver.family() is not None and receiver.family() is other.family()
    counted = other.is_python_constant() and (symbol.startswith("*") or receiver.is_python_constant())
    walked = symbol == "+=" and receiver.family() in (list, deque)  # which takes whatever can be walked
    if not (alike or counted or walked):
        return DECLINED
    return binary(tx, symbol, other, receiver) if swapped else binary(tx, symbol, receiver, other)


SPECIAL_METHODS.update(
    {
        "__init__": lambda tx, receiver, *args, **kwargs: NONE,
        "__getitem__": lambda tx, receiver, key: receiver.subscript(tx, key),
        "__setitem__": lambda tx, receiver, key, value: receiver.store_subscript(tx, key, value),
        "__delitem__": lambda tx, receiver, key: receiver.delete_subscript(tx, key),
        "__contains__": lambda tx, receiver, item: ConstantVariable(receiver.contains(tx, item)),
        "__len__": lambda tx, receiver: receiver.length(tx),
        "__iter__": lambda tx, receiver: receiver.iterator(tx),
        "__reversed__": lambda tx, receiver: receiver.reversed(tx),
        "__bool__": lambda tx, receiver: ConstantVariable(receiver.truth(tx)),
        "__repr__": repr_,
        "__str__": lambda tx, r: tx.call(UserDefinedObjectVariable(str), [r], {}),
        "__hash__": lambda tx, r: tx.call(UserDefinedObjectVariable(hash), [r], {}),
        "__format__": lambda tx, r, s: tx.call(UserDefinedObjectVariable(format), [r, s], {}),
        **{names[1]: partial(_compared, symbol) for symbol, names in COMPARISONS.items()},
        **{f"__{name}__": partial(_operated, symbol, False) for symbol, (_, name) in BINARY.items()},
        **{f"__r{name}__": partial(_operated, symbol, True) for symbol, (_, name) in BINARY.items()},
        **{f"__i{name}__": partial(_operated, symbol + "=", False) for symbol, (_, name) in BINARY.items()},
    }
)
