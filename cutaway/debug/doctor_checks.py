"""What the doctor looks at: one function for each thing that the compiler depends on, in a table, each with its advice.

Input: this process, its environment and its file systems. A check yields findings and changes nothing; where a command
fixes the problem, the finding has it.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from cutaway.debug.doctor_compiler import compiler, flags, openmp, vector_math
from cutaway.debug.finding import Finding, Findings, first_line
from stage_contracts import config, python_version

# ---- Python and packages -----------------------------------------------------------------------------------------


def python() -> Findings:
    seen = f"{platform.python_implementation()} {platform.python_version()}, {struct.calcsize('P') * 8} bit"
    if python_version.known() and platform.python_implementation() == "CPython":
        yield Finding("python", "ok", seen)
    else:
        yield Finding(
            "python", "problem", seen, "capture knows CPython 3.11 to 3.13; elsewhere compile() runs eagerly"
        )


NEEDED = ("bytecode", "click", "filelock", "ml_dtypes", "numpy", "platformdirs", "rich", "scipy", "sympy")


def packages() -> Findings:
    """Those that Cutaway needs, imported, at versions that it declares."""
    least = _declared()
    seen = []
    for name in NEEDED:
        try:
            importlib.import_module(name)
            version = metadata.version(name)
        except Exception as error:
            yield Finding(
                "packages", "problem", f"{name} cannot be imported: {first_line(error)}",
                "install it again", f"{sys.executable} -m pip install --force-reinstall {name}",
            )  # fmt: skip
            continue
        if _numbers(version) < _numbers(least.get(name, "0")):
            yield Finding(
                "packages", "problem", f"{name} {version}, expected at least {least[name]}",
                "install a newer one", f"{sys.executable} -m pip install '{name}>={least[name]}'",
            )  # fmt: skip
        seen.append(f"{name} {version}")
    yield Finding("packages", "ok", ", ".join(seen))


def _declared() -> dict[str, str]:
    """The least version of each package, as this installation declares it."""
    try:
        lines = metadata.requires("cutaway") or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return {}
    found = (re.match(r"([\w-]+)>=([\d.]+)", line) for line in lines if ";" not in line)
    return {m[1].replace("-", "_"): m[2] for m in found if m}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


# ---- folders -----------------------------------------------------------------------------------------------------


def temporary_folder() -> Findings:
    asked = os.environ.get("TMPDIR", "")
    if asked and not (Path(asked).is_dir() and os.access(asked, os.W_OK | os.X_OK)):
        seen = f"TMPDIR={asked} is no folder that can be written; {tempfile.gettempdir()} is used"
        yield Finding("temporary", "problem", seen, "the C++ compiler needs it, too", "unset TMPDIR")
        return
    folder = Path(tempfile.gettempdir())
    free = shutil.disk_usage(folder).free
    if free < 100 << 20:
        yield Finding(
            "temporary", "problem", f"{folder} has {free >> 20} MB left", "free some space, or set TMPDIR"
        )
        return
    yield Finding("temporary", "ok", f"{folder}, {free >> 30} GB free")


def cache() -> Findings:
    """The folder of built kernels: yours alone, and with room."""
    from stage4_runtime.runtime.private_folder import cache_root

    settings, root = config.current().runtime, cache_root()
    if not settings.cache or settings.force_disable_caches:
        names = ("runtime.cache", "runtime.force_disable_caches")
        found = [v for name in names for v in config.variables_of(name) if v in os.environ]
        fix = f"unset {' '.join(found)}" if found else ""
        seen = "switched off: every process builds its kernels again"
        yield Finding("cache", "note", seen, "switch it on, unless you mean it", fix)
        return
    seen, fix = _refused(root)
    if seen:
        yield Finding("cache", "problem", seen, "until then every process builds its kernels again", fix)
        return
    used = sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
    free = shutil.disk_usage(root).free
    if free < settings.cache_bytes // 20:
        yield Finding(
            "cache", "note", f"{root} has {free >> 20} MB left", "move it with CUTAWAY_RUNTIME_CACHE_DIR"
        )
        return
    yield Finding("cache", "ok", f"{root}, {used >> 20} of at most {settings.cache_bytes >> 20} MB")


def _refused(root: Path) -> tuple[str, str]:
    """Why a folder cannot be the cache, and the command that fixes it; two empty strings if it can."""
    from stage4_runtime.runtime.private_folder import NotPrivate, private_folder

    ours = config.variable_of("runtime", "cache_dir")
    variable = next((v for v in config.variables_of("runtime.cache_dir") if v in os.environ), ours)
    elsewhere = f"unset {variable}" if variable in os.environ else f"export {variable}=$HOME/cutaway-cache"
    try:
        private_folder(root)
        with tempfile.TemporaryFile(dir=root):
            return "", ""
    except NotPrivate as refusal:
        loose = (
            root.is_dir() and not root.is_symlink() and root.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        )
        return str(refusal), f"chmod 700 {root}" if loose else elsewhere
    except OSError as error:
        return f"no disk cache: {root}: {error.strerror or error}", elsewhere


# ---- libraries and threads ---------------------------------------------------------------------------------------

_BLAS = {
    "openblas": "OpenBLAS",
    "mkl_rt": "MKL",
    "mkl_core": "MKL",
    "blis": "BLIS",
    "accelerate": "Accelerate",
}


def blas() -> Findings:
    """NumPy's, which kernels call; another vendor's beside it starts threads of its own."""
    import numpy
    import scipy.linalg  # noqa: F401  (it brings its own)

    from stage4_runtime.runtime.segment_calls import blas as routines

    try:
        mapped = Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        mapped = ""
    files = dict.fromkeys(line.split()[-1] for line in mapped.splitlines() if "/" in line)
    vendors: dict[str, list[str]] = {}
    for path in files:
        name = Path(path).name.lower()
        for part, vendor in _BLAS.items():
            if part in name:
                vendors.setdefault(vendor, []).append(path)
    if len(vendors) > 1:
        preloaded = "LD_PRELOAD" in os.environ
        seen = f"{' and '.join(sorted(vendors))} are both loaded: each starts its threads, and results may differ"
        advice = "let NumPy's be the only one; what is loaded: " + ", ".join(
            p for v in vendors.values() for p in v
        )
        yield Finding("blas", "problem", seen, advice, "unset LD_PRELOAD" if preloaded else "")
        return
    if not routines():
        advice = "products go through NumPy's own calls, a little slower"
        yield Finding("blas", "note", f"NumPy {numpy.__version__} shows no BLAS routines", advice)
        return
    yield Finding("blas", "ok", f"{next(iter(vendors), 'a BLAS')} of NumPy {numpy.__version__}")


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT")


def threads() -> Findings:
    """How many threads are asked for, and how many cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked: dict[str, int] = {}
    for variable in _THREADS:
        text = os.environ.get(variable, "")
        if not text:
            continue
        if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
            seen = f"{variable}={text!r} is no number of threads; what it means is up to each library"
            yield Finding("threads", "problem", seen, "set a number, or nothing", f"unset {variable}")
            return
        asked[variable] = int(text.split(",")[0])
    above = [f"{v}={n}" for v, n in asked.items() if n > cores]
    if above:
        limit = f"{cores} core{'s' * (cores != 1)}"
        seen = f"{', '.join(above)}, but this process may use {limit}: threads wait for each other"
        fix = "; ".join(f"export {v}={cores}" for v, n in asked.items() if n > cores)
        yield Finding("threads", "problem", seen, "ask for as many as there are cores", fix)
        return
    shown = ", ".join(f"{v}={n}" for v, n in asked.items()) or "all of them are used"
    yield Finding("threads", "ok", f"{cores} cores; {shown}")


# ---- GPUs and processes ------------------------------------------------------------------------------------------


def triton() -> Findings:
    yield from _optional("triton", "triton", "needed for GPU kernels only", "3.6")
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        seen = "TRITON_INTERPRET is set: GPU kernels are interpreted in Python, thousands of times slower"
        yield Finding(
            "triton", "problem", seen, "unset it, unless you look for a fault", "unset TRITON_INTERPRET"
        )


def cupy() -> Findings:
    """CuPy, the driver and the GPUs."""
    found = list(_optional("cupy", "cupy", "needed for tensors on a GPU only", ""))
    yield from found
    if found[0].status != "ok" or "cupy" not in sys.modules:
        return
    from cutaway.torch_api.machine import device_count

    count = device_count()
    if count == 0:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        fix = "unset CUDA_VISIBLE_DEVICES" if hidden == "" else ""
        yield Finding("cupy", "note", "no GPU is seen", "the driver is missing, or the GPUs are hidden", fix)
    else:
        yield Finding("cupy", "ok", f"{count} GPU{'s' * (count != 1)}")


def mpi() -> Findings:
    yield from _optional("mpi", "mpi4py", "needed for several processes only", "")


def _optional(check: str, module: str, use: str, least: str) -> Findings:
    """A package that may be missing, but not broken."""
    try:
        version = metadata.version(module)
    except metadata.PackageNotFoundError:
        version = ""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            yield Finding(check, "ok", f"{module} is not installed; {use}")
            return
        broken: Exception | None = error
    except Exception as error:
        broken = error
    else:
        broken = None
    if broken is not None:
        seen = f"{module} is installed and cannot be imported: {first_line(broken)}"
        yield Finding(
            check,
            "problem",
            seen,
            f"reinstall or remove it; {use}",
            f"{sys.executable} -m pip uninstall -y {module}",
        )
        return
    version = version or str(getattr(found, "__version__", ""))
    if least and version and _numbers(version) < _numbers(least):
        fix = f"{sys.executable} -m pip install '{module}>={least}'"
        yield Finding(check, "problem", f"{module} {version}, expected at least {least}", use, fix)
    else:
        yield Finding(check, "ok", f"{module} {version}".strip())


# ---- the environment ---------------------------------------------------------------------------------------------


def variables() -> Findings:
    """Those that change how programs compile: wrong ones, torch's, and what is not at its default."""
    from cutaway.debug.requests import answers
    from cutaway.debug.switches import changed

    known = [v for f in config.field_types() for v in config.variables_of(f)] + [*config.OTHER_VARIABLES]
    unknown = [v for v in os.environ if v.startswith("CUTAWAY_") and v not in known]
    for name in unknown:
        yield Finding(
            "variables",
            "problem",
            f"{name} means nothing",
            "`cutaway switches --all` lists them",
            f"unset {name}",
        )
    problems: list[str] = []
    config.from_environment(malformed=problems.append)
    for problem in problems:
        name = problem.partition("=")[0]
        yield Finding("variables", "problem", problem, "the default is used", f"unset {name}")
    for line in answers():
        yield Finding("variables", "note", line.removeprefix("cutaway: "))
    settings = changed()
    yield Finding(
        "variables",
        "ok",
        f"not at its default: {'; '.join(settings)}" if settings else "all at their defaults",
    )


CHECKS: dict[str, Callable[[], Findings]] = {
    "python": python,
    "packages": packages,
    "compiler": compiler,
    "flags": flags,
    "openmp": openmp,
    "vector math": vector_math,
    "temporary": temporary_folder,
    "cache": cache,
    "blas": blas,
    "threads": threads,
    "triton": triton,
    "cupy": cupy,
    "mpi": mpi,
    "variables": variables,
}
