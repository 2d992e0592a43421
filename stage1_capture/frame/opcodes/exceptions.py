"""The instructions of try, with, raise, assert, and of generators, shared by all versions.

Input: these enter the table of frame/opcodes/shared.py. What an instruction raises goes where the frame's exception
table says.
"""

from __future__ import annotations

from typing import NoReturn

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.shared import Tx, handles, known, operations
from stage1_capture.frame.translator import GeneratorTranslator
from stage1_capture.state.machine import Raised
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.exception import (
    ExceptionVariable,
    OuterExceptionVariable,
    TracebackVariable,
    as_exception,
    set_context,
)
from stage1_capture.variables.generator import GeneratorVariable
from stage1_capture.variables.iterator import IteratorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


@handles("RAISE_VARARGS")
def raise_varargs(tx: Tx, i: Instruction) -> None:
    """raise, raise error, raise error from cause."""
    if i.arg == 0:
        if not tx.output.exceptions:
            tx.unsupported("GB0009", "raise without an exception of this function")
        raise Raised(_raised_again(tx, tx.output.exceptions[-1]))
    cause = tx.pop() if i.arg == 2 else None
    raised = as_exception(tx, tx.pop())
    if cause is not None:
        words = "exception causes must derive from BaseException"
        raised.cause = None if cause.is_none() else as_exception(tx, cause, words)
        raised.suppress = True
    set_context(tx.output, raised)
    raise Raised(raised)


@handles("PUSH_EXC_INFO")
def push_exc_info(tx: Tx, i: Instruction) -> None:
    raised = tx.pop()
    tx.push(OuterExceptionVariable(raised))
    tx.push(raised)
    tx.output.exceptions.append(raised)


@handles("POP_EXCEPT")
def pop_except(tx: Tx, i: Instruction) -> None:
    outer = tx.pop()
    if not isinstance(outer, OuterExceptionVariable):
        tx.unsupported("GB0037", "the end of an except block that began before a break")
    outer.active = False
    tx.output.exceptions.pop()


def matches(tx: Tx, raised: Variable, classes: Variable) -> bool:
    if classes.family() is tuple:
        return any(matches(tx, raised, realize(c)) for c in classes.items)
    cls = classes.known_object()
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        tx.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    return issubclass(raised.python_type(tx), cls)


operations(
    {
        "LOAD_ASSERTION_ERROR": (0, lambda tx, i: UserDefinedObjectVariable(AssertionError)),
        "CHECK_EXC_MATCH": (1, lambda tx, i, classes: known(matches(tx, tx.stack[-1], classes))),
    }
)


@handles("RERAISE")
def reraise(tx: Tx, i: Instruction) -> NoReturn:
    raise Raised(_raised_again(tx, tx.pop()))


def _raised_again(tx: Tx, raised: Variable) -> ExceptionVariable:
    if not isinstance(raised, ExceptionVariable):
        tx.unsupported("GB0037", "an exception from before a break is raised again")
    return raised


@handles("BEFORE_WITH")
def before_with(tx: Tx, i: Instruction) -> None:
    manager = tx.pop()
    enter, leave = (manager.special_method(tx, name) for name in ("__enter__", "__exit__"))
    if enter is None or leave is None:
        tx.unsupported("GB0041", f"a with block over {manager.describe()}")
    tx.push(leave)
    tx.push(tx.call(enter, [], {}))


@handles("WITH_EXCEPT_START")
def with_except_start(tx: Tx, i: Instruction) -> None:
    """Call `__exit__`, which lies four below, with the exception."""
    raised = tx.stack[-1]
    cls = UserDefinedObjectVariable(raised.python_type(tx))
    tx.push(tx.call(tx.stack[-4], [cls, raised, TracebackVariable()], {}))


@handles("YIELD_VALUE")
def yield_value(tx: Tx, i: Instruction) -> None:
    assert isinstance(tx, GeneratorTranslator)
    tx.yielded = tx.pop()


operations(
    {
        "RETURN_GENERATOR": (0, lambda tx, i: NONE),  # what the first next() sends
        **dict.fromkeys(("GET_ITER", "GET_YIELD_FROM_ITER"), (1, lambda tx, i, value: value.iterator(tx))),
    }
)


@handles("END_SEND")
def end_send(tx: Tx, i: Instruction) -> None:
    del tx.stack[-2]


def send(keeps: bool, tx: Tx, i: Instruction) -> None:
    """SEND: a step of `yield from`. At the end it jumps with the result; 3.11 drops the iterator there."""
    value = tx.pop()
    iterator = tx.stack[-1]
    result: Variable = NONE
    item: Variable | None = None
    own = None if isinstance(iterator, IteratorVariable) else iterator.special_method(tx, "__next__")
    if not isinstance(iterator, GeneratorVariable) and (own is None or iterator.is_foreign_iterator()):
        if not value.is_none():
            _refuse_to_send(tx, iterator)
        item = iterator.next_variable(tx)
    else:
        try:
            item = _sent(tx, iterator, own, value)
        except Raised as raised:
            ended = getattr(iterator, "state", "closed") == "closed"
            if not isinstance(raised.value.real, StopIteration) or not ended:
                raise
            tx.resume_here()
            result = raised.value.args[0] if raised.value.args else NONE
    if item is not None:
        tx.push(item)
        return
    if not keeps:
        tx.pop()
    tx.push(result)
    tx.index = i.target


def _sent(tx: Tx, iterator: Variable, own: Variable | None, value: Variable) -> Variable:
    """The next value of a generator, or of an object with its own `__next__`. Its end raises StopIteration."""
    if isinstance(iterator, GeneratorVariable):
        return iterator.send(tx, value)
    if own is None or not value.is_none():
        _refuse_to_send(tx, iterator)
    return tx.call(own, [], {})


def _refuse_to_send(tx: Tx, iterator: Variable) -> NoReturn:
    """Python asks for its `send`, which few have."""
    tx.unsupported("GB0033", f"a value sent into {iterator.describe()}")
