"""What is called: functions, bound methods, partials; and the cells that functions share.

Input: variables/builder.py makes one of a real one, opcodes one of a def, attribute lookup one of a method.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable, describe
from stage1_capture.variables.keys import ObjectKey
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.source import Source


@dataclass(eq=False)
class CellVariable(Variable):
    """A variable shared between functions. One from outside has a source; storing to it is a side effect."""

    contents: Variable | None = None

    def python_type(self, tx: Tx) -> type:
        return types.CellType


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
