"""Results are made in memory that earlier ones had: the page faults of a call, counted by the system.

Input: a program of 24 results of 4 MiB, run in a process of its own.
"""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np, cutaway
from stage_contracts import config
config.change(keep_freed=int(sys.argv[1]))
run = cutaway.compile(lambda x: [x + k for k in range(24)])
x = cutaway.from_numpy(np.ones((1024, 1024), np.float32))
for _ in range(3):
    run(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    run(x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 4)
"""


def faults(kept, **variables):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(kept)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
def test_the_next_call_finds_its_pages():
    given_back = faults(0)
    assert given_back > 100
    assert faults(256 << 20) < given_back / 10
    # who sets the C library's own variables decides
    assert faults(256 << 20, MALLOC_TRIM_THRESHOLD_="131072") > given_back / 10
