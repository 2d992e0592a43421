"""Which inputs may share memory with one that is written: never fewer than do, for arrays of the host and of a GPU.

Input: random views of blocks of memory, with owners of the kinds that NumPy and CuPy have.
"""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from stage0_eager import arrays
from stage2_autograd.runtime.input_checks import _suspects


class Owned:
    """`cupy.cuda.PooledMemory`: nobody else has this memory."""


class Unowned:
    """`cupy.cuda.UnownedMemory`: somebody else may."""


class OnGpu:
    """An array of CuPy's: where it is, and what owns its memory."""

    base = None
    __cuda_array_interface__ = {}

    def __init__(self, begin, count, owner):
        self.size, self.nbytes, self.shape, self.strides, self.itemsize = count, 4 * count, (count,), (4,), 4
        self.flags = SimpleNamespace(c_contiguous=True)
        self.data = SimpleNamespace(ptr=begin, mem=owner)


def on_gpu(draw):
    found = []
    for block in range(draw.randint(1, 6)):
        whole = Owned()
        for _ in range(draw.choice((1, 1, 1, 3))):
            begin, count = draw.choice((0, draw.randrange(64))), draw.randrange(40)
            owner = Unowned() if draw.random() < 0.2 else whole
            found.append(OnGpu(1000 * (block + 1) + 4 * begin, count, owner))
    return found


def on_host(draw):
    found = []
    for _ in range(draw.randint(1, 6)):
        whole = np.zeros(104, np.float32)
        if draw.random() < 0.2:
            whole = np.frombuffer(memoryview(whole), np.float32)
        for _ in range(draw.choice((1, 1, 1, 3))):
            begin = draw.choice((0, draw.randrange(64)))
            found.append(whole if draw.random() < 0.4 else whole[begin : begin + draw.randrange(40)])
    return found


def meet(a, b):
    (begin, end), (first, last) = arrays.bounds(a), arrays.bounds(b)
    return begin < end and first < last and begin < last and first < end


@pytest.mark.parametrize("make", [on_gpu, on_host])
@pytest.mark.parametrize("seed", range(150))
def test_all_that_meet_are_suspects(make, seed, monkeypatch):
    monkeypatch.setattr(arrays, "OWNERS", {np.ndarray, Owned})
    draw = random.Random(seed)
    given = make(draw)
    draw.shuffle(given)
    writes = tuple(i for i in range(len(given)) if draw.random() < 0.5)
    found = [*_suspects([SimpleNamespace(_data=a) for a in given], writes)]
    assert len(found) == len({frozenset(pair) for pair in found}) and all(i in writes for i, _ in found)
    wanted = {
        frozenset((i, j))
        for i in range(len(given))
        for j in range(i)
        if {i, j} & {*writes} and meet(given[i], given[j])
    }
    assert {frozenset(pair) for pair in found} == wanted
