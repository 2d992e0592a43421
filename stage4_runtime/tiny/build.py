"""Tiny build: compiles source to kernels you can call, and never compiles the same source twice.

Input: a SourceUnit. Idea: a compiler is a function of its text, its flags and itself, so the hash of these three names
the result, first in a table of this process, then in a folder on disk. Triton's kernels are compiled for their GPU
here, without one. The full version bounds and signs the disk cache, compiles Triton in a child process, and drops flags
that a compiler does not know.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stage_contracts import config, events
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.program import SourceUnit

_BUILT: dict[str, Mapping[str, Any]] = {}
_LOCK = threading.Lock()


def build(unit: SourceUnit) -> Mapping[str, Any]:
    """Compile and load one unit: kernel name -> loaded kernel. Raises BuildError, CompilerMissing."""
    if unit.language not in ("cpp", "triton"):
        raise BuildError(f"unit {unit.name} is in {unit.language!r}; expected one of cpp, triton")
    command = compiler() if unit.language == "cpp" else ()
    parts = (
        unit.text,
        unit.kernels,
        unit.target.arch,
        repr(unit.grids),
        command,
        command and macros(command),
    )
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    with _LOCK:  # a second thread with the same unit waits for the first one's kernels
        if key not in _BUILT:
            _BUILT[key] = load(unit, library_of(unit, key, command)) if command else compile_triton(unit)
        return _BUILT[key]


def compiler() -> tuple[str, ...]:
    """The compiler's command: the configured one, $CXX, or the first on the path; then the flags."""
    chosen = config.current().runtime.cxx or os.environ.get("CXX", "")
    for candidate in [chosen] if chosen else ["g++", "clang++", "c++"]:
        words = [candidate] if Path(candidate).is_file() else shlex.split(candidate)
        if found := shutil.which(words[0]):
            return (found, *words[1:], *config.current().runtime.cxx_flags.split(), "-ffp-contract=off")
    seen = f"{chosen!r} was not found" if chosen else "none of g++, clang++, c++ is on the path"
    raise CompilerMissing(f"no C++ compiler: {seen}; install g++ or set CUTAWAY_RUNTIME_CXX to one")


@cache
def macros(command: tuple[str, ...]) -> str:
    """All macros the command predefines: its version, and the features of this CPU that its flags turn on."""
    question = [*command, "-dM", "-E", "-x", "c++", os.devnull]
    asked = subprocess.run(question, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise CompilerMissing(f"no C++ compiler: {command[0]} fails: {asked.stderr.strip()[:300]}")
    return asked.stdout


def library_of(unit: SourceUnit, key: str, command: tuple[str, ...]) -> bytes:
    """The unit's shared library: from the disk cache, or compiled and kept there."""
    folder = None
    try:
        folder = private_folder()
        library = (folder / f"{key}.so").read_bytes()
        if (folder / f"{key}.sha256").read_text() == hashlib.sha256(library).hexdigest():
            events.record("cache", "hit", unit=unit.name, key=key[:16])
            return library
        reason = "corrupt"
    except (OSError, ValueError) as error:  # whatever is wrong is a miss
        reason = "new source" if isinstance(error, FileNotFoundError) else str(error)
    events.record("cache", "miss", unit=unit.name, key=key[:16], reason=reason)
    with events.timed("build", unit.name, language="cpp", kernels=len(unit.kernels)):
        library = compile_cpp(unit, command)
    if folder is not None:
        with suppress(OSError):  # a full disk: the next process compiles again
            publish(folder / f"{key}.so", library)
            publish(folder / f"{key}.sha256", hashlib.sha256(library).hexdigest().encode())
    return library


def private_folder() -> Path:
    """The cache folder, which nobody else may own or write to: code from it runs as this user. Raises OSError."""
    settings = config.current().runtime
    if not settings.cache:
        raise OSError("no disk cache: it is switched off (runtime.cache)")
    folder = Path(settings.cache_dir or "~/.cache/cutaway-tiny").expanduser()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise OSError(f"no disk cache: {folder} is not private; chmod 700 it")
    return folder


def publish(path: Path, data: bytes) -> None:
    """Write aside, then rename: whoever reads sees all of it or none."""
    descriptor, made = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    Path(made).replace(path)


def compile_cpp(unit: SourceUnit, command: tuple[str, ...]) -> bytes:
    folder = Path(tempfile.mkdtemp(prefix="cutaway-build-"))
    (folder / "unit.cpp").write_text(unit.text)
    words = [*command, "-std=c++17", "-shared", "-fPIC", "-o", "unit.so", "unit.cpp"]
    plain = {**os.environ, "LC_ALL": "C"}  # messages in plain English
    done = subprocess.run(words, cwd=folder, env=plain, capture_output=True, text=True, check=False)
    if done.returncode:  # the folder stays, so that the message's path leads somewhere
        said = "\n".join([f"$ {shlex.join(words)}", *done.stderr.strip().splitlines()[:30]])
        raise BuildError(
            f"the C++ compiler refused generated code, which is a bug in Cutaway. It said:\n{said}\n"
            f"The source is {folder / 'unit.cpp'}; please report it with the program that led here."
        )
    library = (folder / "unit.so").read_bytes()
    shutil.rmtree(folder, ignore_errors=True)
    return library


def load(unit: SourceUnit, library: bytes) -> Mapping[str, Any]:
    """ctypes functions: addresses in, 0 out, or 1 for an index out of range. They run without the GIL."""
    with tempfile.TemporaryDirectory(prefix="cutaway-load-") as folder:  # the very bytes that were checked
        path = Path(folder) / "unit.so"
        try:
            path.write_bytes(library)
            loaded = ctypes.CDLL(str(path))  # stays mapped when its file is gone
        except OSError as error:
            raise CompilerMissing(f"compiled code cannot be loaded here: {error}; set TMPDIR") from error
    kernels = {}
    for name in unit.kernels:
        header = re.search(rf"\bint64_t\s+{re.escape(name)}\s*\(([^)]*)\)", unit.text)
        if header is None or not hasattr(loaded, name):
            raise BuildError(
                f'unit {unit.name} has no kernel {name!r}; expected extern "C" int64_t {name}(...)'
            )
        kernels[name] = loaded[name]
        kernels[name].restype = ctypes.c_int64
        kernels[name].argtypes = [ctypes.c_void_p] * len([p for p in header[1].split(",") if p.strip()])
    return kernels


@dataclass(frozen=True)
class CudaKernel:
    """A compiled kernel as data: machine code, and the facts that launching it needs."""

    cubin: bytes
    name: str
    shared: int  # bytes of shared memory
    num_warps: int
    grid: tuple[int, ...]


def compile_triton(unit: SourceUnit) -> Mapping[str, CudaKernel]:
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError:
        raise CompilerMissing("Triton is not installed; install cutaway[triton]") from None
    target = GPUTarget("cuda", int(unit.target.arch.removeprefix("sm_")), 32)
    kernels = {}
    with tempfile.TemporaryDirectory(prefix="cutaway-triton-") as folder, events.timed("build", unit.name):
        path = Path(folder) / "unit.py"  # a real file: Triton reads the kernel's source lines
        path.write_text(unit.text)
        module: dict[str, Any] = {"__name__": "generated_kernels"}
        exec(compile(unit.text, str(path), "exec"), module)
        for name in unit.kernels:
            function, grid = module[name], unit.grids[name]
            constants = {k: v for k, v in grid["constants"].items() if k in function.arg_names}
            types = {a: "constexpr" if a in constants else grid["signature"][a] for a in function.arg_names}
            pointers = [k for k, t in enumerate(types.values()) if t.startswith("*")]
            source = ASTSource(
                fn=function, signature=types, constexprs=constants,
                attrs={(k,): [["tt.divisibility", 16]] for k in pointers},  # as launch keeps it: wide loads
            )  # fmt: skip
            options = {"enable_fp_fusion": False, "num_warps": grid.get("num_warps", 4)}
            try:
                made = triton.compile(source, target, options)
            except Exception as error:  # Triton's messages show the kernel's line themselves
                raise BuildError(f"Triton refused kernel {name}: {error}") from error
            facts = made.metadata
            shape = tuple((*grid["grid"], 1, 1)[:3])
            kernels[name] = CudaKernel(made.asm["cubin"], facts.name, facts.shared, facts.num_warps, shape)
    return kernels
