"""What the doctor looks at of the C++ compiler: whether it makes libraries that load here, its flags, OpenMP, libmvec.

Input: the compiler that the runtime would take, run on two small sources in a temporary folder.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cutaway.debug.finding import Finding, Findings, first_line
from stage4_runtime.runtime.compiler import ALWAYS, CANDIDATES, find_compiler
from stage4_runtime.runtime.vector_math import has_vector_version
from stage_contracts import config
from stage_contracts.errors import CompilerMissing

PLAIN = '#include <stdint.h>\nextern "C" int64_t answer() { return 42; }\n'
PARALLEL = """#include <omp.h>
extern "C" int answer() {
    int threads = 0;
    #pragma omp parallel reduction(+ : threads)
    threads += 1;
    return threads;
}
"""
USUAL_FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
CHANGES_VALUES = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only")


def compiler() -> Findings:
    """One that runs and makes a library that this process can load."""
    try:
        found = find_compiler()
    except CompilerMissing as missing:
        asked = [v for v in ("CUTAWAY_RUNTIME_CXX", "CXX") if os.environ.get(v)]
        fix = f"unset {' '.join(asked)}" if asked and any(map(shutil.which, CANDIDATES)) else _on_the_path()
        yield Finding("compiler", "problem", str(missing), "until then compiled graphs run on NumPy", fix)
        return
    try:
        built(PLAIN, ("-O1",))
    except Exception as error:
        advice = "it does not make a library that loads here; take another compiler, or install it again"
        fix = _another("g++ libc6-dev", than=found.command[0])
        yield Finding("compiler", "problem", first_line(error), advice, fix)
        return
    said = found.identity.partition("['")[2].rstrip("]'")
    yield Finding("compiler", "ok", said or found.command[0])


def flags() -> Findings:
    """Those of the configuration: accepted, and none that changes values."""
    words = config.current().runtime.cxx_flags.split()
    wrong = [word for word in words if word in CHANGES_VALUES]
    if wrong:
        seen = f"{' '.join(wrong)} lets the compiler change values: sums are reordered, NaN is lost"
        variable = config.variable_of("runtime", "cxx_flags")
        yield Finding("flags", "problem", seen, "leave it out of runtime.cxx_flags", f"unset {variable}")
    elif not _works(PLAIN, ()):
        yield Finding("flags", "note", "not tried: the compiler itself does not work")
    elif not _works(PLAIN, tuple(words)):
        seen = f"the compiler refuses one of {' '.join(words)}"
        yield Finding("flags", "note", seen, "kernels are built without it, and are slower")
    else:
        yield Finding("flags", "ok", " ".join(words))


def openmp() -> Findings:
    """Threads: a parallel loop that runs."""
    if not _works(PLAIN, ()):
        yield Finding("openmp", "note", "not tried: the compiler itself does not work")
        return
    try:
        threads = built(PARALLEL, ("-fopenmp",))
    except Exception as error:
        command = find_compiler().command[0]
        fix = _another("libomp-dev" if "clang" in command else "libgomp1", than=command)
        advice = "kernels run in one thread until OpenMP works"
        yield Finding("openmp", "problem", f"no OpenMP: {first_line(error)}", advice, fix)
        return
    yield Finding("openmp", "ok", f"a parallel loop ran in {threads} thread{'s' * (threads != 1)}")


def vector_math() -> Findings:
    """The vector functions of glibc that kernels call."""
    missing = [name for name in ("expf", "logf", "sinf", "tanhf", "erff") if not has_vector_version(name)]
    if missing:
        advice = "these run element by element; glibc 2.35 and newer on x86-64 has all"
        yield Finding("vector math", "note", f"libmvec lacks {', '.join(missing)}", advice)
    else:
        yield Finding("vector math", "ok", "libmvec has what kernels call")


def _on_the_path() -> str:
    """The command that makes a compiler be found: its folder joins the path, since it starts the assembler by name."""
    places = [folder for folder in USUAL_FOLDERS for name in CANDIDATES if Path(folder, name).is_file()]
    return f"export PATH=$PATH:{places[0]}" if places else "sudo apt-get install g++"


def _another(package: str, than: str = "") -> str:
    """The command that takes another compiler that is here, or installs what is missing."""
    paths = [shutil.which(name) or "" for name in CANDIDATES]
    paths += [str(Path(folder, name)) for folder in USUAL_FOLDERS for name in CANDIDATES]
    other = next((path for path in paths if path not in ("", than) and Path(path).is_file()), None)
    if other:
        return f"export {config.variable_of('runtime', 'cxx')}={other}"
    return f"sudo apt-get install --reinstall {package}"


def built(source: str, words: tuple[str, ...]) -> int:
    """What `answer()` of a library made from this source returns. Raises RuntimeError with the compiler's own words."""
    with tempfile.TemporaryDirectory(prefix="cutaway-doctor-") as folder:
        path, text = Path(folder, "answer.so"), Path(folder, "answer.cpp")
        text.write_text(source)
        command = [*find_compiler().command, *words, *ALWAYS, "-o", str(path), str(text)]
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, errors="replace"
        )
        if run.returncode:
            lines = run.stderr.splitlines() or [f"{command[0]} ended with status {run.returncode}"]
            raise RuntimeError(next((l for l in lines if "error" in l or "cannot" in l), lines[0]))
        return int(ctypes.CDLL(str(path)).answer())


def _works(source: str, words: tuple[str, ...]) -> bool:
    try:
        built(source, words)
    except Exception:
        return False
    return True
