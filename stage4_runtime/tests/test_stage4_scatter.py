"""scatter_add's CUDA kernels, built as C++ for the CPU and run thread by thread, against NumPy's `add.at`.

Input: the kernels' text for a layout. A few lines stand in for what CUDA gives: thread numbers, atomics, bit casts.
"""

import ctypes
import importlib.util
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stage4_runtime.runtime.program_cache import program_key
from stage4_runtime.runtime.scatter import (
    FOUR_AT_ONCE,
    THREADS,
    rows_source,
    say_how_it_adds,
    scatter_source,
    whole_rows,
)
from stage_contracts import config
from stage_contracts.device import CPU
from stage_contracts.dtype import DTYPES, float32
from stage_contracts.loop_ir import Instr, LoopNest, Value, symbol
from stage_contracts.program import Kernel, Target
from stage_contracts.tensor_meta import TensorMeta

CXX = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(CXX is None, reason="needs g++ or clang++")

AS_CUDA = """
#include <cstring>
#define __device__ static
#define __global__
struct { long long x; } blockIdx, threadIdx;
static int trapped;
static void __trap() { trapped = 1; }
template <class T> static void atomicAdd(T* at, T x) { *at += x; }
static int atomicCAS(int* at, int old, int x) { int was = *at; if (was == old) *at = x; return was; }
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
"""
RUN = """
extern "C" int run(int which, long long blocks, void* a, void* b, void* c, void* d, void* e) {
  trapped = 0;
  for (blockIdx.x = 0; blockIdx.x < blocks && !trapped; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < THREADS && !trapped; ++threadIdx.x) {
      if (which == 0) add_at((Element*)a, (i64*)b, (Sum*)c);
      if (which == 1) widen((Elements*)a, (Sums*)b);
      if (which == 2) narrow((Sums*)a, (Elements*)b);
      if (which == 3) find_places((i64*)a, (i64*)b);
      if (which == 4) add_in_order((Element*)a, (i64*)b, (i64*)c, (i64*)d, (Element*)e);
    }
  return trapped;
}
"""
RUN_ROWS = """
extern "C" int run(int which, long long blocks, void* a, void* b, void* c, void* d, void* e) {
  trapped = 0;
  for (blockIdx.x = 0; blockIdx.x < blocks && !trapped; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < THREADS && !trapped; ++threadIdx.x) {
      if (which == 0) claim_rows((i64*)a, (int*)b);
      if (which == 1) add_rows((Element*)a, (i64*)b, (int*)c, (Sum*)d);
      if (which == 2) finish_rows((i64*)a, (int*)b, (Sum*)c, (Element*)d);
      if (which == 3) add_rows_here((Element*)a, (i64*)b, (Sum*)c);
    }
  return trapped;
}
"""
HALF = """Sum widened(Element x) { _Float16 h; memcpy(&h, &x, 2); return h; }
static Element narrowed(Sum x) { _Float16 h = x; Element e; memcpy(&e, &h, 2); return e; }"""


def built(text, folder, run=RUN):
    lines = [line for line in text.splitlines() if "asm(" not in line]
    if len(lines) < len(text.splitlines()):  # PTX converts float16 there
        lines.insert(next(k for k, line in enumerate(lines) if "Sum;" in line) + 1, f"static {HALF}")
    source = folder / "kernels.cpp"
    source.write_text(AS_CUDA + "\n".join(lines) + run.replace("THREADS", str(THREADS)))
    subprocess.run(
        [CXX, "-O1", "-shared", "-fPIC", "-o", folder / "k.so", source], check=True, capture_output=True
    )
    library = ctypes.CDLL(str(folder / "k.so"))
    return lambda which, count, *arrays: library.run(
        which,
        ctypes.c_longlong(-(-count // THREADS)),  # more threads than fours: those have nothing to do
        *(ctypes.c_void_p(a.ctypes.data) for a in arrays),
        *[None] * (5 - len(arrays)),
    )


def added(x, dim, index, src):
    """What eager gives: additions of halves in float32."""
    wide = x.astype("float32") if x.dtype.itemsize == 2 else x.copy()
    at = list(np.ix_(*map(np.arange, index.shape)))
    at[dim] = index
    np.add.at(wide, tuple(at), src)
    return wide.astype(x.dtype)


def case(name, dim=0, rows=7):
    draw, kind = np.random.default_rng(0), DTYPES[name].numpy
    x = draw.integers(-8, 8, (rows, 9)).astype(kind)
    size = x.shape[dim]
    index = draw.integers(-size, size, (300, 9) if dim == 0 else (rows, 300))
    src = draw.integers(-8, 8, index.shape).astype(kind)  # small integers: any order gives the same bits
    meta = TensorMeta(x.shape, DTYPES[name], None, CPU)
    elements = lambda a: tuple(s // a.itemsize for s in a.strides)  # noqa: E731
    text = scatter_source(meta, dim, (index.shape, elements(index)), elements(src))
    return x, index, src, text


@needs_compiler
@pytest.mark.parametrize("name", ["float32", "float64", "int32", "int64", "bfloat16", "float16"])
@pytest.mark.parametrize(("rows", "dim"), [(7, 0), (7, 1), (8, 0)])  # 63 elements are not converted by fours
def test_atomics_give_what_eager_gives(name, rows, dim, tmp_path):
    x, index, src, text = case(name, dim, rows)
    run, want = built(text, tmp_path), added(x, dim, index, src)
    sums = np.empty(x.shape, "float32") if x.dtype.itemsize == 2 else x.copy()
    got = x.copy()
    if x.dtype.itemsize == 2:
        run(1, x.size, x, sums)
    assert run(0, index.size, src, index, sums) == 0
    if x.dtype.itemsize == 2:
        run(2, x.size, sums, got)
    else:
        got = sums
    np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


@needs_compiler
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("apart", [1, 2])
def test_whole_rows_give_what_eager_gives(name, apart, tmp_path):
    """Rows that are met often, once and never; places that lie apart; rows of a wider source."""
    draw, kind = np.random.default_rng(0), DTYPES[name].numpy
    x = draw.integers(-8, 8, (40, 12)).astype(kind)
    places = draw.integers(-20, 20, (300, apart))
    places[:100] = 3
    source = draw.integers(-8, 8, (300, 16)).astype(kind)
    index, src = np.repeat(places[:, :1], 12, axis=1), source[:, :12]
    run = built(rows_source(TensorMeta(x.shape, DTYPES[name], None, CPU), 300, apart, 16), tmp_path, RUN_ROWS)
    owners, sums, got = np.zeros(40, "int32"), np.zeros((300, 12), "float32"), x.copy()
    assert run(0, 300, places, owners) == 0
    assert run(1, 900, source, places, owners, sums) == 0
    assert run(2, 900, places, owners, sums, got) == 0
    want = added(x, 0, index, src)
    np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))
    places[7, 0] = 40
    assert run(0, 300, places, owners) == 1  # it stops the device


def test_which_rows_are_whole():
    meta = TensorMeta((40, 12), DTYPES["bfloat16"], None, CPU)
    index, src = ((300, 12), (1, 0), 0), ((300, 12), (16, 1), 4)
    assert whole_rows(meta, 0, index, src)
    assert not whole_rows(meta, 1, index, src)
    assert not whole_rows(meta, 0, ((300, 12), (12, 1), 0), src)  # each element has a place
    assert not whole_rows(meta, 0, index, ((300, 12), (1, 300), 0))
    assert not whole_rows(meta, 0, index, ((300, 12), (18, 1), 0))  # no four elements of a row lie aligned
    assert whole_rows(TensorMeta((40, 12), DTYPES["float32"], None, CPU), 0, index, src)
    assert not whole_rows(TensorMeta((40, 12), DTYPES["int64"], None, CPU), 0, index, src)


@needs_compiler
def test_whole_rows_of_floats_are_added_where_they_are(tmp_path):
    draw = np.random.default_rng(0)
    x, places = draw.integers(-8, 8, (40, 12)).astype("float32"), draw.integers(-40, 40, 300)
    source = draw.integers(-8, 8, (300, 16)).astype("float32")
    run = built(
        rows_source(TensorMeta(x.shape, DTYPES["float32"], None, CPU), 300, 1, 16), tmp_path, RUN_ROWS
    )
    got = x.copy()
    assert run(3, 900, source, places, got) == 0
    np.testing.assert_array_equal(got, added(x, 0, np.repeat(places[:, None], 12, axis=1), source[:, :12]))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton brings the assembler")
@pytest.mark.parametrize(("target", "takes"), [("sm_80", False), ("sm_90", True)])
def test_the_assembler_takes_an_addition_of_four_floats(target, takes, tmp_path):
    """The instruction as it stands in the kernels, with registers for its operands, for each kind of GPU."""
    (instruction,) = re.findall(r'"(red\.[^"]*;)"', FOUR_AT_ONCE)
    instruction = re.sub(
        r"%(\d)", lambda found: ["%rd0", "%f0", "%f1", "%f2", "%f3"][int(found[1])], instruction
    )
    ptx = f""".version 8.1
.target {target}
.address_size 64
.visible .entry add(.param .u64 at) {{
  .reg .b64 %rd<1>; .reg .f32 %f<4>;
  ld.param.u64 %rd0, [at]; ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%rd0];
  {instruction} ret;
}}"""
    (tmp_path / "add.ptx").write_text(ptx)
    ptxas = Path(importlib.util.find_spec("triton").origin).parent / "backends/nvidia/bin/ptxas"
    command = [ptxas, f"-arch={target}", "-o", tmp_path / "add.cubin", tmp_path / "add.ptx"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.returncode == 0) is takes, said.stderr
    guard = rows_source(TensorMeta((40, 12), DTYPES["float32"], None, CPU), 300, 1, 16)
    assert "#if __CUDA_ARCH__ >= 900 &&" in guard and guard.count(FOUR_AT_ONCE) == 1


@needs_compiler
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_in_order_gives_what_eager_gives(name, tmp_path):
    x, index, src, text = case(name)
    run, want = built(text, tmp_path), added(x, 0, index, src)
    places, got = np.empty(index.size, "int64"), x.copy()
    run(3, index.size, index, places)
    order = np.argsort(places, kind="stable")
    assert run(4, index.size, src, index, places, order, got) == 0
    np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


@needs_compiler
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 3.3895e38, 1.00390625, 1.01171875, 1e-40])
def test_a_float_becomes_the_nearest_bfloat16(value, tmp_path):
    x, _, _, text = case("bfloat16")
    run = built(text, tmp_path)
    sums, got = np.full(x.shape, value, "float32"), x.copy()
    run(2, x.size, sums, got)
    want = sums.astype(x.dtype)
    np.testing.assert_array_equal(np.isnan(got.astype(float)), np.isnan(want.astype(float)))
    if value == value:
        np.testing.assert_array_equal(got.view("uint16"), want.view("uint16"))


def test_a_kernel_that_adds_says_so(event_log):
    """As a call does. A program that has one is not the program that adds in order."""
    added = Instr("", "atomic_add", ("y", symbol("i0"), Value("v"), "y"), None)
    kernels = [
        Kernel(
            name,
            (LoopNest("y", (5,), (), (Instr("v", "load", ("x", symbol("i0")), float32), last)),),
            ("x", "y"),
        )
        for name, last in (("adds", added), ("stores", replace(added, op="store", args=added.args[:3])))
    ]
    for kernel in kernels:
        say_how_it_adds(kernel.verify())
    said = [e.details for e in event_log("policy") if e.name == "scatter_add"]
    assert said == [{"kernel": "adds", "form": "by atomic additions"}]
    keys = []
    for in_order in (False, True):
        with config.patch({"runtime.deterministic": in_order}):
            keys.append(program_key("p", {}, Target("triton")).digest)
    assert keys[0] != keys[1]


@needs_compiler
def test_a_place_outside_stops(tmp_path):
    x, index, src, text = case("float32")
    index[5, 5] = 7
    assert built(text, tmp_path)(0, index.size, src, index, x.copy()) == 1
