"""Builtins that ask what a value is: type, getattr, hasattr, callable, super; inspect.signature; the modes in force.

Input: abstract arguments. A class is looked at, never asked: one that answers isinstance itself is a break.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from typing import Any

from stage0_eager import is_grad_enabled
from stage0_eager.amp.autocast import clear_autocast_cache
from stage0_eager.arrays import gpu_is_there
from stage0_eager.defaults import dtype_or_default, get_default_dtype
from stage0_eager.nn import Module
from stage0_eager.nn.module import bump_structure_epoch
from stage0_eager.state import settle
from stage1_capture.state.machine import BUILTINS, FOLDED, Args, Kwargs, Tx, builtin
from stage1_capture.state.mro import MISSING, class_lookup
from stage1_capture.variables.attributes import plain_attribute
from stage1_capture.variables.base import Variable, describe, from_constant, lookup_quietly, realize
from stage1_capture.variables.builder import class_variable
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.derived import blank
from stage1_capture.variables.exception import TracebackVariable
from stage1_capture.variables.function import CellVariable, UserFunctionVariable
from stage1_capture.variables.hash_keys import IdVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.store import delete_attribute, delete_plainly, store_plainly
from stage1_capture.variables.user_object import SuperVariable, UserDefinedObjectVariable
from stage_contracts.controls import register
from stage_contracts.source import CallSource, RegisteredSource

# ---- what a value is -----------------------------------------------------------------------------


@builtin(type)
def type_(tx: Tx, value: Variable) -> Variable:
    return class_variable(tx, value, value.python_type(tx))


@builtin(callable)
def callable_(tx: Tx, value: Variable) -> Variable:
    known = isinstance(value, (UserFunctionVariable, UserMethodVariable))
    there = known or class_lookup(value.python_type(tx), "__call__") is not MISSING
    if not known and isinstance(value, UserDefinedObjectVariable) and value.source is not None:
        place = CallSource(RegisteredSource(register(callable)), (value.source,))
        tx.output.guard("IDENTITY", place, there, isinstance(value.real, Module))
    return ConstantVariable(there)


@builtin(getattr)
def getattr_(tx: Tx, value: Variable, name: Variable, *default: Variable) -> Variable:
    word = tx.constant(name, "getattr")
    found = lookup_quietly(tx, value, word) if default else value.var_getattr(tx, word)
    if found is None and not default:
        tx.throw(AttributeError, value.lacks(word))
    return found or default[0]


@builtin(vars)
def vars_(tx: Tx, value: Variable) -> Variable:
    found = value.var_getattr(tx, "__dict__")
    return tx.throw(TypeError, "vars() argument must have __dict__ attribute") if found is None else found


@builtin(setattr)
def setattr_(tx: Tx, target: Variable, name: Variable, value: Variable) -> Variable:
    target.store_attribute(tx, tx.constant(name, "setattr"), value)
    return NONE


def _given(tx: Tx, function: Any, args: Args, count: int) -> Args:
    """The arguments of a method of object's, which has to have one it can work on."""
    if len(args) != count:
        tx.unsupported("GB0065", f"a call of object.{function.__name__} with {len(args)} arguments")
    return args


def _plain_setattr(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    target, name, value = _given(tx, object.__setattr__, args, 3)
    return store_plainly(tx, target, tx.constant(name, "setattr"), value)


def _plain_delattr(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    target, name = _given(tx, object.__delattr__, args, 2)
    return delete_plainly(tx, target, tx.constant(name, "delattr"))


def _plain_getattribute(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    target, name = _given(tx, object.__getattribute__, args, 2)
    if not isinstance(target, UserDefinedObjectVariable) or issubclass(
        type(target.real), (type, types.ModuleType)
    ):
        tx.unsupported("GB0071", f"object.__getattribute__ of {describe(target)}")
    found = plain_attribute(tx, target, tx.constant(name, "getattr"))
    if found is None:
        tx.throw(AttributeError, target.lacks(tx.constant(name, "getattr")))
    return found


BUILTINS[object.__setattr__] = _plain_setattr
BUILTINS[object.__delattr__] = _plain_delattr
BUILTINS[object.__getattribute__] = _plain_getattribute


@builtin(delattr)
def delattr_(tx: Tx, target: Variable, name: Variable) -> Variable:
    return delete_attribute(tx, target, tx.constant(name, "delattr"))


@builtin(bump_structure_epoch)
def _bump(tx: Tx) -> Variable:
    return NONE  # what is replayed on a module's registries does it


@builtin(object.__init__)
def _object_init(tx: Tx, *_: Variable, **__: Variable) -> Variable:
    return NONE


def _exception_init(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    raised = args[0]
    raised.args = args[1:]  # type: ignore[attr-defined]
    return NONE


BUILTINS[BaseException.__init__] = BUILTINS[Exception.__init__] = _exception_init


@builtin(types.MethodType)
def _method(tx: Tx, function: Variable, receiver: Variable) -> Variable:
    return UserMethodVariable(function, receiver)


@builtin(id)
def id_(tx: Tx, value: Variable) -> Variable:
    if isinstance(value, (ConstantVariable, TupleVariable)) and value.source is None:
        tx.unsupported("GB0046", f"the id of {describe(value)}")
    return IdVariable(value)


@builtin(hasattr)
def hasattr_(tx: Tx, value: Variable, name: Variable) -> Variable:
    return ConstantVariable(lookup_quietly(tx, value, tx.constant(name, "hasattr")) is not None)


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
    if not isinstance(owner, UserDefinedObjectVariable) or not isinstance(
        receiver, UserDefinedObjectVariable
    ):
        tx.unsupported("GB0049", "super() outside a method of a plain object")
    of_class = isinstance(receiver.real, type) and issubclass(receiver.real, owner.real)
    if not of_class and not issubclass(type(receiver.real), owner.real):
        tx.unsupported("GB0049", f"super() of {describe(receiver)}, which is no {owner.real.__name__}")
    return SuperVariable(owner.real, receiver)


@builtin(sys.exc_info)
def _exc_info(tx: Tx) -> TupleVariable:
    """What is handled now. Where that is nothing of the function's, only ExitStack may be told so: it only compares."""
    handled = tx.output.exceptions[-1] if tx.output.exceptions else None
    if handled is None:
        if tx.function.globals is not vars(contextlib):
            tx.unsupported("GB0009", "sys.exc_info() outside an except block of this function")
        return TupleVariable([NONE, NONE, NONE])
    return TupleVariable([UserDefinedObjectVariable(handled.python_type(tx)), handled, TracebackVariable()])


@builtin(sys.exception)
def _exception(tx: Tx) -> Variable:
    return _exc_info(tx).items[1]


def _grad_mode(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    return ConstantVariable(tx.output.grad_enabled)  # the GRAD_MODE guard is always there


BUILTINS[is_grad_enabled] = _grad_mode


def _settled(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    return NONE


def _clear(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    tx.output.casts.clear()
    return NONE


BUILTINS.update({settle: _settled, clear_autocast_cache: _clear})
FOLDED.update({gpu_is_there, get_default_dtype, dtype_or_default})  # the guard MODES is always there


_ELSEWHERE = (
    "__wrapped__",
    "__signature__",
    "__text_signature__",
)  # what says another signature than the code's


@builtin(inspect.signature)
def signature(tx: Tx, value: Variable) -> Variable:
    bound = isinstance(value, UserMethodVariable)
    function: Any = getattr(value, "function", None) if bound else value
    real = getattr(function, "real", None)
    if not isinstance(function, UserFunctionVariable) or not isinstance(real, types.FunctionType):
        tx.unsupported("GB0002", f"a call of inspect.signature on {describe(value)}")
    if any(name in vars(real) or name in function.attrs for name in _ELSEWHERE):
        tx.unsupported("GB0002", f"a call of inspect.signature on {describe(value)}, which is decorated")
    said = inspect.signature(real)
    parameters = {name: _parameter(tx, function, p) for name, p in said.parameters.items()}
    if bound:
        first = next(iter(said.parameters.values()), None)
        if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
            tx.unsupported("GB0002", f"a call of inspect.signature on {describe(value)}")
        del parameters[first.name]
    entries = ConstDictVariable(parameters)
    return _object(
        inspect.Signature, _parameters=entries, _return_annotation=tx.wrap(said.return_annotation, None)
    )


def _parameter(tx: Tx, function: UserFunctionVariable, parameter: inspect.Parameter) -> Variable:
    name = parameter.name
    default: Variable = tx.wrap(inspect.Parameter.empty, None)
    if name in function.kwdefaults:
        default = realize(function.kwdefaults[name])
    elif parameter.default is not inspect.Parameter.empty:
        names = function.code.co_varnames[: function.code.co_argcount]
        default = realize(function.defaults[names.index(name) - len(names)])
    return _object(
        inspect.Parameter,
        _name=from_constant(name),
        _kind=tx.wrap(parameter.kind, None),
        _default=default,
        _annotation=tx.wrap(parameter.annotation, None),
    )


def _object(cls: type, **slots: Any) -> Variable:
    """An object of one of inspect's classes, for the program to ask, not to hand on."""
    return UserDefinedObjectVariable(blank(cls), slots, fresh=True, private=True)
