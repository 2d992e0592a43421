"""Kernels as files that run alone: the program of one is that of the whole, and the files build, run and say what they reach.

Input: programs of several kinds of steps, with fixed and open sizes, and the switch in both of its names.
"""

import re
import subprocess
import sys

import numpy as np
import pytest

import cutaway
from cutaway import profiler
from cutaway.debug.run_alone import load
from cutaway.profiler import kernel_bench
from cutaway.profiler.costs import cost
from stage_contracts import config


def attention(q, k, v):
    return cutaway.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def chain(x, w):
    return cutaway.softmax((x @ w).relu(), 1).sum(0) * 2


def rows_by_index(table, index):
    return table[index] * 2


PROGRAMS = {
    "attention": (attention, lambda: [cutaway.randn(2, 3, 128, 32) for _ in range(3)]),
    "chain": (chain, lambda: [cutaway.randn(32, 24), cutaway.randn(24, 40)]),
    "rows by index": (rows_by_index, lambda: [cutaway.randn(9, 5), cutaway.tensor([3, 8, 0, 3])]),
    "transposed": (lambda x: (x.t() + 1).contiguous(), lambda: [cutaway.randn(7, 12)]),
    "several rows of a table": (
        lambda *p: [x * 2 + 1 for x in p],
        lambda: [cutaway.randn(n, 4) for n in range(3, 11)],
    ),
}


def recorded(name, **options):
    function, inputs = PROGRAMS[name]
    compiled, given = cutaway.compile(function, **options), inputs()
    compiled(*given)
    with profiler.profile() as prof:
        compiled(*given)
    return kernel_bench.recorded_steps(prof.events())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_file_has_the_kernel_and_its_cost(name, dynamic, tmp_path):
    """What the file runs costs what the step in its program costs: the same loops over arrays of the same sizes."""
    steps = recorded(name, dynamic=dynamic)
    files = kernel_bench.write_kernels(steps, tmp_path)
    assert len(files) == len(steps) > 0
    for path, (program, step, sizes) in zip(files, steps, strict=True):
        made, call, inputs = load(str(path))
        assert list(made.kernels) == [
            k for k in program.kernels if k in re.findall(r"kernel='(\w+)'", str(step))
        ]
        assert cost(made, made.steps[0], sizes) == cost(program, step, sizes)
        written = [made.inputs.index(n) for n in made.written_inputs]
        before = [np.array(inputs[place]) for place in written]
        for array in (inputs[place] for place in written):
            array.fill(7 if array.dtype.kind == "i" else np.nan)
        call(*inputs)
        assert written and all(
            inputs[place].shape == b.shape for place, b in zip(written, before, strict=True)
        )


def test_a_kernel_alone_computes_what_it_does_in_its_program(tmp_path):
    ((program, step, sizes),) = recorded("transposed")
    (path,) = kernel_bench.write_kernels([(program, step, sizes)], tmp_path)
    made, call, inputs = load(str(path))
    call(*inputs)
    x, out = (inputs[made.inputs.index(name)] for name in step.buffers)
    assert np.array_equal(out, x.T + 1)


def test_a_file_runs_alone_and_says_what_it_reaches(tmp_path):
    (path, *_) = kernel_bench.write_kernels(recorded("chain"), tmp_path)
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"_0\w*: [\d.]+ us, [\d.]+ GB/s \(\d+ bytes\), [\d.]+ GFLOP/s", ran.stdout)
    assert re.search(r"roofline: [\d.]+ operations a byte, bound by (memory|compute); \d+ % of", ran.stdout)


def test_a_counter_that_is_not_installed_is_said(tmp_path, monkeypatch, capsys):
    (path, *_) = kernel_bench.write_kernels(recorded("transposed"), tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), "--perf"])
    monkeypatch.setattr(kernel_bench.shutil, "which", lambda tool: None)
    with pytest.raises(SystemExit):
        kernel_bench.bench(str(path), {})
    assert "perf is not installed here; with it, this runs: perf stat -d" in capsys.readouterr().out


@pytest.mark.parametrize("dynamic", [False, True])
def test_torchs_switch_writes_them(tmp_path, dynamic):
    settings = {"debug.benchmark_kernel": True, "debug.folder_root": str(tmp_path)}
    with config.patch(settings):
        cutaway.compile(chain, dynamic=dynamic)(cutaway.randn(32, 24), cutaway.randn(24, 40))
    files = list(tmp_path.rglob("kernels/*.py"))
    assert files and all("bench(__file__, SIZES)" in path.read_text() for path in files)
    assert any("float32[32, " in path.read_text() for path in files)


def test_both_names_of_the_switch():
    assert config.variables_of("debug.benchmark_kernel") == (
        "CUTAWAY_DEBUG_BENCHMARK_KERNEL",
        "TORCHINDUCTOR_BENCHMARK_KERNEL",
    )
    from cutaway.torch_api import torch

    with torch._inductor.config.patch(benchmark_kernel=True):
        assert config.current().debug.benchmark_kernel
