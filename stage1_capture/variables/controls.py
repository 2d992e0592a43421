"""Calls of functions the user has said something about: disabled, one node, constant, replaced, a break.

Input: a callable as an abstract value. `stage_contracts.controls` holds the rules by the very object; here is what
capture does for each kind of rule.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, NoReturn

from stage0_eager.nn import Module
from stage0_eager.table.operator import Operator, operator_of
from stage1_capture.state.machine import CONTROLLED, Args, Kwargs, Raised, Tx, builtin
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.constant import CONSTANT_TYPES, ConstantVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.operators import call_operator
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.breaks import Unsupported
from stage_contracts.class_lookup import class_lookup
from stage_contracts.controls import Rule, allow_in_graph, register
from stage_contracts.errors import ComptimeError, ForbiddenInGraph
from stage_contracts.source import RegisteredSource


def _break(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    said = [tx.constant(v, "the message of graph_break") for v in (*args, *kwargs.values())]
    tx.unsupported("GB0021", f"graph_break() is called{': ' + str(said[0]) if said and said[0] else ''}")


def _forbid(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    raise ForbiddenInGraph(
        f"{function.describe()} is called in compiled code at {tx.output.origin()}: {rule.detail}"
    )


def _allow(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    if isinstance(function.real, Operator):
        return call_operator(tx, function.real, args, kwargs)
    if not _plain_signature(rule.detail) or any(_is_nested(a) for a in (*args, *kwargs.values())):
        return CONTROLLED["nonstrict"](tx, rule, function, args, kwargs)
    return call_operator(tx, operator_of(rule.detail), args, kwargs)


def _allow_inside(tx: Tx, fn: Variable) -> Variable:
    """allow_in_graph called in the frame: a function from outside is a node from now on; one made here is followed."""
    if getattr(fn, "real", None) is not None:
        allow_in_graph(fn.real)
    return fn


def _plain_signature(function: Callable) -> bool:
    """Whether an operator can have this function's parameters: it is Python's, and none is variadic."""
    if not isinstance(function, types.FunctionType):
        return False
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    return kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


def _is_nested(value: Variable) -> bool:
    """Whether an argument is more than an operator takes: a dict, a module."""
    value = realize(value)
    return isinstance(value, (ConstDictVariable, UserDefinedObjectVariable))


def _constant(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    name = function.describe()
    values = [_real(tx, a, name) for a in args]
    result = rule.detail(*values, **{k: _real(tx, v, name) for k, v in kwargs.items()})
    if not isinstance(result, (*CONSTANT_TYPES, tuple, list, dict)):
        tx.unsupported("GB0081", f"{name}, assumed constant, returns a {type(result).__name__}")
    return from_constant(result)


def _real(tx: Tx, value: Variable, name: str) -> Any:
    real = getattr(value, "real", None)
    return real if real is not None else tx.constant(value, f"{name}, assumed constant,")


def _module(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    plain = type(function.real)._plain_class
    call = class_lookup(plain, "__call__")  # the class may have one of its own
    if not isinstance(call, types.FunctionType):
        tx.unsupported("GB0002", f"a call of {function.describe()}, whose __call__ is no Python function")
    place = function.child("__class__", "_plain_class", "__call__")
    own = wrap(tx.output, call, None if call is Module.__call__ else place)
    return tx.call(own, [function, *args], kwargs)


def _refuse(why: str) -> Callable[..., NoReturn]:
    def refuse(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> NoReturn:
        detail = f": {rule.detail}" if rule.kind == "disable" and rule.detail else ""
        tx.unsupported("GB0020", f"{function.describe()} is {why}{detail}")

    return refuse


def _follow(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    real, place = getattr(function.real, rule.detail), function.child(rule.detail)
    return tx.call(wrap(tx.output, real, place), args, kwargs)


def _comptime(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """`detail(tx, *values, **values)` may return a value of the program; else it is None."""
    try:
        found = rule.detail(
            tx, *map(realize, args), **{name: realize(value) for name, value in kwargs.items()}
        )
    except (Unsupported, Raised):
        raise
    except Exception as error:
        raise ComptimeError(
            f"comptime at {tx.output.origin()} raised {type(error).__name__}: {error}; it ran while this was compiled"
        ) from error
    return found if isinstance(found, Variable) else ConstantVariable(None)


def _reorder(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """The call is made after the graph. What it prints of an object is what that holds then, as in torch."""
    if function.source is None:
        tx.unsupported(
            "GB0060", f"a call of {function.describe()}, which cannot be found again after the graph"
        )
    given = [*map(realize, args)], {name: realize(value) for name, value in kwargs.items()}
    tx.output.effects.calls.append((function, "", *given))
    return ConstantVariable(None)


builtin(allow_in_graph)(_allow_inside)
CONTROLLED["comptime"] = _comptime
CONTROLLED["reorder"] = _reorder
CONTROLLED["ignore"] = lambda tx, rule, function, args, kwargs: ConstantVariable(None)
CONTROLLED["disable"] = _refuse("disabled")
CONTROLLED["plain"] = _refuse("disabled, what it calls is not")
CONTROLLED["disallow"] = _refuse("disallowed in graphs")
CONTROLLED["allow"] = _allow
CONTROLLED["constant"] = _constant
CONTROLLED["substitute"] = lambda tx, rule, function, args, kwargs: tx.call(
    wrap(tx.output, rule.detail, RegisteredSource(register(rule.detail))), args, kwargs
)
CONTROLLED["break"] = _break
CONTROLLED["forbid"] = _forbid
CONTROLLED["compiling"] = lambda tx, rule, function, args, kwargs: ConstantVariable(True)
CONTROLLED["follow"] = _follow
CONTROLLED["module"] = _module
