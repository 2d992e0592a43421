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
from stage1_capture.state.entry import users_code
from stage1_capture.state.machine import FOLDED, Tx, builtin, builtins_
from stage1_capture.variables.attributes import plain_attribute
from stage1_capture.variables.base import Variable, from_constant, lookup_quietly, realize
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
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.controls import register
from stage_contracts.source import CallSource, RegisteredSource


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


@builtin(object.__getattribute__)
def _plain_getattribute(tx: Tx, target: Variable, name: Variable) -> Variable:
    followed = isinstance(target, UserDefinedObjectVariable)
    if not followed or issubclass(type(target.real), (type, types.ModuleType)):
        tx.unsupported("GB0071", f"object.__getattribute__ of {target.describe()}")
    word = tx.constant(name, "getattr")
    found = plain_attribute(tx, target, word)  # type: ignore[arg-type]
    return found or tx.throw(AttributeError, target.lacks(word))


@builtin(BaseException.__init__, Exception.__init__)
def _exception_init(tx: Tx, raised: Any, *args: Variable) -> None:
    raised.args = list(args)


@builtin(id)
def id_(tx: Tx, value: Variable) -> Variable:
    if isinstance(value, (ConstantVariable, TupleVariable)) and value.source is None:
        tx.unsupported("GB0046", f"the id of {value.describe()}")
    return IdVariable(value)


@builtin(super)
def super_(tx: Tx, *explicit: Variable) -> Variable:
    """super() finds the class in the frame's cell and self in its first argument."""
    if not explicit:
        code = users_code(tx.function.code).code
        if not code.co_argcount or "__class__" not in code.co_freevars:
            why = "__class__ cell not found" if code.co_argcount else "no arguments"
            tx.throw(RuntimeError, f"super(): {why}")
        cell = tx.locals[code.co_varnames[0]]
        receiver = cell.contents if isinstance(cell, CellVariable) else cell
        assert receiver is not None
        explicit = (realize(tx.load_cell("__class__")), realize(receiver))
    owner, receiver = (*explicit, NONE)[:2]
    if not isinstance(owner, UserDefinedObjectVariable) or not isinstance(
        receiver, UserDefinedObjectVariable
    ):
        tx.unsupported("GB0049", "super() outside a method of a plain object")
    of_class = isinstance(receiver.real, type) and issubclass(receiver.real, owner.real)
    if not of_class and not issubclass(type(receiver.real), owner.real):
        tx.unsupported("GB0049", f"super() of {receiver.describe()}, which is no {owner.real.__name__}")
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


builtins_(
    {
        type: lambda tx, value: class_variable(tx, value, value.python_type(tx)),
        hasattr: lambda tx, value, name: ConstantVariable(
            lookup_quietly(tx, value, tx.constant(name, "hasattr")) is not None
        ),
        setattr: lambda tx, target, name, value: target.store_attribute(
            tx, tx.constant(name, "setattr"), value
        ),
        delattr: lambda tx, target, name: delete_attribute(tx, target, tx.constant(name, "delattr")),
        object.__setattr__: lambda tx, target, name, value: store_plainly(
            tx, target, tx.constant(name, "setattr"), value
        ),
        object.__delattr__: lambda tx, target, name: delete_plainly(tx, target, tx.constant(name, "delattr")),
        object.__init__: lambda tx, *args, **kwargs: NONE,
        types.MethodType: lambda tx, function, receiver: UserMethodVariable(function, receiver),
        sys.exception: lambda tx: _exc_info(tx).items[1],
        bump_structure_epoch: lambda tx: NONE,  # what is replayed on a module's registries does it
        is_grad_enabled: lambda tx: ConstantVariable(tx.output.grad_enabled),  # its guard is always there
        settle: lambda tx, *args: NONE,
        clear_autocast_cache: lambda tx: tx.output.casts.clear(),
    }
)
FOLDED.update({gpu_is_there, get_default_dtype, dtype_or_default})  # the guard MODES is always there


# What says another signature than the code's.
_ELSEWHERE = ("__wrapped__", "__signature__", "__text_signature__")


@builtin(inspect.signature)
def signature(tx: Tx, value: Variable) -> Variable:
    bound = isinstance(value, UserMethodVariable)
    function: Any = getattr(value, "function", None) if bound else value
    real = getattr(function, "real", None)
    if not isinstance(function, UserFunctionVariable) or not isinstance(real, types.FunctionType):
        tx.unsupported("GB0002", f"a call of inspect.signature on {value.describe()}")
    if any(name in vars(real) or name in function.attrs for name in _ELSEWHERE):
        tx.unsupported("GB0002", f"a call of inspect.signature on {value.describe()}, which is decorated")
    said = inspect.signature(function.identity(tx))
    parameters = {name: _parameter(tx, function, p) for name, p in said.parameters.items()}
    if bound:
        first = next(iter(said.parameters.values()), None)
        if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
            tx.unsupported("GB0002", f"a call of inspect.signature on {value.describe()}")
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
