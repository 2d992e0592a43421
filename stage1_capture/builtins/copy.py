"""copy.copy and copy.deepcopy on abstract values: containers, tensors made in the graph, plain objects, modules.

Input: abstract arguments. An object is copied attribute by attribute, as Python does without a method of its class that
says otherwise.
"""

from __future__ import annotations

import copy
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from stage0_eager import TABLE
from stage0_eager.nn import Module
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import Variable, load_attribute, lookup_quietly, realize
from stage1_capture.variables.binding import guard_class
from stage1_capture.variables.builder import class_variable, watching
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.derived import blank
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.ndarray import NumpyNdarrayVariable
from stage1_capture.variables.object_dict import dict_of
from stage1_capture.variables.operators import call_operator
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import MISSING, class_lookup, has_dict


@builtin(copy.copy)
def copy_(tx: Tx, value: Variable) -> Variable:
    if value.is_immutable() or _rule(value) is _itself:
        return value
    if value.family() is not None or value.is_array():
        copied = value.call_method(tx, "copy", [], {})
        if getattr(value, "kind", None) is OrderedDict:  # whose own method leaves out what is stored on it
            copied.attrs.update(value.all_stored(tx))
        return copied
    if value.known_object() is not None:
        return _object(tx, value, "__copy__", lambda v: v)  # type: ignore[arg-type]
    tx.unsupported("GB0028", f"copy of {value.describe()}")


@builtin(copy.deepcopy)
def deepcopy_(tx: Tx, value: Variable, memo: Variable | None = None) -> Variable:
    if memo is not None:
        tx.unsupported("GB0028", "deepcopy with a memo")
    return _deep(tx, value, {})


def _rule(value: Variable) -> Any:
    return next((DEEP[c] for c in type(value).__mro__ if c in DEEP), None)


def _deep(tx: Tx, value: Variable, made: dict[int, Variable]) -> Variable:
    value = realize(value)
    if id(value) in made:
        return made[id(value)]
    rule = _rule(value)
    if rule is None:
        tx.unsupported("GB0028", f"deepcopy of {value.describe()}")
    return rule(tx, value, made, lambda v: _deep(tx, v, made))


def _itself(tx: Tx, value: Any, made: Made, again: Again) -> Variable:
    return value


def _tensor(tx: Tx, value: Any, made: Made, again: Again) -> Variable:
    if value.meta.requires_grad or value.real is not None:
        tx.unsupported("GB0028", f"deepcopy of {value.describe()}")
    made[id(value)] = call_operator(tx, TABLE["cutaway.clone"], [value], {})
    return made[id(value)]


def _array(tx: Tx, value: Any, made: Made, again: Again) -> Variable:
    made[id(value)] = value.call_method(tx, "copy", [], {})
    return made[id(value)]


def _list(tx: Tx, value: Any, made: Made, again: Again) -> Variable:
    new: Any = value.like([])
    made[id(value)] = new
    new.items += map(again, value.items)
    return new


def _dict(tx: Tx, value: Any, made: Made, again: Again) -> Variable:
    new = made[id(value)] = value.like({})
    new.items.update({key: again(v) for key, v in value.items.items()})
    new.attrs.update({name: again(v) for name, v in value.all_stored(tx).items()})
    return new


def _any_object(tx: Tx, value: Any, made: Made, again: Again) -> Variable:
    plain = isinstance(value.real, (type, types.BuiltinFunctionType))
    return value if plain else _object(tx, value, "__deepcopy__", again, made)


Made = dict[int, Variable]
Again = Callable[[Variable], Variable]
DEEP: dict[type, Callable[[Tx, Any, Made, Again], Variable]] = {
    ConstantVariable: _itself,
    UserFunctionVariable: _itself,
    TensorVariable: _tensor,
    NumpyNdarrayVariable: _array,
    SetVariable: lambda tx, value, made, again: SetVariable(set(value.items), value.kind),
    ListVariable: _list,
    TupleVariable: lambda tx, value, made, again: value.mapped(again),
    ConstDictVariable: _dict,
    UserDefinedObjectVariable: _any_object,
}


def _object(
    tx: Tx, value: UserDefinedObjectVariable, name: str, inside: Any, made: dict | None = None
) -> Variable:
    """A new object of the same class, its attributes copied by `inside`."""
    cls = type(value.real)
    if value.base is not None:  # C copies it, and keeps its class
        tx.unsupported("GB0028", f"{name.strip('_')} of {value.describe()}")
    if value.special_method(tx, name) is not None and name == "__copy__":
        return tx.call(load_attribute(tx, value, name), [], {})
    entries = _copied_attributes(tx, value, name)
    new = UserDefinedObjectVariable(
        blank(cls), fresh=True, class_source=class_variable(tx, value, cls).source
    )
    if made is not None:
        made[id(value)] = new
    for key, attribute in list(entries.items()):
        new.attrs[key] = inside(attribute)
    return new


def _copied_attributes(tx: Tx, value: UserDefinedObjectVariable, name: str) -> Any:
    """The attributes of an object that is copied one by one. Breaks where its class has a say in that."""
    cls = type(value.real)
    if watching(cls) is not None and not _sees_nothing(tx, value, name):
        tx.unsupported("GB0028", f"{name.strip('_')} of {value.describe()}, which has a __getattribute__")
    theirs = (MISSING, watching(cls) or MISSING)
    if not all(class_lookup(cls, n) in (getattr(object, n, MISSING), *theirs, *more) for n, *more in _ASKED):
        tx.unsupported("GB0028", f"{name.strip('_')} of {value.describe()}")
    special = isinstance(value.real, types.ModuleType) or hasattr(cls, "__slots__")
    entries = {} if special or not has_dict(value.real) else dict_of(tx.output, value).items
    if special or not has_dict(value.real) or any(n in entries for n in _ON_THE_OBJECT):
        tx.unsupported("GB0028", f"{name.strip('_')} of {value.describe()}")
    for asked, *_ in _ASKED:
        if class_lookup(cls, asked) in (MISSING, Module.__getattr__):  # the class may get one later
            guard_class(tx.output, value, asked)
    return entries


def _sees_nothing(tx: Tx, value: UserDefinedObjectVariable, name: str) -> bool:
    """Ask a class's own `__getattribute__` what copying asks it of an object, of which it is to make nothing else."""
    if name != "__deepcopy__":
        return False
    absent = [lookup_quietly(tx, value, n) for n in ("__deepcopy__", "__getnewargs_ex__", "__getnewargs__")]
    return absent == [None, None, None] and lookup_quietly(tx, value, "__dict__") is dict_of(tx.output, value)


# What copying asks of a class, and what else than object's says nothing new. It asks the new object too, so that a
# `__getattr__` would answer; and it calls the class's `__new__`.
_ASKED: tuple[tuple[Any, ...], ...] = (
    ("__reduce_ex__",), ("__reduce__",), ("__getstate__",), ("__setstate__",), ("__deepcopy__",), ("__new__",),
    ("__getnewargs__",), ("__getnewargs_ex__",), ("__getattribute__",), ("__getattr__", Module.__getattr__),
)  # fmt: skip
_ON_THE_OBJECT = ("__deepcopy__", "__setstate__")
