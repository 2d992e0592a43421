"""isinstance and issubclass: by the class of the value, an ABC's register, a union's members, a protocol's names.

Input: an abstract value and abstract classes. A metaclass that answers in Python is followed.
"""

from __future__ import annotations

import abc
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from stage0_eager.nn import Module, Parameter
from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import is_users, is_users_class
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.state.prototypes import made_inside
from stage1_capture.variables.base import Variable, lookup_quietly, realize
from stage1_capture.variables.binding import guard_lacking
from stage1_capture.variables.builder import REGISTRIES
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.object_dict import own_dict
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import MISSING, class_lookup, made_by_python
from stage_contracts.python_version import VERSION
from stage_contracts.source import AttrSource, Source

_UNION = (types.UnionType, type(typing.Union[int, str]))  # noqa: UP007


@builtin(isinstance)
def isinstance_(tx: Tx, value: Variable, classes: Variable) -> Variable:
    return ConstantVariable(any(_is_instance(tx, value, cls) for cls in _classes(tx, classes)))


@builtin(issubclass)
def issubclass_(tx: Tx, cls: Variable, classes: Variable) -> Variable:
    if not isinstance(cls, UserDefinedObjectVariable) or not isinstance(cls.real, type):
        tx.throw(TypeError, "issubclass() arg 1 must be a class")
    _guard_bases(tx, cls.real, cls.source)
    return ConstantVariable(any(_asked_or_derived(tx, cls, wanted) for wanted in _classes(tx, classes)))


def _asked_or_derived(tx: Tx, cls: Any, wanted: Variable) -> bool:
    asked = class_lookup(type(wanted.real), "__subclasscheck__")
    if isinstance(asked, types.FunctionType) and asked is not _ABC_CHECK and is_users(asked.__globals__):
        return wanted.ask(tx, "__subclasscheck__", cls).truth(tx)
    return _is_subclass(tx, cls.real, wanted)


def _classes(tx: Tx, value: Variable) -> Iterator[Variable]:
    """A class, or what a tuple or a union names; those behind the one that answers are not looked at."""
    if value.family() is tuple:
        for item in value.items:
            yield from _classes(tx, realize(item))
        return
    real = value.known_object()
    if isinstance(real, _UNION):
        for c in typing.get_args(real):
            yield UserDefinedObjectVariable(type(None) if c is None else c)
    elif isinstance(real, type):
        yield value
    elif value.is_none():
        yield UserDefinedObjectVariable(type(None))
    else:
        tx.unsupported("GB0047", f"isinstance of {value.describe()}")


def _is_instance(tx: Tx, value: Variable, cls: Any) -> bool:
    wanted: Any = cls.real
    if _is_protocol(wanted):
        return _meets(tx, value, wanted)
    asked = class_lookup(type(wanted), "__instancecheck__")
    if isinstance(value, UserDefinedObjectVariable) and type(value.real) is wanted:
        return True  # nobody is asked
    if isinstance(asked, types.FunctionType) and (is_users(asked.__globals__) or _of_torch(asked)):
        return cls.ask(tx, "__instancecheck__", value).truth(tx)
    if value.is_tensor() and issubclass(Tensor, wanted) is issubclass(Parameter, wanted):
        return issubclass(Tensor, wanted)  # the same for both classes a tensor may have
    found = value.python_type(tx)
    _guard_bases(tx, found, value.class_place())
    return _is_subclass(tx, found, cls)


def _of_torch(asked: types.FunctionType) -> bool:
    """Whether it is that of a name of torch that stands for several classes: torch.Size, torch.FloatTensor."""
    return str(asked.__globals__.get("__name__")).startswith("cutaway.torch_api.")


def _guard_bases(tx: Tx, cls: type, source: Source | None) -> None:
    """A user-defined class may get other bases later."""
    if source is not None and made_by_python(cls) and is_users_class(cls):
        tx.output.guard("IDENTITY", AttrSource(source, "__mro__"), cls.__mro__)


def _meets(tx: Tx, value: Variable, protocol: Any) -> bool:
    """Whether a value has what a protocol asks for. From 3.12 on it computes nothing; before, methods are not."""
    names = sorted(_protocol_names(protocol))
    methods = {name for name in names if callable(getattr(protocol, name, None))}
    still = VERSION >= (3, 12) or len(methods) == len(names)
    if still and _is_registered(tx, value.python_type(tx), protocol):
        return True
    found = []
    for name in names:
        if still and _computes(value, name):
            tx.unsupported(
                "GB0047", f"whether {value.describe()}, whose class computes {name}, meets a protocol"
            )
        one = lookup_quietly(tx, value, name)
        found.append(one)
        if still and one is None and isinstance(value, UserDefinedObjectVariable):
            _guard_class_lacks(tx, value, name)
        if name in methods and one is not None and one.is_none():
            tx.unsupported("GB0047", f"whether {value.describe()}, whose {name} is None, meets a protocol")
    return all(one is not None for one in found)


def _is_registered(tx: Tx, found: type, protocol: Any) -> bool:
    """Whether the class alone says so. ABCMeta is asked, for it remembers its answers: a class that had the names
    once meets the protocol ever after."""
    if made_inside(found) or made_inside(protocol):
        return False
    return _is_subclass(tx, found, UserDefinedObjectVariable(protocol), abc.ABCMeta.__subclasscheck__)


def _guard_class_lacks(tx: Tx, value: UserDefinedObjectVariable, name: str) -> None:
    """A property that raises would count as there."""
    if isinstance(value.real, type):
        tx.output.guard_members(value.source, value.real, name)
    else:
        guard_lacking(tx.output, value, name)


def _computes(value: Variable, name: str) -> bool:
    """Whether reading an attribute is more than finding it: a property, a slot, `__getattr__`, a module's parameter."""
    if not isinstance(value, UserDefinedObjectVariable):
        return False
    real: Any = value.real
    classes = (real, type(real)) if isinstance(real, type) else (type(real),)
    for cls in classes:
        found = class_lookup(cls, name)
        plain = found is MISSING or isinstance(found, _BOUND) or not hasattr(type(found), "__get__")
        if not plain or class_lookup(cls, "__getattr__") not in (MISSING, Module.__getattr__):
            return True
    return isinstance(real, Module) and any(name in own_dict(real).get(place, ()) for place in REGISTRIES)


_BOUND = (
    types.FunctionType,
    staticmethod,
    classmethod,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


def _is_subclass(tx: Tx, found: type, cls: Any, ask: Callable[[Any, type], bool] | None = None) -> bool:
    wanted: Any = cls.real
    if _is_protocol(wanted) and any(c in tx.output.class_stores for c in found.__mro__):
        tx.unsupported("GB0047", f"whether {found.__name__}, which the program changes, meets a protocol")
    asked = class_lookup(type(wanted), "__subclasscheck__")
    hook = class_lookup(wanted, "__subclasshook__")
    own = getattr(hook, "__func__", None)
    users = isinstance(own, types.FunctionType) and is_users(own.__globals__)
    if users or (
        isinstance(asked, types.FunctionType) and asked is not _ABC_CHECK and is_users(asked.__globals__)
    ):
        tx.unsupported(
            "GB0047", f"whether a class is a subclass of {cls.describe()}, which says it in Python"
        )
    return ask(wanted, found) if ask else issubclass(found, wanted)


def _is_protocol(cls: Any) -> bool:
    return class_lookup(cls, "_is_protocol") is True and class_lookup(cls, "_is_runtime_protocol") is True


_ABC_CHECK = abc.ABCMeta.__subclasscheck__


def _protocol_names(protocol: Any) -> set[str]:
    names = getattr(protocol, "__protocol_attrs__", None)
    return names if names is not None else typing._get_protocol_attrs(protocol)  # type: ignore[attr-defined]
