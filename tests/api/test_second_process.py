"""What a process whose caches are warm need not do: its programs are on disk.

Input: a program that runs in two processes, one after the other, with one cache folder.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
import numpy as np
import cutaway
import cutaway.nn.functional as F
from cutaway import subjects
from stage_contracts.events import EVENT_LOG

asked, near = [], subjects.near
subjects.near = lambda name, known: asked.append(name) or near(name, known)
rng = np.random.default_rng(0)
q, k, v = (cutaway.from_numpy(rng.standard_normal((2, 3, 256, 64), np.float32)) for _ in range(3))
with cutaway.no_grad():
    run = cutaway.compile(lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v)
    out = run(q, k, v)
expected = F.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v
np.testing.assert_allclose(out.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
missed = [e.details["unit"] for e in EVENT_LOG.since(0, "cache") if e.name == "miss"]
print(len(missed), "misses;", "sums" if "sympy.tensor.tensor" in sys.modules else "no sums", asked)
"""


def said(folder):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False,
        env={**os.environ, "CUTAWAY_RUNTIME_CACHE_DIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_a_second_process_makes_no_sum_of_symbols(tmp_path):
    """sympy's first sum imports its tensors and combinatorics: a third of attention's first call from the cache."""
    assert "; sums" in said(tmp_path)
    assert said(tmp_path).startswith("0 misses; no sums")


def test_a_compile_looks_for_no_name_that_is_spelt_alike(tmp_path):
    """Python asks a package for a submodule as an attribute first: the answer to a mistake took 1.3 ms."""
    assert said(tmp_path).endswith(" []")
