"""The cache of whole programs: a graph that was compiled before is not lowered, planned or emitted again.

Input: the text of a graph of core operators, and everything else that decides the program it becomes. The entries are
cache.py's, under the same rules. A program is JSON and its sources, never a pickle; a program that cannot be written so
is not cached.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from functools import cache as once
from typing import Any

import numpy as np

from stage4_runtime.runtime import cache
from stage4_runtime.runtime.compiler import cpu_identity, find_compiler
from stage4_runtime.runtime.software import software, watch
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
        f"{settings.runtime.parallel_streams} {settings.runtime.deterministic}"
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
    "cutaway/measured_programs.py",
)
watch(DECIDING)
