"""Stores to attributes: what `obj.name = value` and `del obj.name` do, by Python's own order.

Input: an abstract object, a name and a value. On an object from outside the store is a side effect, replayed after
the graph; user-defined setters and `__setattr__` are followed.
"""

from __future__ import annotations

import types
from typing import Any

from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import is_library
from stage1_capture.state.machine import Tx
from stage1_capture.state.modes import store_mode
from stage1_capture.state.mro import MISSING, class_lookup, full_name, has_dict
from stage1_capture.variables.base import (
    NONE,
    CellVariable,
    ConstantVariable,
    ConstDictVariable,
    ListVariable,
    SetVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    Variable,
    describe,
)
from stage1_capture.variables.binding import (
    child,
    dict_source,
    guard_class,
    guard_plain,
    guard_storing,
    on_class,
)
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.calls import call_function
from stage1_capture.variables.exception import ExceptionVariable
from stage1_capture.variables.object_dict import ObjectDict, described, dict_of
from stage_contracts.source import AttrSource, Source


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
        case UserFunctionVariable() if not name.startswith("__") or name in _OF_FUNCTIONS:
            if target.real is not None and name.startswith("__"):
                tx.unsupported("GB0006", f"an assignment to the attribute {name} of {describe(target)}")
            tx.output.will_change(target)
            target.attrs[name] = value
            return
        case UserDefinedObjectVariable(real=types.ModuleType() as real) if type(real) is types.ModuleType:
            if is_library(vars(real)):
                tx.unsupported("GB0092", "a change of the library's own state")
            if hasattr(types.ModuleType, name):  # `__dict__`
                tx.unsupported("GB0006", f"an assignment to the attribute {name} of a module")
            tx.output.effects.store_global(vars(real), name, value)
            return
        case UserDefinedObjectVariable(real=type()):
            _store_on_class(tx, target, name, value)
            return
        case UserDefinedObjectVariable(real=real) if not isinstance(real, (type, types.ModuleType)):
            setter = class_lookup(type(real), "__setattr__")
            if setter is object.__setattr__ or isinstance(target, ExceptionVariable):
                store_plainly(tx, target, name, value)
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
            try:
                found.__set__(target.real, None)
            except AttributeError as error:
                tx.output.guard("IDENTITY", dict_source(target, name), found)
                tx.throw(AttributeError, *error.args)
        setter = wrap(tx.output, found.fset, _class_source(target, name, found.fset, "fset"))
        assert isinstance(setter, UserFunctionVariable)
        tx.inline(setter, [target, value], {})
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
        if class_lookup(type(found), "__delete__") is not MISSING:
            tx.output.guard("IDENTITY", dict_source(target, name), found)
            tx.throw(AttributeError, "__set__")
    slot = _slot(tx, target.real, found, name)
    guard_class(tx.output, target, name)
    if not slot and not has_dict(target.real):
        try:
            object.__setattr__(target.real, name, None)  # there is no place for it: Python says so
        except AttributeError as error:
            tx.throw(AttributeError, *error.args)
    guard_storing(tx.output, target, "__setattr__")
    tx.output.will_change(target)
    if target.attrs.get(name, value) is None:  # deleted before: it is last now
        del target.attrs[name]
        target.again.add(name)
    target.attrs[name] = value
    return NONE


def _store_on_class(tx: Tx, cls: UserDefinedObjectVariable, name: str, value: Variable | None) -> None:
    """A plain value on a user-defined class: instances see it from now on. Code and descriptors are a break."""
    real: Any = cls.real
    data = isinstance(value, _DATA) and not isinstance(value, _BINDING)
    if isinstance(value, UserDefinedObjectVariable):
        data = not any(class_lookup(type(value.real), n) is not MISSING for n in _DESCRIPTOR)
    found = class_lookup(real, name)
    shown = found is MISSING or not any(class_lookup(type(found), n) is not MISSING for n in _DESCRIPTOR)
    user = real.__flags__ & _HEAP and not is_library({"__name__": real.__module__})
    plain = (
        class_lookup(type(real), "__setattr__") is type.__setattr__
        and class_lookup(type(real), name) is MISSING
    )
    if not (data and shown and user and plain) or name.startswith("__"):
        tx.unsupported("GB0006", f"an assignment to the attribute {name} of {describe(cls)}")
    if type(real) is not type:
        tx.output.guard("LACKS", AttrSource(cls.source, "__class__") if cls.source else None, name)
    tx.output.will_change(cls)
    cls.attrs[name] = value
    tx.output.class_stores.setdefault(real, {})[name] = value


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that Python code made
_BINDING = (UserFunctionVariable,)
_DESCRIPTOR = ("__get__", "__set__", "__delete__")
_DATA = (
    ConstantVariable,
    TensorVariable,
    ListVariable,
    TupleVariable,
    ConstDictVariable,
    SetVariable,
    UserDefinedObjectVariable,
)


def delete_attribute(tx: Tx, target: Variable, name: str) -> Variable:
    """`del target.name`: by a user-defined `__delattr__` where there is one."""
    if not isinstance(target, UserDefinedObjectVariable) or isinstance(target.real, (type, types.ModuleType)):
        tx.unsupported("GB0006", f"a del of the attribute {name} of {describe(target)}")
    deleter = class_lookup(type(target.real), "__delattr__")
    if deleter is object.__delattr__:
        return delete_plainly(tx, target, name)
    if not isinstance(deleter, types.FunctionType):
        tx.unsupported("GB0006", f"a del of the attribute {name} of {describe(target)}")
    method = wrap(tx.output, deleter, _class_source(target, "__delattr__", deleter))
    return call_function(tx, method, [target, ConstantVariable(name)], {})


def delete_plainly(tx: Tx, target: Variable, name: str) -> Variable:
    """object.__delattr__(target, name)."""
    if not isinstance(target, UserDefinedObjectVariable) or isinstance(target.real, (type, types.ModuleType)):
        tx.unsupported("GB0006", f"a del of the attribute {name} of {describe(target)}")
    found = class_lookup(type(target.real), name)
    if isinstance(found, property) and isinstance(found.fdel, types.FunctionType):
        deleter = wrap(tx.output, found.fdel, _class_source(target, name, found.fdel, "fdel"))
        assert isinstance(deleter, UserFunctionVariable)
        return tx.inline(deleter, [target], {})
    remover = class_lookup(type(found), "__delete__") if found is not MISSING else MISSING
    if isinstance(remover, types.FunctionType):
        descriptor = wrap(tx.output, found, dict_source(target, name))
        method = wrap(tx.output, remover, _class_source(descriptor, "__delete__", remover))
        return call_function(tx, method, [descriptor, target], {})
    if described(type(target.real), name):
        tx.unsupported("GB0006", f"a del of {name}, which the class describes")
    guard_storing(tx.output, target, "__delattr__")
    slot = _slot(tx, target.real, found, name)
    there = target.attrs.get(name) is not None
    if not slot and has_dict(target.real):
        there = name in dict_of(tx.output, target).items
    filled = slot and not target.fresh and _fills(found, target.real)
    if (
        slot and not target.fresh
    ):  # also where the program stored there before: it is deleted in what there is
        guard_plain(tx.output, target, name)
        if filled:
            wrap(tx.output, found.__get__(target.real), child(target, name))
        elif class_lookup(type(target.real), "__getattr__") is not MISSING:
            tx.unsupported("GB0006", f"a del of the empty slot {name}, of a class with a __getattr__")
        else:
            tx.output.guard("ABSENT", target.source, name)
    if slot and name not in target.attrs:
        there = filled
    guard_class(tx.output, target, name)
    if not there and not slot and not has_dict(target.real):
        try:
            object.__delattr__(target.real, name)  # there is nothing to delete it from: Python says so
        except AttributeError as error:
            tx.throw(AttributeError, *error.args)
    if not there:
        tx.throw(
            AttributeError,
            name if slot else f"{full_name(type(target.real))!r} object has no attribute {name!r}",
        )
    tx.output.will_change(target)
    if filled or (not slot and has_dict(target.real) and ObjectDict(tx.output, target).deletes(name)):
        target.attrs[name] = None
    else:
        del target.attrs[name]
    return NONE


def _slot(tx: Tx, real: Any, found: Any, name: str) -> bool:
    """Whether it is a slot of a Python class. What C keeps in an object may be read-only, as `__dict__` often is."""
    slot = isinstance(found, types.MemberDescriptorType)
    if slot and not found.__objclass__.__flags__ & _HEAP:
        tx.unsupported("GB0006", f"a change of {name}, which {type(real).__name__} keeps in C")
    return slot


def _fills(slot: Any, real: Any) -> bool:
    try:
        slot.__get__(real)
    except AttributeError:
        return False
    return True


def store_gradient(tx: Tx, tensor: TensorVariable, value: Variable) -> None:
    """`tensor.grad = value`, of a tensor from outside."""
    none = isinstance(value, ConstantVariable) and value.value is None
    if tensor.source is None or not (none or isinstance(value, TensorVariable)):
        tx.unsupported("GB0006", f"an assignment of {describe(value)} to the gradient of {describe(tensor)}")
    tx.output.will_change(tensor)
    tensor.attrs["grad"] = value


_OF_FUNCTIONS = ("__name__", "__qualname__", "__module__", "__doc__", "__wrapped__", "__annotations__",
                 "__type_params__")  # fmt: skip


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


def _class_source(target: Variable, name: str, function: Any, *more: str) -> Source | None:
    """How something found on the class of `target` is reached again; None for the library's."""
    return (
        None if function is not None and is_library(function.__globals__) else on_class(target, name, *more)
    )


__all__ = ["delete_attribute", "delete_plainly", "store_attribute", "store_plainly"]
