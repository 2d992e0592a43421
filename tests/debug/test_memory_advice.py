"""A compiled call that runs out of memory says which buffers are largest, with their lines, and what needs less.

Input: PROGRAMS, a table, each run in a process whose memory is limited before its last call.
"""

import subprocess
import sys

import pytest

import cutaway
from cutaway import launch_errors

LIMIT = "resource.setrlimit(resource.RLIMIT_AS, (1200 << 20, 1200 << 20))\n"
BEGIN = "import resource\nfrom cutaway.torch_api import torch\n"
SORTED = """
@torch.compile
def f(x, y):
    a = x[:, None] * y
    return (a.sort(dim=1).values @ a.T).sum()

f(torch.ones(10), torch.ones(10))
f(torch.ones(12), torch.ones(12))
"""
CHAIN = """
@torch.compile
def f(x, w):
    for _ in range(6):
        x = (x @ w).sin()
    return x.sum()

w = torch.randn(64, 64, requires_grad=True)
f(torch.ones(10, 64), w).backward()
f(torch.ones(12, 64), w).backward()
"""
# half -> (program, what the advice says, in order)
PROGRAMS = {
    "inference": (
        f"{BEGIN}{SORTED}{LIMIT}f(torch.ones(40000), torch.ones(40000))",
        ["It computes 32.00 GB", "12.80 GB", "int64[40000, 40000]", "a.sort(dim=1)", "half of the batch"],
    ),
    "training": (
        f"{BEGIN}{CHAIN}{LIMIT}f(torch.ones(1000000, 64), w).backward()",
        [
            "It computes 1.54 GB",
            "256.00 MB",
            "float32[1000000, 64]",
            "(x @ w).sin()",
            "activation_memory_budget",
        ],
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux limits a process's memory so")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_advice_names_the_largest_buffers(name, tmp_path):
    program, expected = PROGRAMS[name]
    (tmp_path / "program.py").write_text(program)
    words = [sys.executable, "program.py"]
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    before, _, said = result.stderr.partition("cutaway: out of memory in the compiled forward of f.")
    assert result.returncode == 1 and "MemoryError: " in before, result.stderr
    at = [said.find(words) for words in expected]
    assert at == sorted(at) and -1 not in at, result.stderr


def test_a_backward_says_it_is_the_backward():
    """The backward's own graph, with an error as its program would raise it."""

    def f(x, w):
        return (x * w).sin().sum()

    compiled = cutaway.compile(f)
    w = cutaway.ones(8, requires_grad=True)
    compiled(cutaway.ones(8), w).backward()
    (artifacts,) = compiled.artifacts
    core = artifacts.partition.backward
    recover = launch_errors.recover_backward(core, artifacts)
    with pytest.raises(MemoryError) as raised:
        recover(MemoryError("planted"), [cutaway.ones(8)._data for _ in core.placeholders])
    (note,) = raised.value.__notes__
    assert "in the compiled backward of " in note and "It computes 32 bytes" in note
    assert "float32[8]" in note and "no_grad" in note
