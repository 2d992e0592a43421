"""Exceptions of the captured program: made, raised, matched, and known to the handlers around.

Input: classes and abstract arguments. The interpreter carries an exception as Raised(ExceptionVariable); the
exception table of the frame says where it goes.
"""

from __future__ import annotations

from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import (
    ExceptionVariable,
    UserDefinedObjectVariable,
    Variable,
    describe,
)


def new_exception(output: Any, cls: type[BaseException], args: list[Variable]) -> ExceptionVariable:
    """`cls(*args)` for a class whose construction is Python's own. It remembers nothing until it is raised."""
    if issubclass(cls, BaseExceptionGroup):
        output.unsupported("GB0009", "making an exception group")
    blank = cls.__new__(cls)
    return ExceptionVariable(blank, fresh=True, args=args)


def set_context(output: Any, raised: ExceptionVariable) -> None:
    """An exception raised in a handler remembers the one that is being handled."""
    handled = output.exceptions[-1] if output.exceptions else None
    if handled is None or handled is raised or not raised.fresh:
        return
    seen, inner = set(), handled
    while (
        isinstance(inner, ExceptionVariable) and id(inner) not in seen
    ):  # it must not come to remember itself
        seen.add(id(inner))
        if inner.context is raised:
            inner.context = None
            break
        inner = inner.context
    raised.context = handled


def as_exception(tx: Tx, value: Variable) -> ExceptionVariable:
    """The exception that `raise value` raises: a class is called."""
    if isinstance(value, UserDefinedObjectVariable) and isinstance(value.real, type):
        if not issubclass(value.real, BaseException):
            tx.throw(TypeError, "exceptions must derive from BaseException")
        value = tx.call(value, [], {})
    if isinstance(value, ExceptionVariable):
        return value
    tx.unsupported("GB0009", f"raising {describe(value)}")
