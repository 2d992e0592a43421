"""Reads the file of a function that was compiled ahead of time, and makes the function again: nothing is captured.

Input: the bytes that saved_file.py wrote, and the globals that the function reads. What is damaged, of another version
or missing here raises an error that says so, before anything of the file has run.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import io
import json
import marshal
import sys
import types
import zipfile
from collections.abc import Callable
from typing import Any

from cutaway import saved_programs
from cutaway.artifacts import Artifacts
from cutaway.backends import BACKENDS
from cutaway.debug.graph_json import of_json
from cutaway.pipelines import default_pipeline
from cutaway.residual import guard_function, residual_function
from cutaway.saved_file import BUILT, FORMAT, HEADER, Note, Parts, Saved, python_here
from cutaway.saved_places import NotThere
from cutaway.saved_values import Reader, tensor_of
from cutaway.version import __version__
from stage0_eager import set_grad_enabled
from stage0_eager.state import ordinary_modes
from stage_contracts import config, events
from stage_contracts.capture import CapturedFrame
from stage_contracts.device import device_of
from stage_contracts.errors import CompilerMissing
from stage_contracts.graph import Graph
from stage_contracts.pipeline import Entry
from stage_contracts.size_text import read_size
from stage_contracts.symbolic import ShapeEnv


def read_file(data: bytes, name: str) -> Parts:
    """The parts of a file, each as it was written. Raises ValueError for a damaged file, RuntimeError for one of
    another version."""
    versions = {"format": FORMAT, "cutaway": __version__, "python": python_here()}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            header = json.loads(bundle.read(HEADER))
            seen = {key: header[key] for key in versions}
            parts = {part: bundle.read(part) for part in header["parts"]}
        for part, digest in header["parts"].items():
            if hashlib.sha256(parts[part]).hexdigest() != digest:
                raise ValueError(f"{part} is not what was saved")
        parts["machine"] = json.dumps(header["machine"]).encode()
    except Exception as error:  # zipfile raises many kinds for what is no zip file
        raise ValueError(
            f"{name} is not a saved function, or it is damaged ({type(error).__name__}: {error}); make it with "
            "save_compiled_function"
        ) from error
    for key, here in versions.items():
        if seen[key] != here:
            raise RuntimeError(
                f"{name} was saved with {key} {seen[key]}, but this is {key} {here}; save the function again here"
            )
    return parts


def restored(parts: Parts, f_globals: dict[str, Any] | None) -> Saved:
    """The function of these parts. Raises RuntimeError for what is missing here."""
    record = json.loads(parts["function.json"])
    rows = json.loads(parts["tensors.json"])
    tensors = [tensor_of(row, parts[f"tensors/{index}"]) for index, row in enumerate(rows)]
    reader = Reader(record["module"], tensors, record["registered"])
    try:
        reader.globals = _namespace(record, reader, f_globals)
        fn = _function(parts, record, reader)
        frame = _frame(parts, record, reader, fn)
        note, run = _backend(parts, frame, fn.__qualname__)
    except (NotThere, CompilerMissing) as error:
        raise RuntimeError(
            f"the saved function {record['qualname']} cannot be loaded here: {error}"
        ) from None
    residual: Any = fn  # which computes nothing on tensors: its own code runs
    if frame.residual is not None:
        residual = residual_function(frame, fn, run)
        residual.__globals__["__kept_alive__"] = reader  # the objects behind registered numbers
    artifacts = Artifacts(fn.__qualname__, frame, frame.graph, backend=note.backend)
    entry = Entry(frame.guards, guard_function(frame.guards, fn), residual, frame, {"artifacts": artifacts})
    return Saved(fn, entry, note)


# ---- the function ------------------------------------------------------------------------------------------------


def _namespace(record: dict[str, Any], reader: Reader, f_globals: dict[str, Any] | None) -> dict[str, Any]:
    """The function's globals: those that the caller gives, or its module's, if that can be imported. For a program's
    own file (`__main__`) and a module that is not here: what the file itself has."""
    read, place = (
        record["globals"],
        "f_globals" if f_globals is not None else f"its module {record['module']}",
    )
    if f_globals is None and record["module"] == "__main__":
        there = vars(sys.modules["__main__"])
        f_globals = there if read.keys() <= there.keys() else None
    elif f_globals is None:
        try:
            f_globals = vars(importlib.import_module(record["module"]))
        except ImportError:
            f_globals = None
    if f_globals is None:
        missing = [name for name, value in read.items() if not value]
        if missing:
            raise NotThere(
                f"it reads the globals {', '.join(missing)}, and its module {record['module']} is not here; pass "
                "f_globals, a dict that has them"
            )
        f_globals = {}
        reader.globals = f_globals
        f_globals.update({name: reader.read(value["is"]) for name, value in read.items()})
    missing = [name for name in read if name not in f_globals]
    if missing:
        raise NotThere(
            f"it reads the globals {', '.join(missing)}, which {place} does not have; pass f_globals, a dict "
            "that has them"
        )
    f_globals.setdefault("__builtins__", builtins)  # as exec does
    return f_globals


def _function(parts: Parts, record: dict[str, Any], reader: Reader) -> types.FunctionType:
    """The user's function: its code says what its parameters are. It is called only if nothing was
    captured."""
    code = marshal.loads(parts["code.marshal"])
    cells = tuple(types.CellType(reader.read(record["cells"][name])) for name in code.co_freevars)
    fn = types.FunctionType(
        code, reader.globals, record["name"], reader.read(record["defaults"]), cells or None
    )
    fn.__kwdefaults__ = reader.read(record["keyword_defaults"])
    fn.__qualname__, fn.__module__ = record["qualname"], record["module"]
    return fn


def _frame(parts: Parts, record: dict[str, Any], reader: Reader, fn: types.FunctionType) -> CapturedFrame:
    old = {int(number): index for number, index in record["numbers"].items()}
    special: dict[str, Callable[[], Any]] = {
        "function": lambda: fn,
        "registered": lambda: lambda number: reader.object(old[number]),
        "kept": lambda: [(-1,)],
    }

    def residual_global(value: Any) -> Any:
        word = next(iter(value)) if isinstance(value, dict) else ""
        return special[word]() if word in special else reader.read(value)

    residual = parts.get("residual.marshal")
    return CapturedFrame(
        function_name=record["qualname"],
        code=fn.__code__,
        graph=_graph(parts),
        inputs=(),
        guards=tuple(map(reader.read, record["guards"])),
        residual=None if residual is None else marshal.loads(residual),
        graph_name=record["graph_name"],
        residual_globals={name: residual_global(v) for name, v in record["residual_globals"].items()},
        residual_source=parts["residual.py"].decode(),
        graph_grad_mode=record["grad_mode"],
        arrays_on=device_of(record["arrays_on"]) if record.get("arrays_on") else None,
    )


# ---- the graph ---------------------------------------------------------------------------------------------------


def _graph(parts: Parts) -> Graph | None:
    if "graph.json" not in parts:
        return None
    record = json.loads(parts["graph.json"])
    try:
        return of_json(record["graph"], _sizes(record)).graph
    except ValueError as error:  # an operator that is not registered here
        raise NotThere(str(error)) from None


def _sizes(record: dict[str, Any]) -> ShapeEnv:
    """The open sizes, and what was known of them when stage 2 got the graph: it decides by that."""
    env = ShapeEnv()
    for name, hint, low, high in record["sizes"]:
        env.dimension(name, hint, low, high)
    names = {str(symbol): symbol for symbol in env.hints}
    for fact in record["facts"]:
        env.assume(read_size(fact, names))
    return env


def _backend(parts: Parts, frame: CapturedFrame, name: str) -> tuple[Note, Callable[..., tuple] | None]:
    """What the backend makes of the graph, under the settings of the compile."""
    record = json.loads(parts["settings.json"])
    with config.patch(record["settings"]), config.patch({"runtime.background": False}):
        note = Note(record["backend"], config.current(), frame.graph)
        if frame.graph is None or frame.residual is None:
            return note, None
        artifacts = Artifacts(name, frame, frame.graph, backend=note.backend)
        with ordinary_modes(), set_grad_enabled(frame.graph_grad_mode):
            if note.backend in BUILT:
                return note, saved_programs.compiled(frame.graph, _own_programs(parts), artifacts)
            artifacts.pipeline = default_pipeline()
            return note, BACKENDS[note.backend].compile(frame.graph, [], artifacts.pipeline, artifacts)


def _own_programs(parts: Parts) -> Parts:
    """The parts that are programs, unless they were built for another machine: then the kernels are built here."""
    saved, here = json.loads(parts["machine"]), saved_programs.machine()
    other = [f"{part} differs" for part in here if saved.get(part) != here[part]]
    if not other:
        return parts
    from stage4_runtime.runtime.compiler import find_compiler

    reason = f"its kernels were built on another machine ({', '.join(other)})"
    events.record("cache", "miss", unit="saved function", reason=reason)
    try:
        find_compiler()
    except CompilerMissing as missing:
        raise CompilerMissing(f"{reason}, and here it needs to build them anew: {missing}") from None
    return {}
