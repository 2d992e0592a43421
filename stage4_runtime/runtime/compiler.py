"""The C++ compiler: finds it, identifies it, runs it. The only file that knows its command line.

Input: configuration (`runtime.cxx`, `runtime.cxx_flags`), $CXX and the path. Without a compiler it raises
CompilerMissing; if the compiler rejects the source, it raises BuildError with the compiler's message.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stage4_runtime.runtime.remembered import State, remembered, seen, state_of
from stage4_runtime.runtime.unit_parts import pieces_of
from stage_contracts import config, events
from stage_contracts.errors import BuildError, CompilerMissing

CANDIDATES = ("g++", "clang++", "c++")
# Contraction to fma rounds once where eager rounds twice: whatever flags a user sets, random draws keep their bits.
# Without AVX, g++ 12 moves half a register through one of MMX and does not clear up: then long doubles are NaN.
NO_MMX = ("-mno-mmx",) if platform.machine() in ("x86_64", "AMD64") else ()
ALWAYS = ("-std=c++17", "-shared", "-fPIC", "-ffp-contract=off", *NO_MMX)
# What generated code calls; it throws nothing. Without these flags the linker reads all of libstdc++, a quarter of the
# time of a small unit. clang finds OpenMP's library by its defaults; a sanitizer brings libraries of its own.
LIBRARIES = ("-fno-exceptions", "-nodefaultlibs", "-lm", "-lc", "-lgcc")
# Passes of GCC's -O3 that leave generated kernels as fast as they were, and take a seventh of its time: they cut loops
# and branches anew, which stage 3 has written as they are to run. (A sum over columns needs -funswitch-loops and
# -floop-unroll-and-jam, a gather -fthread-jumps.) Those of the last two lines belong to -O2, too.
LEFT_OUT = (
    *("-fno-peel-loops", "-fno-split-loops", "-fno-split-paths", "-fno-tree-loop-distribution"),
    *("-fno-loop-interchange", "-fno-predictive-commoning", "-fno-version-loops-for-strides"),
    *("-fno-tree-vrp", "-fno-tree-dominator-opts", "-fno-code-hoisting"),
    *("-fno-tree-tail-merge", "-fno-tree-switch-conversion"),
)
# Flags a compiler may lack; code is right without them, only slower.
OPTIONAL = ("-march=native", "-fopenmp", *LEFT_OUT)
# For the compiler's own memory, where glibc has them: a page at a time, the system takes 3 % of the whole build for it.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
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
        if command := _on_the_path(candidate, os.environ.get("PATH", "")):
            return _identify(command, state_of(Path(command[0]).stat()))
    seen = (
        f"{configured!r} was not found" if configured else f"none of {', '.join(CANDIDATES)} is on the path"
    )
    raise CompilerMissing(f"no C++ compiler: {seen}; install g++ or set CUTAWAY_RUNTIME_CXX to one")


_FOUND: dict[tuple[str, str], tuple[str, ...]] = {}  # a key asks for the compiler several times


def _on_the_path(candidate: str, path: str) -> tuple[str, ...] | None:
    """The words of a command, the first with its folder; looked up again when its file is gone."""
    known = _FOUND.get((candidate, path))
    if known is None or not os.access(known[0], os.X_OK):
        words = (candidate,) if Path(candidate).is_file() else tuple(shlex.split(candidate))
        if not words or not (found := shutil.which(words[0])):
            return None
        _FOUND[candidate, path] = known = (found, *words[1:])
    return known


@cache
def _identify(command: tuple[str, ...], state: State) -> Compiler:
    """The compiler, with its version: it is asked for it once as long as its file does not change."""
    file = Path(command[0]).resolve()
    if len(command) == 1 and _is_driver(file):
        version = remembered(f"version of {file}", seen([(str(file), state)]), lambda: _version(command))
    else:
        version = _version(command)
    return Compiler(command, f"{shlex.join(command)} {state[0]} {state[2]} {version}")


_DRIVER = re.compile(r"g\+\+|c\+\+|clang")


def _is_driver(file: Path) -> bool:
    """Whether it is a compiler's own program, and no script or ccache: what these call may change without them."""
    try:
        with file.open("rb") as content:
            return bool(_DRIVER.search(file.name)) and content.read(4) == b"\x7fELF"
    except OSError:
        return False


def _version(command: tuple[str, ...]) -> str:
    try:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerMissing(f"no C++ compiler: {command[0]} does not run ({error})") from error
    if run.returncode:
        raise CompilerMissing(f"no C++ compiler: {command[0]} --version fails: {run.stderr.strip()[:200]}")
    return str(run.stdout.splitlines()[:1])


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
    """The shared library of one translation unit, or of its pieces. Raises BuildError or CompilerMissing."""
    pieces = pieces_of(source)
    try:
        folder = Path(tempfile.mkdtemp(prefix="cutaway-build-"))  # mode 0700
        (folder / f"{name}.cpp").write_text(source)
        for k, piece in enumerate(pieces if len(pieces) > 1 else ()):
            (folder / f"{name}_{k}.cpp").write_text(piece)
    except OSError as error:
        raise CompilerMissing(f"no place to compile in: {error}; free some space or set TMPDIR") from error
    try:
        refused = _run(compiler, flags, folder, name, len(pieces))
        if refused and len(pieces) > 1:
            events.record("fallback", "one piece", unit=name, reason=refused)
            refused = _run(compiler, flags, folder, name)
    except CompilerMissing:
        shutil.rmtree(folder, ignore_errors=True)
        raise
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


def passes_left_out(compiler: Compiler, flags: Sequence[str]) -> tuple[str, ...]:
    """LEFT_OUT, where GCC is to optimise as far as it can. They stand before a user's flags, which decide."""
    return LEFT_OUT if _is_gcc(compiler) and "-O3" in flags else ()


def links_little(compiler: Compiler, flags: tuple[str, ...]) -> bool:
    """Whether LIBRARIES are all that a unit needs: GCC on Linux, with no flag that brings libraries of its own."""
    own = any(
        flag.startswith(("-fsanitize", "-l", "-static", "--coverage", "-fprofile", "-pg")) for flag in flags
    )
    return sys.platform == "linux" and _is_gcc(compiler) and not own


def _is_gcc(compiler: Compiler) -> bool:
    return bool(re.search(r"\b(GCC|g\+\+)", compiler.identity)) and "clang" not in compiler.identity


def _run(compiler: Compiler, flags: tuple[str, ...], folder: Path, name: str, pieces: int = 1) -> str:
    """Compile; the compiler's message, or "" when it succeeds. Raises CompilerMissing when it is killed or too slow."""
    libraries = LIBRARIES if links_little(compiler, flags) else ()
    words = [*compiler.command, *flags, *ALWAYS]
    if pieces == 1:
        return _finished([[*words, "-o", f"{name}.so", f"{name}.cpp", *libraries]], folder, name)
    exceptions = libraries[:1]
    parts = [f"{name}_{k}" for k in range(pieces)]
    objects = [f"{part}.o" for part in parts]
    compiles = [[*words, *exceptions, "-c", "-o", f"{part}.o", f"{part}.cpp"] for part in parts]
    link = [*words, "-o", f"{name}.so", *objects, *libraries]
    return _finished(compiles, folder, name) or _finished([link], folder, name)


def _finished(commands: Sequence[list[str]], folder: Path, name: str) -> str:
    """Run these commands side by side, each of which makes the file after its -o."""
    running: list[subprocess.Popen] = []
    try:
        for command in commands:
            running.append(_started(command, folder))
        said = [
            _outcome(process, command, folder, name)
            for process, command in zip(running, commands, strict=True)
        ]
    except BaseException:  # an interrupt, too: leave nothing running
        for process in running:
            if process.returncode is None:
                _stop(process)
        raise
    return next(filter(None, said), "")


def _started(command: list[str], folder: Path) -> subprocess.Popen:
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            # messages in plain ASCII English; a user's own setting of glibc's memory decides
            env={**HUGE_PAGES, **os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # what it starts itself ends with it
        )
    except OSError as error:
        raise CompilerMissing(f"no C++ compiler: {command[0]} does not run ({error})") from error


def _outcome(process: subprocess.Popen, command: list[str], folder: Path, name: str) -> str:
    """Wait for a compiler: what it said, or "" when it made its file."""
    limit = config.current().runtime.compile_seconds
    try:
        said, wrong = process.communicate(timeout=limit or None)
    except subprocess.TimeoutExpired:
        raise CompilerMissing(
            f"the C++ compiler took more than {limit:g} seconds for {name} and was stopped; "
            "set runtime.compile_seconds to give it more"
        ) from None
    if process.returncode == 0 and (folder / command[command.index("-o") + 1]).exists():
        return ""
    if process.returncode < 0 or _KILLED in wrong:
        raise CompilerMissing(
            f"the C++ compiler was killed ({_signal_of(process.returncode, wrong)}) while it compiled {name}; "
            "is there memory enough?"
        )
    lines = (wrong or said).strip().splitlines()
    more = [f"... and {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    return "\n".join([f"$ {shlex.join(command)}", *lines[:_SHOWN_LINES], *more])


_KILLED = "signal terminated program"  # how the driver tells that the compiler proper was killed


def _signal_of(code: int, wrong: str) -> str:
    if code < 0:
        return signal.Signals(-code).name
    return next((line.strip() for line in wrong.splitlines() if _KILLED in line), "")


def _stop(process: subprocess.Popen) -> None:
    """End the compiler and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (OSError, AttributeError):  # it is gone; or a system without process groups
        process.kill()
    process.communicate()


def _accepts(compiler: Compiler, flag: str) -> bool:
    """Whether the compiler can compile and link an empty unit with the flag."""
    with tempfile.TemporaryDirectory(prefix="cutaway-probe-") as folder:
        (Path(folder) / "empty.cpp").write_text("")
        return not _run(compiler, (flag,), Path(folder), "empty")
