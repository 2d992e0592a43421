"""The programs of a compiled entry as files: written with their kernels, read back without a compiler.

Input: the Artifacts of an entry. What stage 2 made is in the file, too, and is used while nothing that decides it has
changed; else stage 2 runs, and a program is found by the core graph that it gives. What was built for another machine
is left out, and built anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cutaway import aot_cache
from cutaway.aot_cache import CAPTURED, DECIDING, Halves, Keeper, halves_of, settings_read
from cutaway.artifacts import Artifacts, HalfArtifacts
from cutaway.building import emitted_program
from cutaway.graph_identity import NotSaid, identity
from cutaway.inductor import inductor
from cutaway.pipelines import default_pipeline
from cutaway.saved_values import tensor_of, tensor_record
from stage0_eager import set_grad_enabled
from stage0_eager.state import ordinary_modes
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph
from stage_contracts.pipeline import DEFAULT_SEAMS, Pipeline, load_seam
from stage_contracts.program import Program, SourceUnit, Target
from stage_contracts.program_json import program_of, record_of

Files = dict[str, bytes]
STAGE_TWO, STAGE_TWO_KEY = "programs/stage2.json", "programs/stage2.key"
NOT_NEEDED = (
    "capture", "functionalize", "differentiate", "decompose", "partition", "lower", "fuse", "schedule", "emit",
)  # fmt: skip


def machine() -> dict[str, str]:
    """What native code depends on."""
    from stage4_runtime.runtime.compiler import cpu_identity

    cpu = hashlib.sha256(cpu_identity().encode()).hexdigest()
    return {"system": sys.platform, "cpu": cpu, "numpy": np.__version__}


def written(artifacts: Artifacts) -> Files:
    """Every program of the entry and its kernels, as files by name."""
    files: Files = {}
    for half in _halves(artifacts):
        if half.target.name not in half.emitted:  # one in parts, which have programs of their own
            continue
        program = half.emitted[half.target.name]
        constants = {name: tensor_record(Tensor(value)) for name, value in half.constants.items()}
        record = {"program": record_of(program), "constants": {n: r for n, (r, _) in constants.items()}}
        place = f"programs/{_key(half.core, half.updates, half.target)}"
        files[f"{place}.json"] = json.dumps(record).encode()
        files |= {f"{place}/{name}": data for name, (_, data) in constants.items()}
        for unit in program.units:
            files |= {f"kernels/{_unit_key(unit)}/{name}": data for name, data in _built(unit).items()}
    return files | _stage_two(artifacts)


def _stage_two(artifacts: Artifacts) -> Files:
    """What stage 2 made, under the key of what it was made from. Nothing where a file cannot say it."""
    graph, halves = artifacts.captured, artifacts.halves
    if graph is None or halves is None or artifacts.forward is None:
        return {}
    if any(half.target.name not in half.emitted for half in _halves(artifacts)):
        return {}
    record = aot_cache.record_of(graph, halves, (artifacts.forward, artifacts.backward), _in_file)
    with ordinary_modes(), set_grad_enabled(artifacts.frame.graph_grad_mode):  # as when it was compiled
        key = _stage_two_key(graph)
    if record is None or key is None:
        return {}
    return {STAGE_TWO: record, STAGE_TWO_KEY: key.encode()}


def _in_file(half: HalfArtifacts, captured: Mapping[int, str]) -> tuple[str, dict[str, str]]:
    return f"programs/{_key(half.core, half.updates, half.target)}", {}


def _stage_two_key(graph: Graph) -> str | None:
    from stage4_runtime.runtime.program_cache import software

    try:
        return _digest(f"{identity(graph)}\n{settings_read()}\n{software(DECIDING, CAPTURED)}")
    except NotSaid:
        return None


def _halves(artifacts: Artifacts) -> Iterator[HalfArtifacts]:
    waiting = [half for half in (artifacts.forward, artifacts.backward) if half is not None]
    while waiting:
        half = waiting.pop()
        waiting += half.subgraphs.values()
        yield half


def _built(unit: SourceUnit) -> Mapping[str, bytes]:
    from stage4_runtime.runtime.build import files_of

    return files_of(unit)


def compiled(graph: Graph, files: Files, artifacts: Artifacts) -> Callable[..., tuple]:
    """The captured graph, running the programs of these files. A graph that they lack is lowered and built."""
    pipeline = artifacts.pipeline = loading_pipeline()

    def program_at(place: str) -> tuple[Program, dict[str, Any]]:
        record = json.loads(files[f"{place}.json"])
        constants = {
            name: tensor_of(one, files[f"{place}/{name}"])._data for name, one in record["constants"].items()
        }
        return program_of(record["program"]), constants

    def emitted(half: HalfArtifacts, target: Target) -> tuple[Program, dict[str, Any]]:
        place = f"programs/{_key(half.core, half.updates, target)}"
        if f"{place}.json" not in files:
            half.pipeline = default_pipeline()
            return emitted_program(half, target)
        return program_at(place)

    def find(on_tensors: Graph, name: str, again: Callable[[], Halves]) -> Halves | None:
        kept = files.get(STAGE_TWO_KEY, b"").decode() if on_tensors is graph else ""
        if not kept or kept != _stage_two_key(graph):
            return None
        return halves_of(files[STAGE_TWO], graph, again, lambda place, *_: program_at(place))

    def build(unit: SourceUnit) -> Mapping[str, Any]:
        from stage4_runtime.runtime.build import load_files

        folder = f"kernels/{_unit_key(unit)}/"
        own = {name.removeprefix(folder): data for name, data in files.items() if name.startswith(folder)}
        return load_files(unit, own) if own else pipeline.build(unit)

    keeper = Keeper(find, lambda *_: None)
    return inductor(graph, [], replace(pipeline, build=build), artifacts, emitted, keeper)


@functools.cache
def loading_pipeline() -> Pipeline:
    """The default seams. Those that a load does not need are imported at their first call: they are half of the
    modules."""

    def late(path: str) -> Callable[..., Any]:
        return lambda *args: load_seam(path)(*args)

    seams = {name: (late if name in NOT_NEEDED else load_seam)(path) for name, path in DEFAULT_SEAMS.items()}
    return Pipeline(**seams)


def _key(core: Graph, updates: Any, target: Target) -> str:
    return _digest(
        f"{core}\n{[*updates]}\n{target.name} {target.device} {target.arch} {dict(target.options)}"
    )


def _unit_key(unit: SourceUnit) -> str:
    how = {name: dict(grid) for name, grid in unit.grids.items()}  # two configurations may have one text
    return _digest(f"{unit.language} {' '.join(unit.kernels)} {how}\n{unit.text}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
