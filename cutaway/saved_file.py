"""Writes the file of a function that was compiled ahead of time: a zip whose header has a digest of each part.

Input: one entry of a function (saved_functions.py). The graph and the guards are JSON, constants are arrays, the two
code objects are Python's marshal, which belongs to one minor version of Python. saved_reading.py reads the file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import marshal
import re
import sys
import types
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cutaway import saved_programs
from cutaway.artifacts import Artifacts
from cutaway.backends import BACKENDS
from cutaway.debug.graph_json import as_json
from cutaway.residual import guard_names
from cutaway.saved_values import NotSayable, Writer, global_root, tensor_record
from cutaway.version import __version__
from stage0_eager.nn.module import structure_epoch
from stage_contracts import config
from stage_contracts.capture import CapturedFrame
from stage_contracts.graph import Graph
from stage_contracts.pipeline import Entry
from stage_contracts.signature import signature_text
from stage_contracts.source import ItemSource, Source
from stage_contracts.symbolic import ShapeEnv

FORMAT = 1
HEADER = "header.json"
# Settings that change what is compiled, and so belong to the function; the others are the loading process's own.
SECTIONS = ("autograd", "lowering")
OF_RUNTIME = (
    "cxx_flags",
    "cuda_graphs",
    "parallel_streams",
    "cudnn_benchmark",
    "max_autotune",
    "cudnn_allow_tf32",
    "matmul_allow_tf32",
    "deterministic",
)
BUILT = ("inductor", "cudagraphs")  # backends that make programs; others run the captured graph
Parts = dict[str, bytes]


@dataclass
class Note:
    """What the compile noted for the file: the backend, the settings, the captured graph, what was known of its open
    sizes when the backend got it."""

    backend: str
    settings: config.Config = field(default_factory=config.current)
    graph: Graph | None = None
    sizes: list[list[Any]] = field(default_factory=list)  # name, hint, the range at first
    facts: list[str] = field(default_factory=list)


@dataclass
class Saved:
    fn: types.FunctionType
    entry: Entry
    note: Note


# ---- writing -----------------------------------------------------------------------------------------------------


def write_file(saved: Saved) -> bytes:
    """The file. Raises RuntimeError for what it cannot hold."""
    parts = _parts(saved)
    header = {
        "format": FORMAT,
        "cutaway": __version__,
        "python": python_here(),
        "function": f"{saved.fn.__module__}.{saved.fn.__qualname__}",
        "machine": saved_programs.machine(),
        "parts": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(HEADER, json.dumps(header, indent=1))
        for name, data in parts.items():
            bundle.writestr(name, data)
    return file.getvalue()


def _parts(saved: Saved) -> Parts:
    fn, frame, note = saved.fn, saved.entry.frame, saved.note
    artifacts: Artifacts = saved.entry.artifacts["artifacts"]
    if note.backend not in BACKENDS or artifacts.parts:
        raise NotSayable(
            f"{fn.__qualname__} cannot be saved: a file holds what the backends {', '.join(BACKENDS)} make, but it was "
            f"compiled by {note.backend!r}{' in parts' if artifacts.parts else ''}"
        )
    writer = Writer(fn.__module__ or "__main__", _behind_globals(frame, fn))
    try:
        function = _function(fn, frame, writer)
        graph = None if frame.graph is None else as_json(frame.graph)
    except (NotSayable, ValueError) as error:
        raise NotSayable(
            f"{fn.__qualname__} cannot be saved: a file cannot hold {error}. It holds numbers, texts, tensors, and "
            "what can be imported by its name; pass the rest as an argument, or let a global have it"
        ) from None
    objects: list[Any] = []
    while len(objects) < len(writer.objects):  # an object may lead to others
        objects.append(writer.write(writer.objects[len(objects)]))
    parts = {
        "function.json": json.dumps({**function, "registered": objects}, indent=1).encode(),
        "settings.json": json.dumps(_settings(note)).encode(),
        "code.marshal": marshal.dumps(fn.__code__),
        "residual.py": frame.residual_source.encode(),
    }
    if frame.residual is not None:
        parts["residual.marshal"] = marshal.dumps(frame.residual)
    if graph is not None:
        parts["graph.json"] = json.dumps({"graph": graph, "sizes": note.sizes, "facts": note.facts}).encode()
    records = []
    for index, tensor in enumerate(writer.tensors):
        record, parts[f"tensors/{index}"] = tensor_record(tensor)
        records.append(record)
    parts["tensors.json"] = json.dumps(records).encode()
    return parts | (saved_programs.written(artifacts) if note.backend in BUILT else {})


def _behind_globals(frame: CapturedFrame, fn: types.FunctionType) -> dict[int, Source]:
    """Objects that guards are about and that live behind a global, with the source that leads there."""
    found: dict[int, Source] = {}
    _, names = guard_names(fn)
    for guard in frame.guards:
        source = guard.source
        if source is None or not global_root(source):
            continue
        if guard.kind == "ITEMS":
            found.update({id(item): ItemSource(source, k) for k, item in enumerate(guard.expected)})
        elif guard.kind in ("IDENTITY", "TENSOR", "TYPE"):
            with suppress(AttributeError, LookupError, TypeError):  # the program has changed it since
                found.setdefault(id(eval(source.expression(), names)), source)
    return found


def _function(fn: types.FunctionType, frame: CapturedFrame, writer: Writer) -> dict[str, Any]:
    """All of function.json but the registered objects."""
    old = [int(number) for number in re.findall(r"\bregistered\((\d+)\)", frame.residual_source)]
    return {
        "module": writer.module,
        "name": fn.__name__,
        "qualname": fn.__qualname__,
        "signature": signature_text(fn)[0],
        "defaults": _each(writer, "the defaults", fn.__defaults__),
        "keyword_defaults": _each(writer, "the defaults", fn.__kwdefaults__),
        "cells": _cells(writer, fn),
        "guards": [writer.guard(guard) for guard in frame.guards],
        "globals": _globals(writer, fn, frame),
        "residual_globals": _residual_globals(writer, frame),
        "numbers": {str(number): writer.index(number) for number in old},
        "graph_name": frame.graph_name,
        "grad_mode": frame.graph_grad_mode,
        "arrays_on": frame.arrays_on and str(frame.arrays_on),
    }


def _each(writer: Writer, what: str, value: Any) -> Any:
    try:
        return writer.write(value)
    except NotSayable as error:
        raise NotSayable(f"{error}, which is among {what}") from None


def _cells(writer: Writer, fn: types.FunctionType) -> dict[str, Any]:
    cells = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            cells[name] = writer.write(cell.cell_contents)
        except NotSayable as error:
            raise NotSayable(f"{error}, which the variable {name} of the enclosing function holds") from None
    return cells


_GLOBAL = re.compile(r"\bG\['(\w+)'\]")


def _names_read(frame: CapturedFrame) -> set[str]:
    texts = [guard.source.expression() for guard in frame.guards if guard.source is not None]
    texts += [str(guard.expected) for guard in frame.guards if guard.kind == "SHAPE"]
    return {*_GLOBAL.findall("\n".join([*texts, frame.residual_source]))}


def _globals(writer: Writer, fn: types.FunctionType, frame: CapturedFrame) -> dict[str, Any]:
    """The globals that the function reads; a value for each that needs no place of its own, such as a module's."""
    values: dict[str, Any] = {}
    for name in sorted(_names_read(frame) & fn.__globals__.keys()):
        alone = Writer(fn.__module__)
        try:
            values[name] = {"is": alone.write(fn.__globals__[name])}
        except NotSayable:
            values[name] = {}
        if alone.tensors or alone.objects:  # the program's own, not a constant
            values[name] = {}
    return values


def _residual_globals(writer: Writer, frame: CapturedFrame) -> dict[str, Any]:
    named = frame.residual_globals
    keeps = any(value is structure_epoch for value in named.values())
    special: dict[str, Any] = {"__function__": {"function": []}, "registered": {"registered": []}}
    written: dict[str, Any] = {}
    for name, value in named.items():
        if keeps and type(value) is list:  # the parameters that were read at an epoch: none yet
            written[name] = {"kept": []}
        else:
            written[name] = special[name] if name in special else _each(writer, "its constants", value)
    return written


def _settings(note: Note) -> dict[str, Any]:
    """The backend, and the settings that are not the defaults."""
    plain, changed = config.Config(), {}
    for section in (*SECTIONS, "runtime"):
        for f in dataclasses.fields(getattr(plain, section)):
            value = getattr(getattr(note.settings, section), f.name)
            belongs = section in SECTIONS or f.name in OF_RUNTIME
            if belongs and value != getattr(getattr(plain, section), f.name):
                changed[f"{section}.{f.name}"] = value
    return {"backend": note.backend, "settings": changed}


def note_sizes(note: Note, env: ShapeEnv) -> None:
    """What is known of open sizes now: their ranges at first, and the facts in order."""
    note.sizes = [[str(symbol), env.hints[symbol], *env.first_ranges[symbol]] for symbol in env.hints]
    note.facts = [str(fact.condition) for fact in env.assumptions]


def python_here() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
