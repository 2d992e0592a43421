"""A group's lane for collectives on a GPU: each goes to NCCL on a stream of its own, beside the program's stream.

Input: what compiled programs and eager kernels start (stage_contracts/communicators.py). Nothing here waits for the
GPU: the lane's stream waits for the program's events, and the program's stream for the lane's. watch.py looks on.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutaway.distributed import nccl
from cutaway.distributed.agreement import asking_line
from cutaway.distributed.lane import sentence
from cutaway.distributed.nccl import Engine, Link
from cutaway.distributed.store import Store
from cutaway.distributed.watch import Watch
from stage0_eager.arrays import device_of_array

NAP = 0.002  # seconds between two looks at what is under way, at the end
URGENT = -1  # a stream whose kernels start before those of others that wait


@dataclass
class GpuTransfer:
    """One collective on the lane's stream. `arrays` live as long as it is under way, or until the program's stream
    waits for it: what that stream does with their memory comes after it then. `asked_on`: that stream."""

    text: str
    engine: Engine
    device: int
    event: Any
    arrays: tuple
    asked_on: int

    def wait(self) -> None:
        """What the device's current stream does from now on comes after it. The host goes on."""
        with self.engine.cuda.Device(self.device):
            current = self.engine.cuda.get_current_stream()
            current.wait_event(self.event)
        if current.ptr == self.asked_on:
            self.arrays = ()

    def done(self) -> bool:
        return bool(self.event.done)


class NcclLane:
    """The Communicator of a process group on NCCL. The ranks meet at its first use."""

    def __init__(
        self,
        store: Store,
        name: str,
        ranks: tuple[int, ...],
        rank: int,
        timeout: float,
    ) -> None:
        self.store, self.name, self.ranks, self.rank, self.timeout = store, name, ranks, rank, timeout
        self.size = len(ranks)
        self._order = threading.RLock()
        self._link: Link | None = None
        self._stream: Any = None
        self._device = 0
        self._under_way: deque[GpuTransfer] = deque()
        self._ending = threading.Lock()
        self.watch = Watch(store, name, ranks, rank, timeout, self._abort)

    def start(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> GpuTransfer:
        text = sentence(operation, words, source)
        post = nccl.POSTS[operation]
        return self.post(
            text, lambda link: post(link, words, source, destination), (source, destination), where
        )

    def run(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> None:
        self.start(operation, words, source, destination, where).wait()

    def post(
        self, text: str, call: Callable[[Link], None], arrays: tuple, where: str = "", alike: bool = True
    ) -> GpuTransfer:
        """Put a call of NCCL on the lane's stream. `alike`: all ranks do the same, which is compared first."""
        where = where or asking_line()
        with self._order:
            self.watch.raise_what_was_seen()
            if alike and self.size > 1:
                self.watch.say(text, where)
            link = self._opened(device_of_array(arrays[0]).index)
            cuda = link.engine.cuda
            with cuda.Device(self._device):  # a stream takes only events of its own device
                before = cuda.Event(disable_timing=True)
                current = cuda.get_current_stream()
                before.record(current)
                self._stream.wait_event(before)
                call(link)
                after = cuda.Event(disable_timing=True)
                after.record(self._stream)
            transfer = GpuTransfer(text, link.engine, self._device, after, arrays, current.ptr)
            while self._under_way and self._under_way[0].done():
                self._under_way.popleft()
            self._under_way.append(transfer)
            if self.size > 1:
                self.watch.follow(transfer.done, f"{text} at {where}")
        return transfer

    def zeros(self, count: int) -> Any:
        """An array on the group's GPU: that of its first collective, else the one that the launcher meant."""
        engine = nccl.library()
        meant = int(os.environ.get("LOCAL_RANK", self.ranks[self.rank]))
        device = self._device if self._link else meant % engine.cuda.runtime.getDeviceCount()
        with engine.cuda.Device(device):
            return engine.xp.zeros(count, "float32")

    def _opened(self, device: int) -> Link:
        """The communicator on this GPU. The first rank of the group makes its id, and the store brings it."""
        if self._link is not None:
            return self._link
        engine, self._device = nccl.library(), device
        key = f"{self.name}/nccl id"
        if self.rank == 0:
            self.store.set(key, engine.nccl.get_unique_id())
        told = self.store.get(key, self.timeout)
        with engine.cuda.Device(device):
            self._stream = engine.cuda.Stream(non_blocking=True, priority=URGENT)
            comm = engine.nccl.NcclCommunicator(self.size, told, self.rank)
        self._link = Link(engine, comm, self.rank, self.size, self._stream.ptr)
        return self._link

    def _abort(self) -> None:
        """End what is under way, once, whoever comes first: the GPU would wait for ever."""
        with self._ending:
            link, self._link = self._link, None
            if link is not None:
                link.comm.abort()

    def close(self) -> None:
        """Wait for what was started, and give the communicator back. Every rank does.

        Where a rank has failed, this one too, nobody may ever take the other end of what is under way: it is aborted.
        """
        self.watch.close()
        with self._order:
            if self.watch.seen or not self._ended_well():
                self._abort()
            elif self._link is not None:
                self._link.comm.destroy()
                self._link = None

    def _ended_well(self) -> bool:
        """Whether what was started ends before the timeout, and before a process tells why it ends."""
        limit = time.monotonic() + self.timeout
        while self._under_way:
            if self._under_way[0].done():
                self._under_way.popleft()
            elif time.monotonic() > limit or self.watch.told_of_an_end():
                return False
            else:
                time.sleep(NAP)
        return True
