"""Functions saved in this process and loaded in another, which has no compiler and cannot capture."""

import json
import os
import subprocess
import sys

import pytest

import cutaway
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
