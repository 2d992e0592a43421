"""Functions saved in this process and loaded in another, which has no compiler and cannot capture."""

import json
import os
import subprocess
import sys

import pytest

import cutaway
from cutaway.compiler import load_compiled_function
from stage_contracts import events
from tests.saved_functions import programs
from tests.saved_functions.programs import CASES

QUICK = {"runtime.cxx_flags": "-O0 -march=native -fopenmp -ffp-contract=off"}  # to build, not to run


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What the other process says of each case."""
    folder = tmp_path_factory.mktemp("saved")
    programs.begin()
    for name, (function, call, _) in CASES.items():
        compiled = cutaway.compile(function, fullgraph=True, options=QUICK).aot_compile(call())
        compiled.save_compiled_function(folder / name)
    environment = {
        **os.environ,
        "CUTAWAY_RUNTIME_CXX": str(folder / "no-compiler"),
        "CUTAWAY_RUNTIME_CACHE_DIR": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "tests.saved_functions.programs", str(folder)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_function_is_the_function(name, loaded):
    row = loaded[name]
    assert row["problem"] == ""
    # nothing was captured, built from source or looked up in the cache, and nothing ran on NumPy instead
    assert not {"compile", "build", "cache", "fallback", "internal_error"} & {*row["kinds"]}


# What no text of a graph says (cutaway/graph_identity.py): only a call shows an open size; subgraphs.
STAGE_2_AGAIN = ("open sizes", "a branch")


@pytest.mark.parametrize("name", CASES)
def test_a_load_does_not_run_stage_two(name, loaded):
    assert loaded[name]["stage 2 ran"] == (name in STAGE_2_AGAIN)


def test_a_file_whose_stage_two_is_of_other_sources_runs_it(tmp_path, monkeypatch):
    from stage4_runtime.runtime import program_cache

    compiled = cutaway.compile(programs.gradients, fullgraph=True, options=QUICK)
    compiled.aot_compile(CASES["gradients"][1]()).save_compiled_function(tmp_path / "f")
    monkeypatch.setattr(program_cache, "software", lambda *places: "another version")
    mark = events.EVENT_LOG.mark()
    loaded = load_compiled_function(tmp_path / "f", trust=True)
    since = events.EVENT_LOG.since(mark)
    assert any(e.kind == "pass" and e.name == "functionalize" for e in since)
    assert not {"cache", "build"} & {e.kind for e in since}  # the programs are those of the file
    (args, _), (again, _) = CASES["gradients"][1](), CASES["gradients"][1]()
    for got, wanted in zip(loaded(*args), programs.gradients(*again), strict=True):
        assert (got - wanted).abs().max().item() < 1e-5
