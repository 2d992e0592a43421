"""Values as data: the arguments of a frame, and all that its code reads, as JSON, tensors and source text.

Input: any value. Numbers, texts and containers are data; functions and classes of the user's are their source; what a
library has is its name; objects are their class and state. What is none of these is left out, and named.
"""

from __future__ import annotations

import collections
import enum
import functools
import logging
import sys
import sysconfig
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.debug.replay.sources import (
    FACTORY,
    NoSource,
    attributes_read,
    code_of,
    names_read,
    source_of_class,
    source_of_function,
)
from stage0_eager.nn.module import Parameter
from stage0_eager.serialization import CODES
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor
from stage_contracts.device import Device
from stage_contracts.dtype import DType

Entry = dict[str, Any]
PLAIN = (type(None), bool, int, str)  # as JSON has them
OURS = {"cutaway", "stage_contracts", "stage0_eager", "stage1_capture", "stage2_autograd", "stage3_lowering",
        "stage4_runtime", "numpy"}  # fmt: skip
NEW = object().__reduce_ex__(2)[0]  # copyreg.__newobj__: an object without a call of its class
DATA = (tuple, list, dict, set, frozenset, str, int, float)  # whose subclasses are made from their items
# Classes that an object's reduction may call: they hold what they are given, and do nothing else.
CONTAINERS = (collections.OrderedDict, collections.defaultdict, collections.deque, collections.Counter)


class Described:
    """`entry(value)` is a JSON value, or {"see": n}: the place of its description in `values`. `tensors` are the
    numbers, `globals` what the code of each module reads, `left_out` what is missing, with the reason."""

    def __init__(self) -> None:
        self.values: list[Entry] = []
        self.tensors: dict[str, Tensor] = {}
        self.globals: dict[str, dict[str, Any]] = {}
        self.left_out: list[str] = []
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no id is used twice
        self._used: set[str] = set()  # every name that recorded code uses
        self._modules: dict[str, types.ModuleType] = {}  # of the user's

    def entry(self, value: Any, path: str) -> Any:
        """`path`: how the user reaches the value, for what is left out."""
        if type(value) in PLAIN:
            return value
        if id(value) not in self._seen:
            self._seen[id(value)] = number = len(self.values)
            self._alive.append(value)
            self.values.append({})
            try:
                self.values[number] = self._described(value, path)
            except (NoSource, LeftOut) as reason:
                self.left_out.append(f"{path}: {reason}")
                self.values[number] = {"is": "left out", "path": path, "reason": str(reason)}
        return {"see": self._seen[id(value)]}

    def entries(self, values: Any, path: str) -> list[Any]:
        return [self.entry(value, f"{path}[{i}]") for i, value in enumerate(values)]

    def named(self, values: Any, path: str) -> list[Any]:
        """The pairs of a dict; a key may be any value."""
        return [
            [self.entry(key, f"a key of {path}"), self.entry(value, f"{path}[{key!r}]" if path else str(key))]
            for key, value in values.items()
        ]

    def _described(self, value: Any, path: str) -> Entry:
        row = ROWS.get(type(value))
        if row is not None:
            return row(self, value, path)
        for kinds, described in KINDS:
            if isinstance(value, kinds):
                return described(self, value, path)
        return _object(self, value, path)

    def global_names(self, module: str, names: dict[str, Any], read: set[str], used: set[str]) -> None:
        """Describe the globals that code of a module reads."""
        kept = self.globals.setdefault(module, {})
        self._used |= used
        for name in sorted(read - kept.keys()):
            if name in names:
                kept[name] = None  # a function that reads itself is being described
                kept[name] = self.entry(names[name], f"the global {name} of {module}")

    def module(self, value: types.ModuleType) -> None:
        """A module of the user's: what recorded code uses of it is described when all code is known."""
        self._modules[value.__name__] = value

    def finish(self) -> Described:
        """Describe what the code uses of the user's modules, which may be code that uses more."""
        before = -1
        while before != len(self.values):
            before = len(self.values)
            for name, value in list(self._modules.items()):
                self.global_names(name, vars(value), self._used & vars(value).keys(), set())
        return self


class LeftOut(ValueError):
    """Why a value cannot be data."""


# ---- data -----------------------------------------------------------------------------------------------------------


def _tensor(into: Described, value: Tensor, path: str) -> Entry:
    if type(value) not in (Tensor, Parameter):
        raise LeftOut(f"a {type(value).__name__}, a class of tensors of its own")
    if value.dtype.name not in CODES:
        raise LeftOut(f"a tensor of {value.dtype.name}, which the file's format does not have")
    name = f"t{len(into.tensors)}"
    into.tensors[name] = value.detach()
    return {
        "is": "tensor",
        "numbers": name,
        "stride": [int(n) for n in value.stride()],
        "device": str(value.device),
        "requires_grad": bool(value.requires_grad),
        "leaf": bool(value.is_leaf),
        "parameter": isinstance(value, Parameter),
        "state": into.named(
            {k: v for k, v in vars(value).items() if not k.startswith("_") or k == "_is_buffer"}, path
        ),
    }


def _array(into: Described, value: Any, path: str) -> Entry:
    try:
        tensor = Tensor(np.array(value))
        known = tensor.dtype.name in CODES
    except (TypeError, ValueError):
        known = False
    if not known:
        raise LeftOut(f"a NumPy array of {value.dtype}, which the file's format does not have")
    name = f"t{len(into.tensors)}"
    into.tensors[name] = tensor
    return {
        "is": "array",
        "numbers": name,
        "scalar": isinstance(value, np.generic),
        "stride": [*value.strides],
    }


def _sequence(into: Described, value: Any, path: str) -> Entry:
    return {"is": type(value).__name__, "items": into.entries(value, path)}


def _cell(into: Described, value: types.CellType, path: str) -> Entry:
    try:
        return {"is": "cell", "empty": False, "value": into.entry(value.cell_contents, path)}
    except ValueError:  # its variable has no value yet
        return {"is": "cell", "empty": True}


ROWS: dict[type, Callable[[Described, Any, str], Entry]] = {
    float: lambda into, value, path: {"is": "float", "text": value.hex()},
    complex: lambda into, value, path: {"is": "complex", "text": [value.real.hex(), value.imag.hex()]},
    bytes: lambda into, value, path: {"is": "bytes", "text": value.hex()},
    type(...): lambda into, value, path: {"is": "ellipsis"},
    type(NotImplemented): lambda into, value, path: {"is": "not implemented"},
    list: _sequence, tuple: _sequence, set: _sequence, frozenset: _sequence,
    dict: lambda into, value, path: {"is": "dict", "items": into.named(value, path)},
    slice: lambda into, value, path: {
        "is": "slice", "items": into.entries((value.start, value.stop, value.step), path)},
    range: lambda into, value, path: {"is": "range", "items": [value.start, value.stop, value.step]},
    DType: lambda into, value, path: {"is": "dtype", "text": value.name},
    Device: lambda into, value, path: {"is": "device", "text": str(value)},
    types.CellType: _cell,
    logging.Logger: lambda into, value, path: {"is": "logger", "name": value.name},
    type(threading.Lock()): lambda into, value, path: {"is": "lock"},
    type(threading.RLock()): lambda into, value, path: {"is": "rlock"},
    functools.partial: lambda into, value, path: {
        "is": "partial", "fn": into.entry(value.func, path), "args": into.entries(value.args, path),
        "kwargs": into.named(value.keywords, path)},
}  # fmt: skip


# ---- code -----------------------------------------------------------------------------------------------------------


def _by_name(value: Any, module: str, path: str) -> Entry | None:
    """{"is": "name"} if the value is there by this name in a library."""
    if not is_library(module) or "<" in path:
        return None
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return {"is": "name", "module": module, "path": path} if found is value else None


@functools.cache
def is_library(module: str) -> bool:
    """Whether a module is ours, Python's or installed: then a record has its name, not its source."""
    if module.partition(".")[0] in OURS and ".tests" not in module:
        return True
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module in sys.modules
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(Path(file).resolve().is_relative_to(Path(folder).resolve()) for folder in installed)


def _function(into: Described, value: types.FunctionType, path: str) -> Entry:
    named = _by_name(value, value.__module__ or "", value.__qualname__)
    if named is not None:
        return named
    owner = _owner(value)
    if owner is not None:
        return {"is": "attribute", "of": into.entry(owner, path), "name": value.__name__}
    source = source_of_function(value)
    code, module = value.__code__, value.__globals__.get("__name__", "__main__")
    entry = {
        "is": "function", "source": source, "module": module, "qualname": value.__qualname__,
        "cells": {n: into.entry(cell, f"{n} of {value.__qualname__}")
                  for n, cell in zip(code.co_freevars, value.__closure__ or (), strict=True)},
        "defaults": into.entry(value.__defaults__, f"a default of {value.__qualname__}"),
        "kwdefaults": into.entry(value.__kwdefaults__, f"a default of {value.__qualname__}"),
    }  # fmt: skip
    into.global_names(module, value.__globals__, names_read(code), attributes_read(code))
    return entry


def _owner(value: types.FunctionType) -> type | None:
    """The class that has this function under its name, if it can be found."""
    cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
    first: Any = value.__globals__.get(value.__qualname__.partition(".")[0])
    if "__class__" in cells:
        first = cells["__class__"].cell_contents
    else:
        for name in value.__qualname__.split(".")[1:-1]:
            first = getattr(first, name, None)
    found = isinstance(first, type) and vars(first).get(value.__name__) is value
    return first if found else None


def _class(into: Described, value: type, path: str) -> Entry:
    value = getattr(value, "_plain_class", value)
    named = _by_name(value, value.__module__, value.__qualname__)
    if named is not None:
        return named
    source = source_of_class(value)
    methods = [m for m in _functions_of(value) if m.__code__.co_qualname.startswith(f"{value.__qualname__}.")]
    cells = {
        name: cell
        for method in methods
        for name, cell in zip(method.__code__.co_freevars, method.__closure__ or (), strict=True)
        if name != "__class__"
    }
    code = code_of(source, tuple(cells))
    module = value.__module__
    scope = vars(sys.modules[module]) if module in sys.modules else {}
    scope = {**scope, **(methods[0].__globals__ if methods else {})}
    body = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == FACTORY)
    entry = {
        "is": "class", "source": source, "module": module, "qualname": value.__qualname__,
        "cells": {name: into.entry(cell, f"{name} of {value.__qualname__}") for name, cell in cells.items()},
        "needs": sorted(names_read(body, functions_too=False)),
        "set_later": {name: into.entry(v, f"{value.__qualname__}.{name}") for name, v in vars(value).items()
                      if type(v) in (*PLAIN, float) and not name.startswith("__")},
    }  # fmt: skip
    into.global_names(module, scope, names_read(body), attributes_read(body))
    return entry


def _functions_of(cls: type) -> list[types.FunctionType]:
    plain = [getattr(m, "fget", None) or getattr(m, "__func__", m) for m in vars(cls).values()]
    return [m for m in plain if isinstance(m, types.FunctionType)]


def _module(into: Described, value: types.ModuleType, path: str) -> Entry:
    if type(value).__name__ == "TorchModule":  # of as_torch
        return {"is": "torch", "name": value.__name__}
    if is_library(value.__name__):
        return {"is": "module", "name": value.__name__}
    into.module(value)
    return {"is": "user module", "name": value.__name__}


def _method(into: Described, value: types.MethodType, path: str) -> Entry:
    return {"is": "method", "self": into.entry(value.__self__, path), "fn": into.entry(value.__func__, path)}


def _builtin(into: Described, value: Any, path: str) -> Entry:
    owner = value.__self__
    if owner is not None and not isinstance(owner, types.ModuleType):
        return {"is": "attribute", "of": into.entry(owner, path), "name": value.__name__}
    named = _by_name(value, value.__module__ or "builtins", value.__qualname__)
    if named is None:
        raise LeftOut(f"the built-in function {value.__qualname__}, which has no name in a module")
    return named


# What is told by its class or a base of it, the first that fits.
KINDS: tuple[tuple[Any, Callable[[Described, Any, str], Entry]], ...] = (
    (Tensor, _tensor),
    ((np.ndarray, np.generic), _array),
    (enum.Enum, lambda into, value, path: {
        "is": "attribute", "of": into.entry(type(value), path), "name": value.name}),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (types.BuiltinFunctionType, _builtin),
    (types.ModuleType, _module),
    (type, _class),
)  # fmt: skip


def _object(into: Described, value: Any, path: str) -> Entry:
    """An operator, a compiled function, something that a library has by name, or an object: its class and its state."""
    operator = TABLE.get(getattr(value, "qualname", None) or "")
    if operator is not None and operator is value:
        return {"is": "operator", "name": operator.qualname}
    behind = getattr(value, "_torchdynamo_orig_callable", None)
    if behind is not None and not isinstance(value, type):
        return {"is": "alias", "value": into.entry(behind, path)}
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    named = _by_name(value, getattr(value, "__module__", None) or "", name) if isinstance(name, str) else None
    if named is not None:
        return named
    return _reduced(into, value, path)


def _reduced(into: Described, value: Any, path: str) -> Entry:
    """An object as copy and pickle take it apart: its class, its state, its items."""
    try:
        reduced = value.__reduce_ex__(2)
    except (TypeError, AttributeError, ImportError) as error:
        raise LeftOut(f"a {_kind(value)}: {error}") from None
    if isinstance(reduced, str):
        raise LeftOut(f"a {_kind(value)}, one object of a library")
    call, args, state, items, pairs = (*reduced, None, None, None)[:5]
    cls, args = (args[0], args[1:]) if call is NEW else (call, args)
    if call is not NEW and call not in CONTAINERS:
        raise LeftOut(
            f"a {_kind(value)}, which only a call of {getattr(call, '__qualname__', call)} makes again"
        )
    if call is NEW and cls.__new__ is not object.__new__ and not issubclass(cls, DATA):
        raise LeftOut(f"a {_kind(value)}, whose class makes its objects itself")
    return {
        "is": "object",
        "class": into.entry(cls, f"the class of {path}"),
        "new": call is NEW,
        "args": into.entries(args, path),
        "state": into.entry(state, path),
        "items": into.entries(items or (), path),
        "pairs": into.named(dict(pairs or ()), path),
    }


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
