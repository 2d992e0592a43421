"""Any other object, known by what it is: an instance of a class, a module, a class, a builtin, an operator.

Input: variables/builder.py makes one of a real object, variables/construct.py one of a call of a class.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from dataclasses import dataclass, field
from typing import Any

from stage0_eager.table.operator import Operator
from stage1_capture.state.machine import BUILTINS, Tx
from stage1_capture.state.mro import class_lookup, made_inside
from stage1_capture.variables.base import FROM_CONSTANT_BY_CLASS, Variable, from_constant
from stage1_capture.variables.keys import ObjectKey, by_identity, hashable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.graph import Node
from stage_contracts.source import Source


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
