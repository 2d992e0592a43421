"""Calls: what a callable value does with its arguments; and walking over anything that can be walked.

Input: an abstract callable and abstract arguments. Python functions are inlined, operators recorded, the
builtins of builtin_*.py interpreted; any other call is a break.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from stage0_eager.table.operator import Operator
from stage1_capture.state.graph_builder import is_users
from stage1_capture.state.hints import code_of
from stage1_capture.state.machine import (
    BUILTINS,
    CALLED,
    CALLED_BY_CLASS,
    CALLED_BY_CODE,
    DUNDERS,
    FOLDED,
    METHODS,
    Args,
    Kwargs,
    Raised,
    Tx,
)
from stage1_capture.state.mro import class_lookup
from stage1_capture.state.polyfills import items_by_index
from stage1_capture.variables.attributes import special_method
from stage1_capture.variables.base import IteratorVariable, Variable, describe, from_constant, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.controls import call_controlled, control_of
from stage1_capture.variables.function import (
    PartialVariable,
    UserFunctionVariable,
    UserMethodVariable,
    function_variable,
)
from stage1_capture.variables.iterator import is_foreign_iterator, step, walk
from stage1_capture.variables.keys import hashable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.ndarray import (
    FUNCTION_KINDS,
    NumpyNdarrayVariable,
    call_in_numpy,
    can_be_array,
    is_numpys,
)
from stage1_capture.variables.number import open_conversion
from stage1_capture.variables.operators import call_operator
from stage1_capture.variables.sequence import ListVariable, SliceVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.tensor_attributes import TENSOR_FACT_METHODS, TENSOR_REFUSALS, refuse
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.breaks import Unsupported


def call_function(tx: Tx, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """The value of `function(*args, **kwargs)`."""
    if type(function) in CALLED:
        return CALLED[type(function)](tx, function, args, kwargs)
    rule = control_of(function)
    if rule is not None:
        return call_controlled(tx, rule, function, args, kwargs)
    match function:
        case UserFunctionVariable(real=real) if real in BUILTINS:
            return BUILTINS[real](tx, args, kwargs)
        case UserFunctionVariable(real=real) if real in FOLDED:
            return fold(tx, real, args, kwargs)
        case UserFunctionVariable() | UserDefinedObjectVariable() if is_numpys(function):
            return call_in_numpy(tx, function, args, kwargs)
        case UserFunctionVariable():
            if function.code in CALLED_BY_CODE and function.real is not None:
                return CALLED_BY_CODE[function.code](tx, function, args, kwargs)
            return tx.inline(function, args, kwargs)
        case PartialVariable(function=inner, args=first, kwargs=given):
            if not isinstance(inner, UserFunctionVariable):  # which looks at its arguments by itself
                first, given = [*map(realize, first)], {k: realize(v) for k, v in given.items()}
            return call_function(tx, inner, [*first, *args], {**given, **kwargs})
        case UserMethodVariable(function=str() as name, receiver=receiver):
            return _call_builtin_method(tx, receiver, name, args, kwargs)
        case UserMethodVariable(function=inner, receiver=receiver):
            assert isinstance(inner, Variable)
            return call_function(tx, inner, [receiver, *args], kwargs)
        case UserDefinedObjectVariable(real=real) if type(real) in CALLED_BY_CLASS:
            return CALLED_BY_CLASS[type(real)](tx, function, args, kwargs)
        case UserDefinedObjectVariable(real=real) if (
            type(real).__name__ == "ConstexprFunction"
        ):  # triton.cdiv
            return fold(tx, real.fn, args, kwargs)
        case UserDefinedObjectVariable(real=Operator() as op):
            return call_operator(tx, op, args, kwargs)
        case UserDefinedObjectVariable(real=real) if not function.fresh and _known(real):
            if real in BUILTINS:
                return BUILTINS[real](tx, args, kwargs)
            if real in FOLDED:
                return fold(tx, real, args, kwargs)
            if isinstance(real, _METHODS_OF_C) and args:  # list.append(items, x)
                _must_be_a(tx, args[0], real)
                return _call_builtin_method(tx, args[0], real.__name__, args[1:], kwargs)
            if isinstance(real, type):
                from stage1_capture.variables.construct import construct

                return construct(tx, function, args, kwargs)
            what = "the construction of a" if isinstance(real, type) else "a call of"
            tx.unsupported(code_of(real), f"{what} {describe(function)}")
        case UserDefinedObjectVariable():
            python = isinstance(class_lookup(type(function.real), "__call__"), types.FunctionType)
            method = special_method(tx, function, "__call__") if python else None
            if method is not None:
                return call_function(tx, method, args, kwargs)
    tx.unsupported(code_of(getattr(function, "real", None)), f"a call of {describe(function)}")


_BUILTIN_KINDS = (
    type,
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    *FUNCTION_KINDS,
)


_METHODS_OF_C = (types.MethodDescriptorType, types.WrapperDescriptorType)


def _must_be_a(tx: Tx, receiver: Variable, method: Any) -> None:
    """A method of C's is called on an object of its class. On any other Python raises its own error."""
    if not issubclass(receiver.python_type(tx), method.__objclass__):
        name = f"{method.__objclass__.__name__}.{method.__name__}"
        tx.unsupported("GB0065", f"a call of {name} on {describe(receiver)}")


def _known(real: Any) -> bool:
    """Whether it is a class or a function of C's, which calls.py has tables for."""
    return isinstance(real, _BUILTIN_KINDS)


def fold(tx: Tx, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable:
    """Compute a pure function of constants now. What it raises, the program raises."""
    name = getattr(function, "__name__", "a function")
    still_open = open_conversion(function, [realize(a) for a in args]) if not kwargs else None
    if still_open is not None:
        return still_open
    values = [tx.constant(a, name) for a in args]
    options = {k: tx.constant(v, name) for k, v in kwargs.items()}

    def compute() -> Variable:
        try:
            return from_constant(function(*values, **options))
        except (Raised, Unsupported):
            raise
        except Exception as error:
            if type(error).__module__ == "builtins":  # attempt() knows it
                raise
            # its class may have a say in how it is made
            tx.unsupported("GB0066", f"{name} raises {type(error).__name__}: {error}")

    return attempt(tx, name, compute, exact=True)


def attempt(tx: Tx, what: str, compute: Callable[[], Any], exact: bool = False) -> Any:
    """Run a piece of Python's own semantics on abstract containers; what it raises, the program raises.

    exact: on Python's own values, so that what an error says is right too.
    """
    try:
        return compute()
    except (LookupError, ValueError) as error:
        tx.throw(type(error), *error.args)
    except (TypeError, ArithmeticError, AttributeError) as error:
        if exact and all(isinstance(a, str) for a in error.args):
            tx.throw(type(error), *error.args)
        tx.unsupported("GB0066", f"{what} raises {type(error).__name__}: {error}")


def must_be_local(tx: Tx, container: Variable, what: str) -> None:
    """To be called before a container is changed: the caller sees a change to one from outside."""
    if isinstance(container, SetVariable) and container.kind is frozenset:
        tx.unsupported("GB0006", f"{what} of a frozenset")
    tx.output.will_change(container)


def _call_builtin_method(tx: Tx, receiver: Variable, name: str, args: Args, kwargs: Kwargs) -> Variable:
    if isinstance(receiver, TensorVariable):
        if name == "numpy" and can_be_array(receiver):
            return NumpyNdarrayVariable(receiver)
        if name in TENSOR_REFUSALS:
            refuse(tx, name, receiver)
        return fold(tx, lambda *a, **k: TENSOR_FACT_METHODS[name](receiver.meta, *a, **k), args, kwargs)
    if isinstance(receiver, UserDefinedObjectVariable) and receiver.base is not None:
        return _call_on_base(tx, receiver, name, args, kwargs)
    method = next((METHODS[c, name] for c in type(receiver).__mro__ if (c, name) in METHODS), None)
    if method is not None:
        return method(tx, [receiver, *args], kwargs)
    if name in DUNDERS and (not isinstance(receiver, ConstantVariable) or any(map(_is_derived, args))):
        return DUNDERS[name](tx, receiver, *args, **kwargs)
    if name in ("format", "format_map") and isinstance(receiver, ConstantVariable):
        from stage1_capture.variables.shown import in_text, stand_in

        words = {k: stand_in(tx, v) for k, v in kwargs.items()}
        write = getattr(receiver.value, name)
        return in_text(tx, name, lambda: write(*[stand_in(tx, a) for a in args], **words))
    joins = name == "join" and len(args) == 1 and not isinstance(realize(args[0]), ConstantVariable)
    if joins and isinstance(receiver, ConstantVariable):
        args = [ListVariable(iterate(tx, args[0]))]
    named = isinstance(receiver, TupleVariable) and receiver.kind is not tuple
    if named and (not hasattr(tuple, name) or name in ("__getattribute__", "__setattr__", "__delattr__")):
        tx.unsupported("GB0071", f"the method {name} of a named tuple")
    if name in ("finditer", "scanner") and isinstance(receiver, ConstantVariable):
        tx.unsupported("GB0071", f"a call of the method {name} of {describe(receiver)}")
    if isinstance(receiver, (ConstantVariable, TupleVariable, SliceVariable)):
        value = tx.constant(receiver, f"the method {name}")
        return fold(tx, getattr(value, name), args, kwargs)
    tx.unsupported("GB0071", f"a call of the method {name} of {describe(receiver)}")


def _is_derived(value: Variable) -> bool:
    return isinstance(value, UserDefinedObjectVariable) and value.base is not None


def _call_on_base(
    tx: Tx, receiver: UserDefinedObjectVariable, name: str, args: Args, kwargs: Kwargs
) -> Variable:
    """A method that a class derived from one of Python's leaves to Python."""
    base = receiver.base
    if name == "__getitem__" and isinstance(base, ConstDictVariable):
        missing = special_method(tx, receiver, "__missing__")
        if missing is not None and hashable(tx, args[0]) not in base.items:
            return call_function(tx, missing, args, {})
    result = _call_builtin_method(tx, base, name, args, kwargs)
    return receiver if result is base else result


# ---- walking -------------------------------------------------------------------------------------


def make_iterator(tx: Tx, value: Variable) -> Variable:
    """`iter(value)`."""
    found = walk(tx, value)
    if found is not None:
        return found
    method = special_method(tx, value, "__iter__")
    if method is None and special_method(tx, value, "__getitem__") is not None:
        by_index: Any = items_by_index
        return call_function(tx, function_variable(tx.output, by_index, None), [value], {})
    if method is None:
        if isinstance(value, (ConstantVariable, UserFunctionVariable)):
            tx.throw(
                TypeError, f"{type(getattr(value, 'value', call_function)).__name__!r} object is not iterable"
            )
        tx.unsupported("GB0039", f"a loop over {describe(value)}")
    made = realize(call_function(tx, method, [], {}))
    if (
        isinstance(made, IteratorVariable)
        or is_foreign_iterator(made)
        or special_method(tx, made, "__next__")
    ):
        return made
    tx.throw(TypeError, f"iter() returned non-iterator of type {made.python_type(tx).__name__!r}")


def walked(tx: Tx, values: Variable) -> Iterator[Variable]:
    """The items of `values`, each taken when it is asked for."""
    iterator = make_iterator(tx, values)
    while (item := step(tx, iterator)) is not None:
        yield realize(item)


def ask_length(tx: Tx, value: Variable) -> None:
    """list() and tuple() ask an object how long it will be, and go by what it gives. A TypeError says nothing."""
    for name in ("__len__", "__length_hint__"):
        found = class_lookup(type(value.real), name) if isinstance(value, UserDefinedObjectVariable) else None
        if isinstance(found, types.FunctionType) and is_users(found.__globals__):
            method = special_method(tx, value, name)
            assert method is not None
            try:
                call_function(tx, method, [], {})
                return
            except Raised as raised:
                if not isinstance(raised.value.real, TypeError):
                    raise
                tx.resume_here()


def gathered(tx: Tx, value: Variable) -> list[Variable]:
    """The items as list(), tuple() and `*value` take them."""
    iterator = make_iterator(tx, value)
    ask_length(tx, value)
    return iterate(tx, iterator)


def iterate(tx: Tx, value: Variable) -> list[Variable]:
    """All items of something that can be walked, of known length."""
    iterator = make_iterator(tx, value)
    items = []
    while (item := step(tx, iterator)) is not None:
        items.append(realize(item))
    return items
