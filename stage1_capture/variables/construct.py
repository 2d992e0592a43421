"""Calls of classes: the object that `__new__` makes, and its `__init__` followed.

Input: a class as an abstract value, and abstract arguments. A metaclass with a `__call__` of its own is followed; so is
a `__new__`; what is C's is done here, per kind of class.
"""

from __future__ import annotations

import enum
import inspect
import types
from functools import partial
from typing import Any, cast

from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import is_users
from stage1_capture.state.machine import BUILTINS, CONSTRUCTORS, Args, Kwargs, Tx, attempt
from stage1_capture.variables.base import Variable, from_constant, load_attribute, realize
from stage1_capture.variables.binding import guard_class
from stage1_capture.variables.builder import refuse_watched, wrap
from stage1_capture.variables.derived import EMPTY, FIXED, blank, python_base
from stage1_capture.variables.exception import new_exception
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.source import AttrSource, ItemSource

# Exceptions of Python's that do not just keep their arguments as they are.
_TELLING = (OSError, ImportError, UnicodeError, SyntaxError, BaseExceptionGroup)
_MAKERS = (object.__new__, BaseException.__new__, Exception.__new__)


def construct(tx: Tx, cls: UserDefinedObjectVariable, args: Args, kwargs: Kwargs) -> Variable:
    """`cls(*args)` for a user-defined class."""
    real: Any = cls.real
    if type(real) is not type and isinstance(class_lookup(type(real), "__call__"), types.FunctionType):
        place = cls.source and AttrSource(AttrSource(cls.source, "__class__"), "__call__")
        return tx.call(wrap(tx.output, type(real).__call__, place), [cls, *args], kwargs)
    return construct_plainly(tx, cls, args, kwargs)


def construct_plainly(tx: Tx, cls: UserDefinedObjectVariable, args: Args, kwargs: Kwargs) -> Variable:
    """type.__call__(cls, *args): `__new__`, then `__init__` if that made an object of the class."""
    real: Any = cls.real
    if issubclass(real, tuple) and hasattr(real, "_fields") and _generated(class_lookup(real, "__new__")):
        return construct_named_tuple(tx, cls, args, kwargs)
    if real.__flags__ & inspect.TPFLAGS_IS_ABSTRACT:
        attempt(tx, "an abstract class", lambda: object.__new__(real), exact=True)
    maker = class_lookup(real, "__new__")
    maker = maker.__func__ if isinstance(maker, staticmethod) else maker
    if isinstance(maker, types.FunctionType):
        made = tx.call(load_attribute(tx, cls, "__new__"), [cls, *args], kwargs)
        if not isinstance(made.known_object(), real):
            return made
    else:
        made = new(tx, cls, maker, args, kwargs)
    initial = class_lookup(real, "__init__")
    written = isinstance(initial, types.FunctionType)
    if not (written and is_users(initial.__globals__)):
        guard_class(tx.output, cast(Any, made), "__init__")  # the class may get one of its own
    if not written:
        return _initialised_in_c(tx, cls, made, maker, args, kwargs)
    method: Any = made.special_method(tx, "__init__")
    answer = realize(tx.call(method, args, kwargs))
    if not answer.is_none():
        tx.throw(TypeError, f"__init__() should return None, not {answer.python_type(tx).__name__!r}")
    return made


def _initialised_in_c(
    tx: Tx, cls: UserDefinedObjectVariable, made: Any, maker: Any, args: Args, kwargs: Kwargs
) -> Variable:
    """After an `__init__` of Python's own: of object, an exception, a container."""
    real: Any = cls.real
    initial = class_lookup(real, "__init__")
    error = isinstance(made.real, BaseException)
    plain = initial is object.__init__ or error and initial in (BaseException.__init__, Exception.__init__)
    if made.base is not None:
        if python_base(real) not in FIXED:
            tx.call(load_attribute(tx, made, "__init__"), args, kwargs)
    elif error and (kwargs or not plain) and issubclass(real, _TELLING) or not (error or plain):
        tx.unsupported("GB0023", f"the construction of a {cls.describe()}")
    elif not error and (args or kwargs) and maker is object.__new__:
        tx.throw(TypeError, f"{real.__name__}() takes no arguments")
    return made


def new(
    tx: Tx, cls: UserDefinedObjectVariable, maker: Any, args: Args, kwargs: Kwargs
) -> UserDefinedObjectVariable:
    """The object that a `__new__` of C's makes of a class written in Python."""
    real: Any = cls.real
    base = python_base(real)
    refuse_watched(tx.output, real)
    if class_lookup(real, "__del__") is not MISSING:
        tx.unsupported("GB0023", f"the construction of a {cls.describe()}, which has a __del__")
    if issubclass(real, BaseException):
        known = maker in _MAKERS or isinstance(maker, types.BuiltinFunctionType)
        if issubclass(real, BaseExceptionGroup) or not known:
            tx.unsupported("GB0023", f"the construction of a {cls.describe()}")
        raised = new_exception(tx.output, real, list(args))
        raised.class_source = cls.source
        return raised
    of_python = getattr(real, "__module__", "") == "builtins" and real is not object
    if issubclass(real, (Tensor, type)) or of_python:
        tx.unsupported("GB0023", f"the construction of a {cls.describe()}")
    if base is not None and maker is base.__new__:
        made = UserDefinedObjectVariable(blank(real), fresh=True, class_source=cls.source, base=EMPTY[base]())
        if base in FIXED:
            made.base = tx.call(UserDefinedObjectVariable(base), args, kwargs)
        return made
    if maker is not object.__new__:
        tx.unsupported("GB0023", f"the construction of a {cls.describe()}")
    return UserDefinedObjectVariable(object.__new__(real), fresh=True, class_source=cls.source)


def _generated(maker: Any) -> bool:
    maker = maker.__func__ if isinstance(maker, staticmethod) else maker
    return str(getattr(maker, "__module__", "")).startswith("namedtuple_")


def _enum_member(tx: Tx, cls: UserDefinedObjectVariable, args: Args, kwargs: Kwargs) -> Variable:
    """Colour(1): looked up by value; a user-defined `_missing_` is a break."""
    if len(args) != 1 or not cls.real._member_map_:
        tx.unsupported("GB0023", f"the construction of a {cls.describe()}")
    if isinstance(args[0], UserDefinedObjectVariable) and isinstance(args[0].real, cls.real):
        return args[0]
    value = tx.constant(args[0], "an enum")
    found = next((m for m in cls.real if type(m._value_) is type(value) and m._value_ == value), None)
    if found is None and issubclass(cls.real, enum.Flag) and type(value) is int:
        return from_constant(cls.real(value))
    if found is None and "_missing_" not in vars(cls.real):
        tx.throw(ValueError, f"{value!r} is not a valid {cls.real.__qualname__}")
    if found is None:
        tx.unsupported("GB0023", f"{cls.real.__name__}._missing_")
    return wrap(tx.output, found, cls.source and AttrSource(cls.source, found._name_))


def construct_named_tuple(tx: Tx, cls: UserDefinedObjectVariable, args: Args, kwargs: Kwargs) -> Variable:
    """A collections.namedtuple or typing.NamedTuple."""
    real: Any = cls.real
    fields = real._fields
    bound = dict(zip(fields, args)) | kwargs
    for name, default in real._field_defaults.items():
        if name not in bound:
            source = cls.source and ItemSource(AttrSource(cls.source, "_field_defaults"), name)
            bound[name] = wrap(tx.output, default, source)
    if len(args) > len(fields) or set(bound) != set(fields) or set(fields[: len(args)]) & set(kwargs):
        tx.unsupported("GB0065", f"a call that does not fit {real.__name__}")
    return TupleVariable([bound[name] for name in fields], real, cls.source)


def _new_call(maker: Any, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    cls, *rest = args
    real: Any = cls.real
    if issubclass(real, tuple) and hasattr(real, "_fields"):  # its `__new__`, and what _make calls
        items = tx.call(UserDefinedObjectVariable(tuple), rest, kwargs)
        return TupleVariable(list(items.items), real, cls.source)
    if real in EMPTY:
        return tx.call(cls, rest, kwargs)
    return new(tx, cls, maker, rest if maker is not object.__new__ else [], kwargs)  # type: ignore[arg-type]


BUILTINS[type.__call__] = lambda tx, args, kwargs: construct_plainly(tx, cast(Any, args[0]), args[1:], kwargs)
for _maker in (object.__new__, *(kind.__new__ for kind in EMPTY)):
    BUILTINS[_maker] = partial(_new_call, _maker)

CONSTRUCTORS.update({object: construct, enum.Enum: _enum_member})
