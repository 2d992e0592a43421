"""`make cpu-speed` works: two tiny rows, ours and eager only, through fresh processes to the printed table.

Input: the tool in benchmarks/. What its figures are is for a quiet machine to say; no time is asserted here.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cpu_rows import ROWS, Row, of, tiny
from benchmarks.cpu_table import table

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pins processes to cores")
def test_two_rows_are_measured_and_printed():
    command = [
        sys.executable,
        "-m",
        "benchmarks.cpu_speed",
        "--rows",
        "tiny",
        "50 operators",
        "--rounds",
        "2",
        "--peers",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert "torch not asked, jax not asked" in run.stdout
    assert re.search(
        r"^tiny, 4 elements +[\d,.]+ +[\d,.]+ +[\d.]+ \([\d.]+-[\d.]+\) +<= 1.05 +(yes|no)", run.stdout, re.M
    )
    assert re.search(r"^50 operators +\d+\.\d\d +- ", run.stdout, re.M)
    assert "Failures and differing results: 0" in run.stdout


def test_a_ratio_is_the_median_of_rounds_and_holds_within_3_percent():
    row = Row("r", tiny, of(), torch=0.5)
    found = {
        "ours": {"times": [1.0, 1.0, 1.0, 9.0, 1.0], "result": 2.0},
        "eager": {"times": [1.0, 1.0, 1.0, 9.0, 1.0], "result": 1.0},
        "torch.compile": {"times": [2.0, 1.95, 1.9, 2.0, 1.95]},
    }
    text = table([row], {"all cores": {"r": found}})
    assert "0.51 (0.50-4.50)  <= 0.50  yes" in text  # within 3 %
    assert "eager's 1" in text  # the results differ, and the table says so
    found["torch.compile"]["times"] = [1.9] * 5
    assert "r, all cores, / torch.compile: 0.53, goal 0.50" in table([row], {"all cores": {"r": found}})


def test_the_share_of_blas_is_that_of_the_products():
    """In a process of its own: from then on every compiled call looks at the clock."""
    program = (
        "import numpy as np, cutaway\n"
        "from benchmarks.blas_time import blas_counter\n"
        "x = cutaway.from_numpy(np.ones((300, 300), np.float32))\n"
        "product, sine = cutaway.compile(lambda x: x @ x @ x), cutaway.compile(lambda x: (x.sin() + 1).exp())\n"
        "product(x), sine(x)\n"
        "share = blas_counter()\n"
        "print(share(lambda: product(x), 3), share(lambda: sine(x), 3), product(x).numpy()[0, 0])\n"
    )
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # of several threads, each would count its own time
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=alone, capture_output=True, text=True, check=False
    )
    products, others, value = map(float, run.stdout.split() or [run.stderr])
    assert 0.3 < products <= 1 and others == 0 and value == 300**2
    found = {"ours": {"times": [1.0]}, "in BLAS": {"times": [0.754]}, "torch.compile": {"times": [0.5]}}
    missed = table([Row("r", tiny, of(), torch=0.9)], {"1 thread": {"r": found}})
    assert "r, 1 thread, / torch.compile: 2.00, goal 0.90; BLAS alone 1.51" in missed
    copied = {"ours": {"times": [1.0]}, "torch.compile": {"times": [0.8]}, "copy": {"times": [0.7]}}
    missed = table([Row("r", tiny, of(), torch=0.9)], {"1 thread": {"r": copied}})
    assert "/ torch.compile: 1.25, goal 0.90; the copy alone 0.87" in missed
    del found["torch.compile"]
    assert re.search(
        r"in BLAS\nr +1,000,000 +75%\n", table([Row("r", tiny, of())], {"1 thread": {"r": found}})
    )


def test_names_are_unique():
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_fork_has_its_own_pages_before_it_is_timed():
    """What it then writes to is copied no more: of 2,000 pages that it shared with its parent."""
    program = (
        "import os, resource, numpy as np\n"
        "from benchmarks.cpu_peers import own_pages\n"
        "shared = np.ones(2000 * 4096, np.uint8)\n"
        "if os.fork() == 0:\n"
        "    own_pages()\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    shared[:] = 2\n"
        "    copied = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "    os._exit(0 if copied < 100 else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=True)
