"""Values as text: str(), repr(), format(), f-strings and % of anything, by the methods its class has.

Input: abstract values. Each object that is not a constant goes into Python's own formatting as a stand-in, whose
methods follow those of the object; containers and conversions are then Python's.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from stage1_capture.state.machine import METHODS, Args, Kwargs, Tx, attempt
from stage1_capture.variables.base import (
    NotConstant,
    Variable,
    as_constant,
    from_constant,
    iterate,
    load_attribute,
    realize,
)
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.exception import ExceptionVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import class_lookup


class StandIn:
    """An object inside a text: it shows itself as the object does."""

    def __init__(self, tx: Tx, value: Variable) -> None:
        self.tx, self.value = tx, value

    def __str__(self) -> str:
        return _text(self.tx, self.value, ("__str__", "__repr__"))

    def __repr__(self) -> str:
        return _text(self.tx, self.value, ("__repr__",))

    def __format__(self, spec: str) -> str:
        method = _followed(self.tx, self.value, "__format__")
        if method is not None:
            return self.tx.constant(self.tx.call(method, [ConstantVariable(spec)], {}), "__format__")
        base = getattr(self.value, "base", None)
        if base is not None:
            return format(stand_in(self.tx, base), spec)
        if not spec:
            return str(self)
        return _refused_format(self.tx, self.value)

    def _number(self, kind: type, name: str) -> Any:
        method = _followed(self.tx, self.value, name)
        if method is None:
            code = "GB0004" if self.value.is_tensor() else "GB0029"
            self.tx.unsupported(code, f"{self.value.describe()} as a number in a text")
        return kind(self.tx.constant(self.tx.call(method, [], {}), name))

    def __int__(self) -> int:
        return self._number(int, "__int__")

    def __index__(self) -> int:
        return self._number(int, "__index__")

    def __float__(self) -> float:
        return self._number(float, "__float__")

    def __getattr__(self, name: str) -> Any:

        return stand_in(self.tx, load_attribute(self.tx, self.value, name))

    def __getitem__(self, key: Any) -> Any:
        return stand_in(self.tx, self.value.subscript(self.tx, from_constant(key)))


def stand_in(tx: Tx, value: Variable) -> Any:
    """A real object that shows what the value shows."""
    value = realize(value)
    if not _holds_named_tuple(value):
        try:
            return as_constant(value)
        except NotConstant:
            pass
    again = lambda v: stand_in(tx, v)  # noqa: E731
    if value.family() in (tuple, list) and value.kind in (tuple, list):
        return value.kind(map(again, value.items))
    if value.family() is dict and value.kind in (dict, OrderedDict):
        return value.kind((again(from_constant(k)), again(v)) for k, v in value.items.items())
    return StandIn(tx, value)


def _holds_named_tuple(value: Variable) -> bool:
    """As a constant it would be a plain tuple, which shows no names."""
    value = realize(value)
    if value.family() is not tuple:
        return False
    return value.kind is not tuple or any(map(_holds_named_tuple, value.items))


def in_text(tx: Tx, what: str, compute: Callable[[], Any]) -> Variable:
    """What Python's formatting of stand-ins gives."""
    return attempt(tx, what, lambda: from_constant(compute()), exact=True)


def _followed(tx: Tx, value: Variable, name: str) -> Variable | None:
    """A method that the class has in Python."""
    if isinstance(value.known_object(), (type, type(None))):
        return None
    found = class_lookup(type(value.real), name)
    return value.special_method(tx, name) if isinstance(found, types.FunctionType) else None


def _refused_format(tx: Tx, value: Variable) -> str:
    """What object.__format__ says to a format. Breaks where the class has, in C, another __format__ than that."""
    if value.is_tensor():
        tx.unsupported("GB0004", "the text of a tensor reads its data")
    real = getattr(value, "real", None)
    if class_lookup(type(real), "__format__") is not object.__format__ or real is None:
        tx.unsupported("GB0029", f"the text of {value.describe()} in a format")
    raise TypeError(f"unsupported format string passed to {type(real).__name__}.__format__")


def _text(tx: Tx, value: Variable, names: tuple[str, ...]) -> str:
    """What `str` or `repr` of an object that is no constant says: by the methods its class has in Python."""
    rule = next((TEXTS[c] for c in type(value).__mro__ if c in TEXTS), None)
    if rule is None:
        tx.unsupported("GB0029", f"the text of {value.describe()}, which shows where it lies in memory")
    return rule(tx, value, names)


def _tensor_text(tx: Tx, value: Any, names: tuple[str, ...]) -> str:
    tx.unsupported("GB0004", "the text of a tensor reads its data")


def _named_tuple_text(tx: Tx, value: Any, names: tuple[str, ...]) -> str:
    words = (
        f"{name}={stand_in(tx, item)!r}" for name, item in zip(value.kind._fields, value.items, strict=True)
    )
    return f"{value.kind.__name__}({', '.join(words)})"


def _object_text(tx: Tx, value: Any, names: tuple[str, ...]) -> str:
    if type(value.real) is type:
        return repr(value.real)
    for name in names:
        method = _followed(tx, value, name)
        if method is not None:
            return tx.constant(tx.call(method, [], {}), name)
        found = class_lookup(type(value.real), name)
        of_c = isinstance(found, types.WrapperDescriptorType) and found.__objclass__ is not object
        if of_c and value.base is not None:
            held = stand_in(tx, value.base)  # an IntEnum has int's __repr__ for its __str__
            if isinstance(held, found.__objclass__):
                return found(held)
    if value.base is None:
        tx.unsupported("GB0029", f"the text of {value.describe()}, which shows where it lies in memory")
    if value.base.family() is set or class_lookup(type(value.real), "__repr__") is object.__repr__:
        tx.unsupported("GB0029", f"the text of {value.describe()}")
    return (str if "__str__" in names else repr)(stand_in(tx, value.base))


def _exception_text(tx: Tx, value: Any, names: tuple[str, ...]) -> str:
    if not value.fresh:
        return _object_text(tx, value, names)
    for name in names:
        method = _followed(tx, value, name)
        if method is not None:
            return tx.constant(tx.call(method, [], {}), name)
        if name == "__str__":
            return str(_same_error(tx, value))
    return repr(_same_error(tx, value))


TEXTS: dict[type, Callable[[Tx, Any, tuple[str, ...]], str]] = {
    TensorVariable: _tensor_text,
    TupleVariable: _named_tuple_text,
    ExceptionVariable: _exception_text,
    UserDefinedObjectVariable: _object_text,
}


def _same_error(tx: Tx, value: ExceptionVariable) -> BaseException:
    """An exception of the same class with the same arguments, as far as they show."""
    cls: Any = type(value.real)
    # The text of these is made from their arguments only.
    if issubclass(cls, (UnicodeError, OSError, ImportError, SyntaxError)):
        if cls.__module__ != "builtins":
            tx.unsupported("GB0029", f"the text of {value.describe()}")
        return cls(*(stand_in(tx, a) for a in value.args))
    made = cls.__new__(cls)
    made.args = tuple(stand_in(tx, a) for a in value.args)
    return made


CONVERSIONS: tuple[Callable[[Any], Any] | None, ...] = (None, str, repr, ascii)


def format_value(tx: Tx, value: Variable, conversion: Callable[[Any], Any] | None, spec: str) -> Variable:
    """One {...} of an f-string."""
    convert = conversion or (lambda v: v)
    return in_text(tx, "an f-string", lambda: format(convert(stand_in(tx, value)), spec))


def _format(name: str, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    words = {k: stand_in(tx, v) for k, v in kwargs.items()}
    write = getattr(tx.constant(args[0], name), name)
    return in_text(tx, name, lambda: write(*[stand_in(tx, a) for a in args[1:]], **words))


def _join(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    text, *rows = args
    if len(rows) == 1 and not realize(rows[0]).is_python_constant():
        rows = [ListVariable(iterate(tx, rows[0]))]
    return tx.fold(tx.constant(text, "join").join, rows, kwargs)


METHODS.update({(ConstantVariable, name): partial(_format, name) for name in ("format", "format_map")})
METHODS[ConstantVariable, "join"] = _join


def percent(tx: Tx, symbol: str, text: Variable, values: Variable) -> Variable | None:
    """`text % values`; None where that is no text."""
    if (
        not symbol.startswith("%")
        or type(text) is not ConstantVariable
        or not isinstance(text.value, (str, bytes))
    ):
        return None
    return in_text(tx, "%", lambda: text.value % stand_in(tx, values))
