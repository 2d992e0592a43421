"""A GPU of queues in place of CuPy: what streams are given runs later, in any order that events allow.

Input: a generator of random numbers, which picks the stream whose next step runs. Memory pools are CuPy's: what is free
again goes to the next that asks on the same stream, at once. Page-locked memory that is free is written over.
"""

import contextlib
import ctypes
from types import ModuleType, SimpleNamespace

import numpy as np


def seen_at(address, nbytes):
    """The bytes at an address, which nothing here keeps alive."""
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


class Event:
    def __init__(self, gpu):
        self.gpu, self.done = gpu, False

    def record(self, stream):
        stream.queue.append(("record", self))

    def synchronize(self):
        while not self.done:
            self.gpu.step()


class Stream:
    def __init__(self, gpu):
        self.gpu, self.queue = gpu, []
        self.ptr = len(gpu.streams)
        gpu.streams.append(self)

    @property
    def done(self):
        return not self.queue

    def synchronize(self):
        while self.queue:
            self.gpu.step()

    def wait_event(self, event):
        self.queue.append(("wait", event))

    def __enter__(self):
        self.gpu.current.append(self)

    def __exit__(self, *_):
        self.gpu.current.pop()


class PinnedMemoryPointer(bytearray):
    """`cupy.cuda.PinnedMemoryPointer`, which another gets and writes to as soon as it is free."""

    freed = []

    def __del__(self):
        self[:] = b"\xee" * len(self)
        self.freed.append(self)  # so that a copy that comes too late reads what is wrong, and no more


class Memory:
    """A block of the pool of one stream."""

    def __init__(self, pool, block):
        self.pool, self.block = pool, block
        self.ptr = block.ctypes.data

    def __del__(self):
        self.pool.setdefault(self.block.nbytes, []).append(self.block)


class GpuArray:
    """`cupy.ndarray`: NumPy's view of a block, and what keeps the block."""

    def __init__(self, shape, dtype, memptr, values=None):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.memptr = memptr
        self.values = seen_at(memptr.ptr, nbytes).view(dtype).reshape(shape) if values is None else values
        for name in ("shape", "dtype", "strides", "size", "itemsize", "flags", "ndim", "nbytes"):
            setattr(self, name, getattr(self.values, name))
        self.data = SimpleNamespace(ptr=self.values.ctypes.data, device_id=0)

    def transpose(self, order):
        return GpuArray(self.shape, self.dtype, self.memptr, self.values.transpose(order))


class QueuedGpu(ModuleType):
    """The module. `step()` runs one step of one stream; `finish()` all there are."""

    ndarray = GpuArray

    def __init__(self, draw):
        super().__init__("cupy")
        self.draw, self.streams, self.pools = draw, [], {}
        self.program = Stream(self)
        self.current = [self.program]
        device = SimpleNamespace(getDeviceCount=lambda: 1, memcpyAsync=self._copy, streamIsCapturing=lambda _: False,
                                 memcpyHostToDevice=1, memcpyDeviceToHost=2)  # fmt: skip
        self.cuda = SimpleNamespace(
            runtime=device,
            Device=lambda index: contextlib.nullcontext(),
            Stream=lambda non_blocking: Stream(self),
            Event=lambda block=False, disable_timing=False: Event(self),
            get_current_stream=lambda: self.current[-1],
            alloc=self.alloc,
            alloc_pinned_memory=lambda nbytes: PinnedMemoryPointer(nbytes),
            PinnedMemoryPointer=PinnedMemoryPointer,
            MemoryPointer=lambda memory, offset: memory,
            UnownedMemory=lambda ptr, size, owner, device: SimpleNamespace(ptr=ptr, owner=owner),
        )

    def alloc(self, nbytes):
        pool = self.pools.setdefault(self.current[-1].ptr, {})
        free = pool.get(nbytes)
        return Memory(pool, free.pop() if free else np.zeros(nbytes, np.uint8))

    def blocks(self):
        """How many free blocks the pools have."""
        return sum(len(free) for pool in self.pools.values() for free in pool.values())

    def launch(self, run):
        """A kernel on the program's stream."""
        self.program.queue.append(("run", run))

    def _copy(self, to, source, nbytes, kind, stream):
        run = lambda: seen_at(to, nbytes).__setitem__(slice(None), seen_at(source, nbytes))  # noqa: E731
        self.streams[stream].queue.append(("run", run))

    def step(self):
        """The next step of a stream that is not waiting."""
        ready = [s for s in self.streams if s.queue and (s.queue[0][0] != "wait" or s.queue[0][1].done)]
        if not ready:
            assert not any(s.queue for s in self.streams), "streams that wait for each other"
            return False
        kind, what = self.draw.choice(ready).queue.pop(0)
        if kind == "run":
            what()
        elif kind == "record":
            what.done = True
        return True

    def finish(self):
        while self.step():
            pass
