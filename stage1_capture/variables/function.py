"""What is called: functions, bound methods, partials; and the cells that functions share.

Input: variables/builder.py makes one of a real one, opcodes one of a def, attribute lookup one of a method.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stage0_eager.transforms.vmap import is_transformed
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable, describe
from stage1_capture.variables.builder import BUILDERS, identical, lazily, once, wrap
from stage1_capture.variables.keys import ObjectKey
from stage1_capture.variables.sequence import sequence_items
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable, wrap_identity
from stage_contracts.source import (
    AttrSource,
    ItemSource,
    Source,
)


@dataclass(eq=False)
class CellVariable(Variable):
    """A variable shared between functions. One from outside has a source; storing to it is a side effect."""

    contents: Variable | None = None

    def python_type(self, tx: Tx) -> type:
        return types.CellType

    def snapshot(self) -> Any:
        return self.contents


@dataclass(eq=False)
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

    def python_type(self, tx: Tx) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"the function {self.name}"

    def hash_key(self, tx: Tx) -> Any:
        return self.real if self.real is not None else ObjectKey(self, id(self))

    def snapshot(self) -> Any:
        return None


@dataclass(eq=False)
class GeneratedFunctionVariable(UserFunctionVariable):
    """A method that a decorator of Python's wrote into a class made inside, where it is found again."""

    owner: Any = None
    attribute: str = ""

    def python_type(self, tx: Tx) -> type:
        tx.unsupported("GB0048", f"the class of {describe(self)}")


@dataclass(eq=False)
class UserMethodVariable(Variable):
    """A callable (function, operator, or the name of a builtin container's method) with its self."""

    function: Variable | str
    receiver: Variable

    def python_type(self, tx: Tx) -> type:
        named = isinstance(self.function, str) and not isinstance(self.receiver, TensorVariable)
        of_c = isinstance(getattr(self.function, "real", None), types.MethodDescriptorType)
        return types.BuiltinFunctionType if named or of_c else types.MethodType

    def describe(self) -> str:
        name = self.function if isinstance(self.function, str) else describe(self.function)
        return f"the method {name} of {describe(self.receiver)}"


@dataclass(eq=False)
class PartialVariable(Variable):
    """functools.partial(function, *args, **kwargs)."""

    function: Variable
    args: list[Variable]
    kwargs: dict[str, Variable]

    def python_type(self, tx: Tx) -> type:
        return functools.partial


@dataclass(eq=False)
class TransformVariable(Variable):
    """`func.grad(f)` or `func.vmap(f)`, not called yet."""

    transform: Callable
    function: Variable
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class NestedFunctionVariable(Variable):
    """A function of the user's that is called in Python: its compiled version stands in."""

    function: Variable


@dataclass(eq=False)
class InstructionVariable(Variable):
    """A function of breaks/special_methods.py that is called in place of an instruction, with what the instruction
    says."""

    run: Any
    detail: Any


@dataclass(eq=False)
class TritonLaunchVariable(Variable):
    """`kernel[grid]`, not called yet."""

    kernel: Any
    grid: Variable


def _wrap_function(output: OutputGraph, real: types.FunctionType, source: Source | None) -> Variable:
    return identical(output, real, source, lambda: _function(output, real, source))


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
    return UserFunctionVariable(
        real.__code__,
        real.__globals__,
        real.__name__,
        defaults,
        kwdefaults,
        closure,
        module,
        real,
        source=source,
    )


def cell_variable(output: OutputGraph, cell: types.CellType, source: Source | None) -> CellVariable:
    """A cell from outside: one variable however many functions share it."""
    known = output.known.get(id(cell))
    if known is not None:
        return known
    try:
        contents = lazily(output, cell.cell_contents, source and AttrSource(source, "cell_contents"))
    except ValueError:  # an empty cell: its variable is not assigned yet
        contents = None
    output.kept.append(cell)
    made = output.known[id(cell)] = CellVariable(contents, source=source)
    return made


def _wrap_cell(output: OutputGraph, real: types.CellType, source: Source | None) -> Variable:
    return cell_variable(output, real, source)


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
        return once(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))
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


BUILDERS.update(
    {
        types.FunctionType: _wrap_function,
        types.MethodType: _wrap_method,
        types.BuiltinFunctionType: _wrap_builtin,
        types.CellType: _wrap_cell,
        functools.partial: _wrap_partial,
    }
)
