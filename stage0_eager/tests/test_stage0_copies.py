"""Many copies in one launch: the CUDA kernel, compiled as C++ and run block by block and thread by thread here.

Input: pairs of arrays that say they are on a GPU, of many sizes and alignments; some whose order matters. The oracle is
one copy after another.
"""

import ctypes
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from stage0_eager import arrays
from stage0_eager.kernels import copies

HOST = """
#include <cstddef>
struct Place { unsigned x; };
struct int4 { int x, y, z, w; };
static Place blockIdx, threadIdx, blockDim;
#define __global__
%s
extern "C" void launch(unsigned blocks, unsigned threads, const long long* table, int pairs) {
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) copy_many(table, pairs);
}
"""


class OnGpu:
    """NumPy memory as an array of CuPy's: as much of it as a copy asks."""

    __cuda_array_interface__ = {}

    def __init__(self, values):
        self.values = values
        self.shape, self.strides, self.dtype = values.shape, values.strides, values.dtype
        self.size, self.nbytes, self.itemsize = values.size, values.nbytes, values.itemsize
        self.flags = values.flags
        self.data = SimpleNamespace(ptr=values.__array_interface__["data"][0])

    def __setitem__(self, place, new):
        self.values[place] = new.values


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("copies")
    source = folder / "copies.cpp"
    source.write_text(HOST % copies.SOURCE.replace("CHUNK", f"{copies.CHUNK}LL"))
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", source, "-o", folder / "copies.so"], check=True)
    return ctypes.CDLL(str(folder / "copies.so")).launch


@pytest.fixture
def gpu(launch, monkeypatch):
    """The list of launches, each the number of its pairs."""
    launches = []

    def kernel(blocks, threads, args):
        table, pairs = args
        launch(blocks[0], threads[0], ctypes.c_void_p(table.ctypes.data), pairs)
        launches.append(pairs)

    monkeypatch.setattr(copies, "_kernel", lambda: kernel)
    monkeypatch.setattr(arrays, "cupy", lambda: np)
    return launches


def drawn(count, seed):
    """Pairs of one dtype each, beside one another in two blocks of memory."""
    rng = np.random.default_rng(seed)
    sizes = [1, 3, 16, 17, copies.CHUNK - 1, copies.CHUNK, copies.CHUNK + 5, 3 * copies.CHUNK + 9]
    sizes += [int(n) for n in rng.integers(1, 5000, count)]
    to, source = np.zeros(sum(sizes) + 64, np.uint8), rng.integers(1, 255, sum(sizes) + 64, np.uint8)
    at = np.cumsum([seed % 3, *sizes])
    spans = list(zip(at, sizes, strict=False))
    return to, source, [(OnGpu(to[a : a + n]), OnGpu(source[a : a + n])) for a, n in spans]


@pytest.mark.parametrize("seed", range(4))
def test_all_bytes_and_no_others_are_copied(seed, gpu):
    to, source, pairs = drawn(30, seed)
    copies.copy_many(pairs)
    end = seed % 3 + sum(new.nbytes for _, new in pairs)
    np.testing.assert_array_equal(to[seed % 3 : end], source[seed % 3 : end])
    assert not to[: seed % 3].any() and not to[end:].any() and gpu == [len(pairs)]


def test_what_is_no_copy_of_bytes_goes_alone(gpu):
    """Other dtypes, strides that differ, and no elements."""
    _, _, pairs = drawn(8, 0)
    turned = OnGpu(np.zeros((3, 4), order="F"))
    narrow = OnGpu(np.zeros(6, np.float32))
    odd = [
        (turned, OnGpu(np.ones((3, 4)))),
        (narrow, OnGpu(np.full(6, 2.0))),
        (OnGpu(np.zeros(0)), OnGpu(np.ones(0))),
    ]
    copies.copy_many([*pairs, *odd])
    assert gpu == [len(pairs)] and (turned.values == 1).all() and (narrow.values == 2).all()
    for to, source in pairs:
        np.testing.assert_array_equal(to.values, source.values)


def test_few_copies_and_arrays_of_the_cpu_need_no_table(gpu):
    _, _, pairs = drawn(0, 0)
    copies.copy_many(pairs[: copies.FEW])
    assert not gpu and all((to.values == new.values).all() for to, new in pairs[: copies.FEW])
    host = [(np.zeros(3), np.full(3, float(k))) for k in range(9)]
    copies.copy_many(host)
    assert not gpu and all((to == new).all() for to, new in host)


def test_copies_that_read_what_others_write_keep_their_order(gpu):
    for shift in (-2, 2):
        _, _, pairs = drawn(8, 1)
        memory = np.arange(40.0)
        first, second = memory[10:20], memory[10 + shift : 20 + shift]
        chain = [(OnGpu(first), OnGpu(np.full(10, 7.0))), (OnGpu(np.zeros(10)), OnGpu(second))]
        copies.copy_many([*pairs, *chain])
        np.testing.assert_array_equal(chain[1][0].values, second)
        assert not gpu
    same = np.zeros(4)
    copies.copy_many([*drawn(8, 2)[2], *[(OnGpu(same), OnGpu(np.full(4, float(k)))) for k in range(3)]])
    assert (same == 2).all() and not gpu
