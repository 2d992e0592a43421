"""The C++ compiler: find it, identify it, run it. The only file that knows its command line.

Input: configuration (`runtime.cxx`, `runtime.cxx_flags`), $CXX and the path. No compiler at all raises
CompilerMissing; a refused source raises BuildError with the compiler's own words.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stage_contracts import config, events
from stage_contracts.errors import BuildError, CompilerMissing

CANDIDATES = ("g++", "clang++", "c++")
# Contraction to fma rounds once where eager rounds twice: whatever flags a user sets, random draws keep their bits.
ALWAYS = ("-std=c++17", "-shared", "-fPIC", "-ffp-contract=off")
# Flags a compiler may lack; code is right without them, only slower.
OPTIONAL = ("-march=native", "-fopenmp")
TIME_LIMIT = 300  # seconds for one unit
_SHOWN_LINES = 30


@dataclass(frozen=True)
class Compiler:
    """The command's words, and text that changes whenever another compiler would run."""

    command: tuple[str, ...]
    identity: str


def find_compiler() -> Compiler:
    """The configured compiler, $CXX, or the first of CANDIDATES on the path. Raises CompilerMissing."""
    configured = config.current().runtime.cxx or os.environ.get("CXX", "")
    for candidate in [configured] if configured else CANDIDATES:
        words = (candidate,) if Path(candidate).is_file() else tuple(shlex.split(candidate))
        found = shutil.which(words[0]) if words else None
        if found:
            state = Path(found).resolve().stat()
            return _identify((found, *words[1:]), state.st_mtime_ns, state.st_size)
    seen = (
        f"{configured!r} was not found" if configured else f"none of {', '.join(CANDIDATES)} is on the path"
    )
    raise CompilerMissing(f"no C++ compiler: {seen}; install g++ or set CUTAWAY_RUNTIME_CXX to one")


@cache
def _identify(command: tuple[str, ...], mtime: int, size: int) -> Compiler:
    try:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerMissing(f"no C++ compiler: {command[0]} does not run ({error})") from error
    if run.returncode:
        raise CompilerMissing(f"no C++ compiler: {command[0]} --version fails: {run.stderr.strip()[:200]}")
    return Compiler(command, f"{shlex.join(command)} {mtime} {size} {run.stdout.splitlines()[:1]}")


@cache
def cpu_identity() -> str:
    """What -march=native depends on: the machine's type and, where the system tells, its CPU's features."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    wanted = ("model name", "flags", "Features")
    return "\n".join([platform.machine(), *dict.fromkeys(line for line in lines if line.startswith(wanted))])


def compile_shared(source: str, name: str, compiler: Compiler, flags: tuple[str, ...]) -> bytes:
    """The shared library of one translation unit. Raises BuildError or CompilerMissing."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="cutaway-build-"))  # mode 0700
        (folder / f"{name}.cpp").write_text(source)
    except OSError as error:
        raise CompilerMissing(f"no place to compile in: {error}; free some space or set TMPDIR") from error
    refused = _run(compiler, flags, folder, name)
    if refused:
        kept = tuple(flag for flag in flags if flag not in OPTIONAL or _accepts(compiler, flag))
        if kept != flags:
            dropped = " ".join(flag for flag in flags if flag not in kept)
            events.record("fallback", "compiler_flags", unit=name, dropped=dropped)
            refused = _run(compiler, kept, folder, name)
    if refused:  # the folder stays, so that the message's path leads somewhere
        raise BuildError(
            f"the C++ compiler refused generated code, which is a bug in Cutaway. It said:\n{refused}\n"
            f"The source is {folder / f'{name}.cpp'}; please report it with the program that led here."
        )
    library = (folder / f"{name}.so").read_bytes()
    shutil.rmtree(folder, ignore_errors=True)
    return library


def _run(compiler: Compiler, flags: tuple[str, ...], folder: Path, name: str) -> str:
    """Compile; the compiler's message, or "" when it succeeds."""
    command = [*compiler.command, *flags, *ALWAYS, "-o", f"{name}.so", f"{name}.cpp"]
    try:
        run = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},  # messages in plain ASCII English
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT,
            check=False,
        )
    except OSError as error:
        raise CompilerMissing(f"no C++ compiler: {compiler.command[0]} does not run ({error})") from error
    except subprocess.TimeoutExpired:
        return f"(nothing for {TIME_LIMIT} seconds; it was stopped)\n$ {shlex.join(command)}"
    if run.returncode == 0 and (folder / f"{name}.so").exists():
        return ""
    lines = (run.stderr or run.stdout).strip().splitlines()
    more = [f"... and {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    return "\n".join([f"$ {shlex.join(command)}", *lines[:_SHOWN_LINES], *more])


def _accepts(compiler: Compiler, flag: str) -> bool:
    """Whether the compiler can compile and link an empty unit with the flag."""
    with tempfile.TemporaryDirectory(prefix="cutaway-probe-") as folder:
        (Path(folder) / "empty.cpp").write_text("")
        return not _run(compiler, (flag,), Path(folder), "empty")
