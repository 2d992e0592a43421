"""A small local builder for tests: compile a unit with $CXX or g++, load it with ctypes, run a Program's steps on NumPy arrays.

Input: an emitted Program. Stage 4 does this in earnest; here it only has to be obvious.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from stage3_lowering.interpret import EAGER, NO_SIZES, EagerTable, Storage, run_steps, sizes_of
from stage3_lowering.lowering.cpp_math import BINARY, UNARY
from stage_contracts.kernel_tables import arguments
from stage_contracts.program import Launch, Program
from stage_contracts.size_vars import at_sizes

# Warnings are errors: generated code is clean, except that it may compute what it does not use, that it compares a value
# with itself where the program does, and that g++ takes a loop over one lane for one that may not run.
CXX = os.environ.get("CXX", "g++")
CLANG = "clang" in CXX
FUNCTIONS = [name + f for name in (*UNARY, *BINARY) for f in ("f", "")]
# clang has a switch of its own, warns of a loop that it could not make SIMD code of, and of an unused inline function
FOR_CLANG = ["-fveclib=libmvec", "-Wno-unknown-warning-option", "-Wno-unused-function", "-Wno-pass-failed"]
OF_LIBMVEC = FOR_CLANG if CLANG else [f"-DCUTAWAY_MVEC_{name}" for name in FUNCTIONS]
VECTOR_MATH = OF_LIBMVEC if "glibc" in platform.libc_ver() else []
NO_MMX = " -mno-mmx" * (platform.machine() in ("x86_64", "AMD64"))  # as stage 4 builds
FLAGS = f"-O1{NO_MMX} -std=c++17 -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off -Wall -Werror -Wno-unused-variable -Wno-maybe-uninitialized -Wno-tautological-compare"


@lru_cache(maxsize=1)
def build_folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="cutaway_stage3_")


def build(text: str, flags: str = FLAGS) -> ctypes.CDLL:
    """Compile one translation unit and load it. The compiler's message is in the error."""
    path = Path(build_folder().name) / hashlib.sha256((flags + text).encode()).hexdigest()[:16]
    library = path.with_suffix(".so")
    if not library.exists():
        path.with_suffix(".cpp").write_text(text)
        command = [
            CXX,
            *flags.split(),
            *VECTOR_MATH,
            "-shared",
            "-fPIC",
            str(path.with_suffix(".cpp")),
            "-o",
            str(library),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{CXX} refused generated code:\n{done.stderr}\n{text}")
    return ctypes.CDLL(str(library))


def run_cpp(
    program: Program,
    inputs: Sequence[Any],
    eager: EagerTable | None = None,
    constants: Mapping[str, Any] | None = None,
    flags: str = FLAGS,
) -> tuple[Any, ...]:
    """Run an emitted Program: kernels through ctypes, external calls through `eager`."""
    libraries = {unit.name: build(unit.text, flags) for unit in program.units if unit.language == "cpp"}

    values = sizes_of(program, inputs)
    sizes = {str(name): value for name, value in values.items()}

    def run_kernel(step: Launch, storage: Storage, block: Mapping[Any, int] = NO_SIZES) -> None:
        kernel = program.kernels[step.kernel]
        function = getattr(libraries[kernel.unit], kernel.name)
        function.restype = ctypes.c_int64
        known = sizes | {str(name): value for name, value in block.items()}
        numbers = [known[name] for name in kernel.sizes]
        function.argtypes = [ctypes.c_void_p] * len(kernel.params) + [ctypes.c_int64] * len(numbers)
        if function(*arguments(kernel, step.buffers, lambda name: storage[name].ctypes.data), *numbers):
            raise IndexError(f"{kernel.name}: an index was out of range")

    return run_steps(at_sizes(program, values), inputs, run_kernel, eager or EAGER, constants)
