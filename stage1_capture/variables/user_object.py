"""Any other object, known by what it is: an instance of a class, a module, a class, a builtin, an operator.

Input: variables/builder.py makes one of a real object, variables/construct.py one of a call of a class.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from dataclasses import dataclass, field
from typing import Any

from stage0_eager.library.custom_op import CustomOpDef
from stage0_eager.nn import Module
from stage0_eager.optim import Optimizer
from stage0_eager.table.operator import Operator
from stage0_eager.triton.kernels import is_triton_kernel
from stage1_capture.state.graph_builder import OutputGraph, is_users
from stage1_capture.state.machine import BUILTINS, Tx
from stage1_capture.state.mro import MISSING, class_lookup, made_inside
from stage1_capture.variables.base import FROM_CONSTANT_BY_CLASS, Variable, from_constant
from stage1_capture.variables.builder import BUILDERS, BUILDERS_BY_CLASS, identical, once
from stage1_capture.variables.derived import constant_of, contents_of, python_base
from stage1_capture.variables.keys import ObjectKey, by_identity, hashable
from stage1_capture.variables.sequence import TupleVariable, sequence_items
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.graph import Node
from stage_contracts.source import (
    Source,
)


@dataclass(eq=False)
class UserDefinedObjectVariable(Variable):
    """Any other object, known by what it is: a module, a class, a builtin, an operator, a user's instance.

    attrs: what the program stored on it (None: deleted), over what `real` has.
    fresh: made inside. `real` is then an instance of its class without any attribute.
    base: what it holds as an instance of a class of Python's (a dict's items, a string), for a class derived from one.
    """

    real: Any
    attrs: dict[str, Variable | None] = field(default_factory=dict)
    fresh: bool = False
    private: bool = False  # made by the capture for the program, which must not hand it on
    class_source: Source | None = None  # of a fresh one: where its class was found
    base: Any = None
    namespace: Any = None  # its `__dict__`, once the program asked for it
    again: set[str] = field(default_factory=set)  # what it deleted and stored again, which is last then

    def python_type(self, tx: Tx) -> type:
        return type(self.real)

    def describe(self) -> str:
        named = isinstance(self.real, _NAMED)
        return self.real.__name__ if named else f"an object of class {type(self.real).__name__}"

    def unwrapped(self) -> Variable:
        return self if self.base is None else self.base

    def snapshot(self) -> Any:
        return None

    def hash_key(self, tx: Tx) -> Any:
        """Its identity where its class leaves hash and equality to Python; of a frozen dataclass its fields."""
        cls = type(self.real)
        if self.base is not None:
            if class_lookup(cls, "__hash__") is not type(getattr(self.base, "value", ())).__hash__:
                tx.unsupported("GB0058", f"a key whose class {cls.__name__} computes its hash")
            return hashable(tx, self.base)
        if isinstance(self.real, _ITSELF) and not self.fresh:
            return self.real
        equal, hashed = class_lookup(cls, "__eq__"), class_lookup(cls, "__hash__")
        if hashed is None:
            tx.throw(TypeError, f"unhashable type: {cls.__name__!r}")
        if equal is object.__eq__ and hashed is object.__hash__:
            return by_identity(tx, self)
        if _made_by_dataclass(cls, equal, hashed):
            fields = [
                BUILTINS[getattr](tx, [self, from_constant(f.name)], {}) for f in dataclasses.fields(cls)
            ]
            return ObjectKey(self, (cls, tuple(hashable(tx, field) for field in fields)))
        tx.unsupported("GB0058", f"a key whose class {cls.__name__} computes its hash")


def _made_by_dataclass(cls: type, equal: Any, hashed: Any) -> bool:
    """Whether a frozen dataclass compares and hashes its fields, as the decorator wrote it."""
    params = getattr(cls, "__dataclass_params__", None)
    generated = all(
        isinstance(m, types.FunctionType) and m.__code__.co_filename == "<string>" for m in (equal, hashed)
    )
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    plain = all(f.compare and f.hash is None for f in fields)
    return params is not None and params.frozen and params.eq and generated and plain


_ITSELF = (types.ModuleType, types.BuiltinFunctionType, Operator, enum.Enum, type)
_NAMED = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType, Operator)
FROM_CONSTANT_BY_CLASS.update(
    dict.fromkeys((types.ModuleType, types.BuiltinFunctionType, enum.Enum), UserDefinedObjectVariable)
)
FROM_CONSTANT_BY_CLASS[type] = lambda value: made_inside(value) or UserDefinedObjectVariable(value)


@dataclass(eq=False)
class HandleVariable(UserDefinedObjectVariable):
    """What registering a hook returns.

    node: holds the hook of a value computed inside, `tensor`.
    call: what the residual code does for a tensor from outside: the tensor, the method, its arguments.
    """

    node: Node | None = None
    tensor: TensorVariable | None = None
    call: tuple[TensorVariable, str, tuple[Variable, ...]] | None = None


@dataclass(eq=False)
class SuperVariable(Variable):
    """super(): attribute lookup on `receiver` that starts after `owner` in the class order."""

    owner: type
    receiver: Variable


def wrap_identity(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """What is guarded to be this very object: a class, module, builtin, operator, enum member."""
    return identical(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))


def _wrap_enum(output: OutputGraph, real: enum.Enum, source: Source | None) -> Variable:
    """A member; one that is a string or a number too holds that. Its class can change, as any object's."""
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    known = wrap_identity(output, real, source)
    base = python_base(type(real))
    if base is not None and known.base is None:  # type: ignore[attr-defined]
        known.base = constant_of(real, base)  # type: ignore[attr-defined]
    return known


def _wrap_module(output: OutputGraph, real: Module, source: Source | None) -> Variable:
    refuse_watched(output, type(real))
    if source is not None:
        output.module_sources.add(source)
    output.guard("TYPE", source, type(real), True)  # `module.__class__ = Other` moves the epoch
    return identical(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))


def refuse_watched(output: OutputGraph, cls: type) -> None:
    """A class of the user's that sees every read of an attribute would see those of guards, and of capture, too."""
    asked = class_lookup(cls, "__getattribute__")
    if isinstance(asked, types.FunctionType) and is_users(asked.__globals__):
        output.unsupported("GB0052", f"an object of class {cls.__name__}, which has a __getattribute__")


def wrap_object(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """A user's instance: its class is guarded now, its attributes as they are read."""
    if is_triton_kernel(real):
        return wrap_identity(output, real, source)
    refuse_watched(output, type(real))
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    if is_named_tuple(type(real)):
        items = sequence_items(output, real, source)
        return once(output, real, source, lambda: TupleVariable(items, type(real), source=source))

    def build() -> UserDefinedObjectVariable:
        made = UserDefinedObjectVariable(real, source=source)
        made.base = contents_of(output, real, source)
        if made.base is not None:
            made.base.part_of = made
        return made

    return once(output, real, source, build)


def is_named_tuple(cls: type) -> bool:
    """As Python makes them: what only adds methods to one; not what holds attributes too, or reads its items itself."""
    named = issubclass(cls, tuple) and class_lookup(cls, "_fields") is not MISSING
    return named and cls.__dictoffset__ == 0 and not any(
        isinstance(class_lookup(cls, name), types.FunctionType)
        for name in ("__getitem__", "__iter__", "__len__", "__eq__", "__hash__", "__bool__", "__contains__",
                     "__getattr__", "__setattr__")
    )  # fmt: skip


def _wrap_optimizer(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    if source is not None:
        output.optimizer_sources.add(source)
    return wrap_object(output, real, source)


BUILDERS.update(dict.fromkeys((types.ModuleType, Operator, CustomOpDef), wrap_identity))
BUILDERS_BY_CLASS.update(
    {
        object: wrap_object,
        Module: _wrap_module,
        Optimizer: _wrap_optimizer,
        type: wrap_identity,
        enum.Enum: _wrap_enum,
    }
)
