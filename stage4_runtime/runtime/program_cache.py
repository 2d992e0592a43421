"""The cache of whole programs: a graph that was compiled before is not lowered, planned or emitted again.

Input: the text of a graph of core operators, and everything else that decides the program it becomes. The entries are
cache.py's, under the same rules. A program is JSON and its sources, never a pickle; a program that cannot be written so
is not cached.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Collection, Mapping
from functools import cache as once
from pathlib import Path
from typing import Any

import numpy as np

from stage4_runtime.runtime import cache
from stage4_runtime.runtime.compiler import cpu_identity, find_compiler
from stage4_runtime.runtime.remembered import State, remembered, state_of
from stage_contracts import config, events
from stage_contracts.program import Program, Target
from stage_contracts.program_json import program_of, record_of

_FILE = "program.json"


def program_key(name: str, parts: Mapping[str, str], target: Target) -> cache.Key:
    """The key of a program. `parts` say what it is made from; the machine and this software are added here.

    Raises CompilerMissing: what is emitted may depend on the compiler.
    """
    settings = config.current()
    said = (
        f"{settings.lowering} {settings.runtime.cxx_flags} {settings.runtime.cuda_graphs} "
        f"{settings.runtime.deterministic}"
    )
    return cache.Key(f"program {name}", {**parts, "settings": said, **place(target, DECIDING)})


def place(target: Target, deciding: tuple[str, ...], without: tuple[str, ...] = ()) -> dict[str, str]:
    """The parts of a key that say where it holds: this machine, and this repository's files that decide, `without` some
    folders of them.

    Raises CompilerMissing.
    """
    return {
        "target": f"{target.name} {target.device} {target.arch} {dict(target.options)}",
        "versions": f"python {sys.version} numpy {np.__version__} {_system()}",
        "software": software(deciding, without),
        "compiler": find_compiler().identity if target.name == "cpp" else "",
        "cpu": cpu_identity(),
    }


def load_program(key: cache.Key) -> tuple[Program, dict[str, Any]] | None:
    """The program of that key, and what was stored beside it; None: lower it."""
    return _read(cache.load(key), key.name)


def load_named(digest: str, name: str) -> tuple[Program, dict[str, Any]] | None:
    """The same for the program whose key has this digest, of the graph `name`."""
    return _read(cache.load_named(digest, f"program {name}"), f"program {name}")


def _read(files: Mapping[str, bytes] | None, name: str) -> tuple[Program, dict[str, Any]] | None:
    if files is None:
        return None
    try:
        record = json.loads(files[_FILE])
        return program_of(record["program"]), record["beside"]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        events.record("cache", "miss", unit=name, reason=f"corrupt: {type(error).__name__}: {error}")
        return None


def store_program(key: cache.Key, program: Program, beside: Mapping[str, Any]) -> bool:
    """Keep a program. False where it holds what JSON cannot say, or where there is no cache."""
    try:
        record = {"program": record_of(program), "beside": dict(beside)}
        text = json.dumps(record, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return cache.store(key, {_FILE: text.encode()})


@once
def _system() -> str:
    """As platform.platform(), which starts a process."""
    words = platform.system(), platform.release(), platform.version(), platform.machine()
    return " ".join((*words, *platform.libc_ver()))


# What turns a graph of core operators into source. The stages before it need not be here: the graph that they make is
# part of the key. Stage 0 runs operators; of it only what stage 3 interprets programs with.
DECIDING = (
    "stage_contracts",
    "stage3_lowering",
    "stage4_runtime",
    "stage0_eager/kernels",
    "stage0_eager/random",
    "cutaway/building.py",
    "cutaway/artifacts.py",
    "cutaway/targets.py",
)


@once
def software(deciding: tuple[str, ...], without: tuple[str, ...] = ()) -> str:
    """What changes with any of these files, and with any file below one of these folders."""
    return software_of(Path(__file__).parents[2], deciding, without)


def software_of(root: Path, deciding: tuple[str, ...] = DECIDING, without: tuple[str, ...] = ()) -> str:
    """The same below another root. To ask when files changed takes a third of the time to read them."""
    left_out = {str(root / folder) for folder in without}
    files = [file for place in deciding for file in _sources(root / place, left_out)]

    def digest() -> str:
        whole = hashlib.sha256()
        for path, _ in files:
            content = Path(path).read_bytes()
            whole.update(f"{os.path.relpath(path, root)} {len(content)}\n".encode() + content)
        return whole.hexdigest()

    return remembered(f"software of {root} {deciding} {without}", files, digest)


# Folders that decide nothing: what is in a tiny one runs in its own pipeline only, which uses no cache.
ASIDE = frozenset(("tests", "tiny", "__pycache__"))


def _sources(place: Path, without: Collection[str]) -> list[tuple[str, State]]:
    """The Python files at or below a place, and what the system says of each. It is asked about hundreds of files in
    each process that compiles, so there is no call that can be left out."""
    if place.suffix:
        return [(str(place), state_of(place.stat()))]
    found, folders = [], [str(place)]
    for folder in folders:
        with os.scandir(folder) as inside:
            for entry in inside:
                name = entry.name
                if name[-3:] == ".py":
                    found.append((entry.path, state_of(entry.stat())))
                elif "." not in name and name not in ASIDE and entry.path not in without and entry.is_dir():
                    folders.append(entry.path)
    return sorted(found)
