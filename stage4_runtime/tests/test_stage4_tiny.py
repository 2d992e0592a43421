"""The tiny runtime: plans that hold, kernels that run, one loop that gives what NumPy gives."""

import importlib.util
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from stage4_runtime import tiny
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage4_runtime.tests.programs import SUM_SOURCE, chain, cpp_unit, external, meta, program, python_kernels
from stage4_runtime.tiny.build import _BUILT, CudaKernel
from stage_contracts import config
from stage_contracts.breaks import Unsupported
from stage_contracts.device import Device
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.loop_ir import BufferRef
from stage_contracts.pipeline import Entry
from stage_contracts.program import Allocate, External, Free, HostCallback, SourceUnit, Target

X = np.arange(64, dtype=np.float32)


@pytest.fixture(autouse=True)
def nothing_built():
    _BUILT.clear()


def test_the_tiny_runtime_stays_tiny():
    sizes = {p.name: len(p.read_text().splitlines()) for p in Path(tiny.__file__).parent.glob("*.py")}
    assert set(sizes) == {"__init__.py", "plan_memory.py", "build.py", "launch.py", "dispatch.py"}
    assert max(sizes.values()) <= 200 and sum(sizes.values()) <= 530


def test_temporaries_take_turns_in_one_pool():
    planned = tiny.plan_memory(chain(10)).verify()
    assert planned.pools == (512,)  # two of 256 bytes
    assert planned.buffers["y"].slot is None and Free("y") not in planned.steps
    assert tiny.plan_memory(planned) == planned


@settings(max_examples=30, derandomize=True, deadline=None)
@given(sizes=st.lists(st.sampled_from((0, 1, 3, 64, 100)), min_size=2, max_size=10), data=st.data())
def test_live_buffers_never_share_bytes(sizes, data):
    steps, metas = [], {"x": meta(4)}
    for k, size in enumerate(sizes):  # routines that write into planned memory
        source = BufferRef(data.draw(st.sampled_from(sorted(metas))))
        steps.append(External("neg", (source,), {}, (f"b{k}",), into=True))
        metas[f"b{k}"] = meta(size)
    last = f"b{len(sizes) - 1}"
    temporaries = {n: m for n, m in metas.items() if n not in ("x", last)}
    planned = tiny.plan_memory(
        program({"x": meta(4)}, temporaries, {last: metas[last]}, [], steps, [last])
    ).verify()  # Program.verify checks overlap
    slots = [b.slot for b in planned.buffers.values() if b.slot]
    assert len(slots) == len(temporaries) and all(s.offset % 64 == 0 for s in slots)
    assert sum(isinstance(s, Allocate) for s in planned.steps) == len(sizes)


def test_a_unit_is_compiled_once_and_a_corrupt_library_again(private_cache, event_log):
    of = tiny.plan_memory(chain(1))
    for damage in (None, None, b"not a library", None):
        if damage:
            (kept,) = private_cache.glob("*.so")
            kept.write_bytes(damage)
        _BUILT.clear()
        (y,) = tiny.launch(of, tiny.build(cpp_unit()), {})(X)
        np.testing.assert_array_equal(y, X + 1)
    assert [e.name for e in event_log("cache")] == ["miss", "hit", "miss", "hit"]
    assert len(event_log("build")) == 2 and private_cache.stat().st_mode & 0o777 == 0o700
    assert tiny.build(cpp_unit()) is tiny.build(cpp_unit()) and len(event_log("cache")) == 4


def test_a_folder_others_may_write_to_is_not_used(private_cache, event_log):
    private_cache.mkdir()
    private_cache.chmod(0o777)
    tiny.build(cpp_unit())
    assert not list(private_cache.iterdir()) and "not private" in event_log("cache")[0].details["reason"]


def test_no_compiler_and_refused_code():
    with config.patch(cxx="/nowhere/c++"), pytest.raises(CompilerMissing, match="was not found; install"):
        tiny.build(cpp_unit())
    with pytest.raises(BuildError, match="one"):
        tiny.build(cpp_unit(SUM_SOURCE.replace("1.0f", "one")))


def test_each_call_has_memory_of_its_own():
    run = tiny.launch(tiny.plan_memory(chain(3)), python_kernels(chain(3)), {})
    (first,), (second,) = run(X), run(X + 10)
    np.testing.assert_array_equal(first, X + 3)
    np.testing.assert_array_equal(second, X + 13)


def test_eager_kernels_constants_and_plain_values():
    steps = [external("matmul", "x", "c", out="b"), external("sum", "b", (0, 1), keepdim=False, out="y")]
    of = program(
        {"x": meta(4, 4)}, {"b": meta(4, 4)}, {"y": meta()}, [], steps, ["y", None, 3], {"c": meta(4, 4)}
    )
    x, c = X[:16].reshape(4, 4), X[16:32].reshape(4, 4)
    y, *rest = tiny.launch(tiny.plan_memory(of), {}, {"c": c})(x)
    np.testing.assert_allclose(y, (x @ c).sum())
    assert rest == [None, 3] and y.shape == ()
    with pytest.raises(TypeError, match=r"input x is float32\[64\], expected float32\[4, 4\]"):
        tiny.launch(tiny.plan_memory(of), {}, {"c": c})(X)


def test_a_step_it_does_not_know_is_refused():
    of = chain(1)
    with pytest.raises(Unsupported, match="HostCallback"):
        tiny.launch(of.with_(steps=(HostCallback("log", ()), *of.steps)), python_kernels(of), {})


def test_the_first_entry_that_holds():
    def entry(holds):
        return Entry((), lambda *args, **kwargs: holds, run=print, frame=None)

    entries = [entry(False), entry(True), entry(True)]
    assert tiny.dispatch(entries, (1,), {}) is entries[1]
    assert tiny.dispatch(entries[:1], (), {"x": 1}) is None


def test_a_gpu_program_launches_cubins_with_two_scratch_pointers(monkeypatch):
    of = tiny.plan_memory(chain(2).with_(device=Device("cuda")))
    fake = FakeCupy({name: (kernel, 2) for name, kernel in python_kernels(of).items()})
    monkeypatch.setitem(__import__("sys").modules, "cupy", fake)
    kernels = {name: CudaKernel(b"", name, 50_000, 2, (8, 1, 1)) for name in of.kernels}
    (y,) = tiny.launch(of, kernels, {})(array(X))
    np.testing.assert_array_equal(y, X + 2)
    calls = [entry for entry in fake.log if entry[0] in of.kernels]
    assert [c[1] for c in calls] == [(8, 1, 1, 64, 1, 1, 50_000)] * 2 and (8, 50_000) in fake.attributes
    with config.patch(cuda_graphs=True), pytest.raises(Unsupported, match="stage4_runtime.runtime:launch"):
        tiny.launch(of, kernels, {})


TRITON = """\
import triton
import triton.language as tl
@triton.jit
def double(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton_is_compiled_ahead_of_time(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    grid = {
        "grid": (2,), "num_warps": 2, "constants": {"BLOCK": 64}, "signature": {"x": "*fp32", "y": "*fp32"}
    }  # fmt: skip
    target = Target("triton", Device("cuda"), "sm_90")
    kernel = tiny.build(SourceUnit("u", "triton", TRITON, ("double",), target, {"double": grid}))["double"]
    assert kernel.cubin.startswith(b"\x7fELF") and (kernel.name, kernel.grid) == ("double", (2, 1, 1))
