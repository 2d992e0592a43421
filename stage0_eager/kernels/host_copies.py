"""Copies between the host and a GPU that overlap with what the GPU computes: page-locked memory, streams of their own.

Input: arrays, and whether the host waits. Each direction has a stream beside the program's. A copy to the GPU starts at
once, and the program's stream waits for it by an event. A copy to the host begins after all that the program's stream
was given before. Memory that one stream writes and another reads goes back only when both are done with it.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage_contracts.device import Device

# Bytes under way before the host waits for the first of them; freed bytes that the program may still read, before the
# stream of the copies waits for its reading of the first.
AHEAD, FREED = 1 << 30, 1 << 28
GRAIN = 512  # CuPy's unit of memory


def move(array: Any, device: Device, non_blocking: bool = False) -> Any:
    """`array` on `device`. From page-locked memory it is copied beside the program; and to the host, if `non_blocking`.

    With `non_blocking` the host goes on before the copy is done: do not write to what you gave, and before you read
    what comes to the host, synchronize. (`numpy()`, `item()`, `tolist()` and printing wait.)
    """
    if array.size and device.type == "cuda" and is_pinned(array):
        return arrays.as_rows(array, lambda rows: _to_gpu(rows, device.index, non_blocking))
    if array.size and device.type == "cpu" and non_blocking and type(array) in arrays.GPU_TYPES:
        return arrays.as_rows(array, _to_host)
    return arrays.move(array, device)


def _bytes(array: Any) -> int:
    return int(array.size) * int(array.itemsize)


# ---- page-locked memory ------------------------------------------------------------------------------------------


def pinned_empty(shape: tuple, dtype: np.dtype) -> np.ndarray:
    """A row-major array in page-locked memory, of CuPy's pool, which it goes back to when no array shows it."""
    count = int(np.prod(shape, dtype=np.int64))
    memory = arrays.cupy().cuda.alloc_pinned_memory(max(count * dtype.itemsize, 1))
    return np.frombuffer(memory, np.uint8, count * dtype.itemsize).view(dtype).reshape(shape)


def pinned(array: np.ndarray) -> np.ndarray:
    """A copy of the array in page-locked memory; the array itself if it lies there."""
    if is_pinned(array):
        return array

    def copied(rows: np.ndarray) -> np.ndarray:
        made = pinned_empty(rows.shape, rows.dtype)
        made[...] = rows
        return made

    return arrays.as_rows(array, copied)


def is_pinned(array: Any) -> bool:
    """Whether the array lies in page-locked memory that CuPy gave."""
    if type(array) is not np.ndarray or not arrays.GPU_TYPES:
        return False
    memory = arrays.owner(array)
    memory = memory.obj if type(memory) is memoryview else memory
    return type(memory) is arrays.cupy().cuda.PinnedMemoryPointer


# ---- what is under way -------------------------------------------------------------------------------------------


@dataclass
class Copy:
    """A copy that the host did not wait for. Its arrays live until it is done. `owner`: of the memory it writes to."""

    event: Any
    held: list
    nbytes: int
    owner: int = 0

    def wait(self) -> None:
        """The host waits until it is done."""
        self.event.synchronize()
        self.held.clear()
        if arrays.ARRIVING.get(self.owner) is self:  # not of the next that got memory there
            arrays.ARRIVING.pop(self.owner, None)


class Lane:
    """The copies of one direction on one GPU: a stream, what is under way on it, and memory that waits to be free."""

    def __init__(self, index: int) -> None:
        cp = arrays.cupy()
        self.cuda, self.index = cp.cuda, index
        with cp.cuda.Device(index):
            self.stream = cp.cuda.Stream(non_blocking=True)
        self.order = threading.RLock()
        self.under_way: deque[Copy] = deque()
        self.freed: deque[tuple[tuple, Any, int]] = deque()  # (events of its readers, memory, bytes)
        self.lost: list[Any] = []

    def event_on(self, stream: Any) -> Any:
        """An event after all that the stream was given so far."""
        event = self.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def follow(self, copy: Copy) -> None:
        """Keep the arrays of a copy alive until it is done. A host that is far ahead waits here."""
        ahead = sum(each.nbytes for each in self.under_way)
        while self.under_way and (self.under_way[0].event.done or ahead > AHEAD):
            first = self.under_way.popleft()
            first.wait()
            ahead -= first.nbytes
        self.under_way.append(copy)

    # Memory that this stream writes and the program's stream reads is CuPy's for this stream. If CuPy had it back when
    # the last array that shows it goes, the next copy could write to it while the program's kernels still read it.

    def memory(self, nbytes: int) -> Any:
        """Memory that this stream may write to now: freed memory of that size, after its readers, or else new."""
        nbytes = -(-nbytes // GRAIN) * GRAIN
        found, waiting = None, sum(size for *_, size in self.freed)
        for _ in range(len(self.freed)):
            events, memory, size = self.freed.popleft()
            if found is None and size == nbytes:
                found = memory
            elif waiting <= FREED and not all(event.done for event in events):
                self.freed.append((events, memory, size))
                continue
            waiting -= size
            for event in events:  # after that, only this stream gets the memory from CuPy
                self.stream.wait_event(event)
        return self.new(nbytes) if found is None else found

    def new(self, nbytes: int) -> Any:
        """Memory from CuPy. Where there is none, it gets back what waits for its readers, when they are done."""
        with self.stream:
            try:
                return self.cuda.alloc(nbytes)
            except MemoryError:
                while self.freed:
                    for event in self.freed[0][0]:
                        event.synchronize()
                    self.freed.popleft()
                return self.cuda.alloc(nbytes)

    def free(self, memory: Any, nbytes: int, asked_on: Any) -> None:
        """No array shows this memory any more. Its readers are what the program's stream was given so far."""
        with self.cuda.Device(self.index):
            current = self.cuda.get_current_stream()
            streams = {stream.ptr: stream for stream in (asked_on, current)}
            capturing = self.cuda.runtime.streamIsCapturing
            events = tuple(self.event_on(s) for s in streams.values() if not capturing(s.ptr))
        self.freed.append((events, memory, nbytes))


class _Lease:
    """Memory of a lane, until no array shows it."""

    def __init__(self, lane: Lane, memory: Any, nbytes: int, asked_on: Any) -> None:
        self.lane, self.memory, self.nbytes, self.asked_on = lane, memory, nbytes, asked_on

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():  # at the very end, modules have lost their names
            return
        try:
            self.lane.free(self.memory, self.nbytes, self.asked_on)
        except Exception:  # no event tells when its readers are done: nobody gets it again
            self.lane.lost.append(self.memory)


@cache
def _lane(direction: str, index: int, module: Any) -> Lane:
    return Lane(index)


def _to_gpu(array: np.ndarray, index: int, non_blocking: bool) -> Any:
    """A row-major array in page-locked memory, copied to the GPU of this number."""
    cp = arrays.cupy()
    lane, nbytes = _lane("in", index, cp), _bytes(array)
    with cp.cuda.Device(index), lane.order:
        program = cp.cuda.get_current_stream()
        comes = arrays.ARRIVING.get(id(arrays.owner(array)))
        if comes is not None:
            lane.stream.wait_event(comes.event)
        memory = lane.memory(nbytes)
        lease = _Lease(lane, memory, -(-nbytes // GRAIN) * GRAIN, program)
        whole = cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(memory.ptr, nbytes, lease, index), 0)
        out = cp.ndarray(array.shape, array.dtype, whole)
        runtime = cp.cuda.runtime
        runtime.memcpyAsync(
            memory.ptr, arrays.address(array), nbytes, runtime.memcpyHostToDevice, lane.stream.ptr
        )
        event = lane.event_on(lane.stream)
        program.wait_event(event)
        lane.follow(Copy(event, [array], nbytes))
    if not non_blocking:
        event.synchronize()
    return out


def _to_host(array: Any) -> np.ndarray:
    """A row-major array of a GPU, on its way into page-locked memory."""
    cp, index = arrays.cupy(), int(array.data.device_id)
    lane, nbytes = _lane("out", index, cp), _bytes(array)
    out = pinned_empty(array.shape, array.dtype)
    with cp.cuda.Device(index), lane.order:
        lane.stream.wait_event(lane.event_on(cp.cuda.get_current_stream()))
        runtime = cp.cuda.runtime
        runtime.memcpyAsync(
            arrays.address(out), array.data.ptr, nbytes, runtime.memcpyDeviceToHost, lane.stream.ptr
        )
        owner = id(arrays.owner(out))
        arrays.ARRIVING[owner] = copy = Copy(lane.event_on(lane.stream), [array, out], nbytes, owner)
        lane.follow(copy)
    return out
