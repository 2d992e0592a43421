"""Any other object, known by what it is: an instance of a class, a module, a class, a builtin, an operator.

Input: variables/builder.py makes one of a real object, variables/construct.py one of a call of a class.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable
from dataclasses import field
from typing import Any, NoReturn

import numpy as np

from stage0_eager.library.custom_op import CustomOpDef
from stage0_eager.nn import Module
from stage0_eager.optim import Optimizer
from stage0_eager.state import STATE
from stage0_eager.table.operator import Operator
from stage0_eager.triton.kernels import is_triton_kernel
from stage1_capture.state.entry import STACK_PREFIX
from stage1_capture.state.graph_builder import OutputGraph, is_library_class, is_users
from stage1_capture.state.machine import (
    BUILTINS,
    CALLED_BY_CLASS,
    CONSTRUCTORS,
    CONTROLLED,
    FOLDED,
    KINDS,
    Args,
    Kwargs,
    Raised,
    Tx,
    control_of,
)
from stage1_capture.state.prototypes import made_inside
from stage1_capture.variables.attributes import instance_attribute, module_attribute
from stage1_capture.variables.base import (
    FROM_CONSTANT_BY_CLASS,
    Variable,
    equal,
    from_constant,
    load_attribute,
    same_object,
    walked,
    yes,
)
from stage1_capture.variables.binding import bind, guard_lacking, on_class
from stage1_capture.variables.builder import BUILDERS, BUILDERS_BY_CLASS, identical, once, wrap_identity
from stage1_capture.variables.class_attributes import (
    class_attribute,
    parametrised,
    super_attribute,
    takes_types,
)
from stage1_capture.variables.constant import union
from stage1_capture.variables.derived import constant_of, contents_of, python_base
from stage1_capture.variables.function import TritonLaunchVariable
from stage1_capture.variables.hash_keys import ObjectKey, by_identity, hashable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.numpy_functions import (
    FUNCTION_KINDS,
    call_in_numpy,
    function_attribute,
    is_numpys,
)
from stage1_capture.variables.sequence import TupleVariable, sequence_items
from stage1_capture.variables.special_method_results import checked_result
from stage1_capture.variables.store import DESCRIPTOR, store_on_object
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.class_lookup import MISSING, class_lookup, full_name
from stage_contracts.controls import register
from stage_contracts.graph import Node
from stage_contracts.source import AttrSource, RegisteredSource, Source


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
    is_compared_by_identity = yes
    same_as = same_object

    def python_type(self, tx: Tx) -> type:
        return type(self.real)

    def describe(self) -> str:
        named = isinstance(self.real, _NAMED)
        return self.real.__name__ if named else f"an object of class {type(self.real).__name__}"

    def class_name(self) -> str:
        return full_name(type(self.real))

    def lacks(self, name: str) -> str:
        if isinstance(self.real, types.ModuleType):
            return f"module {self.real.__name__!r} has no attribute {name!r}"
        if isinstance(self.real, type):
            return f"type object {full_name(self.real)!r} has no attribute {name!r}"
        return super().lacks(name)

    def class_place(self) -> Source | None:
        if self.source is not None:
            return AttrSource(self.source, "__class__")
        cls = type(self.real)
        if made_inside(cls):
            return None
        if self.class_source is None and self.fresh and not is_library_class(cls):
            return RegisteredSource(register(cls))
        return self.class_source

    def parts(self) -> list[Variable]:
        made = made_inside(self.real if isinstance(self.real, type) else type(self.real))
        return [v for v in (self.base, *self.attrs.values(), made) if v is not None]

    # ---- attributes --------------------------------------------------------------------------------------

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        real, cls = self.real, type(self.real)  # isinstance would ask a `__getattribute__` for `__class__`
        if issubclass(cls, types.ModuleType):
            return module_attribute(tx, self, name)
        if issubclass(cls, type):
            return class_attribute(tx, self, name)
        if real is STATE and name == "grad_enabled":
            return from_constant(tx.output.grad_enabled)
        if real is STATE and name in tx.output.modes:
            return from_constant(tx.output.modes[name])
        if issubclass(cls, FUNCTION_KINDS):
            return function_attribute(self, name)
        if self.private and isinstance(real, (np.finfo, np.iinfo)) and name in self.attrs:
            return self.attrs[name]  # which NumPy would compute
        return instance_attribute(tx, self, name)

    def store_attribute(self, tx: Tx, name: str, value: Variable) -> None:
        store_on_object(tx, self, name, value)

    def is_plain_data(self) -> bool:
        return all(class_lookup(type(self.real), name) is MISSING for name in DESCRIPTOR)

    def special_method(self, tx: Tx, name: str) -> Variable | None:
        cls = type(self.real)
        if cls in (type, types.ModuleType):
            return None
        found = class_lookup(cls, name)
        if isinstance(self.real, (type, types.ModuleType)):  # what a metaclass says
            own = isinstance(self.real, type) and isinstance(found, types.FunctionType)
            return UserMethodVariable(tx.wrap(found, on_class(self, name)), self) if own else None
        if found is MISSING:
            guard_lacking(tx.output, self, name)
        return None if found is MISSING or found is None else bind(tx, self, found, name, on_instance=False)

    # ---- calls -------------------------------------------------------------------------------------------

    def call_function(self, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        real = self.real
        if (rule := control_of(real)) is not None:
            return CONTROLLED[rule.kind](tx, rule, self, args, kwargs)
        if is_numpys(real):
            return call_in_numpy(tx, real, args, kwargs)
        kind = Operator if isinstance(real, Operator) else type(real)  # a custom operator too
        if kind in CALLED_BY_CLASS:
            return CALLED_BY_CLASS[kind](tx, self, args, kwargs)
        if type(real).__name__ == "ConstexprFunction":  # triton.cdiv
            return tx.fold(real.fn, args, kwargs)
        if isinstance(real, _OF_C) and not self.fresh:
            return self._call_of_c(tx, args, kwargs)
        python = isinstance(class_lookup(type(real), "__call__"), types.FunctionType)
        method = self.special_method(tx, "__call__") if python else None
        return super().call_function(tx, args, kwargs) if method is None else tx.call(method, args, kwargs)

    def _call_of_c(self, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        """A class, or a function of C's."""
        real = self.real
        if real in BUILTINS:
            return BUILTINS[real](tx, args, kwargs)
        if real in FOLDED:
            return tx.fold(real, args, kwargs)
        if isinstance(real, _METHODS_OF_C) and args:  # list.append(items, x)
            if not issubclass(args[0].python_type(tx), real.__objclass__):  # Python raises its own error
                name = f"{real.__objclass__.__name__}.{real.__name__}"
                tx.unsupported("GB0065", f"a call of {name} on {args[0].describe()}")
            return args[0].call_method(tx, real.__name__, args[1:], kwargs)
        if isinstance(real, type):
            maker = next(CONSTRUCTORS[c] for c in real.__mro__ if c in CONSTRUCTORS)
            return maker(tx, self, args, kwargs)
        return super().call_function(tx, args, kwargs)

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """One that a class derived from one of Python's leaves to Python works on what the object holds."""
        if self.base is None:
            return super().call_method(tx, name, args, kwargs)
        if name == "__getitem__" and issubclass(self.base.python_type(tx), dict):
            missing = self.special_method(tx, "__missing__")
            if missing is not None and hashable(tx, args[0]) not in self.base.items:
                return tx.call(missing, args, {})
        result = self.base.call_method(tx, name, args, kwargs)
        return self if result is self.base else result

    # ---- truth, items, walking ---------------------------------------------------------------------------

    def truth(self, tx: Tx) -> bool:
        for name in ("__bool__", "__len__"):
            answer = self.ask(tx, name)
            if answer is not None:
                return checked_result(tx, self, name, answer).truth(tx)
        return True

    def length(self, tx: Tx) -> Variable:
        answer = self.ask(tx, "__len__")
        return tx.fold(len, [self], {}) if answer is None else checked_result(tx, self, "__len__", answer)

    def contains(self, tx: Tx, item: Variable) -> bool:
        answer = self.ask(tx, "__contains__", item)
        if answer is not None:
            return answer.truth(tx)
        return any(equal(tx, found, item) for found in walked(tx, self))

    def subscript(self, tx: Tx, key: Variable) -> Variable:
        if is_triton_kernel(self.real):
            return TritonLaunchVariable(self.real, key)
        if takes_types(self.real):
            return parametrised(tx, self, key)
        own = isinstance(self.real, type) and class_lookup(self.real, "__class_getitem__") is not MISSING
        if own and self.special_method(tx, "__getitem__") is None:
            return tx.call(load_attribute(tx, self, "__class_getitem__"), [key], {})
        return super().subscript(tx, key)

    def delete_subscript(self, tx: Tx, key: Variable) -> None:
        if self.ask(tx, "__delitem__", key) is None:
            super().delete_subscript(tx, key)

    def iterator(self, tx: Tx) -> Variable:
        return self if self.is_foreign_iterator() else super().iterator(tx)

    def is_iterator(self, tx: Tx) -> bool:
        return self.is_foreign_iterator() or super().is_iterator(tx)

    def is_foreign_iterator(self) -> bool:
        found = class_lookup(type(self.real), "__next__")
        return not self.fresh and isinstance(found, types.WrapperDescriptorType)

    def next_variable(self, tx: Tx) -> Variable | None:
        if not self.is_foreign_iterator():
            return super().next_variable(tx)
        if str(self.source).startswith(STACK_PREFIX):
            tx.unsupported("GB0085", "a loop in which the frame broke goes on with the iterator it had")
        tx.unsupported("GB0010", "an iterator from outside is walked")

    def ask_length(self, tx: Tx) -> None:
        """A user-defined class is asked for the length, and what it gives is gone by. A TypeError says nothing."""
        for name in ("__len__", "__length_hint__"):
            found = class_lookup(type(self.real), name)
            if isinstance(found, types.FunctionType) and is_users(found.__globals__):
                method: Any = self.special_method(tx, name)
                try:
                    tx.call(method, [], {})
                    return
                except Raised as raised:
                    if not isinstance(raised.value.real, TypeError):
                        raise
                    tx.resume_here()

    # ---- operators -----------------------------------------------------------------------------------------

    def operand_class(self) -> type | None:
        return None if isinstance(self.real, (type, types.ModuleType)) else type(self.real)

    def union_member(self) -> tuple[Any, ...]:
        plain = isinstance(self.real, type) and class_lookup(type(self.real), "__or__") is type.__or__
        return (self.real,) if plain or isinstance(self.real, types.UnionType) else ()

    def binary(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Variable) -> Variable | None:
        return union(symbol, self, right)

    def defines(self, name: str) -> bool:
        if isinstance(self.real, type):
            return False
        return class_lookup(type(self.real), name) not in (MISSING, getattr(object, name))

    # ---- what it is --------------------------------------------------------------------------------------

    def known_object(self) -> Any:
        return self.real

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return refuse(self) if self.base is None else self.base.as_proxy(leaf, refuse)

    def type_word(self, tx: Tx) -> Any:
        return self.real

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
            fields = [load_attribute(tx, self, f.name) for f in dataclasses.fields(cls)]
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


_METHODS_OF_C = (types.MethodDescriptorType, types.WrapperDescriptorType)
_OF_C = (type, types.BuiltinFunctionType, *_METHODS_OF_C, *FUNCTION_KINDS)
_ITSELF = (types.ModuleType, types.BuiltinFunctionType, Operator, enum.Enum, type)
_NAMED = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType, Operator)
FROM_CONSTANT_BY_CLASS.update(
    dict.fromkeys((types.ModuleType, types.BuiltinFunctionType, enum.Enum), UserDefinedObjectVariable)
)
FROM_CONSTANT_BY_CLASS[type] = lambda value: made_inside(value) or UserDefinedObjectVariable(value)


class HandleVariable(UserDefinedObjectVariable):
    """What registering a hook returns.

    node: holds the hook of a value computed inside, `tensor`.
    call: what the residual code does for a tensor from outside: the tensor, the method, its arguments.
    """

    node: Node | None = None
    tensor: TensorVariable | None = None
    call: tuple[TensorVariable, str, tuple[Variable, ...]] | None = None

    def parts(self) -> list[Variable]:
        return super().parts() if self.call is None else [self.call[0], *self.call[2]]


class SuperVariable(Variable):
    """super(): attribute lookup on `receiver` that starts after `owner` in the class order."""

    owner: type
    receiver: Variable

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        return super_attribute(tx, self, name)

    def parts(self) -> list[Variable]:
        made = made_inside(self.owner)
        return [self.receiver] if made is None else [made, self.receiver]


def _wrap_enum(output: OutputGraph, real: enum.Enum, source: Source | None) -> Variable:
    """A member; one that is a string or a number too holds that. Its class can change, as any object's."""
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    known = wrap_identity(output, real, source)
    base = python_base(type(real))
    if base is not None and known.base is None:
        known.base = constant_of(real, base)  # type: ignore[attr-defined]
    return known


def _wrap_module(output: OutputGraph, real: Module, source: Source | None) -> Variable:
    if source is not None:
        output.module_sources.add(source)
    output.guard("TYPE", source, type(real), True)  # `module.__class__ = Other` moves the epoch
    return identical(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))


def _wrap_class(output: OutputGraph, real: type, source: Source | None) -> Variable:
    if class_lookup(type(real), "__getattribute__") is not type.__getattribute__:
        output.unsupported("GB0052", f"the class {real.__name__}, whose metaclass has a __getattribute__")
    return wrap_identity(output, real, source)


def wrap_object(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """A user's instance: its class is guarded now, its attributes as they are read."""
    if is_triton_kernel(real):
        return wrap_identity(output, real, source)
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


# A class of Python's own metaclass has nothing to refuse.
BUILDERS.update(dict.fromkeys((type, types.ModuleType, Operator, CustomOpDef), wrap_identity))
BUILDERS_BY_CLASS[object] = wrap_object
BUILDERS_BY_CLASS[Module] = _wrap_module
BUILDERS_BY_CLASS[Optimizer] = _wrap_optimizer
BUILDERS_BY_CLASS[type] = _wrap_class
BUILDERS_BY_CLASS[enum.Enum] = _wrap_enum
KINDS["object"] = UserDefinedObjectVariable
