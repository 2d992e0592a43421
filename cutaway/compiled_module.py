"""Compiled modules: an object with the module's class and state, whose calls are compiled.

Input: a Module, and a CompiledFunction of `Module.__call__`. The module is not wrapped, so `isinstance`, pickles and
the names in `state_dict()` are the same as for the module. `call_through` makes the module itself call compiled code.
"""

from __future__ import annotations

import copyreg
import functools
import types
from typing import TYPE_CHECKING, Any

from cutaway.artifacts import ArtifactList
from stage0_eager.nn.module import Module
from stage_contracts.controls import Rule

if TYPE_CHECKING:
    from cutaway.compiled_function import CompiledFunction


def twin_of(module: Module, call: CompiledFunction) -> Any:
    """A second object with the module's class, name and state (they share one __dict__). Its calls go through
    `call`."""
    twin: Any = object.__new__(_class_with_call(type(module), module, call))
    object.__setattr__(twin, "__dict__", module.__dict__)
    return twin


def call_of(module: Any) -> Any:
    """The function that `module(...)` calls, which the module's class may override. This is what gets compiled."""
    found = getattr(type(module), "_plain_class", type(module)).__call__
    return getattr(
        found, "_torchdynamo_orig_callable", found
    )  # if it is compiled already: the function behind it


def call_through(module: Module, call: CompiledFunction) -> None:
    """Make this module's calls go through `call` from now on, in place. Hooks run as before."""
    plain = getattr(type(module), "_plain_class", type(module))
    _set_class(module, _class_with_call(plain, module, call))


def _class_with_call(cls: type, module: Module, call: CompiledFunction) -> type:
    """A subclass of `cls` that reports `cls` as its class, and whose objects call `call(module, ...)`."""
    functools.update_wrapper(call, cls.forward)  # type: ignore[attr-defined]
    if isinstance(call.artifacts, ArtifactList):
        call.artifacts.name = f"the compiled {cls.__qualname__}"
    slots = {
        n: m for c in cls.__mro__ for n, m in vars(c).items() if isinstance(m, types.MemberDescriptorType)
    }
    namespace = {
        **{name: _slot_of(module, member) for name, member in slots.items()},
        "_plain_class": cls,
        "__capture_rule__": Rule("module"),
        "__class__": property(lambda self: cls),
        "__call__": lambda self, *args, **kwargs: call(module, *args, **kwargs),
        # copy and pickle make a plain module
        "__reduce_ex__": lambda self, protocol: (copyreg.__newobj__, (cls,), self.__getstate__()),  # type: ignore
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "compiled": property(lambda self: call),
        "artifacts": property(lambda self: call.artifacts),
        "explain_html": property(lambda self: call.explain_html),
        "aot_compile": property(lambda self: _no_aot_compile),
    }
    return type(cls.__name__, (cls,), namespace)


def _no_aot_compile(*_: Any) -> None:
    raise RuntimeError(
        "aot_compile compiles functions, and this is a module, and its guards are about that object. Write a function "
        "that reads the module from a global, `def f(x): return model(x)`, and compile that"
    )


def _slot_of(module: Module, member: Any) -> property:
    """A property that reads and writes an attribute in `__slots__` of `module`. Two objects share the `__dict__`, but
    not the slots."""
    return property(
        lambda self: member.__get__(module),
        lambda self, value: member.__set__(module, value),
        lambda self: member.__delete__(module),
    )


_set_class = object.__dict__["__class__"].__set__  # works for an object that reports another class
