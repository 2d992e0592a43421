"""Calls: what a callable value does with its arguments; and walking over anything that can be walked.

Input: an abstract callable and abstract arguments. Python functions are inlined, operators recorded, the
builtins of builtin_*.py interpreted; any other call is a break.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from stage0_eager.operator import Operator
from stage1_capture.capture.attributes import special_method
from stage1_capture.capture.controls import call_controlled, control_of
from stage1_capture.capture.inline import inline_call
from stage1_capture.capture.operators import call_operator
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.tensor_attributes import TENSOR_FACT_METHODS, class_lookup
from stage1_capture.capture.variables import (
    ConstantVariable,
    ConstDictVariable,
    DictViewVariable,
    IteratorVariable,
    ListVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
    describe,
    from_constant,
    realize,
)

Tx = InstructionTranslator
Args = list[Variable]
Kwargs = dict[str, Variable]
Builtin = Callable[[Tx, Args, Kwargs], Variable]

BUILTINS: dict[Any, Builtin] = {}  # builtin functions and classes -> what they do; builtin_*.py fill these
METHODS: dict[tuple[type, str], Builtin] = {}  # of lists, dicts, iterators: container_methods.py
FOLDED: set[Any] = set()  # pure functions, computed at capture when all arguments are constants


def call_function(tx: Tx, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """The value of `function(*args, **kwargs)`."""
    rule = control_of(function)
    if rule is not None:
        return call_controlled(tx, rule, function, args, kwargs)
    match function:
        case UserFunctionVariable(real=real) if real in BUILTINS:
            return BUILTINS[real](tx, args, kwargs)
        case UserFunctionVariable(real=real) if real in FOLDED:
            return fold(tx, real, args, kwargs)
        case UserFunctionVariable():
            return inline_call(tx, function, args, kwargs)
        case UserMethodVariable(function=str() as name, receiver=receiver):
            return _call_builtin_method(tx, receiver, name, args, kwargs)
        case UserMethodVariable(function=inner, receiver=receiver):
            assert isinstance(inner, Variable)
            return call_function(tx, inner, [receiver, *args], kwargs)
        case UserDefinedObjectVariable(real=Operator() as op):
            return call_operator(tx, op, args, kwargs)
        case UserDefinedObjectVariable(real=type() | types.BuiltinFunctionType() as real):
            if real in BUILTINS:
                return BUILTINS[real](tx, args, kwargs)
            if real in FOLDED:
                return fold(tx, real, args, kwargs)
            if isinstance(real, type) and issubclass(real, BaseException):
                tx.unsupported("GB0001", f"raising {real.__name__}")
            what = "the construction of a" if isinstance(real, type) else "a call of"
            tx.unsupported("GB0002", f"{what} {describe(function)}")
        case UserDefinedObjectVariable():
            python = isinstance(class_lookup(type(function.real), "__call__"), types.FunctionType)
            method = special_method(tx, function, "__call__") if python else None
            if method is not None:
                return call_function(tx, method, args, kwargs)
    tx.unsupported("GB0002", f"a call of {describe(function)}")


def fold(tx: Tx, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable:
    """Compute a pure function of constants now. An exception is a break: eager raises it."""
    name = getattr(function, "__name__", "a function")
    values = [tx.constant(a, name) for a in args]
    options = {k: tx.constant(v, name) for k, v in kwargs.items()}
    return attempt(tx, name, lambda: from_constant(function(*values, **options)))


def attempt(tx: Tx, what: str, compute: Callable[[], Any]) -> Any:
    """Run a piece of Python's own semantics on abstract containers; what it raises, eager will raise."""
    try:
        return compute()
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        tx.unsupported("GB0002", f"{what} raises {type(error).__name__}: {error}")


def must_be_local(tx: Tx, container: Variable, what: str) -> None:
    """Containers made inside may be changed; the caller would see a change to one from outside."""
    if container.source is not None:
        tx.unsupported("GB0006", f"{what} of {container.source}")


def _call_builtin_method(tx: Tx, receiver: Variable, name: str, args: Args, kwargs: Kwargs) -> Variable:
    if isinstance(receiver, TensorVariable):
        return fold(tx, lambda *a, **k: TENSOR_FACT_METHODS[name](receiver.meta, *a, **k), args, kwargs)
    method = METHODS.get((type(receiver), name))
    if method is not None:
        return method(tx, [receiver, *args], kwargs)
    if isinstance(receiver, (ConstantVariable, TupleVariable)):
        value = tx.constant(receiver, f"the method {name}")
        return fold(tx, getattr(value, name), args, kwargs)
    tx.unsupported("GB0002", f"a call of the method {name} of {describe(receiver)}")


# ---- walking -------------------------------------------------------------------------------------


def make_iterator(tx: Tx, value: Variable) -> IteratorVariable:
    """`iter(value)`. Containers are walked live, so that a loop sees what its body changes."""
    match value:
        case IteratorVariable():
            return value
        case ListVariable(items=items) | TupleVariable(items=items):
            return IteratorVariable(iter(items))
        case ConstDictVariable(items=entries):
            return IteratorVariable(_walk_dict(tx, entries, lambda key, _: from_constant(key)))
        case DictViewVariable(mapping=mapping, pick=pick):
            return IteratorVariable(_walk_dict(tx, mapping.items, pick))
        case ConstantVariable(value=str() | bytes() | range() as constant):
            return IteratorVariable(map(from_constant, constant))
        case TensorVariable(meta=meta) if meta.shape:
            return IteratorVariable(_rows(tx, value))
        case UserDefinedObjectVariable():
            method = special_method(tx, value, "__iter__")
            if method is not None:
                made = call_function(tx, method, [], {})
                if isinstance(made, IteratorVariable):
                    return made
    tx.unsupported("GB0001", f"a loop over {describe(value)}")


def _walk_dict(
    tx: Tx, entries: dict[Any, Variable], pick: Callable[[Any, Variable], Variable]
) -> Iterator[Variable]:
    """Walk the dict itself, so that a loop that changes its size is told so here as in eager."""
    keys = iter(entries)
    while True:
        try:
            key = next(keys)
        except StopIteration:
            return
        except RuntimeError as error:
            tx.unsupported("GB0002", f"a loop over a dict raises RuntimeError: {error}")
        yield pick(key, entries[key])


def _rows(tx: Tx, tensor: TensorVariable) -> Iterator[Variable]:
    for index in range(tensor.meta.shape[0]):
        method = special_method(tx, tensor, "__getitem__")
        assert method is not None
        yield call_function(tx, method, [ConstantVariable(index)], {})


def iterate(tx: Tx, value: Variable) -> list[Variable]:
    """All items of something that can be walked, of known length."""
    return [realize(item) for item in make_iterator(tx, value).iterator]
