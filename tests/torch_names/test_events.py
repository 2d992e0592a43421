"""torch.cuda.Event and the current stream: they wait for what the program computes, and for copies to the host.

Input: the GPU of queued_gpu.py, whose streams run in a random order.
"""

import random
import sys

import numpy as np
import pytest

from cutaway.torch_api import torch
from stage0_eager import arrays
from stage0_eager.kernels import host_copies
from stage0_eager.tests.queued_gpu import GpuArray, QueuedGpu
from stage_contracts.device import CPU


@pytest.fixture(params=range(6))
def gpu(request, monkeypatch):
    monkeypatch.setattr(arrays, "_FOUND", [None])
    monkeypatch.setattr(arrays, "GPU_TYPES", set())
    monkeypatch.setattr(arrays, "PLAIN_TYPES", {np.ndarray})
    monkeypatch.setitem(sys.modules, "cupy", QueuedGpu(random.Random(request.param)))
    yield arrays.cupy()
    arrays.ARRIVING.clear()


def sent(gpu):
    """An array on its way to the host, which will be 1, 2, 3."""
    array = GpuArray((3,), np.float32, gpu.alloc(512))
    gpu.launch(lambda: array.values.__setitem__(slice(None), [1, 2, 3]))
    return host_copies.move(array, CPU, True)


def test_an_event_after_a_copy_to_the_host(gpu):
    here, event = sent(gpu), torch.cuda.Event()
    assert event.query()
    event.record()
    assert not event.query()
    event.synchronize()
    assert event.query() and here.tolist() == [1, 2, 3]


def test_the_stream_and_a_copy_to_the_host(gpu):
    here, stream = sent(gpu), torch.cuda.current_stream()
    assert stream == torch.cuda.current_stream() and not stream.query()
    stream.synchronize()
    assert stream.query() and here.tolist() == [1, 2, 3]


def test_what_waits_for_an_event_comes_after_the_copy(gpu):
    here, seen = sent(gpu), []
    torch.cuda.current_stream().wait_event(torch.cuda.current_stream().record_event())
    gpu.launch(lambda: seen.append(here.tolist()))
    gpu.finish()
    assert seen == [[1, 2, 3]]


def test_what_events_refuse():
    with pytest.raises(NotImplementedError, match="of one process"):
        torch.cuda.Event(interprocess=True)
    with pytest.raises(RuntimeError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(torch.cuda.Event())
