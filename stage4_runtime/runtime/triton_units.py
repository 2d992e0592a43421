"""Triton units: from source to a cubin ahead of time, as files for the disk cache and data for a launcher.

Input: a SourceUnit of language "triton", with `grids` that say how its kernels are specialised and a target that names
an architecture. A child process compiles it (triton_compile.py), because a bad kernel can hang or abort its process;
triton_server.py has one that need not import Triton first.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from stage4_runtime.runtime import triton_server
from stage4_runtime.runtime.cache import Key
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.program import SourceUnit, Target

TIME_LIMIT = 120  # seconds for one kernel


@dataclass(frozen=True)
class TritonKernel:
    """A compiled kernel as data. `types`: of its run-time parameters; two scratch pointers follow them. From `grid` on:
    what a unit says of its launches, which its compiled code need not know (another number of rows, say)."""

    cubin: bytes
    ptx: str
    name: str
    shared: int  # bytes of shared memory
    num_warps: int
    scratch: int  # bytes of global scratch memory per program
    types: tuple[str, ...]
    grid: tuple[Any, int, int] = (1, 1, 1)  # x as text where it depends on open sizes
    sizes: tuple[str, ...] = ()  # those it takes last, by the names that stand in x
    table: tuple[int, ...] = ()  # the numbers before the pointers in its last parameter, if it has columns
    columns: int = 0


def key(unit: SourceUnit) -> Key:
    """Raises CompilerMissing without Triton, BuildError for a unit that cannot be compiled ahead of time."""
    try:
        version = triton_version()
    except importlib.metadata.PackageNotFoundError:
        raise CompilerMissing(
            "Triton is not installed; install cutaway[triton] to compile for a GPU"
        ) from None
    _architecture(unit)
    for name in unit.kernels:
        if name not in unit.grids:
            raise BuildError(
                f"unit {unit.name}: no grid for {name!r}; emit must set SourceUnit.grids[{name!r}] to the "
                "Kernel's grid (signature, constants, num_warps, grid)"
            )
    parts = {
        "language": unit.language,
        "source": unit.text,
        "specialisation": json.dumps({name: _request(unit, name) for name in unit.kernels}, sort_keys=True),
        "architecture": unit.target.arch,
        "compiler": f"triton {version}, asked by {_how_asked()} {os.environ.get('TRITON_PTXAS_PATH', '')}".rstrip(),
    }
    return Key(unit.name, parts)


@cache
def triton_version() -> str:
    """Raises PackageNotFoundError. To ask parses the package's metadata, and a model has a hundred kernels."""
    return importlib.metadata.version("triton")


@cache
def _how_asked() -> str:
    """Which program of ours asks Triton: it chooses the assembler."""
    return hashlib.sha256(triton_server.SCRIPT.read_bytes()).hexdigest()[:16]


def make(unit: SourceUnit) -> Mapping[str, bytes]:
    files = {"module.py": unit.text.encode()}
    for name in unit.kernels:
        files |= {f"{name}.{kind}": data for kind, data in _compile(unit, name).items()}
    return files


def load(unit: SourceUnit, files: Mapping[str, bytes]) -> Mapping[str, TritonKernel]:
    kernels = {}
    for name in unit.kernels:
        facts = json.loads(files[f"{name}.json"])
        kernels[name] = TritonKernel(
            cubin=files[f"{name}.cubin"],
            ptx=files[f"{name}.ptx"].decode(),
            name=facts["name"],
            shared=facts["shared"],
            num_warps=facts["num_warps"],
            scratch=facts["scratch"],
            types=tuple(facts["types"]),
        )
    return kernels


def own(unit: SourceUnit, kernels: Mapping[str, TritonKernel]) -> Mapping[str, TritonKernel]:
    """The kernels as this unit launches them: units of one key differ in that."""
    return {name: replace(kernel, **_launched(unit.grids[name])) for name, kernel in kernels.items()}


def _launched(grid: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "grid": tuple((*grid["grid"], 1, 1)[:3]),
        "sizes": tuple(grid.get("sizes", ())),
        "table": tuple(grid.get("table", ())),
        "columns": grid.get("columns", 0),
    }


def _architecture(unit: SourceUnit) -> int:
    digits = unit.target.arch.removeprefix("sm_")
    if not digits.isdigit():
        raise BuildError(
            f"unit {unit.name}: target architecture {unit.target.arch!r}; expected one like 'sm_90'"
        )
    return int(digits)


def _request(unit: SourceUnit, name: str) -> dict[str, Any]:
    """What the child process is asked for, besides the source."""
    grid = unit.grids[name]
    return {
        "kernel": name,
        "arch": _architecture(unit),
        "signature": dict(grid["signature"]),
        "constants": dict(grid.get("constants", {})),
        "options": {
            "num_warps": grid.get("num_warps", 4),
            "num_stages": grid.get("num_stages", 3),
            "debug": bool(grid.get("asserts", False)),  # an index out of range stops the device, as torch's
            "enable_fp_fusion": bool(grid.get("fp_fusion", False)),  # a * b + c rounded once
            "sanitize_overflow": False,  # debug alone would check every integer operation
        },
    }


def expect(target: Target) -> None:
    """Units for this target will come: let a process import Triton in the meantime."""
    if target.arch.removeprefix("sm_").isdigit() and importlib.util.find_spec("triton") is not None:
        triton_server.begin(int(target.arch.removeprefix("sm_")), _environment())


def _environment(**more: str) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return {**own, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **more}


def _compile(unit: SourceUnit, name: str) -> dict[str, bytes]:
    """The files of one kernel. Raises BuildError with the last lines of what its process said."""
    with tempfile.TemporaryDirectory(prefix="cutaway-triton-") as folder:
        source = Path(folder) / f"{name}.py"
        source.write_text(unit.text)
        (Path(folder) / "request.json").write_text(json.dumps(_request(unit, name)))
        environment = _environment(TRITON_CACHE_DIR=str(Path(folder) / "triton"))  # its own has no checksums
        ended = triton_server.compiled(
            _architecture(unit), Path(folder), source.name, environment, TIME_LIMIT
        ) or _in_own_process(Path(folder), source.name, environment)
        if ended.status != 0:
            said = ended.said.strip().splitlines()[-30:] or [
                f"nothing; its process ended with {ended.status}"
                if ended.status is not None
                else f"nothing for {TIME_LIMIT} seconds; it was stopped"
            ]
            raise BuildError(
                f"Triton refused generated kernel {name}, which is a bug in Cutaway. It said:\n"
                + "\n".join(said)
                + f"\nPlease report it with the source of unit {unit.name}."
            )
        return {kind: (Path(folder) / f"{name}.{kind}").read_bytes() for kind in ("cubin", "ptx", "json")}


def _in_own_process(folder: Path, source: str, environment: Mapping[str, str]) -> triton_server.Ended:
    """Where there is no server: a process that imports Triton for this kernel alone."""
    command = [sys.executable, str(triton_server.SCRIPT), str(folder), source]
    try:
        child = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return triton_server.Ended(None, "")
    return triton_server.Ended(child.returncode, child.stderr or child.stdout)
