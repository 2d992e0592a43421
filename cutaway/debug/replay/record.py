"""`replay_record_enabled`: a frame that fails while it is compiled becomes one file, from which it can be replayed.

Input: the function, the arguments of the call, the compile's settings, the error. The file is a safetensors file: its
tensors are the numbers, its metadata JSON (describe.py). Nothing in it is a pickle, and reading it runs nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from cutaway.debug.replay.describe import Described
from cutaway.debug.replay.sources import NoSource
from cutaway.repro import FOLDER
from cutaway.version import __version__
from stage0_eager.defaults import get_default_dtype
from stage0_eager.serialization import save
from stage0_eager.state import STATE
from stage_contracts import config
from stage_contracts.messages import say

FORMAT = "cutaway frame 1"
KEY = "frame"  # of the metadata
# Fields that say where things go, or what is told: a replay has its own.
NOT_RECORDED = (
    "capture.replay_record_enabled",
    "capture.repro_after",
    "capture.only_function",
    "debug.",
    "runtime.cache",
)


def recorded(fn: Any, args: tuple, kwargs: dict[str, Any], settings: dict[str, Any], error: Exception) -> str:
    """Write the frame's file; what to say about it. `settings`: backend (a name or a function), fullgraph, dynamic."""
    try:
        path = _free_path(fn, error)
        left_out = write_record(path, fn, args, kwargs, settings, f"{type(error).__name__}: {error}")
    except Exception as problem:
        return say("record_not_saved", name=fn.__qualname__, problem=f"{type(problem).__name__}: {problem}")
    missing = f" (left out: {'; '.join(left_out)})" if left_out else ""
    return say("record_saved", path=str(path), missing=missing)


def write_record(
    path: Path, fn: Any, args: tuple, kwargs: dict[str, Any], settings: dict[str, Any], error: str
) -> list[str]:
    """Write the file; what could not be recorded, each with its reason. Raises NoSource if the function has none."""
    into = Described()
    frame = {
        "fn": into.entry(fn, fn.__qualname__),
        "args": into.entries(args, "args"),
        "kwargs": into.named(kwargs, ""),
        "settings": {name: into.entry(value, name) for name, value in settings.items()},
    }
    into.finish()
    described = into.values[frame["fn"]["see"]]
    if described["is"] == "left out":
        raise NoSource(described["reason"])
    record = {
        "format": FORMAT,
        "name": fn.__qualname__,
        "error": error,
        "written by": f"Cutaway {__version__}, Python {sys.version.split()[0]}",
        **frame,
        "config": changed_fields(),
        "grad_enabled": STATE.grad_enabled,
        "inference": STATE.inference,
        "default_dtype": get_default_dtype().name,
        "values": into.values,
        "globals": into.globals,
        "left_out": into.left_out,
    }
    save(into.tensors, path, {KEY: json.dumps(record)})
    return into.left_out


def changed_fields() -> dict[str, Any]:
    """The fields of the configuration that are not the defaults, by their names."""
    current, default = dataclasses.asdict(config.current()), dataclasses.asdict(config.Config())
    return {
        f"{section}.{name}": value
        for section, values in current.items()
        for name, value in values.items()
        if value != default[section][name] and not f"{section}.{name}".startswith(NOT_RECORDED)
    }


def _free_path(fn: Any, error: Exception) -> Path:
    Path(FOLDER).mkdir(exist_ok=True)
    word = "".join(c if c.isalnum() else "_" for c in fn.__qualname__).strip("_")
    stem = f"{word}_{type(error).__name__}_{fn.__code__.co_firstlineno}"
    paths = (Path(FOLDER) / f"{stem}_{number}.rec" for number in itertools.count(1))
    return next(p for p in paths if not p.exists())
