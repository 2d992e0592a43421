"""The programs of a compiled entry as files: written with their kernels, read back without a compiler.

Input: the Artifacts of an entry. A program is found again by the graph of core operators that it was made from, which
stage 2 makes anew from the captured graph. What was built for another machine is left out, and built anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cutaway.artifacts import Artifacts, HalfArtifacts
from cutaway.building import emitted_program
from cutaway.inductor import inductor
from cutaway.saved_values import tensor_of, tensor_record
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph
from stage_contracts.pipeline import Pipeline
from stage_contracts.program import Program, SourceUnit, Target
from stage_contracts.program_json import program_of, record_of

Files = dict[str, bytes]


def machine() -> dict[str, str]:
    """What native code depends on."""
    from stage4_runtime.runtime.compiler import cpu_identity

    cpu = hashlib.sha256(cpu_identity().encode()).hexdigest()
    return {"system": sys.platform, "cpu": cpu, "numpy": np.__version__}


def written(artifacts: Artifacts) -> Files:
    """Every program of the entry and its kernels, as files by name."""
    files: Files = {}
    for half in _halves(artifacts):
        program = half.emitted[half.target.name]
        constants = {name: tensor_record(Tensor(value)) for name, value in half.constants.items()}
        record = {"program": record_of(program), "constants": {n: r for n, (r, _) in constants.items()}}
        place = f"programs/{_key(half.core, half.updates, half.target)}"
        files[f"{place}.json"] = json.dumps(record).encode()
        files |= {f"{place}/{name}": data for name, (_, data) in constants.items()}
        for unit in program.units:
            files |= {f"kernels/{_unit_key(unit)}/{name}": data for name, data in _built(unit).items()}
    return files


def _halves(artifacts: Artifacts) -> Iterator[HalfArtifacts]:
    waiting = [half for half in (artifacts.forward, artifacts.backward) if half is not None]
    while waiting:
        half = waiting.pop()
        waiting += half.subgraphs.values()
        yield half


def _built(unit: SourceUnit) -> Mapping[str, bytes]:
    from stage4_runtime.runtime.build import files_of

    return files_of(unit)


def compiled(graph: Graph, files: Files, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """The captured graph, running the programs of these files. A graph that they lack is lowered and built."""

    def emitted(half: HalfArtifacts, target: Target) -> tuple[Program, dict[str, Any]]:
        place = f"programs/{_key(half.core, half.updates, target)}"
        if f"{place}.json" not in files:
            return emitted_program(half, target)
        record = json.loads(files[f"{place}.json"])
        program = half.emitted[target.name] = program_of(record["program"])
        constants = {
            name: tensor_of(one, files[f"{place}/{name}"])._data for name, one in record["constants"].items()
        }
        return program, constants

    def build(unit: SourceUnit) -> Mapping[str, Any]:
        from stage4_runtime.runtime.build import load_files

        folder = f"kernels/{_unit_key(unit)}/"
        own = {name.removeprefix(folder): data for name, data in files.items() if name.startswith(folder)}
        return load_files(unit, own) if own else pipeline.build(unit)

    return inductor(graph, [], replace(pipeline, build=build), artifacts, emitted)


def _key(core: Graph, updates: Any, target: Target) -> str:
    return _digest(
        f"{core}\n{[*updates]}\n{target.name} {target.device} {target.arch} {dict(target.options)}"
    )


def _unit_key(unit: SourceUnit) -> str:
    return _digest(f"{unit.language} {' '.join(unit.kernels)}\n{unit.text}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
