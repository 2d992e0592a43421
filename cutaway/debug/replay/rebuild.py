"""A record's values again: the functions and classes from their source, the tensors with their strides, the objects.

Input: what describe.py wrote, read from a file. Nothing is made before it is asked for. Source runs here, as that of a
script does; a name of a library is imported; what was left out says so where it is used.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import logging
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cutaway.debug.replay.describe import CONTAINERS
from cutaway.debug.replay.sources import FACTORY, code_of
from cutaway.repro import laid_out
from stage0_eager import arrays
from stage0_eager.nn.module import Parameter
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor
from stage_contracts.device import device_of
from stage_contracts.dtype import DTYPES

Entry = dict[str, Any]


class RecordError(ValueError):
    """The file is no record of a frame, or a part of it that is needed is not there."""


class Missing:
    """In the place of a value that a record could not hold: whatever is done with it says so."""

    def __init__(self, path: str, reason: str) -> None:
        self.__dict__.update(path=path, reason=reason)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RecordError(_missing(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RecordError(_missing(self))

    def __repr__(self) -> str:
        return f"<left out: {self.path}>"


def _missing(value: Missing) -> str:
    return (
        f"the record has no value for {value.path}: {value.reason}; "
        f"replay the program itself, or pass the value as an argument"
    )


class Rebuilt:
    """`value(entry)` is the value again; equal places are one object. `finish()` fills in what functions read."""

    def __init__(self, frame: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.entries: list[Entry] = frame["values"]
        self.names: dict[str, dict[str, Any]] = frame["globals"]
        self.tensors = tensors
        self.made: dict[int, Any] = {}
        self.modules: dict[str, types.ModuleType] = {}

    def value(self, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        number = entry["see"]
        if number not in self.made:
            described = self.entries[number]
            made = MAKERS[described["is"]](self, described, number)
            self.made.setdefault(number, made)
        return self.made[number]

    def all(self, entries: list[Any]) -> list[Any]:
        return [self.value(entry) for entry in entries]

    def pairs(self, entries: list[Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(value) for key, value in entries}

    def module(self, name: str) -> types.ModuleType:
        """A module of the user's, with what the recorded code read of it."""
        if name not in self.modules:
            self.modules[name] = types.ModuleType(name, "as a record of a frame has it")
        return self.modules[name]

    def finish(self) -> None:
        """Give every module the values that its functions read when they are called."""
        for module, names in self.names.items():
            self.fill(module, names)

    def fill(self, module: str, wanted: Any) -> None:
        scope = vars(self.module(module))
        for name in wanted:
            if name in self.names.get(module, {}) and name not in scope:
                scope[name] = self.value(self.names[module][name])


# ---- data -----------------------------------------------------------------------------------------------------------


def _tensor(into: Rebuilt, entry: Entry, number: int) -> Tensor:
    value = into.tensors[entry["numbers"]].to(entry["device"])
    value = laid_out(value, tuple(entry["stride"]))
    if entry["parameter"]:
        value = Parameter(value, entry["requires_grad"])
    elif entry["requires_grad"]:
        value = value.requires_grad_(True)
        value = value if entry["leaf"] else value.view_as(value)
    for name, one in into.pairs(entry["state"]).items():
        setattr(value, name, one)
    return value


def _array(into: Rebuilt, entry: Entry, number: int) -> Any:
    numbers = arrays.move(into.tensors[entry["numbers"]]._data, arrays.CPU)
    if entry["scalar"]:
        return numbers[()]
    strides = [n // numbers.itemsize for n in entry["stride"]]
    return laid_out(Tensor(numbers), tuple(strides))._data if min(strides, default=0) >= 0 else numbers


def _list(into: Rebuilt, entry: Entry, number: int) -> list:
    into.made[number] = made = []
    made.extend(into.all(entry["items"]))
    return made


def _dict(into: Rebuilt, entry: Entry, number: int) -> dict:
    into.made[number] = made = {}
    made.update(into.pairs(entry["items"]))
    return made


def _cell(into: Rebuilt, entry: Entry, number: int) -> types.CellType:
    into.made[number] = made = types.CellType()
    if not entry["empty"]:
        made.cell_contents = into.value(entry["value"])
    return made


# ---- code -----------------------------------------------------------------------------------------------------------


def _scope(into: Rebuilt, entry: Entry) -> dict[str, Any]:
    scope = vars(into.module(entry["module"]))
    scope.setdefault("__builtins__", builtins)
    return scope


def _function(into: Rebuilt, entry: Entry, number: int) -> types.FunctionType:
    scope, cells = _scope(into, entry), tuple(entry["cells"])
    code = _inner(_inner(code_of(entry["source"], cells)))
    own = {name: into.value(cell) for name, cell in entry["cells"].items()}
    closure = tuple(own.get(name) or types.CellType() for name in code.co_freevars)
    made = types.FunctionType(code, scope, closure=closure)
    made.__qualname__ = entry["qualname"]
    into.made[number] = made
    made.__defaults__, made.__kwdefaults__ = into.value(entry["defaults"]), into.value(entry["kwdefaults"])
    return made


def _inner(code: types.CodeType) -> types.CodeType:
    """The function that this code makes last: those before it are in its defaults."""
    return [c for c in code.co_consts if isinstance(c, types.CodeType)][-1]


def _class(into: Rebuilt, entry: Entry, number: int) -> type:
    scope = _scope(into, entry)
    into.fill(entry["module"], entry["needs"])
    made_here: dict[str, Any] = {}
    code = code_of(entry["source"], tuple(entry["cells"]))
    cells = [into.value(cell).cell_contents for cell in entry["cells"].values()]
    with _importable(into.module(entry["module"])):
        exec(code, scope, made_here)
        made = made_here[FACTORY](*cells)
    if isinstance(made, type):
        made.__qualname__ = entry["qualname"]
    for name, value in entry["set_later"].items():
        if vars(made).get(name, made) != into.value(value):
            setattr(made, name, into.value(value))
    return made


@contextmanager
def _importable(module: types.ModuleType) -> Iterator[None]:
    """Decorators of classes look their class's module up by name."""
    known = sys.modules.setdefault(module.__name__, module)
    try:
        yield
    finally:
        if known is module:
            del sys.modules[module.__name__]


def _by_name(into: Rebuilt, entry: Entry, number: int) -> Any:
    found: Any = _import(entry["module"])
    for name in entry["path"].split("."):
        found = getattr(found, name)
    return found


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RecordError(f"the record needs the module {name}, which cannot be imported: {error}") from None


def _torch(into: Rebuilt, entry: Entry, number: int) -> Any:
    with _import("cutaway.torch_api").as_torch():
        return _import(entry["name"])


def _left_out(into: Rebuilt, entry: Entry, number: int) -> Missing:
    return Missing(entry["path"], entry["reason"])


def _object(into: Rebuilt, entry: Entry, number: int) -> Any:
    cls = into.value(entry["class"])
    if isinstance(cls, Missing):
        return cls
    args = into.all(entry["args"])
    if not entry["new"] and cls not in CONTAINERS:
        raise RecordError(f"a record calls no {cls!r}: its objects are made without a call")
    made = into.made[number] = cls.__new__(cls, *args) if entry["new"] else cls(*args)
    state = into.value(entry["state"])
    if state is not None:
        _set_state(made, state)
    if entry["items"]:
        made.extend(into.all(entry["items"]))
    for key, value in into.pairs(entry["pairs"]).items():
        made[key] = value
    return made


def _set_state(made: Any, state: Any) -> None:
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    fields, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if fields:
        made.__dict__.update(fields)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)


MAKERS: dict[str, Callable[[Rebuilt, Entry, int], Any]] = {
    "tensor": _tensor, "array": _array, "list": _list, "dict": _dict, "cell": _cell, "function": _function,
    "class": _class, "name": _by_name, "torch": _torch, "left out": _left_out, "object": _object,
    "float": lambda into, entry, number: float.fromhex(entry["text"]),
    "complex": lambda into, entry, number: complex(*map(float.fromhex, entry["text"])),
    "bytes": lambda into, entry, number: bytes.fromhex(entry["text"]),
    "ellipsis": lambda into, entry, number: ...,
    "not implemented": lambda into, entry, number: NotImplemented,
    "tuple": lambda into, entry, number: tuple(into.all(entry["items"])),
    "set": lambda into, entry, number: set(into.all(entry["items"])),
    "frozenset": lambda into, entry, number: frozenset(into.all(entry["items"])),
    "slice": lambda into, entry, number: slice(*into.all(entry["items"])),
    "range": lambda into, entry, number: range(*entry["items"]),
    "dtype": lambda into, entry, number: DTYPES[entry["text"]],
    "device": lambda into, entry, number: device_of(entry["text"]),
    "partial": lambda into, entry, number: functools.partial(
        into.value(entry["fn"]), *into.all(entry["args"]), **into.pairs(entry["kwargs"])),
    "operator": lambda into, entry, number: TABLE[entry["name"]],
    "logger": lambda into, entry, number: logging.getLogger(entry["name"]),
    "lock": lambda into, entry, number: threading.Lock(),
    "rlock": lambda into, entry, number: threading.RLock(),
    "alias": lambda into, entry, number: into.value(entry["value"]),
    "module": lambda into, entry, number: _import(entry["name"]),
    "user module": lambda into, entry, number: into.module(entry["name"]),
    "attribute": lambda into, entry, number: getattr(into.value(entry["of"]), entry["name"]),
    "method": lambda into, entry, number: types.MethodType(into.value(entry["fn"]), into.value(entry["self"])),
}  # fmt: skip
