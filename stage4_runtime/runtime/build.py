"""Build: a source unit becomes loaded kernels, once per process and, with the disk cache, once ever.

Input: a SourceUnit. Its language picks a builder from the table; a builder makes files (a shared library, a
cubin) that the disk cache keeps, and a loader turns files into kernels.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage4_runtime.runtime import autotune, cache, triton_units
from stage4_runtime.runtime.compiler import compile_shared, cpu_identity, find_compiler, passes_left_out
from stage4_runtime.runtime.one_builder import one_builder
from stage4_runtime.runtime.vector_math import vector_math_flags
from stage_contracts import config, events
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.program import SourceUnit, Target


@dataclass(frozen=True)
class Builder:
    """How one language is built. `key` also finds the compiler, so it raises CompilerMissing."""

    key: Callable[[SourceUnit], cache.Key]
    make: Callable[[SourceUnit], Mapping[str, bytes]]  # file name -> bytes
    load: Callable[[SourceUnit, Mapping[str, bytes]], Mapping[str, Any]]
    # units of one key share what was loaded; what a unit says beside its key, its own kernels have
    own: Callable[[SourceUnit, Mapping[str, Any]], Mapping[str, Any]] = lambda unit, kernels: kernels


def build(unit: SourceUnit) -> Mapping[str, Any]:
    """Compile and load one unit: kernel name -> loaded kernel. Raises BuildError, CompilerMissing."""
    if unit.language not in BUILDERS:
        raise BuildError(f"unit {unit.name} is in {unit.language!r}; expected one of {', '.join(BUILDERS)}")
    if unit.alternatives:
        unit = autotune.chosen(unit, build)
    builder = BUILDERS[unit.language]
    key = _just_found(unit) or builder.key(unit)
    with _lock_of(key.digest):  # a second thread with the same unit waits for the first one's kernels
        if key.digest not in _BUILT:
            _BUILT[key.digest] = _build_or_load(unit, builder, key)
        return builder.own(unit, _BUILT[key.digest])


def at_hand(units: Iterable[SourceUnit]) -> bool:
    """Whether each unit is built already, by this process or an earlier one: then `build` only loads it."""
    try:
        chosen = [autotune.known(unit) for unit in units]
        keys = [(unit, BUILDERS[unit.language].key(unit)) for unit in chosen if unit is not None]
        if None in chosen:
            return False
    except (KeyError, BuildError, CompilerMissing):  # `build` says what is wrong
        return False
    if not all(key.digest in _BUILT or cache.there(key) for _, key in keys):
        return False
    _FOUND.last = (config.current().runtime, *keys[0]) if len(keys) == 1 else None
    return True


# Settings, a unit, its key: `at_hand` found it, and this thread builds that unit next.
_FOUND = threading.local()


def _just_found(unit: SourceUnit) -> cache.Key | None:
    last, _FOUND.last = getattr(_FOUND, "last", None), None
    if last is None or last[0] is not config.current().runtime or last[1] is not unit:
        return None
    return last[2]


def files_of(unit: SourceUnit) -> Mapping[str, bytes]:
    """What a unit was built into: from the disk cache, or else built once more."""
    builder = BUILDERS[unit.language]
    return cache.load(builder.key(unit)) or builder.make(unit)


def load_files(unit: SourceUnit, files: Mapping[str, bytes]) -> Mapping[str, Any]:
    """The kernels of a unit from what it was built into, elsewhere: no compiler is asked. Whoever made the files is
    trusted."""
    builder = BUILDERS[unit.language]
    return builder.own(unit, builder.load(unit, files))


def expect(target: Target) -> None:
    """A program for this target is about to be lowered: what its builder can get ready meanwhile, it does."""
    if target.name in EXPECT:
        EXPECT[target.name](target)


_BUILT: dict[str, Mapping[str, Any]] = {}
_LOCKS: dict[str, threading.Lock] = {}
_LOCKS_LOCK = threading.Lock()


def _lock_of(digest: str) -> threading.Lock:
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(digest, threading.Lock())


def forget_built() -> None:
    """Drop this process's units and choices, so that the next build asks the disk cache. For tests and timings."""
    autotune.forget_chosen()
    with _LOCKS_LOCK:
        _BUILT.clear()


def _build_or_load(unit: SourceUnit, builder: Builder, key: cache.Key) -> Mapping[str, Any]:
    files: Mapping[str, bytes] | None = cache.load(key)
    if files is None:
        broken = cache.there(key)
        with one_builder(key):
            if cache.there(key) and not broken:  # another process has built it meanwhile
                files = cache.load(key)
            if files is None:
                with events.timed("build", unit.name, language=unit.language, kernels=len(unit.kernels)):
                    files = builder.make(unit)
                cache.store(key, files)
    return builder.load(unit, files)


# ---- C++ -------------------------------------------------------------------------------------------------


def _cpp_flags(unit: SourceUnit) -> tuple[str, ...]:
    own, compiler = config.current().runtime.cxx_flags.split(), find_compiler()
    return (*passes_left_out(compiler, own), *own, *vector_math_flags(unit.text, compiler.identity))


def _cpp_key(unit: SourceUnit) -> cache.Key:
    parts = {
        "language": unit.language,
        "source": unit.text,
        "entry points": " ".join(unit.kernels),
        "flags": " ".join(_cpp_flags(unit)),
        "compiler": find_compiler().identity,
        "cpu": cpu_identity(),
    }
    return cache.Key(unit.name, parts)


def _cpp_make(unit: SourceUnit) -> Mapping[str, bytes]:
    name = re.sub(r"\W", "_", unit.name) or "unit"
    library = compile_shared(unit.text, name, find_compiler(), _cpp_flags(unit))
    return {"kernels.so": library, "kernels.cpp": unit.text.encode()}


# The name of a function, and its parameters. The word comes first and is looked at then (it is not part of uint64_t):
# a search that begins with a letter is twenty times as fast, and a unit has hundreds of thousands of them.
_HEADER = re.compile(r"int64_t(?<!\wint64_t)\s+(\w+)\s*\(([^)]*)\)")
_RUNS = re.compile(r'extern "C" Object\* (\w+)\(')  # no kernel: it runs a segment of the program


def _cpp_load(unit: SourceUnit, files: Mapping[str, bytes]) -> Mapping[str, Any]:
    """ctypes functions: addresses in, 0 out, or 1 for an index out of range. They run without the GIL."""
    library = _load_library(files["kernels.so"])
    parameters, runs = dict(_HEADER.findall(unit.text)), {*_RUNS.findall(unit.text)}
    kernels = {}
    for name in unit.kernels:
        if name in runs:
            kernels[name] = library[name]
            continue
        if name not in parameters or not hasattr(library, name):
            raise BuildError(
                f'unit {unit.name} has no kernel {name!r}; expected extern "C" int64_t {name}(...)'
            )
        kernels[name] = kernel = library[name]
        kernel.restype = ctypes.c_int64
        params = [p for p in parameters[name].split(",") if p.strip()]
        kernel.argtypes = [ctypes.c_void_p if "*" in p else ctypes.c_int64 for p in params]
    return kernels


def _load_library(data: bytes) -> ctypes.CDLL:
    """Load the very bytes that were checked, from a file nobody else can change: gone when this returns."""
    with sleeping_threads():
        try:
            return _from_memory(data)
        except (OSError, AttributeError):  # another system, or one that runs nothing from memory
            return _from_folder(data)


_LOADED = itertools.count(1)


def _from_memory(data: bytes) -> ctypes.CDLL:
    """From a file without a folder: half a millisecond less than to make one and remove it."""
    descriptor = os.memfd_create("kernels.so")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        # The linker takes a library for the one that it loaded before under an equal path, and numbers of descriptors
        # come again. So each path is spelled another way.
        spelled = "".join("/" if bit == "0" else "/." for bit in f"{next(_LOADED):b}")
        return ctypes.CDLL(f"/proc/self/fd{spelled}/{descriptor}")  # stays mapped when its file is gone
    finally:
        os.close(descriptor)


def _from_folder(data: bytes) -> ctypes.CDLL:
    try:
        with tempfile.TemporaryDirectory(prefix="cutaway-load-") as folder:  # mode 0700
            path = Path(folder) / "kernels.so"
            path.write_bytes(data)
            return ctypes.CDLL(str(path))
    except OSError as error:  # no space, a folder that forbids execution, a missing libgomp
        raise CompilerMissing(
            f"compiled code cannot be loaded here: {error}; set TMPDIR or runtime.cxx"
        ) from error


# For OpenMP's runtime, which reads them once: its idle threads look for work for some 20 us, then sleep; to wake one
# takes 30 us. The BLAS under NumPy has threads of its own that spin: on a machine with few cores two pools that both
# spin make a training step ten times slower.
_IDLE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "2000"}


@contextmanager
def sleeping_threads() -> Iterator[None]:
    """Load OpenMP's runtime with _IDLE. If a user set one of them, that decides."""
    ours = {} if _IDLE.keys() & os.environ.keys() else _IDLE
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


BUILDERS: dict[str, Builder] = {
    "cpp": Builder(_cpp_key, _cpp_make, _cpp_load),
    "triton": Builder(triton_units.key, triton_units.make, triton_units.load, triton_units.own),
}
EXPECT: dict[str, Callable[[Target], None]] = {"triton": triton_units.expect}
