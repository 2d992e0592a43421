"""A small local builder for tests: g++ a unit, load it with ctypes, run a Program's steps on NumPy arrays.

Input: an emitted Program. Stage 4 does this in earnest; here it only has to be obvious.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stage3_lowering.interpret import EagerTable, _bind, _call, _resolve, extent, to_storage
from stage_contracts.program import External, Launch, Program, Return

FLAGS = "-O2 -std=c++17 -fopenmp -fno-math-errno -ffp-contract=off -Wall -Wno-unknown-pragmas -Wno-unused-variable"


@lru_cache(maxsize=1)
def build_folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="cutaway_stage3_")


def build(text: str, flags: str = FLAGS) -> ctypes.CDLL:
    """Compile one translation unit and load it. The compiler's message is in the error."""
    path = Path(build_folder().name) / hashlib.sha256((flags + text).encode()).hexdigest()[:16]
    library = path.with_suffix(".so")
    if not library.exists():
        path.with_suffix(".cpp").write_text(text)
        command = ["g++", *flags.split(), "-shared", "-fPIC", str(path.with_suffix(".cpp")), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"g++ refused generated code:\n{done.stderr}\n{text}")
    return ctypes.CDLL(str(library))


def run_cpp(
    program: Program, inputs: Sequence[Any], eager: EagerTable, constants: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Run an emitted Program: kernels through ctypes, external calls through `eager`."""
    libraries = {unit.name: build(unit.text) for unit in program.units if unit.language == "cpp"}
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    storage = _bind(program.inputs, inputs, metas)
    storage |= {name: to_storage(value, metas[name]) for name, value in (constants or {}).items()}
    for step in program.steps:
        if isinstance(step, Launch):
            kernel = program.kernels[step.kernel]
            for name in step.buffers:
                if name not in storage:
                    storage[name] = np.full(extent(metas[name]), 77).astype(metas[name].dtype.numpy)
            function = getattr(libraries[kernel.unit], kernel.name)
            function.restype = ctypes.c_int64
            function.argtypes = [ctypes.c_void_p] * len(step.buffers)
            if function(*[storage[name].ctypes.data for name in step.buffers]):
                raise IndexError(f"{kernel.name}: an index was out of range")
        elif isinstance(step, External):
            _call(step, storage, metas, eager)
        elif isinstance(step, Return):
            return _resolve(step.values, storage, metas)
    raise AssertionError("no Return")
