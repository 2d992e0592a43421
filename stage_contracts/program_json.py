"""A Program on disk: program.json and one source file per unit. Exact and readable, without pickle.

Input: a Program and a folder. Each file is written completely or not at all; program.json is the last. It has the
digest of every source file, so a folder with files from two saves is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import sympy

from stage_contracts import program as steps
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DType, dtype_of
from stage_contracts.index_expr import parse_index, print_index
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.loop_ir import BufferRef, LoopNest, SizeVar, SubgraphRef
from stage_contracts.loop_text import parse_nest, print_nest
from stage_contracts.origin import Origin
from stage_contracts.program import Buffer, Configuration, Kernel, PoolSlot, Program, SourceUnit, Target
from stage_contracts.scheduler_ir import FusionDecision
from stage_contracts.size_vars import plain
from stage_contracts.tensor_meta import TensorMeta, parse_meta

FORMAT = 3
_SUFFIX = {"cpp": ".cpp", "triton": ".py"}

# The dataclasses that are written as {"<name>": {field: value}}.
_RECORDS: dict[str, type] = {
    c.__name__: c
    for c in (
        *steps.STEP_TYPES,
        steps.Product,
        Buffer,
        PoolSlot,
        Kernel,
        KernelSchedule,
        Target,
        Origin,
        FusionDecision,
        SizeVar,
        SubgraphRef,
        Configuration,
    )
}


def save_program(program: Program, folder: str | os.PathLike[str]) -> Path:
    """Write the folder, or replace the files of an earlier save. Returns the path of program.json."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    units = []
    for unit in program.units:
        if not unit.name.isidentifier():
            raise ValueError(f"unit {unit.name!r} cannot name a file; expected an identifier")
        file = unit.name + _SUFFIX.get(unit.language, ".txt")
        _write(path / file, unit.text)
        words = {f.name: getattr(unit, f.name) for f in dataclasses.fields(unit) if f.name != "text"}
        units.append({"file": file, "sha256": _digest(unit.text), "unit": encode(words)})
    fields = {f.name: getattr(program, f.name) for f in dataclasses.fields(program) if f.name != "units"}
    record = {"format": FORMAT, "program": encode(fields), "units": units}
    _write(path / "program.json", json.dumps(record, indent=1, allow_nan=False) + "\n")
    return path / "program.json"


def load_program(folder: str | os.PathLike[str], symbols: dict[str, Any] | None = None) -> Program:
    """Read back a saved program. Raises ValueError if the folder has no saved program, or a damaged one."""
    path = Path(folder)
    try:
        record = json.loads((path / "program.json").read_text(encoding="utf-8"))
        if record.get("format") != FORMAT:
            raise ValueError(f"its format is {record.get('format')!r}, expected {FORMAT}")
        units = []
        for entry in record["units"]:
            text = (path / Path(entry["file"]).name).read_bytes().decode("utf-8")
            if _digest(text) != entry["sha256"]:
                raise ValueError(f"{entry['file']} was changed after it was saved")
            units.append(SourceUnit(text=text, **decode(entry["unit"], symbols)))
        program = Program(units=tuple(units), **decode(record["program"], symbols))
        for nest in (nest for kernel in program.kernels.values() for nest in kernel.nests):
            nest.body  # noqa: B018 - damaged text is told now
        return program
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} does not hold a saved program that can be read ({error}); save the program again"
        ) from error


def record_of(program: Program) -> dict[str, Any]:
    """A program and its sources as one JSON value. Raises TypeError for a value that cannot be written."""
    fields = {f.name: getattr(program, f.name) for f in dataclasses.fields(program) if f.name != "units"}
    units = [
        {f.name: encode(getattr(unit, f.name)) for f in dataclasses.fields(unit)} for unit in program.units
    ]
    return {"format": FORMAT, "program": encode(fields), "units": units}


def program_of(record: dict[str, Any]) -> Program:
    """Read back `record_of(program)`. Its nests are read when they are first used. Raises ValueError, KeyError or
    TypeError."""
    if record.get("format") != FORMAT:
        raise ValueError(f"its format is {record.get('format')!r}, expected {FORMAT}")
    units = [SourceUnit(**{name: decode(value) for name, value in unit.items()}) for unit in record["units"]]
    return Program(units=tuple(units), **decode(record["program"]))


def _write(path: Path, text: str) -> None:
    made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        made.write_bytes(text.encode("utf-8"))
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


# ---- values ----------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """A value as JSON. A value of a type that JSON lacks becomes an object with one key, which names the type."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list):
        return [encode(v) for v in value]
    type_: Any = type(value)
    if (known := _word(type_)) is not None:
        kind, write = known
        return {kind: write(value)}
    if type_.__name__ in _RECORDS:
        return {type_.__name__: {name: encode(getattr(value, name)) for name in _fields(type_)}}
    raise TypeError(f"a {type(value).__name__} cannot be saved in a program: {value!r}")


@lru_cache(1 << 10)
def _word(type_: type) -> tuple[str, Callable[[Any], Any]] | None:
    """The name of a type and what writes its values; None if it has no word."""
    return next(((kind, write) for kind, of, write, _ in _WORDS if issubclass(type_, of)), None)


@lru_cache(1 << 10)
def _fields(record: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(record))


def decode(value: Any, symbols: dict[str, Any] | None = None) -> Any:
    """Read back `encode(value)`. Raises ValueError."""
    if type(value) is list:
        return _decoded(value, symbols)
    if type(value) is not dict:
        return value
    ((kind, inner),) = value.items()
    if kind in _READERS:
        return _READERS[kind](inner, symbols)
    if kind not in _RECORDS:
        raise ValueError(f"it has a part {kind!r} that this version does not know")
    return _RECORDS[kind](
        **{name: v if type(v) in _PLAIN else decode(v, symbols) for name, v in inner.items()}
    )


_PLAIN = frozenset((str, int, float, bool, type(None)))  # they are what they are: most of a program's values


def _decoded(items: list, symbols: dict[str, Any] | None) -> list:
    return [v if type(v) in _PLAIN else decode(v, symbols) for v in items]


def _once_read(method: Any, field: str = "body") -> Any:
    def read(stored: Any, *others: Any) -> Any:
        getattr(stored, field)  # from here on it is what it was before it was written
        return method(stored, *others)

    return read


class _StoredNest(LoopNest):
    """A nest that stays text until something else than its reads, writes, sizes, ops and origins is asked for. A cached
    program runs with these, and reading an index expression imports half of sympy."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.__dict__["_record"] = record

    reads = property(lambda self: tuple(self._record["reads"]))
    writes = property(lambda self: tuple(self._record["writes"]))
    sizes = property(lambda self: tuple(self._record["sizes"]))
    ops = property(lambda self: tuple(self._record["ops"]))
    # a field with a default: found on the class, it would never reach __getattr__
    origins = property(lambda self: tuple(decode(o) for o in self._record["origins"]))

    def __getattr__(self, name: str) -> Any:
        record = self.__dict__.get("_record")
        if record is not None:  # otherwise another thread has read it, or this is a copy that is being made
            nest = parse_nest("\n".join(record["text"]) + "\n")
            self.__dict__.update(vars(nest), origins=tuple(decode(o) for o in record["origins"]))
            object.__setattr__(self, "__class__", LoopNest)  # now it is a LoopNest
            self.__dict__.pop("_record", None)
        return object.__getattribute__(self, name)

    __eq__ = _once_read(LoopNest.__eq__)
    __hash__ = _once_read(LoopNest.__hash__)
    __repr__ = _once_read(LoopNest.__repr__)


class _StoredView(BufferRef):
    """A view that stays JSON until its place is asked for: the products of row blocks, whose places only C++ reads. The
    first sum of sympy imports its tensors and combinatorics, 25 ms of a language model's first call."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.__dict__.update(name=record["name"], _record=record)

    # fields with defaults, as a nest's origins are
    shape = property(lambda self: _place(self)["shape"])
    strides = property(lambda self: _place(self)["strides"])
    offset = property(lambda self: _place(self)["offset"])
    __eq__ = _once_read(BufferRef.__eq__, "shape")
    __hash__ = _once_read(BufferRef.__hash__, "shape")
    __repr__ = _once_read(BufferRef.__repr__, "shape")


def _place(view: BufferRef) -> dict[str, Any]:
    """The fields of a view that may be stored; now it is a BufferRef."""
    if (record := view.__dict__.get("_record")) is not None:  # otherwise another thread has read it
        view.__dict__.update({name: decode(v) for name, v in record.items()})
        object.__setattr__(view, "__class__", BufferRef)
        view.__dict__.pop("_record", None)
    return view.__dict__


def _buffer_ref(record: dict[str, Any], symbols: dict[str, Any] | None) -> BufferRef:
    return BufferRef(**record) if record["shape"] is None else _StoredView(record)


def _stored(nest: LoopNest) -> dict[str, Any]:  # because the text has no columns
    asked = {name: list(getattr(nest, name)) for name in ("reads", "writes", "sizes", "ops")}
    return {"text": print_nest(nest).splitlines(), "origins": [encode(o) for o in nest.origins], **asked}


@lru_cache(maxsize=4096)
def _meta(word: str) -> TensorMeta:
    """A model has few types for its many buffers."""
    return parse_meta(word)


# (key, type, function that writes it, function that reads it back, given the symbols). The first that fits is used.
_WORDS: tuple[tuple[str, type, Callable[[Any], Any], Callable[[Any, Any], Any]], ...] = (
    ("float", float, str, lambda word, symbols: float(word)),
    ("tuple", tuple, lambda v: [encode(i) for i in v], lambda items, s: tuple(_decoded(items, s))),
    ("dtype", DType, lambda v: v.name, lambda word, symbols: dtype_of(word)),
    ("device", Device, str, lambda word, symbols: device_of(word)),
    ("size", sympy.Basic, print_index, lambda word, symbols: plain(parse_index(word))),
    ("meta", TensorMeta, str, lambda word, symbols: parse_meta(word, symbols) if symbols else _meta(word)),
    (
        "BufferRef",
        BufferRef,
        lambda ref: {name: encode(getattr(ref, name)) for name in _fields(BufferRef)},
        _buffer_ref,
    ),
    ("nest", LoopNest, _stored, lambda record, symbols: _StoredNest(record)),
    (
        "slice",
        slice,
        lambda v: [encode(i) for i in (v.start, v.stop, v.step)],
        lambda items, symbols: slice(*_decoded(items, symbols)),
    ),
    (
        "dict",
        Mapping,
        lambda v: [[encode(k), encode(i)] for k, i in v.items()],
        lambda items, symbols: {
            k if type(k) in _PLAIN else decode(k, symbols): decode(i, symbols) for k, i in items
        },
    ),
)

_READERS = {word: read for word, _, _, read in _WORDS}
