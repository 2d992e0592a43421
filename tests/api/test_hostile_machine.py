"""The machine at its worst: no compiler, a corrupt cache, a folder nobody may write to, a path full of quotes.

Input: the same small program each time, in a process of its own so that nothing is remembered.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import numpy as np, cutaway
from cutaway.nn import functional as F
from stage_contracts import events

def f(x, w):
    return F.gelu(x @ w).sum()

cutaway.manual_seed(0)
x, w = cutaway.randn(5, 4), cutaway.randn(4, 3, requires_grad=True)
want = f(x, w); want.backward(); grad = w.grad; w.grad = None
got = cutaway.compile(f, fullgraph=True)(x, w); got.backward()
np.testing.assert_allclose(got.item(), want.item(), rtol=1e-5)
np.testing.assert_allclose(w.grad.numpy(), grad.numpy(), rtol=1e-5)
cache = [e.name for e in events.EVENT_LOG.since(0, "cache")]
built = len(events.EVENT_LOG.since(0, "build"))
print("right", "hits", cache.count("hit"), "misses", cache.count("miss"), "builds", built)
"""


def run(**environment: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, timeout=110,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("right"), done.stdout
    return done


def test_a_second_process_finds_everything_in_the_cache(tmp_path):
    first = run(CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path / "cache"))
    assert "hits 0" in first.stdout and first.stderr == ""
    second = run(CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path / "cache"))
    assert "misses 0 builds 0" in second.stdout


def test_no_compiler_runs_on_numpy_and_says_so_once(tmp_path):
    done = run(CUTAWAY_RUNTIME_CXX="/nowhere/g++", CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path))
    assert len(done.stderr.strip().splitlines()) == 1
    assert "NumPy" in done.stderr and "/nowhere/g++" in done.stderr
    done = run(PATH="", CXX="", CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path))
    assert len(done.stderr.strip().splitlines()) == 1 and "NumPy" in done.stderr


@pytest.mark.parametrize("damage", ["truncate", "scribble", "empty"])
def test_a_corrupt_entry_is_rebuilt(tmp_path, damage):
    run(CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path / "cache"))
    libraries = list((tmp_path / "cache").rglob("*.so"))
    assert libraries
    for library in libraries:
        content = library.read_bytes()
        library.chmod(0o600)
        library.write_bytes({
            "truncate": content[: len(content) // 2],
            "scribble": content[:2000] + bytes(255 - b for b in content[2000:2200]) + content[2200:],
            "empty": b"",
        }[damage])  # fmt: skip
    again = run(CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path / "cache"))
    assert f"misses {len(libraries)} builds {len(libraries)}" in again.stdout and again.stderr == ""
    assert "misses 0 builds 0" in run(CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path / "cache")).stdout


def test_corrupt_metadata_is_a_miss(tmp_path):
    run(CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path / "cache"))
    for file in (tmp_path / "cache").rglob("*.json"):
        file.chmod(0o600)
        file.write_text('{"half": ')
    assert "hits 0" in run(CUTAWAY_RUNTIME_CACHE_DIR=str(tmp_path / "cache")).stdout


def test_spaces_and_quotes_in_the_path(tmp_path):
    folder = tmp_path / 'it\'s "a" cache $HOME `x` ; rm'
    run(CUTAWAY_RUNTIME_CACHE_DIR=str(folder))
    assert "misses 0 builds 0" in run(CUTAWAY_RUNTIME_CACHE_DIR=str(folder)).stdout


def test_a_folder_that_cannot_be_made_or_written(tmp_path):
    """A file stands where the folder should be: root may write to a read-only folder, but not through a file."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = run(CUTAWAY_RUNTIME_CACHE_DIR=str(blocked / "cache"))
    assert "hits 0" in done.stdout and done.stderr == ""
    frozen = tmp_path / "frozen"
    frozen.mkdir(mode=0o500)
    done = run(CUTAWAY_RUNTIME_CACHE_DIR=str(frozen))
    assert done.stderr == ""
