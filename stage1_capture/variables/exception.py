"""Exceptions of the captured program: made, raised, matched, and known to the handlers around.

Input: classes and abstract arguments. The interpreter carries an exception as Raised(ExceptionVariable); the
exception table of the frame says where it goes.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import field
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.state.prototypes import made_inside
from stage1_capture.variables.base import Variable, from_constant
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import class_lookup
from stage_contracts.controls import register
from stage_contracts.source import CallSource, RegisteredSource


class ExceptionVariable(UserDefinedObjectVariable):
    """An exception. passed: the instructions it passed on its way to a handler, innermost first: its traceback.

    outside: raised where the function handled nothing, so its context is what is handled outside, if anything is.
    place: the step of the outermost frame that raised it first, and where that is.
    """

    args: list[Variable] = field(default_factory=list)
    cause: Variable | None = None
    context: Variable | None = None
    outside: bool = False
    suppress: bool = False
    place: tuple[int, Any] | None = None
    passed: list[Any] = field(default_factory=list)

    def parts(self) -> list[Variable]:
        made = made_inside(type(self.real))
        held = (*self.args, *self.attrs.values(), self.cause, self.context, made)
        return [value for value in held if value is not None]

    def store_attribute(self, tx: Tx, name: str, value: Variable) -> None:
        if name not in (*_STORED, "__suppress_context__"):
            return super().store_attribute(tx, name, value)
        if name == "__suppress_context__":
            self.suppress = bool(tx.constant(value, name))
        else:
            _STORED[name](self, value)

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name in self.attrs or name not in (*_FIELDS, "value", "with_traceback"):
            in_c = types.GetSetDescriptorType | types.MemberDescriptorType
            if isinstance(class_lookup(type(self.real), name), in_c):
                tx.unsupported("GB0098", f"the attribute {name} of an exception")
            return super().var_getattr(tx, name)
        if name == "__context__" and self.outside:
            _guard_nothing_handled_outside(tx)
        if name in _FIELDS:
            return _FIELDS[name](self)
        if name == "value" and isinstance(self.real, StopIteration):
            return self.args[0] if self.args else NONE
        return UserMethodVariable(name, self) if name == "with_traceback" else None


def _guard_nothing_handled_outside(tx: Tx) -> None:
    if tx.output.options.handles:
        tx.unsupported("GB0009", "the exception that a caller handles, as __context__")
    tx.output.guard("IDENTITY", CallSource(RegisteredSource(register(sys.exception)), ()), None)


_STORED: dict[str, Callable[[ExceptionVariable, Variable], Any]] = {
    "__cause__": lambda e, value: vars(e).update(cause=None if value.is_none() else value, suppress=True),
    "__context__": lambda e, value: vars(e).update(context=None if value.is_none() else value, outside=False),
    "__traceback__": lambda e, value: None,
}
_FIELDS: dict[str, Callable[[ExceptionVariable], Variable]] = {
    "__cause__": lambda e: e.cause or NONE,
    "__context__": lambda e: e.context or NONE,
    "__suppress_context__": lambda e: from_constant(e.suppress),
    "__traceback__": lambda e: NONE if e.place is None else TracebackVariable(),
    "args": lambda e: TupleVariable(e.args),
    "add_note": lambda e: UserMethodVariable("add_note", e),
}


class TracebackVariable(Variable):
    """The traceback that `__exit__` is given: it is there, and cannot be looked at."""


class OuterExceptionVariable(Variable):
    """The exception that is handled outside an except block, on the stack while the block handles `inner`.

    active: the block has not ended.
    """

    inner: Variable
    active: bool = True


class RaisingPlaceVariable(Variable):
    """Where an exception was raised, on the stack of handlers that raise it again: an offset in the user's code."""

    offset: int


def new_exception(output: Any, cls: type[BaseException], args: list[Variable]) -> ExceptionVariable:
    """`cls(*args)` for a class whose construction is Python's own. It remembers nothing until it is raised."""
    if issubclass(cls, BaseExceptionGroup):
        output.unsupported("GB0009", "making an exception group")
    blank = cls.__new__(cls)
    return ExceptionVariable(blank, fresh=True, args=args)


def set_context(output: Any, raised: ExceptionVariable) -> None:
    """An exception raised in a handler remembers the one that is being handled."""
    handled = output.exceptions[-1] if output.exceptions else None
    if handled is raised or not raised.fresh:
        return
    raised.outside = handled is None
    if handled is None:
        return
    seen, inner = set(), handled
    # No exception may become its own context.
    while isinstance(inner, ExceptionVariable) and id(inner) not in seen:
        seen.add(id(inner))
        if inner.context is raised:
            inner.context = None
            break
        inner = inner.context
    raised.context = handled


def remember_outside(error: BaseException) -> None:
    """What set_context left to the time of the call: the exception that a caller handles is the context."""
    handled = sys.exception()
    if handled is not None:
        error.__context__ = handled


NO_EXCEPTION = "exceptions must derive from BaseException"


def as_exception(tx: Tx, value: Variable, otherwise: str = NO_EXCEPTION) -> ExceptionVariable:
    """The exception that `raise value` raises: a class is called. `otherwise` is Python's message."""
    if isinstance(value, UserDefinedObjectVariable) and isinstance(value.real, type):
        if not issubclass(value.real, BaseException):
            tx.throw(TypeError, otherwise)
        value = tx.call(value, [], {})
    if isinstance(value, ExceptionVariable):
        return value
    if value.is_python_constant() or value.family() is not None:
        tx.throw(TypeError, otherwise)
    tx.unsupported("GB0009", f"raising {value.describe()}")
