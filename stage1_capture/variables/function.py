"""What is called: functions, bound methods, partials; and the cells that functions share.

Input: variables/builder.py makes one of a real one, opcodes one of a def, attribute lookup one of a method.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Any, NoReturn

from stage0_eager.transforms.vmap import is_transformed
from stage1_capture.state.graph_builder import OutputGraph, is_users
from stage1_capture.state.machine import (
    BUILTINS,
    CALLED_BY_CODE,
    CONTROLLED,
    FOLDED,
    Args,
    Kwargs,
    Tx,
    control_of,
)
from stage1_capture.variables.base import Variable, from_constant, realize, same_object, yes
from stage1_capture.variables.builder import (
    BUILDERS,
    identical,
    is_given,
    lazily,
    object_of,
    once,
    wrap,
    wrap_identity,
)
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.hash_keys import ObjectKey
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.numpy_functions import call_in_numpy, is_numpys
from stage1_capture.variables.object_dict import refuse_second_way
from stage1_capture.variables.sequence import TupleVariable, sequence_items
from stage_contracts.source import AttrSource, ItemSource, Source


class CellVariable(Variable):
    """A variable shared between functions. One from outside has a source; storing to it is a side effect."""

    contents: Variable | None = None
    holds = ("contents",)
    stands_for = types.CellType

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name != "cell_contents":
            return super().var_getattr(tx, name)
        if self.contents is None:
            tx.throw(ValueError, "Cell is empty")
        return realize(self.contents)

    def store_attribute(self, tx: Tx, name: str, value: Variable) -> None:
        if name != "cell_contents":
            super().store_attribute(tx, name, value)
        tx.output.will_change(self)
        self.contents = value

    def snapshot(self) -> Any:
        return self.contents


class UserFunctionVariable(Variable):
    """A Python function, real or made inside by a def or lambda."""

    code: types.CodeType
    globals: dict[str, Any]
    name: str
    defaults: list[Variable]
    kwdefaults: dict[str, Variable]
    closure: list[CellVariable]
    globals_source: Source | None = None  # how its module's globals are reached again
    real: Any = None
    attrs: dict[str, Variable] = field(default_factory=dict)  # what the program stored on it
    annotations: dict[str, Variable] = field(default_factory=dict)  # of one made inside
    stands_for = types.FunctionType
    is_compared_by_identity = yes
    same_as = same_object

    def describe(self) -> str:
        return f"the function {self.name}"

    def class_name(self) -> str:
        return "function"

    def identity(self, tx: Tx) -> Any:
        """The real function, for who needs more of it than its code, defaults and closure."""
        if self.real is not None:
            tx.output.guard("IDENTITY", self.source, self.real)
        return self.real

    def parts(self) -> list[Variable]:
        if self.real is not None:
            return []
        more = [*self.annotations.values(), *self.attrs.values()]
        return [*self.defaults, *self.kwdefaults.values(), *self.closure, *more]

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        return function_attribute(tx, self, name)

    def store_attribute(self, tx: Tx, name: str, value: Variable) -> None:
        special = name.startswith("__")
        if special and (name not in _STORED or self.real is not None):
            super().store_attribute(tx, name, value)
        tx.output.will_change(self)
        self.attrs[name] = value

    def refuse_walk(self, tx: Tx) -> NoReturn:
        tx.throw(TypeError, "'function' object is not iterable")

    def call_function(self, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        real = self.real
        if (rule := control_of(real)) is not None:
            return CONTROLLED[rule.kind](tx, rule, self, args, kwargs)
        if real in BUILTINS:
            return BUILTINS[real](tx, args, kwargs)
        if real in FOLDED:
            return tx.fold(real, args, kwargs)
        if is_numpys(real):
            return call_in_numpy(tx, real, args, kwargs)
        if self.code in CALLED_BY_CODE and real is not None:
            return CALLED_BY_CODE[self.code](tx, self, args, kwargs)
        return tx.inline(self, args, kwargs)

    def hash_key(self, tx: Tx) -> Any:
        return ObjectKey(self, id(self)) if self.real is None else self.identity(tx)

    def snapshot(self) -> Any:
        return None


class GeneratedFunctionVariable(UserFunctionVariable):
    """A method that a decorator of Python's wrote into a class made inside, where it is found again."""

    owner: Any = None
    attribute: str = ""
    stands_for = None  # type: ignore[assignment]

    def parts(self) -> list[Variable]:
        return [self.owner]


class PartialVariable(Variable):
    """functools.partial(function, *args, **kwargs)."""

    function: Variable
    args: list[Variable]
    kwargs: dict[str, Variable]
    holds = ("function", "args", "kwargs")
    stands_for = functools.partial

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        match name:
            case "func":
                return self.function
            case "args":
                return TupleVariable(list(self.args))
            case "keywords":
                return ConstDictVariable(dict(self.kwargs))
        tx.unsupported("GB0022", f"the attribute {name} of a partial")

    def call_function(self, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        inner, first, given = self.function, self.args, self.kwargs
        if not isinstance(inner, UserFunctionVariable):  # which looks at its arguments by itself
            first, given = [*map(realize, first)], {k: realize(v) for k, v in given.items()}
        return tx.call(inner, [*first, *args], {**given, **kwargs})


class TransformVariable(Variable):
    """`func.grad(f)` or `func.vmap(f)`, not called yet."""

    transform: Callable
    function: Variable
    options: dict[str, Any] = field(default_factory=dict)


class NestedFunctionVariable(Variable):
    """A user function that is called in Python: its compiled version stands in."""

    function: Variable
    holds = ("function",)


class InstructionVariable(Variable):
    """A function of breaks/special_methods.py that is called in place of an instruction, with what the instruction
    says."""

    run: Any
    detail: Any


class TritonLaunchVariable(Variable):
    """`kernel[grid]`, not called yet."""

    kernel: Any
    grid: Variable


def _wrap_function(output: OutputGraph, real: types.FunctionType, source: Source | None) -> Variable:
    known = output.known.get(id(real))
    if source is not None and _is_known_by_code(output, real, source) and (known is None or known.source):
        return once(output, real, source, lambda: _given(output, real, source))
    if known is not None and source is not None:
        output.guard("IDENTITY", known.source, real)
    return identical(output, real, source, lambda: _function(output, real, source))


def _is_known_by_code(output: OutputGraph, real: types.FunctionType, source: Source) -> bool:
    """Whether it is a function that the caller may have made anew: one in the arguments, not in a module or class."""
    special = is_transformed(real) or real in BUILTINS or real in FOLDED or control_of(real) is not None
    return not special and is_users(real.__globals__) and is_given(output, source)


def _given(output: OutputGraph, real: types.FunctionType, source: Source) -> Variable:
    """A function of this code. What lies in its closure and defaults is guarded as it is read."""
    output.guard("TYPE", source, types.FunctionType)
    for name in ("__code__", "__globals__"):
        output.guard("IDENTITY", AttrSource(source, name), getattr(real, name))
    for name, kind, told in (("__defaults__", "LENGTH", len), ("__kwdefaults__", "KEYS", tuple)):
        value: Any = getattr(real, name)
        place = AttrSource(source, name)
        output.guard(kind if value else "IDENTITY", place, told(value) if value else value)
    return function_variable(output, real, source)


def _function(output: OutputGraph, real: types.FunctionType, source: Source | None) -> Variable:
    if is_transformed(real):  # func.grad(f), made outside
        transform, inner, options = real.__transform__[1:]  # type: ignore[attr-defined]
        inside = wrap(output, inner, source and ItemSource(AttrSource(source, "__transform__"), 2))
        return TransformVariable(transform, inside, options, source=source)
    return function_variable(output, real, source)


def function_variable(
    output: OutputGraph, real: types.FunctionType, source: Source | None
) -> UserFunctionVariable:
    """A function as code, globals, and defaults and closure that are read when used."""
    cells = source and AttrSource(source, "__closure__")
    closure = [
        cell_variable(output, cell, cells and ItemSource(cells, i))
        for i, cell in enumerate(real.__closure__ or ())
    ]
    count = len(real.__defaults__ or ())
    defaults_source = source and AttrSource(source, "__defaults__")
    defaults: list[Variable] = [
        # counted from the end, so that the source means the same parameter whatever comes before
        lazily(output, value, defaults_source and ItemSource(defaults_source, i - count))
        for i, value in enumerate(real.__defaults__ or ())
    ]
    kw_source = source and AttrSource(source, "__kwdefaults__")
    kwdefaults: dict[str, Variable] = {
        name: lazily(output, value, kw_source and ItemSource(kw_source, name))
        for name, value in (real.__kwdefaults__ or {}).items()
    }
    module = source and AttrSource(source, "__globals__")
    code, names, name = real.__code__, real.__globals__, real.__name__
    return UserFunctionVariable(code, names, name, defaults, kwdefaults, closure, module, real, source=source)


def cell_variable(output: OutputGraph, cell: types.CellType, source: Source | None) -> CellVariable:
    """A cell from outside: one variable however many functions share it."""
    known = output.known.get(id(cell))
    if known is not None:
        if source and known.source and source != known.source and is_given(output, source):
            output.guard("ALIASED", source, known.source)
        return known
    try:
        contents = lazily(output, cell.cell_contents, source and AttrSource(source, "cell_contents"))
    except ValueError:  # an empty cell: its variable is not assigned yet
        contents = None
    output.kept.append(cell)
    made = output.known[id(cell)] = CellVariable(contents, source=source)
    return made


def _wrap_method(output: OutputGraph, real: types.MethodType, source: Source | None) -> Variable:
    output.guard("TYPE", source, types.MethodType, source in output.epoch_sources)
    function = wrap(output, real.__func__, source and AttrSource(source, "__func__"))
    receiver = wrap(output, real.__self__, source and AttrSource(source, "__self__"))
    return UserMethodVariable(function, receiver, source=source)


# Those whose bound methods are asked of the receiver: its contents decide what they do.
_RECEIVERS = (list, tuple, dict, OrderedDict, set, frozenset, str, bytes)


def _wrap_builtin(output: OutputGraph, real: types.BuiltinFunctionType, source: Source | None) -> Variable:
    """`len`, or a bound method: `items.append` is another object each time it is asked for."""
    if real.__self__ is None or isinstance(real.__self__, (types.ModuleType, type)):
        return wrap_identity(output, real, source)
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    output.guard("EQUALS", source and AttrSource(source, "__name__"), real.__name__)
    owner = source and AttrSource(source, "__self__")
    if type(real.__self__) not in _RECEIVERS:
        output.guard("IDENTITY", owner, real.__self__)
        return once(output, real, source, lambda: object_of(real, source))
    receiver = wrap(output, real.__self__, owner)
    return UserMethodVariable(real.__name__, receiver, source=source)


def _wrap_partial(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    function = wrap(output, real.func, source and AttrSource(source, "func"))
    args = sequence_items(output, real.args, source and AttrSource(source, "args"))
    place = source and AttrSource(source, "keywords")
    output.guard("KEYS", place, tuple(real.keywords))
    kwargs: dict[str, Variable] = {}
    for name, value in real.keywords.items():
        kwargs[name] = lazily(output, value, place and ItemSource(place, name))
    build = lambda: PartialVariable(function, list(args), kwargs, source=source)  # noqa: E731
    return once(output, real, source, build)


BUILDERS[types.FunctionType] = _wrap_function
BUILDERS[types.MethodType] = _wrap_method
BUILDERS[types.BuiltinFunctionType] = _wrap_builtin
BUILDERS[types.CellType] = cell_variable
BUILDERS[functools.partial] = _wrap_partial


_READ = ("__defaults__", "__kwdefaults__", "__annotations__", "__closure__", "__type_params__")


def function_attribute(tx: Tx, value: UserFunctionVariable, name: str) -> Variable | None:
    """`function.name`; None when there is no such thing."""
    real: Any = value.real
    if name in value.attrs:
        return value.attrs[name]
    if real is not None:
        refuse_second_way(tx.output, real)
    if name == "__code__":
        return from_constant(value.code)
    if name in ("__get__", "__call__"):
        return UserMethodVariable(name, value)
    if name == "__class__":
        return from_constant(types.FunctionType)
    return _of_one_made_inside(tx, value, name) if real is None else _of_real(tx, value, name)


_WORDS = ("__name__", "__qualname__", "__doc__", "__module__")


def _of_real(tx: Tx, value: UserFunctionVariable, name: str) -> Variable | None:
    real: Any = value.real
    if name in _WORDS or (name in _READ and hasattr(real, name)):
        return tx.wrap(getattr(real, name), value.child(name))
    if name in real.__dict__:
        return tx.wrap(real.__dict__[name], value.child(name))
    if hasattr(types.FunctionType, name):
        tx.unsupported("GB0022", f"the attribute {name} of {value.describe()}")
    tx.output.guard("ABSENT", value.source, name)
    return None


def _of_one_made_inside(tx: Tx, value: UserFunctionVariable, name: str) -> Variable | None:
    if name == "__annotations__":
        value.attrs[name] = ConstDictVariable(dict(value.annotations))
        return value.attrs[name]
    if name in _MADE_INSIDE:
        return _MADE_INSIDE[name](value)
    if hasattr(types.FunctionType, name):
        tx.unsupported("GB0022", f"the attribute {name} of {value.describe()}")
    return None


_STORED = ("__name__", "__qualname__", "__module__", "__doc__", "__wrapped__", "__annotations__",
                 "__type_params__")  # fmt: skip


_MADE_INSIDE: dict[str, Callable[[UserFunctionVariable], Variable]] = {
    "__name__": lambda f: from_constant(f.name),
    "__qualname__": lambda f: from_constant(f.code.co_qualname),
    "__defaults__": lambda f: TupleVariable(f.defaults) if f.defaults else NONE,
    "__kwdefaults__": lambda f: ConstDictVariable(f.kwdefaults) if f.kwdefaults else NONE,
    "__closure__": lambda f: TupleVariable(list(f.closure)) if f.closure else NONE,
    "__type_params__": lambda f: TupleVariable([]),
    "__module__": lambda f: from_constant(f.globals.get("__name__")),
    "__doc__": lambda f: from_constant(next((c for c in f.code.co_consts[:1] if type(c) is str), None)),
}
