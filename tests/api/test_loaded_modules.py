"""`sys.modules` in a compiled function: what it looks up is checked, and no other module.

Input: functions that look there, and one that the standard library looks there for, in a process of its own.
"""

import subprocess
import sys
from pathlib import Path

import cutaway

ROOT = Path(__file__).parents[2]
PROGRAM = """
import warnings
import cutaway

def f(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("careful")
        y = x + 1
    return y, [str(w.message) for w in seen]

compiled = cutaway.compile(f)
for _ in range(2):
    y, seen = compiled(cutaway.ones(3))
    assert y.tolist() == [2.0, 2.0, 2.0] and seen == ["careful"], (y, seen)
    import wave
"""


def test_the_first_compile_of_a_process_keeps_what_looks_a_module_up():
    """It imports the stages: a guard on the names of all modules failed, and the function ran eagerly."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_import_does_not_compile_again(monkeypatch):
    def f(x):
        return x * (2 if "no.such" in sys.modules else 3), sys.modules["math"].sqrt(4.0)

    compiled = cutaway.compile(f, fullgraph=True)
    compiles = lambda: len(compiled.artifacts)  # noqa: E731
    x = cutaway.ones(3)
    assert compiled(x)[0].tolist() == [3.0] * 3 and compiles() == 1
    monkeypatch.setitem(sys.modules, "no.such.other", sys)
    assert compiled(x)[0].tolist() == [3.0] * 3 and compiles() == 1
    monkeypatch.setitem(sys.modules, "no.such", sys)
    assert compiled(x)[0].tolist() == [2.0] * 3 and compiles() == 2


def test_a_walk_over_all_modules_runs_in_python(monkeypatch):
    compiled = cutaway.compile(lambda x: (x + 1) * len(sys.modules))
    x = cutaway.ones(3)
    assert compiled(x).tolist() == [2.0 * len(sys.modules)] * 3
    monkeypatch.setitem(sys.modules, "no.such", sys)
    assert compiled(x).tolist() == [2.0 * len(sys.modules)] * 3
