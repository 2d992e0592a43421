"""A Python whose bytecode capture does not know: importing works, compile() warns once, everything runs eagerly.

Input: processes of their own, in which sys says before the import that it is another Python. What cutaway depends on
is imported first: its makers look after their own versions.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PRETEND = {
    "cpython 3.14": "sys.version_info = Info(3, 14, 0, 'final', 0)",
    "cpython 3.99": "sys.version_info = Info(3, 99, 1, 'alpha', 0)",
    "pypy 3.11": "sys.implementation.name = 'pypy'; sys.version_info = Info(3, 11, 9, 'final', 0)",
}
PROGRAM = """
import collections, sys, warnings
import filelock, ml_dtypes, numpy, platformdirs, rich.console, scipy.special, sympy
Info = collections.namedtuple("version_info", "major minor micro releaselevel serial")
{pretend}
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import cutaway
    import stage1_capture.capture
    from cutaway import nn

    @cutaway.compile
    def breaks(x, n=2):
        for i in range(n):
            print("step", i)
            x = x * 2 + i
        return x

    @cutaway.compile(fullgraph=True, dynamic=True)
    def whole(x):
        return (x * x).sum()
"""


def run(pretend: str, body: str) -> str:
    """What a process prints that runs `body` on the Python it believes to be on."""
    program = PROGRAM.replace("{pretend}", PRETEND[pretend])
    done = subprocess.run(
        [sys.executable, "-c", program + body], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


BODY = """
    x = cutaway.ones(2, requires_grad=True)
    out = breaks(x)
    whole(out).backward()
    model = nn.Linear(2, 2)
    twin = cutaway.compile(model)
    model.compile()
    assert type(twin) is nn.Linear and twin(x).shape == (2,) and model(x).shape == (2,)
    print(out.tolist(), x.grad.tolist())
    print(*(str(w.message) for w in said), sep="|")
"""


@pytest.mark.parametrize("pretend", PRETEND)
def test_everything_runs_eagerly_with_one_warning(pretend):
    lines = run(pretend, BODY).splitlines()
    assert lines[:3] == ["step 0", "step 1", "[5.0, 5.0] [40.0, 40.0]"]
    (warning,) = lines[3].split("|")
    assert (
        warning.endswith(f"this is {pretend}, so your functions run eagerly, not compiled")
        and "3.11, 3.12, 3.13" in warning
    )


def test_explain_says_why():
    printed = run("cpython 3.14", "    print(cutaway.explain(lambda x: x + 1)(cutaway.ones(2)))\n")
    assert "Graph Break Count: 1" in printed and "does not know the bytecode of cpython 3.14" in printed
