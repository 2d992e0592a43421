"""Random tensor programs in a process that finds them in the cache give what eager gives, forward and backward.

Input: tests/tensor_programs/warm.py, run twice on one folder. A program's file has the hash of its text in its name, so
the processes get one seed of hashes.
"""

import json
import os
import subprocess
import sys

PROGRAMS = 25


def run(folder, first):
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    environment.pop("CUTAWAY_INTERNAL_ERRORS", None)  # a fault is told as a difference
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.tensor_programs.warm",
        folder,
        first,
        str(PROGRAMS),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_random_programs_from_the_cache_are_as_in_eager(tmp_path):
    cold, warm = (run(str(tmp_path / "cache"), "1000") for _ in range(2))
    assert cold["differs"] == warm["differs"] == []
    assert warm["hits"] >= PROGRAMS and warm["misses"] <= cold["misses"] / 10
    assert warm["ran"] < cold["ran"] / 2
