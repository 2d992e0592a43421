"""The source that is emitted: golden texts, the binary interface, comments, one Program for both targets.

Input: the functions of programs.py. After a wanted change: CUTAWAY_UPDATE_GOLDEN=1 pytest stage3_lowering,
and read the difference.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from stage3_lowering.tests import programs
from stage3_lowering.tests.graphs import CPP, TRITON, trace
from stage_contracts import config
from stage_contracts.loop_text import print_nest

GOLDEN = Path(__file__).with_name("golden")
X = np.zeros((64, 128), np.float32)
ROW = np.zeros(128, np.float32)
FUNCTIONS = {
    "sin_cos": (programs.sin_cos, (X,)),
    "softmax": (programs.softmax, (X,)),
    "layer_norm": (programs.layer_norm, (X, ROW, ROW)),
    "long_sum": (lambda c, x: c.sum(c.mul(x, x), (0, 1)), (X,)),
}


def program_of(seam, name):
    function, arrays = FUNCTIONS[name]
    return seam("fuse")(seam("lower")(trace(function, *arrays)))


def golden(name, text):
    path = GOLDEN / name
    if os.environ.get("CUTAWAY_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{name} changed; if that is wanted: CUTAWAY_UPDATE_GOLDEN=1"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_golden(seam, name):
    program = program_of(seam, name)
    nests = [print_nest(nest) for kernel in program.kernels.values() for nest in kernel.nests]
    golden(f"{name}.nests.txt", "\n".join(nests))
    kernels, _, _ = seam("emit")(program, CPP).units[0].text.partition("// ---- run: ")
    golden(f"{name}.cpp.txt", kernels.rstrip("\n") + "\n")
    golden(f"{name}.triton.txt", "\n".join(u.text for u in seam("emit")(program, TRITON).units))


def test_golden_of_the_function_that_runs_it_all(seam):
    text = seam("emit")(program_of(seam, "softmax"), CPP).units[0].text
    golden("run.cpp.txt", text[text.index("// ---- run: ") :])


@pytest.mark.conformance("emit")
def test_units_and_kernels_name_each_other(seam):
    program = program_of(seam, "softmax")
    cpp, triton = seam("emit")(program, CPP), seam("emit")(program, TRITON)
    for emitted, language in ((cpp, "cpp"), (triton, "triton")):
        emitted.verify()
        units = {unit.name: unit for unit in emitted.units}
        assert list(emitted.kernels) == list(program.kernels)
        for name, kernel in emitted.kernels.items():
            assert units[kernel.unit].language == language and name in units[kernel.unit].kernels
            assert (
                kernel.nests == program.kernels[name].nests and kernel.params == program.kernels[name].params
            )
    assert len(cpp.units) == 1, "C++: one translation unit per graph"


@pytest.mark.conformance("emit", tier="core")
def test_sin_cos_loads_once_and_stores_once(seam):
    program = program_of(seam, "sin_cos")
    cpp = seam("emit")(program, CPP).units[0].text
    (kernel,) = program.kernels.values()
    source, result = kernel.params
    assert len(re.findall(rf"\b{source}\[", cpp)) == 1 and len(re.findall(rf"\b{result}\[", cpp)) == 1
    triton = seam("emit")(program, TRITON).units[0].text
    assert triton.count("tl.load(") == 1 and triton.count("tl.store(") == 1


@pytest.mark.conformance("emit")
def test_the_grid_says_how_to_launch(seam):
    for name in FUNCTIONS:
        emitted = seam("emit")(program_of(seam, name), TRITON)
        for unit in emitted.units:
            for kernel_name in unit.kernels:
                grid = emitted.kernels[kernel_name].grid
                assert unit.grids[kernel_name] == grid
                assert set(grid) == {"grid", "num_warps", "constants", "signature"}
                assert tuple(grid["signature"]) == emitted.kernels[kernel_name].params
                assert all(block & (block - 1) == 0 for block in grid["constants"].values())
                assert len(grid["grid"]) == 3 and all(n >= 1 for n in grid["grid"])


def test_every_triton_kernel_starts_at_the_same_line(seam):
    starts = set()
    for name in FUNCTIONS:
        for unit in seam("emit")(program_of(seam, name), TRITON).units:
            lines = unit.text.splitlines()
            starts.add(next(k for k, line in enumerate(lines) if line.startswith(f"def {unit.kernels[0]}(")))
    assert len(starts) == 1


@pytest.mark.conformance("emit")
def test_the_users_line_stands_above_each_group(seam):
    program = program_of(seam, "softmax")
    for target, mark in ((CPP, "//"), (TRITON, "#")):
        text = "\n".join(unit.text for unit in seam("emit")(program, target).units)
        for call in ("amax(x)", "sub(x, amax)", "exp(sub)", "sum(exp)", "div(exp, sum)"):
            assert re.search(rf"{mark} model.py:\d+: {re.escape(call)}", text), call
        with config.patch(comments=False):
            text = "\n".join(unit.text for unit in seam("emit")(program, target).units)
        assert "model.py" not in text


def test_small_kernels_start_no_threads(seam):
    small, large = np.zeros(100, np.float32), np.zeros(1 << 20, np.float32)
    for array, threads in ((small, False), (large, True)):
        program = seam("fuse")(seam("lower")(trace(programs.sin_cos, array)))
        assert ("parallel" in seam("emit")(program, CPP).units[0].text) is threads


def test_no_fast_math_in_the_source(seam):
    for name in FUNCTIONS:
        program = program_of(seam, name)
        text = seam("emit")(program, CPP).units[0].text + "".join(
            u.text for u in seam("emit")(program, TRITON).units
        )
        text = text.replace('optimize("O0")', "")  # less of it, for a function without arithmetic
        for word in ("fast-math", "ffast", "optimize", "tl.exp(", "tl.sqrt(x_", "restrict"):
            assert word not in text


def test_names_that_cpp_or_triton_use_are_avoided(seam):
    graph = trace(lambda c, x, y: c.add(c.sin(x), y), X, X)
    from stage3_lowering.tests.cpp_runner import run_cpp
    from stage_contracts.graph import Graph

    clash = Graph("forward")
    nodes = [
        clash.placeholder(name, n.val) for name, n in zip(("int", "std"), graph.placeholders, strict=True)
    ]
    sin, add = graph.calls
    first = clash.call_function(sin.target, (nodes[0],), val=sin.val, name="double")
    clash.output((clash.call_function(add.target, (first, nodes[1]), val=add.val, name="tl"),))
    program = seam("emit")(seam("fuse")(seam("lower")(clash)), CPP)
    np.testing.assert_array_equal(run_cpp(program, [X, X + 1])[0], X + 1)
