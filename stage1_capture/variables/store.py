"""Stores to attributes: what `obj.name = value` and `del obj.name` do, by Python's own order.

Input: an abstract object, a name and a value. On an object from outside the store is a side effect, replayed after
the graph; user-defined setters and `__setattr__` are followed.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NoReturn

from stage0_eager.state import STATE
from stage1_capture.state.graph_builder import is_library, is_library_class
from stage1_capture.state.machine import Tx, attempt
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.binding import dict_source, guard_class, guard_plain, guard_storing, on_class
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.object_dict import ObjectDict, described, dict_of
from stage_contracts.class_lookup import MISSING, class_lookup, full_name, has_dict, made_by_python
from stage_contracts.source import Source

if TYPE_CHECKING:
    from stage1_capture.variables.base import Variable
    from stage1_capture.variables.user_object import UserDefinedObjectVariable


def store_on_object(tx: Tx, target: UserDefinedObjectVariable, name: str, value: Variable) -> None:
    """On an instance: by its class's `__setattr__`. On a module: a global. On a class: what instances see."""
    real = target.real
    if real is STATE:
        store_mode(tx, name, value)
    elif type(real) is types.ModuleType:
        if is_library(vars(real)):
            tx.unsupported("GB0092", "a change of the library's own state")
        if hasattr(types.ModuleType, name):  # `__dict__`
            tx.unsupported("GB0102", f"an assignment to the attribute {name} of a module")
        tx.output.effects.store_global(vars(real), name, value)
    elif isinstance(real, type):
        _store_on_class(tx, target, name, value)
    elif isinstance(real, types.ModuleType):
        refuse(tx, target, name, STORE)
    else:
        setter = class_lookup(type(real), "__setattr__")
        if setter is object.__setattr__ or isinstance(real, BaseException):
            store_plainly(tx, target, name, value)
        elif isinstance(setter, types.FunctionType):
            method = tx.wrap(setter, _class_source(target, "__setattr__", setter))
            tx.call(method, [target, from_constant(name), value], {})
        else:
            tx.unsupported("GB0103", f"{STORE} {name} of {target.describe()}")


def _takes_tensors_elsewhere(tx: Tx) -> bool:
    """Whether a tensor that the outermost frame has now is not on the CPU."""
    values = [realize(value) for value in tx.output.frames[0].locals.values() if value is not None]
    return any(t.meta.device.type != "cpu" for value in values for t in value.tensors())


STORE, DELETE = "an assignment to the attribute", "a del of the attribute"


def refuse(tx: Tx, target: Variable, name: str, what: str) -> NoReturn:
    """Break: a store on a class, a module, a tensor, or a built-in value, which has no attributes of its own."""
    code = "GB0101" if target.is_tensor() else "GB0006" if target.known_object() is None else "GB0102"
    tx.unsupported(code, f"{what} {name} of {target.describe()}")


def store_plainly(tx: Tx, target: Any, name: str, value: Variable) -> Variable:
    """object.__setattr__(target, name, value): a data descriptor of the class, or the object's own dict."""
    if not is_instance(target):
        refuse(tx, target, name, STORE)
    found = class_lookup(type(target.real), name)
    if isinstance(found, property):
        if found.fset is None:
            tx.output.guard("IDENTITY", dict_source(target, name), found)
            attempt(tx, name, lambda: found.__set__(target.real, None), exact=True)
        setter = tx.wrap(found.fset, _class_source(target, name, found.fset, "fset"))
        tx.inline(setter, [target, value], {})
        return NONE
    if found is not MISSING and not isinstance(found, types.MemberDescriptorType):
        writer = class_lookup(type(found), "__set__")
        if isinstance(writer, types.FunctionType):
            descriptor = tx.wrap(found, dict_source(target, name))
            method = tx.wrap(writer, _class_source(descriptor, "__set__", writer))
            tx.call(method, [descriptor, target, value], {})
            return NONE
        if writer is not MISSING:
            tx.unsupported("GB0098", f"the descriptor {type(target.real).__name__}.{name}")
        if class_lookup(type(found), "__delete__") is not MISSING:
            tx.output.guard("IDENTITY", dict_source(target, name), found)
            tx.throw(AttributeError, "__set__")
    slot = _slot(tx, target.real, found, name)
    guard_class(tx.output, target, name)
    if not slot and not has_dict(target.real):
        # there is no place for it: Python says so
        attempt(tx, name, lambda: object.__setattr__(target.real, name, None), exact=True)
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
    data = value is not None and value.is_plain_data()
    found = class_lookup(real, name)
    shown = found is MISSING or not any(class_lookup(type(found), n) is not MISSING for n in DESCRIPTOR)
    user = made_by_python(real) and not is_library_class(real)
    stores = class_lookup(type(real), "__setattr__") is type.__setattr__
    plain = stores and class_lookup(type(real), name) is MISSING
    if not (data and shown and user and plain) or name.startswith("__"):
        refuse(tx, cls, name, STORE)
    if type(real) is not type:
        tx.output.guard_members(cls.child("__class__"), type(real), name, "__setattr__")
    tx.output.will_change(cls)
    cls.attrs[name] = value
    tx.output.class_stores.setdefault(real, {})[name] = value


DESCRIPTOR = ("__get__", "__set__", "__delete__")


def is_instance(target: Variable) -> bool:
    """Neither a class nor a module, nor a value that is no object of its own."""
    return not isinstance(target.known_object(), (type, types.ModuleType, type(None)))


def delete_attribute(tx: Tx, target: Any, name: str) -> Variable:
    """`del target.name`: by a user-defined `__delattr__` where there is one."""
    if not is_instance(target):
        refuse(tx, target, name, DELETE)
    deleter = class_lookup(type(target.real), "__delattr__")
    if deleter is object.__delattr__:
        return delete_plainly(tx, target, name)
    if not isinstance(deleter, types.FunctionType):
        tx.unsupported("GB0103", f"{DELETE} {name} of {target.describe()}")
    method = tx.wrap(deleter, _class_source(target, "__delattr__", deleter))
    return tx.call(method, [target, from_constant(name)], {})


def delete_plainly(tx: Tx, target: Any, name: str) -> Variable:
    """object.__delattr__(target, name)."""
    if not is_instance(target):
        refuse(tx, target, name, DELETE)
    found = class_lookup(type(target.real), name)
    if isinstance(found, property) and isinstance(found.fdel, types.FunctionType):
        deleter = tx.wrap(found.fdel, _class_source(target, name, found.fdel, "fdel"))
        return tx.inline(deleter, [target], {})
    remover = class_lookup(type(found), "__delete__") if found is not MISSING else MISSING
    if isinstance(remover, types.FunctionType):
        descriptor = tx.wrap(found, dict_source(target, name))
        method = tx.wrap(remover, _class_source(descriptor, "__delete__", remover))
        return tx.call(method, [descriptor, target], {})
    if described(type(target.real), name):
        tx.unsupported("GB0098", f"a del of {name}, which the class describes")
    guard_storing(tx.output, target, "__delattr__")
    slot = _slot(tx, target.real, found, name)
    in_dict = not slot and has_dict(target.real)
    there = name in dict_of(tx.output, target).items if in_dict else target.attrs.get(name) is not None
    filled = slot and not target.fresh and _filled(tx, target, found, name)
    if slot and name not in target.attrs:
        there = filled
    guard_class(tx.output, target, name)
    if not there:
        _nothing_to_delete(tx, target, name, slot)
    tx.output.will_change(target)
    if filled or (in_dict and ObjectDict(tx.output, target).deletes(name)):
        target.attrs[name] = None
    else:
        del target.attrs[name]
    return NONE


def _filled(tx: Tx, target: Any, slot: Any, name: str) -> bool:
    """Whether a slot holds something that can be deleted, also where the program stored it there before."""
    guard_plain(tx.output, target, name)
    try:
        held = slot.__get__(target.real)
    except AttributeError:
        if class_lookup(type(target.real), "__getattr__") is not MISSING:
            tx.unsupported("GB0104", f"a del of the empty slot {name}, of a class with a __getattr__")
        tx.output.guard("ABSENT", target.source, name)
        return False
    tx.wrap(held, target.child(name))
    return True


def _nothing_to_delete(tx: Tx, target: Any, name: str, slot: bool) -> NoReturn:
    if not slot and not has_dict(target.real):
        attempt(tx, name, lambda: object.__delattr__(target.real, name), exact=True)
    words = f"{full_name(type(target.real))!r} object has no attribute {name!r}"
    tx.throw(AttributeError, name if slot else words)


def _slot(tx: Tx, real: Any, found: Any, name: str) -> bool:
    """Whether it is a slot of a Python class. What C keeps in an object may be read-only, as `__dict__` often is."""
    slot = isinstance(found, types.MemberDescriptorType)
    if slot and not made_by_python(found.__objclass__):
        tx.unsupported("GB0098", f"a change of {name}, which {type(real).__name__} keeps in C")
    return slot


def _class_source(target: Variable, name: str, function: Any, *more: str) -> Source | None:
    """How something found on the class of `target` is reached again; None for the library's."""
    return (
        None if function is not None and is_library(function.__globals__) else on_class(target, name, *more)
    )


def store_mode(tx: Tx, name: str, value: Variable) -> None:
    """`STATE.<name> = value` in the library's own context managers."""
    modes = tx.output.modes
    if name == "grad_enabled":
        tx.output.grad_enabled = bool(tx.constant(value, "the grad mode"))
    elif name not in modes:
        tx.unsupported("GB0092", f"a change of the state {name}")
    elif name == "matmul_precision" and _takes_tensors_elsewhere(tx):
        tx.unsupported("GB0092", "another precision of products on a GPU")
    else:
        modes[name] = tx.constant(value, name)
        if tx.output.options.modes["inference"] and not modes["inference"]:
            tx.unsupported("GB0092", "the end of an inference mode from outside")
