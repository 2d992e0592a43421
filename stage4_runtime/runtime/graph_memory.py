"""Memory that a device's CUDA graphs share: they run one after another, so their temporaries may lie in one block.

Input: CuPy, a device, and how much each program takes. What a graph returns is never in the block. A graph keeps the
block it was captured with; the block goes when the last such graph does.
"""

# torch gives graphs one pool and orders them in trees, because a later graph's results may lie where an earlier one's
# temporaries were. Here results have memory of their own, so graphs may run in any order.

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any
from weakref import WeakKeyDictionary, ref

from stage4_runtime.runtime.arenas import arenas
from stage4_runtime.runtime.layout import round_up, slot_alignment
from stage_contracts.device import Device


@dataclass(eq=False)
class Block:
    """Bytes of the device. Graphs hold it."""

    memory: Any
    address: int
    nbytes: int


class GraphMemory:
    """The block of one device, the stream that captures, and the stream of the last replay."""

    def __init__(self, cp: Any, device: Device) -> None:
        self.cp, self.alignment = cp, slot_alignment(device)
        self.lock = threading.RLock()  # one capture or replay at a time: the block is shared
        self.last: Any = None  # the stream of the last replay or capture
        self.wanted: WeakKeyDictionary[Any, int] = (
            WeakKeyDictionary()
        )  # bytes of each program that asks for graphs
        self._block: Callable[[], Block | None] = lambda: None
        self._thread: int | None = None  # that captures, and then:
        self._allocator: Any = None  # in force outside
        self._held: list[Block] = []  # that its graph needs
        self._begins: list[int] = []  # of each arena in use
        self._used = 0

    @cached_property
    def stream(self) -> Any:
        """Where all graphs are captured: so their products share a workspace, too."""
        return self.cp.cuda.Stream(non_blocking=True)

    def follow(self, stream: Any, *earlier: Any) -> None:
        """What comes next on this stream comes after what is on the earlier ones, and after the last replay."""
        streams = {s.ptr: s for s in (*earlier, self.last) if s is not None and s.ptr != stream.ptr}
        for other in streams.values():
            stream.wait_event(other.record())
        self.last = stream

    @contextmanager
    def lent_to_a_capture(self) -> Iterator[list[Block]]:
        """While this holds, this thread's arenas lie in the device's block. Gives what the graph has to hold."""
        with self.lock:
            self._begins, self._used, self._held = [], 0, []
            self._allocator, self._thread = self.cp.cuda.get_allocator(), threading.get_ident()
            try:
                yield self._held
            finally:
                self._thread, self._allocator, self._held = None, None, []

    def arenas(self, allocate: Callable[[int], tuple[Any, int]]) -> dict[str, Callable]:
        """What launch code takes memory with: arenas as ever, but for a capture from the block."""
        plain, me = arenas(), threading.get_ident

        def take(new: Callable[..., Any], stream: Any = None, *sizes: int) -> Any:
            if self._thread != me():
                return plain["take_arena"](new, stream, *sizes)
            plain["forget_arenas"]()  # few calls run plain from now on
            self._begins.append(self._used)
            return new(*sizes)

        def give(arena: Any, stream: Any = None, *sizes: int) -> None:
            if self._thread != me():
                return plain["give_arena"](arena, stream, *sizes)
            self._used = self._begins.pop()

        def allocate_pool(nbytes: int) -> tuple[Any, int]:
            return self._part(nbytes, allocate) if self._thread == me() else allocate(nbytes)

        return {"take_arena": take, "give_arena": give, "allocate_pool": allocate_pool}

    def _part(self, nbytes: int, allocate: Callable[[int], tuple[Any, int]]) -> tuple[Any, int]:
        """The next bytes of the block, and their address; of a new block where this one is too small."""
        begin = round_up(self._used, self.alignment)
        self._used = begin + max(nbytes, 1)
        block = self._block()
        if block is None or block.nbytes < self._used:
            size = max([self._used, *self.wanted.values()])
            with self.cp.cuda.using_allocator(self._allocator):  # the graph's own pool goes with the graph
                block = Block(*allocate(size), size)
            self._block = ref(block)
        if block not in self._held:
            self._held.append(block)
        return block.memory, block.address + begin


@cache
def graph_memory(cp: Any, device: Device) -> GraphMemory:
    """The one of this device."""
    return GraphMemory(cp, device)
