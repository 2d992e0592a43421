"""Stores to attributes: what `obj.name = value` and `del obj.name` do, by Python's own order.

Input: an abstract object, a name and a value. On an object from outside the store is a side effect, replayed after
the graph; setters and `__setattr__` of the user's are followed.
"""

from __future__ import annotations

import types
from typing import Any

from stage0_eager.nn import Module, Parameter
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor
from stage1_capture.capture.attributes import class_of, dict_source, lookup
from stage1_capture.capture.builder import wrap
from stage1_capture.capture.calls import call_function
from stage1_capture.capture.inline import inline_call
from stage1_capture.capture.modes import store_mode
from stage1_capture.capture.output_graph import is_library
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.tensor_attributes import MISSING, class_lookup
from stage1_capture.capture.variables import (
    NONE,
    CellVariable,
    ConstantVariable,
    ExceptionVariable,
    TensorVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    Variable,
    describe,
)
from stage_contracts.source import AttrSource

Tx = InstructionTranslator


def store_attribute(tx: Tx, target: Variable, name: str, value: Variable) -> None:
    """`target.name = value`."""
    match target:
        case UserDefinedObjectVariable(real=real) if real is STATE:
            store_mode(tx, name, value)
            return
        case ExceptionVariable() if name in (
            "__cause__",
            "__context__",
            "__suppress_context__",
            "__traceback__",
        ):
            _store_on_exception(tx, target, name, value)
            return
        case TensorVariable(real=Tensor()) if name == "grad":
            store_gradient(tx, target, value)
            return
        case CellVariable() if name == "cell_contents":
            tx.output.will_change(target)
            target.contents = value
            return
        case UserFunctionVariable(real=None) if not name.startswith("__") or name in _OF_FUNCTIONS:
            target.attrs[name] = value
            return
        case UserDefinedObjectVariable(real=real) if not isinstance(real, (type, types.ModuleType)):
            setter = class_lookup(type(real), "__setattr__")
            if setter is object.__setattr__ or isinstance(target, ExceptionVariable):
                store_plainly(tx, target, name, value)
            elif setter is Module.__setattr__ and not target.fresh:
                _store_on_module(tx, target, name, value)
            elif isinstance(setter, types.FunctionType):
                method = wrap(tx.output, setter, _class_source(target, "__setattr__", setter))
                call_function(tx, method, [target, ConstantVariable(name), value], {})
            else:
                tx.unsupported("GB0006", f"an assignment to the attribute {name} of {describe(target)}")
            return
    tx.unsupported("GB0006", f"an assignment to the attribute {name} of {describe(target)}")


def store_plainly(tx: Tx, target: Variable, name: str, value: Variable) -> Variable:
    """object.__setattr__(target, name, value): a data descriptor of the class, or the object's own dict."""
    if not isinstance(target, UserDefinedObjectVariable) or isinstance(target.real, (type, types.ModuleType)):
        tx.unsupported("GB0006", f"an assignment to the attribute {name} of {describe(target)}")
    found = class_lookup(type(target.real), name)
    if isinstance(found, property):
        if found.fset is None:
            cls = type(target.real).__name__
            tx.throw(AttributeError, f"property {name!r} of {cls!r} object has no setter")
        setter = wrap(tx.output, found.fset, _class_source(target, name, found.fset, "fset"))
        assert isinstance(setter, UserFunctionVariable)
        inline_call(tx, setter, [target, value], {})
        return NONE
    if found is not MISSING and not isinstance(found, types.MemberDescriptorType):
        writer = class_lookup(type(found), "__set__")
        if isinstance(writer, types.FunctionType):
            descriptor = wrap(tx.output, found, dict_source(target, name))
            method = wrap(tx.output, writer, _class_source(descriptor, "__set__", writer))
            call_function(tx, method, [descriptor, target, value], {})
            return NONE
        if writer is not MISSING:
            tx.unsupported("GB0006", f"the descriptor {type(target.real).__name__}.{name}")
    if found is MISSING and not hasattr(target.real, "__dict__"):
        tx.throw(AttributeError, f"{type(target.real).__name__!r} object has no attribute {name!r}")
    tx.output.will_change(target)
    target.attrs.pop(name, None)
    target.attrs[name] = value
    return NONE


def delete_attribute(tx: Tx, target: Variable, name: str) -> Variable:
    """`del target.name`, of something in the object's own dict or slots."""
    plain = isinstance(target, UserDefinedObjectVariable) and not isinstance(
        target.real, (type, types.ModuleType, Module)
    )
    if not plain or class_lookup(type(target.real), "__delattr__") is not object.__delattr__:  # type: ignore
        tx.unsupported("GB0006", f"a del of the attribute {name} of {describe(target)}")
    assert isinstance(target, UserDefinedObjectVariable)
    if hasattr(type(class_lookup(type(target.real), name)), "__set__"):
        tx.unsupported("GB0006", f"a del of {name}, which the class describes")
    if lookup(tx, target, name) is None or name not in {*target.attrs, *getattr(target.real, "__dict__", {})}:
        tx.throw(AttributeError, f"{type(target.real).__name__!r} object has no attribute {name!r}")
    tx.output.will_change(target)
    if name in getattr(target.real, "__dict__", {}):
        target.attrs[name] = None
    else:
        target.attrs.pop(name, None)
    return NONE


def store_gradient(tx: Tx, tensor: TensorVariable, value: Variable) -> None:
    """`tensor.grad = value`, of a tensor from outside."""
    none = isinstance(value, ConstantVariable) and value.value is None
    if tensor.source is None or not (none or isinstance(value, TensorVariable)):
        tx.unsupported("GB0006", f"an assignment of {describe(value)} to the gradient of {describe(tensor)}")
    tx.output.will_change(tensor)
    tensor.attrs["grad"] = value


_OF_FUNCTIONS = ("__name__", "__qualname__", "__module__", "__doc__", "__wrapped__")


# ---- special homes -------------------------------------------------------------------------------


def _store_on_exception(tx: Tx, target: ExceptionVariable, name: str, value: Variable) -> None:
    if not target.fresh:
        tx.unsupported("GB0006", f"an assignment to {name} of an exception from outside")
    none = type(value) is ConstantVariable and value.value is None
    if name == "__cause__":
        target.cause, target.suppress = None if none else value, True
    elif name == "__context__":
        target.context = None if none else value
    elif name == "__suppress_context__":
        target.suppress = bool(tx.constant(value, name))


def _store_on_module(tx: Tx, target: UserDefinedObjectVariable, name: str, value: Variable) -> None:
    """A plain attribute or a buffer of a module; replayed by an assignment, which bumps the epoch."""
    registries = target.real.__dict__
    registered = any(name in registries[r] for r in ("_parameters", "_modules"))
    is_parameter = isinstance(value, TensorVariable) and isinstance(value.real, Parameter)
    is_module = isinstance(value, UserDefinedObjectVariable) and isinstance(value.real, Module)
    if registered or is_parameter or is_module:
        tx.unsupported("GB0006", f"an assignment to the parameter or module {name}")
    if name in registries["_buffers"] and not isinstance(value, TensorVariable):
        tx.unsupported("GB0006", f"an assignment to the buffer {name} of something else than a tensor")
    store_plainly(tx, target, name, value)


def _class_source(target: Variable, name: str, function: Any, *more: str) -> AttrSource | None:
    """How something found on the class of `target` is reached again; None for the library's."""
    base = class_of(target)
    if base is None or (function is not None and is_library(function.__globals__)):
        return None
    source = AttrSource(base, name)
    for part in more:
        source = AttrSource(source, part)
    return source


__all__ = ["delete_attribute", "store_attribute", "store_plainly"]
