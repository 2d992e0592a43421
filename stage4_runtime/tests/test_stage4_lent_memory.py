"""The memory of large results: reused by the next one, and never while an array looks at it.

Input: results of 33 MiB, which the C library maps anew each time, and smaller ones that begin with a cache line too.
"""

import gc
import threading

import numpy as np
import pytest

from stage4_runtime.runtime import freed_memory, lent_memory
from stage4_runtime.runtime.arrays import empty
from stage4_runtime.runtime.lent_memory import result_memory
from stage_contracts import config
from stage_contracts.dtype import bfloat16, float32
from stage_contracts.kernel_schedule import CACHE_LINE, FROM_MEMORY
from stage_contracts.tensor_meta import TensorMeta

LARGE = freed_memory.LARGEST + (1 << 20)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    for name in freed_memory.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(lent_memory, "_FREE", {})


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("nbytes", [FROM_MEMORY, LARGE])
def test_a_large_result_is_an_ordinary_array(nbytes, dtype):
    meta = TensorMeta((nbytes // dtype.itemsize // 1024, 1024), dtype)
    made = empty(meta)
    assert type(made) is np.ndarray and made.shape == meta.shape and made.dtype == dtype.numpy
    assert made.ctypes.data % CACHE_LINE == 0 and made.flags.c_contiguous and made.flags.writeable
    made[:] = 1
    assert made.sum(dtype="float64") == made.size


def test_the_next_result_has_its_memory():
    first = result_memory(LARGE)
    address = first.ctypes.data
    del first
    assert result_memory(LARGE).ctypes.data == address
    assert len(lent_memory._FREE) == 1  # that one came back at once
    assert result_memory(LARGE + 64).ctypes.data != address  # of another size


LOOKS = {
    "the array": lambda made: made,
    "a view": lambda made: made[5:9],
    "a view of a view": lambda made: made.reshape(-1, 64)[:, 3].view(np.int8),
    "a buffer": memoryview,
    "DLPack": lambda made: np.from_dlpack(made),
}


@pytest.mark.parametrize("name", LOOKS)
def test_no_memory_comes_back_while_something_looks_at_it(name):
    made = result_memory(LARGE).view(np.uint8)
    made[:] = 7
    look = LOOKS[name](made)
    del made
    gc.collect()
    assert not lent_memory._FREE
    other = result_memory(LARGE)
    other[:] = 9
    assert np.asarray(look).max() == np.asarray(look).min() == 7
    del look
    gc.collect()
    assert len(lent_memory._FREE) == 1


def test_no_more_is_kept_than_may_be(monkeypatch):
    with config.patch(keep_freed=2 * LARGE + (1 << 20)):
        lent = [result_memory(LARGE) for _ in range(4)]
        addresses = [each.ctypes.data for each in lent]
        while lent:
            del lent[0]
        assert len(lent_memory._FREE) == 2
        assert {result_memory(LARGE).ctypes.data} <= set(addresses[2:])  # what came back last
        monkeypatch.setenv(
            "MALLOC_TRIM_THRESHOLD_", "131072"
        )  # who sets the C library's own variables decides
        del lent[:]
        result_memory(LARGE)
        assert not lent_memory._FREE
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    with config.patch(keep_freed=0):
        result_memory(LARGE)
        assert not lent_memory._FREE


def test_threads_never_share_it():
    """Each thread fills its results with its number, and finds only that."""
    wrong = []

    def work(number):
        for _ in range(20):
            made = result_memory(LARGE)[:: 1 << 16]
            made[:] = number
            wrong.extend(set(made.tolist()) - {number})

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
