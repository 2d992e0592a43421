"""How long calls take on a GPU: each captured as a CUDA graph of repeats, replayed in turn, timed by events.

Input: calls of a stream, which use memory that was made for this. A graph's kernels follow one another whatever the
host does meanwhile. The calls take turns, so that what the GPU's clock does meets all of them; the shortest time of
each counts. What fits in the L2 cache stays there, as between the kernels of a program. `scratch` makes the memory:
never the user's arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

REPEATS, ROUNDS = 20, 4  # launches in a graph, at most; replays of it
ENOUGH = 1.0  # milliseconds that one replay should take
_ONE_AT_A_TIME = threading.Lock()  # two measurements at once would measure each other


def milliseconds(cp: Any, calls: Sequence[Callable[[int], Any]]) -> list[float | None]:
    """The time of each call, in milliseconds; None for one that failed."""
    with _ONE_AT_A_TIME:
        stream = _stream(cp)
        cp.cuda.get_current_stream().synchronize()  # the memory is filled there; what runs there would be measured, too
        with stream:
            graphs = [_captured(cp, stream, call) for call in calls]
            times: list[list[float]] = [[] for _ in calls]
            for _ in range(ROUNDS):
                for graph, found in zip(graphs, times, strict=True):
                    if graph is not None:
                        replayed, repeats = graph
                        found.append(_between_events(cp, stream, partial(replayed.launch, stream)) / repeats)
    return [min(found) if found else None for found in times]


_STREAMS: dict[tuple[Any, int], Any] = {}  # one for a device: each stream's products have a workspace


def _stream(cp: Any) -> Any:
    key = cp, cp.cuda.runtime.getDevice()
    if key not in _STREAMS:
        _STREAMS[key] = cp.cuda.Stream(non_blocking=True)
    return _STREAMS[key]


def _captured(cp: Any, stream: Any, call: Callable[[int], Any]) -> tuple[Any, int] | None:
    """A graph of some repeats, and how many."""
    try:
        call(stream.ptr)  # loads modules, and finds out what is refused
        stream.synchronize()
        once = _between_events(cp, stream, lambda: call(stream.ptr))
        repeats = max(1, min(REPEATS, int(ENOUGH / max(once, 1e-3))))
        stream.begin_capture()
        try:
            for _ in range(repeats):
                call(stream.ptr)
        finally:
            graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    except Exception:  # what the driver or a library raises: this way of running does not work here
        return None
    return graph, repeats


def _between_events(cp: Any, stream: Any, run: Callable[[], Any]) -> float:
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record(stream)
    run()
    end.record(stream)
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(start, end))


# ---- memory to measure on ------------------------------------------------------------------------------------


@contextmanager
def scratch(cp: Any) -> Iterator[Callable[[str, int], Any]]:
    """`array(dtype, elements)`: memory to measure on, given back at the end. Numbers that are not integers are drawn,
    for a GPU multiplies zeros faster; integers are zeros, which as places are in range."""
    pool = cp.cuda.MemoryPool()
    kept: list[Any] = []

    def array(dtype: str, elements: int) -> Any:
        nbytes = max(elements, 1) * _WIDTHS.get(dtype, 8)
        memory = cp.zeros(-(-nbytes // 4) * 4 + _BEYOND, "uint8")
        if dtype in _DRAWN:
            of = memory[: -(-nbytes // 4) * 4].view("float32")
            _draw(cp, of, halves=_WIDTHS[dtype] == 2)
        kept.append(memory)
        return memory

    try:
        with cp.cuda.using_allocator(pool.malloc):
            yield array
    finally:
        kept.clear()
        pool.free_all_blocks()


_WIDTHS = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
    "float32": 4, "complex128": 16,
}  # fmt: skip
_DRAWN = ("float32", "float16", "bfloat16")
_BEYOND = 512  # a block's last load may be promised as a whole


def _draw(cp: Any, of: Any, halves: bool) -> None:
    """Words whose bits make small numbers, read as one float32 or as two halves of either kind."""
    bits = of.view("uint32")
    if bits.size == 0:
        return
    words = cp.arange(bits.size, dtype="uint32") * cp.uint32(2654435761)
    fraction, exponent = (0x83FF83FF, 0x38003800) if halves else (0x807FFFFF, 0x3E000000)
    bits[...] = (words & cp.uint32(fraction)) | cp.uint32(exponent)
