"""Products by cuBLAS without a GPU: the arguments of each call, read by a column-major product that is written here.

Input: products of views in every layout that BLAS takes: turned, with gaps, with batches whose strides do not follow one
another. The result is NumPy's.
"""

import ctypes
import gc
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from stage4_runtime.runtime import cublas
from stage4_runtime.runtime.arrays import address
from stage4_runtime.runtime.launch import launch, plain_launch
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage_contracts import config
from stage_contracts.blas import contraction
from stage_contracts.device import Device
from stage_contracts.dtype import float32
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Program, Return
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


class FakeCublas:
    """Column-major c = op(a) op(b) for each matrix of a strided batch, on host memory."""

    def __init__(self):
        self.calls, self.computed = [], []

    def cublasGemmStridedBatchedEx(self, handle, opa, opb, m, n, k, alpha, *rest):
        a, ta, lda, sa, b, tb, ldb, sb, beta, c, tc, ldc, sc, count, compute, algorithm = rest
        self.calls.append((count, (m, n, k)))
        self.computed.append(compute)
        assert (ta, tb, tc, algorithm) == (0, 0, 0, -1)
        assert ctypes.c_float.from_address(alpha).value == 1 and ctypes.c_float.from_address(beta).value == 0
        assert lda >= (k if opa else m) and ldb >= (n if opb else k) and ldc >= m
        for at in range(count):
            x = self._matrix(a + 4 * at * sa, k if opa else m, m if opa else k, lda)
            y = self._matrix(b + 4 * at * sb, n if opb else k, k if opb else n, ldb)
            self._matrix(c + 4 * at * sc, m, n, ldc)[...] = (x.T if opa else x) @ (y.T if opb else y)
        return 0

    @staticmethod
    def _matrix(place, rows, columns, lead):
        flat = np.ctypeslib.as_array((ctypes.c_float * ((columns - 1) * lead + rows)).from_address(place))
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (4, 4 * lead))


CASES = {  # name: (shape and strides of a, of b, how many calls)
    "plain": (((5, 7), (7, 1)), ((7, 3), (3, 1)), 1),
    "both turned": (((5, 7), (1, 5)), ((7, 3), (1, 7)), 1),
    "gaps": (((5, 7), (9, 1)), ((7, 3), (1, 11)), 1),
    "one matrix for all": (((4, 5, 7), (35, 7, 1)), ((4, 7, 3), (0, 3, 1)), 1),
    "two batch loops as one": (((2, 4, 5, 7), (140, 35, 7, 1)), ((2, 4, 7, 3), (84, 21, 3, 1)), 1),
    "heads inside": (((2, 4, 5, 7), (140, 7, 28, 1)), ((2, 4, 7, 5), (140, 7, 1, 28)), 2),
    "a row": (((1, 7), (7, 1)), ((7, 3), (3, 1)), 1),
}


def program_of(a, b, out):
    cuda = Device("cuda", 0)
    size = lambda shape, strides: 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))  # noqa: E731
    metas = {
        "a": TensorMeta((size(*a),), float32, (1,), cuda),
        "b": TensorMeta((size(*b),), float32, (1,), cuda),
        "c": TensorMeta(out, float32, contiguous_strides(out), cuda),
    }
    buffers = {n: Buffer(n, m, "input" if n != "c" else "output") for n, m in metas.items()}
    step = External("matmul", (BufferRef("a", *a), BufferRef("b", *b)), {}, ("c",))
    return Program("forward", cuda, ("a", "b"), buffers, {}, (step, Return((BufferRef("c"),))))


def test_captured_graphs_keep_the_memory_their_products_work_in(monkeypatch):
    """All graphs of a device have one workspace, which stays when products on other streams have taken all handles."""
    fake, library = FakeCupy({}), FakeCublas()
    given, plain = [], fake.cuda.Memory
    library.cublasCreate_v2 = lambda handle: 0
    library.cublasSetStream_v2 = lambda *_: 0
    library.cublasSetWorkspace_v2 = lambda *_: 0

    def memory(nbytes):
        block = plain(nbytes)
        given.append(weakref.ref(block.block))
        return block

    monkeypatch.setattr(fake.cuda, "Memory", memory)
    monkeypatch.setattr(cublas, "cublas", lambda: library)
    monkeypatch.setattr(cublas, "_THREAD", threading.local())
    monkeypatch.setattr("stage4_runtime.runtime.cuda.import_cupy", lambda: fake)
    a, b, _ = CASES["plain"]
    x, y = np.ones((5, 7), np.float32), np.ones((7, 3), np.float32)
    graphs, on_gpu = [], (array(x.ravel()), array(y.ravel()))
    for _ in range(3):
        run = launch(program_of(a, b, (5, 3)), {}, {}, cuda_graph=True)
        for _ in range(2):
            np.testing.assert_array_equal(np.asarray(run(*on_gpu)[0]), x @ y)
        graphs.append(run)
    for stream in range(1000, 1000 + cublas._MOST_HANDLES):
        cublas.Handles(fake, library).on(stream)
    gc.collect()
    callers, of_graphs, *others = given
    assert len(others) == cublas._MOST_HANDLES and callers() is None and of_graphs() is not None


@pytest.mark.parametrize(("tf32", "compute"), [(False, 68), (True, 77)])  # of cublasComputeType_t
@pytest.mark.parametrize("name", CASES)
def test_the_arguments_mean_numpys_product(name, tf32, compute, monkeypatch):
    from stage4_runtime.runtime.cuda import cupy_library

    a, b, calls = CASES[name]
    out = (*np.broadcast_shapes(a[0][:-2], b[0][:-2]), a[0][-2], b[0][-1])
    fake, library = FakeCupy({}), FakeCublas()
    monkeypatch.setattr(cublas, "cublas", lambda: library)
    monkeypatch.setattr(cublas.Handles, "on", lambda self, stream: 1)
    monkeypatch.setattr("stage4_runtime.runtime.cuda.import_cupy", lambda: fake)
    program = program_of(a, b, out)
    with config.patch({"runtime.matmul_allow_tf32": tf32}):
        run = plain_launch(program, {}, {}, cupy_library(program.device))
    random = np.random.default_rng(0)
    given = [array(random.standard_normal(program.buffers[n].meta.shape)) for n in "ab"]
    (got,) = run(*given)
    x, y = (
        np.lib.stride_tricks.as_strided(np.asarray(flat), shape, tuple(4 * s for s in strides))
        for flat, (shape, strides) in zip(given, (a, b), strict=True)
    )
    np.testing.assert_allclose(np.asarray(got), x @ y, rtol=1e-5, atol=1e-5)
    assert {*library.computed} == {compute}
    assert len(library.calls) == calls and address(np.asarray(got)) != address(np.asarray(given[0]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_only_float32_is_asked_for_as_tf32(dtype):
    a, b, _ = CASES["plain"]
    step = replace(program_of(a, b, (5, 3)).steps[0], into=True)
    found = contraction(step, program_of(a, b, (5, 3)).buffers)
    asked = []
    for tf32 in (False, True):
        with config.patch({"runtime.matmul_allow_tf32": tf32}):
            asked.append(cublas.plan_of(found, dtype, 4).compute)
    exact = 70 if dtype == "float64" else 68
    assert asked == [exact, 77 if dtype == "float32" else exact]
