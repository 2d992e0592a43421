"""Calls: what a callable value does with its arguments; and walking over anything that can be walked.

Input: an abstract callable and abstract arguments. Python functions are inlined, operators recorded, the
builtins of builtin_*.py interpreted; any other call is a break.
"""

from __future__ import annotations

import abc
import enum
import operator
import types
from collections.abc import Callable
from typing import Any

from stage0_eager.nn import Module
from stage0_eager.operator import Operator
from stage0_eager.state import inference_mode
from stage0_eager.tensor import Tensor
from stage1_capture.capture.attributes import special_method
from stage1_capture.capture.builder import wrap
from stage1_capture.capture.controls import call_controlled, control_of
from stage1_capture.capture.exceptions import new_exception
from stage1_capture.capture.inline import inline_call
from stage1_capture.capture.iterators import step, walk
from stage1_capture.capture.numbers import open_conversion
from stage1_capture.capture.numpy_arrays import FUNCTION_KINDS, call_in_numpy, can_be_array, is_numpys
from stage1_capture.capture.operators import call_operator
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.tensor_attributes import (
    TENSOR_FACT_METHODS,
    TENSOR_REFUSALS,
    class_lookup,
    refuse,
)
from stage1_capture.capture.variables import (
    ConstantVariable,
    ConstDictVariable,
    ListVariable,
    NumpyNdarrayVariable,
    PartialVariable,
    SetVariable,
    SliceVariable,
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
from stage_contracts.source import AttrSource, ItemSource

Tx = InstructionTranslator
Args = list[Variable]
Kwargs = dict[str, Variable]
Builtin = Callable[[Tx, Args, Kwargs], Variable]

BUILTINS: dict[Any, Builtin] = {}  # builtin functions and classes -> what they do; builtin_*.py fill these
# kinds of value that are called in their own way
CALLED: dict[type, Callable[[Tx, Any, Args, Kwargs], Variable]] = {}
METHODS: dict[tuple[type, str], Builtin] = {}  # of lists, dicts, iterators: container_methods.py
FOLDED: set[Any] = set()  # pure functions, computed at capture when all arguments are constants


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
            return inline_call(tx, function, args, kwargs)
        case PartialVariable(function=inner, args=first, kwargs=given):
            return call_function(tx, inner, [*first, *args], {**given, **kwargs})
        case UserMethodVariable(function=str() as name, receiver=receiver):
            return _call_builtin_method(tx, receiver, name, args, kwargs)
        case UserMethodVariable(function=inner, receiver=receiver):
            assert isinstance(inner, Variable)
            return call_function(tx, inner, [receiver, *args], kwargs)
        case UserDefinedObjectVariable(real=Operator() as op):
            return call_operator(tx, op, args, kwargs)
        case UserDefinedObjectVariable(real=real) if not function.fresh and _known(real):
            if real in BUILTINS:
                return BUILTINS[real](tx, args, kwargs)
            if real in FOLDED:
                return fold(tx, real, args, kwargs)
            if isinstance(real, types.MethodDescriptorType) and args:  # list.append(items, x)
                return _call_builtin_method(tx, args[0], real.__name__, args[1:], kwargs)
            if isinstance(real, type):
                return construct(tx, function, args, kwargs)
            what = "the construction of a" if isinstance(real, type) else "a call of"
            tx.unsupported("GB0002", f"{what} {describe(function)}")
        case UserDefinedObjectVariable():
            python = isinstance(class_lookup(type(function.real), "__call__"), types.FunctionType)
            method = special_method(tx, function, "__call__") if python else None
            if method is not None:
                return call_function(tx, method, args, kwargs)
    tx.unsupported("GB0002", f"a call of {describe(function)}")


_BUILTIN_KINDS = (
    type,
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    operator.itemgetter,
    *FUNCTION_KINDS,
)


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
    return attempt(tx, name, lambda: from_constant(function(*values, **options)), exact=True)


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
        tx.unsupported("GB0002", f"{what} raises {type(error).__name__}: {error}")


def hashable(tx: Tx, key: Variable) -> Any:
    """A dict's key or a set's element: a constant, or an object that is its own key."""
    match realize(key):
        case UserDefinedObjectVariable(real=real, fresh=False) if _by_identity(real):
            return real
        case UserFunctionVariable(real=types.FunctionType() as real):
            return real
        case TensorVariable(real=real) if real is not None:  # an optimizer's state: a tensor hashes as itself
            return real
        case ListVariable() | ConstDictVariable() | SetVariable() if kind_of(key) is not frozenset:
            tx.throw(TypeError, f"unhashable type: {kind_of(key).__name__!r}")
    constant = tx.constant(key, "a key")
    try:
        hash(constant)
    except TypeError as error:
        tx.throw(TypeError, *error.args)
    return constant


def _by_identity(real: Any) -> bool:
    """Whether the object hashes as itself, and equals nothing else."""
    plain = isinstance(real, Module) and type(real).__hash__ is object.__hash__
    named = isinstance(real, (types.ModuleType, types.BuiltinFunctionType, enum.Enum))
    return plain or named or type(real) is type


def kind_of(value: Variable) -> type:
    """list, or the class of a dict or set."""
    return getattr(value, "kind", list)


def construct(tx: Tx, cls: UserDefinedObjectVariable, args: Args, kwargs: Kwargs) -> Variable:
    """`cls(*args)` for a class of the user's: what `object.__new__` gives, and its `__init__` followed."""
    real = cls.real
    if issubclass(real, Module) and real.__module__.startswith("stage0_eager."):
        return _construct_module(tx, cls, args, kwargs)
    makers = (object.__new__, BaseException.__new__, Exception.__new__, inference_mode.__new__)
    if real is inference_mode and any(isinstance(a, UserFunctionVariable) for a in args):
        tx.unsupported("GB0002", "inference_mode as a decorator without parentheses")
    if issubclass(real, tuple) and hasattr(real, "_fields") and type(real) is type:
        return _construct_named_tuple(tx, cls, args, kwargs)
    maker = class_lookup(real, "__new__")
    maker = maker.__func__ if isinstance(maker, staticmethod) else maker
    error = issubclass(real, BaseException)
    known = maker in makers or (error and isinstance(maker, types.BuiltinFunctionType))
    if type(real) not in (type, abc.ABCMeta) or not known or getattr(real, "__abstractmethods__", None):
        tx.unsupported("GB0002", f"the construction of a {describe(cls)}")
    made: UserDefinedObjectVariable
    if error:
        made = new_exception(tx.output, real, list(args))
        made.class_source = cls.source
    elif issubclass(real, (Tensor, Module)) or real.__module__ == "builtins" and real is not object:
        tx.unsupported("GB0002", f"the construction of a {describe(cls)}")
    else:
        made = UserDefinedObjectVariable(object.__new__(real), fresh=True, class_source=cls.source)
    initial = class_lookup(real, "__init__")
    if isinstance(initial, types.FunctionType):
        method = special_method(tx, made, "__init__")
        assert method is not None
        call_function(tx, method, args, kwargs)
    elif (
        (
            error
            and (kwargs or initial not in (BaseException.__init__, Exception.__init__))
            and not _plain_error(real)
        )
        or not error
        and initial is not vars(object)["__init__"]
    ):
        tx.unsupported("GB0002", f"the construction of a {describe(cls)}")
    elif not error and (args or kwargs):
        tx.throw(TypeError, f"{real.__name__}() takes no arguments")
    return made


def _construct_module(tx: Tx, cls: UserDefinedObjectVariable, args: Args, kwargs: Kwargs) -> Variable:
    """One of the library's modules that holds no tensors (a loss, an activation): made now, for this program only."""
    values = [tx.constant(a, cls.real.__name__) for a in args]
    options = {k: tx.constant(v, cls.real.__name__) for k, v in kwargs.items()}
    made = attempt(tx, cls.real.__name__, lambda: cls.real(*values, **options))
    if any(True for _ in (*made.parameters(), *made.buffers())):
        tx.unsupported("GB0002", f"the construction of a {describe(cls)}, which holds tensors")
    variable = UserDefinedObjectVariable(made, private=True)
    variable.trusted = True
    return variable


def _plain_error(cls: type) -> bool:
    """An exception of Python's that keeps its arguments as they are, and nothing else that is looked at here."""
    return not issubclass(cls, (OSError, ImportError, UnicodeError, SyntaxError, BaseExceptionGroup))


def _construct_named_tuple(tx: Tx, cls: UserDefinedObjectVariable, args: Args, kwargs: Kwargs) -> Variable:
    """A collections.namedtuple or typing.NamedTuple."""
    real: Any = cls.real
    maker = class_lookup(real, "__new__")
    maker = maker.__func__ if isinstance(maker, staticmethod) else maker
    if not str(getattr(maker, "__module__", "")).startswith("namedtuple_"):
        tx.unsupported("GB0002", f"the construction of a {describe(cls)}")
    fields = real._fields
    bound = dict(zip(fields, args)) | kwargs
    for name, default in real._field_defaults.items():
        if name not in bound:
            source = cls.source and ItemSource(AttrSource(cls.source, "_field_defaults"), name)
            bound[name] = wrap(tx.output, default, source)
    if len(args) > len(fields) or set(bound) != set(fields) or set(fields[: len(args)]) & set(kwargs):
        tx.unsupported("GB0002", f"a call that does not fit {real.__name__}")
    return TupleVariable([bound[name] for name in fields], real, cls.source)


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
            refuse(tx, name)
        return fold(tx, lambda *a, **k: TENSOR_FACT_METHODS[name](receiver.meta, *a, **k), args, kwargs)
    method = next((METHODS[c, name] for c in type(receiver).__mro__ if (c, name) in METHODS), None)
    if method is not None:
        return method(tx, [receiver, *args], kwargs)
    if name == "join" and isinstance(receiver, ConstantVariable):
        args = [ListVariable(iterate(tx, args[0]))]
    if isinstance(receiver, TupleVariable) and not hasattr(tuple, name):
        tx.unsupported("GB0002", f"the method {name} of a named tuple")
    if isinstance(receiver, (ConstantVariable, TupleVariable, SliceVariable)):
        value = tx.constant(receiver, f"the method {name}")
        return fold(tx, getattr(value, name), args, kwargs)
    tx.unsupported("GB0002", f"a call of the method {name} of {describe(receiver)}")


# ---- walking -------------------------------------------------------------------------------------


def make_iterator(tx: Tx, value: Variable) -> Variable:
    """`iter(value)`."""
    found = walk(tx, value)
    if found is not None:
        return found
    method = special_method(tx, value, "__iter__")
    if method is None and special_method(tx, value, "__getitem__") is not None:
        tx.unsupported("GB0001", f"a loop over {describe(value)} by index")
    if method is None:
        if isinstance(value, (ConstantVariable, UserFunctionVariable)):
            tx.throw(
                TypeError, f"{type(getattr(value, 'value', call_function)).__name__!r} object is not iterable"
            )
        tx.unsupported("GB0001", f"a loop over {describe(value)}")
    return call_function(tx, method, [], {})


def iterate(tx: Tx, value: Variable) -> list[Variable]:
    """All items of something that can be walked, of known length."""
    iterator = make_iterator(tx, value)
    items = []
    while (item := step(tx, iterator)) is not None:
        items.append(realize(item))
    return items
