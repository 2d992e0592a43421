"""A user's Triton kernels in compiled functions: one node, run by every backend, writes seen, compiled for a GPU.

Input: triton_programs.py, run in processes of its own, as Triton decides at import whether it interprets.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from stage0_eager.triton.writes import written_parameters

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ["eager", "aot_eager", "inductor"]
NAMES = ["added", "tuned", "into_an_argument", "transposed", "helped", "as_an_operator"]


@cache
def answers(mode):
    environment = dict(os.environ, PYTHONPATH=f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    environment.pop("TRITON_INTERPRET", None)
    if mode == "interpret":
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/kernels/triton_programs.py"), mode],
        env=environment, capture_output=True, text=True, timeout=300, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_every_backend_runs_the_kernel(name):
    for backend in BACKENDS:
        found = answers("interpret")[f"{name} {backend}"]
        assert found["error"] < 1e-5, backend
        assert found["written"] == (name == "into_an_argument"), backend


def test_a_launch_is_one_node_with_its_grids():
    found = answers("interpret")
    assert "triton.add_kernel(" in found["added aot_eager"]["graph"]
    assert "grids=((4,),)" in found["added aot_eager"]["graph"]
    assert "scale_kernel(" in found["tuned eager"]["graph"]
    assert "grids=((2,), (4,))" in found["tuned eager"]["graph"]  # one for each configuration
    assert "layouts={'x_ptr': (1, 10)}" in found["transposed inductor"]["graph"]
    assert "options={'num_warps': 2}" in found["into_an_argument eager"]["graph"]
    assert "ops.triton_programs.add(x, y)" in found["as_an_operator inductor"]["graph"]


def test_eager_calls_and_what_a_kernel_writes_to():
    found = answers("interpret")["eager"]
    assert (found["added"], found["operator"], found["gradient"]) == (200, 400, 200)
    assert found["writes"] == {"add_kernel": ["out_ptr"], "through_a_helper": ["out_ptr"]}


def test_it_compiles_for_a_gpu_and_says_what_it_needs_without_one():
    found = answers("compile")
    assert ".target sm_90" in found["ptx"] and f".entry {found['name']}(" in found["ptx"]
    assert "got tensors on the CPU" in found["error"] and "TRITON_INTERPRET=1" in found["error"]


# ---- what a kernel writes to, by its source ---------------------------------------------------------------------------


def writes_in_a_loop(a, b, c, n):
    pointer = a
    for _ in range(n):
        tl.store(pointer, tl.load(b))  # noqa: F821
        pointer += 1


def writes_atomically(a, b, c, n):
    index = tl.load(b)  # noqa: F821
    tl.atomic_add(c + index, 1)  # noqa: F821


def writes_by_a_descriptor(a, b, c, n):
    descriptor = tl.make_tensor_descriptor(a, [n], [1], [8])  # noqa: F821
    descriptor.store([0], tl.load(b))  # noqa: F821


def writes_where_it_chose(a, b, c, n):
    pointer = a if n > 3 else tl.multiple_of(c, 16)  # noqa: F821
    tl.store(value=1, pointer=pointer)  # noqa: F821


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (writes_in_a_loop, {"a"}),
        (writes_atomically, {"c"}),
        (writes_by_a_descriptor, {"a"}),
        (writes_where_it_chose, {"a", "c"}),
    ],
)
def test_the_pointers_a_kernel_writes_to(function, wanted):
    assert set(written_parameters(function)) - {"n"} == wanted


def test_without_source_everything_counts_as_written():
    names: dict = {}
    exec("def sourceless(a, b): tl.store(a, b)", names)
    assert written_parameters(names["sourceless"]) == ("a", "b")
