"""Copies beside the program: in no order that streams and events allow is memory read or written too early or too late.

Input: random loops of copies in both directions, kernels, and arrays that are dropped, on the GPU of queued_gpu.py. Each
kernel looks at its operand when it runs, long after the program dropped it.
"""

import gc
import random
import sys

import numpy as np
import pytest

from stage0_eager import arrays
from stage0_eager.kernels import host_copies
from stage0_eager.tensor import Tensor
from stage0_eager.tests.queued_gpu import GpuArray, PinnedMemoryPointer, QueuedGpu, seen_at
from stage0_eager.utils.data import DataLoader, TensorDataset
from stage_contracts.device import CPU, Device

GPU = Device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch):
    def make(seed=0):
        made = QueuedGpu(random.Random(seed))
        monkeypatch.setitem(sys.modules, "cupy", made)
        return arrays.cupy()

    monkeypatch.setattr(arrays, "_FOUND", [None])
    monkeypatch.setattr(arrays, "GPU_TYPES", set())
    monkeypatch.setattr(arrays, "PLAIN_TYPES", {np.ndarray})
    yield make
    arrays.ARRIVING.clear()
    PinnedMemoryPointer.freed.clear()


class Loop:
    """A random program. `wrong` has what a kernel saw that it should not have."""

    def __init__(self, gpu, seed):
        self.gpu, self.draw, self.wrong = gpu, random.Random(seed), []
        self.rng = np.random.default_rng(seed)
        self.there, self.here = [], []  # (array, what it should hold), on the GPU and on its way to the host

    def batch(self):
        shape = self.draw.choice(((4,), (2, 3), (3, 2), (40, 50)))
        values = self.rng.integers(0, 200, shape).astype(np.float32)
        values = values.T if self.draw.random() < 0.3 else values
        return host_copies.pinned(values)

    def bring(self):
        batch, later = self.batch(), self.draw.random() < 0.7
        expected = batch.copy(order="K")
        self.there.append((host_copies.move(batch, GPU, later), expected))
        if not later:
            batch[...] = -1

    def use(self):
        """A kernel, which sees only an address."""
        if self.there:
            array, expected = self.draw.choice(self.there)
            seen = seen_at(array.data.ptr, array.nbytes).view(np.float32)
            want = expected.ravel(order="K").copy()
            self.gpu.launch(lambda: np.array_equal(seen, want) or self.wrong.append("a kernel's operand"))

    def send(self):
        if self.there:
            array, expected = self.draw.choice(self.there)
            self.here.append((host_copies.move(array, CPU, True), expected))

    def made_on_the_gpu(self):
        """A result of the program's, in memory of its stream."""
        expected = self.rng.integers(0, 200, (2, 3)).astype(np.float32)
        array = GpuArray((2, 3), np.float32, self.gpu.alloc(512))
        seen = seen_at(array.data.ptr, array.nbytes).view(np.float32)
        want = expected.ravel().copy()
        self.gpu.launch(lambda: seen.__setitem__(slice(None), want))
        self.there.append((array, expected))

    def read(self):
        if self.here:
            array, expected = self.here.pop(self.draw.randrange(len(self.here)))
            np.testing.assert_array_equal(arrays.arrived(array), expected)

    def back_again(self):
        """To the GPU, before it has come to the host."""
        if self.here:
            array, expected = self.draw.choice(self.here)
            self.there.append((host_copies.move(array, GPU, True), expected))

    def drop(self):
        """Mostly what is new, of which more is under way."""
        for held in (self.there, self.here):
            if held and self.draw.random() < 0.7:
                held.pop(self.draw.randrange(max(0, len(held) - 3), len(held)))

    def run(self, steps):
        kinds = (self.bring, self.bring, self.use, self.use, self.use, self.send, self.send, self.made_on_the_gpu,
                 self.made_on_the_gpu, self.read, self.back_again, self.drop, self.drop, self.drop)  # fmt: skip
        for _ in range(steps):
            self.draw.choice(kinds)()
            for _ in range(self.draw.choice((0, 0, 1, 3))):
                self.gpu.step()
        while self.here:
            self.read()
        self.gpu.finish()


@pytest.mark.parametrize("seed", range(60))
def test_no_order_of_the_streams_shows_wrong_values(seed, gpu):
    loop = Loop(gpu(seed), seed)
    loop.run(150)
    assert not loop.wrong
    assert all(set(block) == {0xEE} for block in PinnedMemoryPointer.freed), (
        "a copy into memory that was free"
    )


def test_a_copy_does_not_wait_for_the_program_and_the_program_waits_for_it(gpu):
    queued, seen = gpu(), []
    first = host_copies.move(host_copies.pinned(np.ones(4, np.float32)), GPU, True)
    queued.launch(lambda: seen.append("kernel"))
    second = host_copies.move(host_copies.pinned(np.full(4, 2, np.float32)), GPU, True)
    copies = next(s for s in queued.streams if s is not queued.program)
    while copies.queue:  # all of it can run before anything of the program
        kind, what = copies.queue.pop(0)
        assert kind != "wait" or what.done
        what() if kind == "run" else setattr(what, "done", True)
    assert (second.values == 2).all() and (first.values == 1).all() and not seen
    assert [kind for kind, _ in queued.program.queue] == ["wait", "run", "wait"]


def test_a_loop_takes_turns_in_two_blocks_of_memory(gpu):
    """However far the host is ahead of the GPU."""
    queued, places = gpu(), set()
    for _ in range(50):
        x = host_copies.move(host_copies.pinned(np.ones(1000, np.float32)), GPU, True)
        queued.launch(lambda: None)
        places.add(x.data.ptr)
    assert len(places) == 2


def test_freed_memory_of_many_sizes_is_bounded(gpu, monkeypatch):
    monkeypatch.setattr(host_copies, "FREED", 10_000)
    queued = gpu()
    for n in range(100, 400):
        x = host_copies.move(host_copies.pinned(np.ones(n, np.float32)), GPU, True)
        queued.launch(lambda: None)
    lane = host_copies._lane("in", 0, queued)
    assert sum(size for *_, size in lane.freed) <= 10_000 + 2 * 2048
    del x


def test_a_host_far_ahead_waits(gpu, monkeypatch):
    monkeypatch.setattr(host_copies, "AHEAD", 40_000)
    queued = gpu()
    for _ in range(100):
        host_copies.move(host_copies.pinned(np.ones(1000, np.float32)), GPU, True)
    lane = host_copies._lane("in", 0, queued)
    assert sum(copy.nbytes for copy in lane.under_way) <= 44_000


def test_pinned_tensors_say_so_and_so_do_their_views(gpu):
    gpu()
    x = Tensor(np.arange(6.0).reshape(2, 3).T)
    y = x.pin_memory()
    assert y.is_pinned() and y[1].is_pinned() and not x.is_pinned() and y.pin_memory() is y
    assert y.stride() == x.stride() and y.tolist() == x.tolist()
    with_gaps = Tensor(np.arange(8.0)[::2]).pin_memory()
    assert with_gaps.tolist() == [0, 2, 4, 6] and Tensor(np.zeros((0, 3))).pin_memory().shape == (0, 3)


def test_without_a_gpu_nothing_is_pinned():
    x = Tensor(np.ones(3))
    assert x.pin_memory() is x and not x.is_pinned()
    assert not next(iter(DataLoader([1.0, 2.0], pin_memory=True))).is_pinned()


@pytest.mark.parametrize("batch_size", [2, None])
def test_a_loader_pins_the_tensors_of_its_batches(batch_size, gpu):
    gpu()
    data = TensorDataset(Tensor(np.arange(4.0)), Tensor(np.arange(4)))
    for x, y in DataLoader(data, batch_size=batch_size, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()
    (tree,) = DataLoader([{"a": 1.0, "b": ["text", np.ones(3)]}], pin_memory=True)
    assert tree["a"].is_pinned() and tree["b"][1].is_pinned() and tree["b"][0] == ("text",)
    (plain,) = DataLoader([1.0])
    assert not plain.is_pinned()


def test_reading_a_tensor_on_its_way_waits(gpu):
    queued = gpu()
    for read in (lambda t: t.numpy().tolist(), lambda t: t.tolist(), lambda t: [t[0].item(), *t[1:].tolist()],
                 lambda t: np.asarray(t).tolist(), lambda t: eval(repr(t)[7:-1])):  # fmt: skip
        array = GpuArray((3,), np.float32, queued.alloc(512))
        queued.launch(lambda a=array: a.values.__setitem__(slice(None), [1, 2, 3]))
        on_its_way = Tensor(host_copies.move(array, CPU, True))
        assert on_its_way.is_pinned() and read(on_its_way) == [1, 2, 3]
    assert not arrays.ARRIVING
    gc.collect()


def test_what_is_copied_to_the_host_is_not_written_over_by_the_program(gpu):
    """Its memory is of the program's stream, which may have it again only when the copy is done."""
    queued = gpu()
    array = GpuArray((3,), np.float32, queued.alloc(512))
    array.values[:] = 1
    here, place = host_copies.move(array, CPU, True), array.data.ptr
    del array
    after = GpuArray((3,), np.float32, queued.alloc(512))
    assert after.data.ptr != place
    queued.launch(lambda: after.values.__setitem__(slice(None), 2))
    while queued.program.queue:
        kind, what = queued.program.queue.pop(0)
        what() if kind == "run" else setattr(what, "done", True)
    assert arrays.arrived(here).tolist() == [1, 1, 1]


def test_what_is_saved_on_the_cpu_does_not_make_the_host_wait(gpu):
    """It goes and comes back while neither copy is done."""
    queued = gpu()
    there = GpuArray((3,), np.float32, queued.alloc(512))
    queued.launch(lambda: there.values.__setitem__(slice(None), [1, 2, 3]))
    back = host_copies.move(host_copies.move(there, CPU, True), GPU, True)
    assert queued.program.queue and arrays.ARRIVING
    queued.finish()
    assert back.values.tolist() == [1, 2, 3]


def test_where_memory_is_short_the_lane_gives_back_what_it_has(gpu):
    queued = gpu()
    lane = host_copies._lane("in", 0, queued)
    for n in (1000, 1100):
        host_copies.move(host_copies.pinned(np.ones(n, np.float32)), GPU, True)
        queued.launch(lambda: None)
    given, queued.cuda.alloc = queued.cuda.alloc, lambda nbytes: fresh(nbytes)

    def fresh(nbytes):
        if lane.freed:
            raise MemoryError
        return given(nbytes)

    x = host_copies.move(host_copies.pinned(np.full(3000, 2, np.float32)), GPU, True)
    queued.finish()
    assert (x.values == 2).all() and not lane.freed
