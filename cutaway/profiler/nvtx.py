"""NVTX: names for what runs, which NVIDIA's tools (Nsight Systems, ncu) show beside the GPU's own lines.

Input: ranges of the user's, and inside `with emit_nvtx():` each call of a compiled function, its graph, its backward,
and each launch, under the kernel's name. The ranges are CuPy's (cupy.cuda.nvtx).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cutaway.profiler.events import ACTIVE, ProfilerEvent, Recorder, Timed
from stage0_eager.arrays import cupy


def library() -> Any:
    """CuPy's module of NVTX. Raises RuntimeError where there is no GPU, with what to install."""
    return cupy().cuda.nvtx


def range_push(msg: str) -> None:
    """Begin a range on this thread."""
    library().RangePush(str(msg))


def range_pop() -> None:
    """End the range that this thread began last."""
    library().RangePop()


def mark(msg: str) -> None:
    """A moment with a name."""
    library().Mark(str(msg))


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """`with range("load {}", 3):`, or as a decorator; the message is formatted with what follows it."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


class Ranges(Recorder):
    """A recorder that keeps nothing: what begins is a range, until it ends. It is its own observer of launches."""

    def __init__(self, nvtx: Any, shapes: bool = False) -> None:
        super().__init__(shapes)
        self.nvtx = nvtx
        self.events = self.stamped = deque(maxlen=0)  # type: ignore[assignment]
        self.gpu = self

    def begin(self, name: str, category: str, **args: Any) -> ProfilerEvent:
        event = super().begin(name, category, **args)
        dims = args.get("Input Dims")
        self.nvtx.RangePush(f"{name}, sizes = {dims}" if dims else name)
        return event

    def end(self, event: ProfilerEvent, keep: bool = True) -> None:
        self.nvtx.RangePop()

    def begins(self, what: Timed, stream: int | None = None) -> Callable[[ProfilerEvent], None]:
        self.nvtx.RangePush(what.name)
        return lambda event: self.nvtx.RangePop()


@contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False) -> Iterator[None]:
    """In this block, everything that compiled code does on the GPU has a range. record_shapes: with its inputs' sizes.

    Run the program under a tool that shows them: `nsys profile python script.py`. Raises RuntimeError where there is
    no GPU, or another profiler records.
    """
    if not enabled:
        yield
        return
    if ACTIVE:
        raise RuntimeError("another profiler is recording: end it (leave its block, or call stop()) first")
    from cutaway.profiler import regions  # imported here: with stage 4 comes sympy, half a second

    ranges = Ranges(library(), record_shapes)
    with ExitStack() as undo:
        ACTIVE.append(ranges)
        undo.callback(ACTIVE.clear)
        undo.callback(regions.observe(ranges))
        yield
