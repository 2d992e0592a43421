"""Units of one source that one process builds, each launched as its own program says.

Input: the programs of benchmarks/gpu/compiled.py and a cat of many tensors, with several numbers of rows each. A kernel
whose blocks divide its rows has one text for all of them, and what differs is only how often it runs, or the numbers of
its table. Triton is a stand-in here: it gives each kernel the same empty files.
"""

import json

import numpy as np
import pytest

import cutaway as ct
from benchmarks.gpu import compiled
from cutaway import Tensor
from stage4_runtime.runtime import triton_units
from stage4_runtime.runtime.build import build, forget_built
from stage_contracts import config
from tests.kernels.gpu_programs import emitted, inference_graph, program_of

ROWS = (16, 64, 128, 33)
FACTS = {"name": "k", "shared": 0, "num_warps": 4, "scratch": 0, "types": []}


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch, tmp_path):
    files = {"cubin": b"", "ptx": b"", "json": json.dumps(FACTS).encode()}
    monkeypatch.setattr(triton_units, "_compile", lambda unit, name: files)
    forget_built()
    with config.patch({"runtime.cache_dir": str(tmp_path)}):
        yield
    forget_built()


def launched_as_said(programs):
    """How many units had the source of an earlier one, and other launches. Each must have its own."""
    others, said = 0, {}
    for program in programs:
        for unit in program.units:
            for name, kernel in build(unit).items():
                grid = unit.grids[name]
                x, y, z = (*grid["grid"], 1, 1)[:3]
                assert kernel.grid == (x, y, z), (unit.name, name)
                assert kernel.table == tuple(grid.get("table", ()))
                assert kernel.columns == grid.get("columns", 0)
                assert kernel.sizes == tuple(grid.get("sizes", ()))
                known = said.setdefault(triton_units.key(unit).digest, grid)
                others += known != grid
    return others


def random_program(seed, rows):
    dtype, ((_, _), (_, columns)), function = compiled.random_program(seed)
    given = [Tensor(np.ones((rows, columns), np.float32)).to(getattr(ct, dtype)) for _ in range(2)]
    try:
        function(*given)
    except (RuntimeError, ValueError, IndexError):
        return None  # eager has none
    return emitted(program_of(inference_graph(function, given)[0]))


def test_random_programs_of_several_numbers_of_rows():
    programs = [random_program(seed, rows) for seed in range(1, 25) for rows in ROWS]
    assert launched_as_said([program for program in programs if program is not None]) > 5


def updates(sizes):
    """An optimizer's step over as many parameters: one kernel that runs over a table."""

    def step(*tensors):
        half = len(tensors) // 2
        for p, g in zip(tensors[:half], tensors[half:], strict=True):
            p.add_(g, alpha=-0.1)

    given = [ct.ones(n) for n in (*sizes, *sizes)]
    return emitted(program_of(inference_graph(step, given)[0]))


def test_tables_of_other_sizes():
    programs = [updates([n + k for k in range(6)]) for n in (513, 701, 900)]
    assert any(unit.grids[name].get("table") for p in programs for unit in p.units for name in unit.grids)
    assert launched_as_said(programs) > 0
