"""Which inputs a kernel asks the memory for one row ahead, while it computes on the row it has.

Input: a scheduled C++ kernel that reduces along rows. Softmax reads a row twice: for its maximum, which waits for
memory, and for the exponentials, which leave memory idle. The second pass asks for the next row: 1.1 to 1.3 times.
"""

from __future__ import annotations

from dataclasses import replace

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.cpp_ops import COSTS
from stage_contracts.loop_ir import LoopNest
from stage_contracts.program import Kernel

LONG_ROW = 1024  # elements: below, the processor itself sees the next row coming
MOST = 1 << 16  # elements: above, the next row would drive this one out of the cache
COSTLY = 20  # additions; an elementary function


def with_prefetch(kernel: Kernel) -> Kernel:
    """The kernel, its schedule naming the inputs to ask for a row ahead."""
    schedule = kernel.schedule
    assert schedule is not None
    if not schedule.order or schedule.tiles or kernel.rows:
        return kernel
    rows = [n for n in kernel.nests if len(n.reduction_ranges) == 1]
    again = [b for n in rows if costly(n) for b in whole_rows(n, schedule.order[-1])
             if any(b in whole_rows(m, schedule.order[-1]) for m in rows[: rows.index(n)])]  # fmt: skip
    return replace(kernel, schedule=replace(schedule, prefetch=tuple(dict.fromkeys(again))).verify(kernel))


def costly(nest: LoopNest) -> bool:
    """Whether a pass calls an elementary function for each element: it computes longer than it reads."""
    return any(COSTS.get(i.op, 1) >= COSTLY for i in nest.body[: nest.split])


def whole_rows(nest: LoopNest, loop: str) -> list[str]:
    """The buffers that the reduction reads as rows which lie one after the other, as `loop` steps."""
    size, reduced = nest.reduction_ranges[0], str(nest.reduction_variables[0])
    if (
        isinstance(size, int) and not LONG_ROW <= size <= MOST
    ):  # of an open size, a wish costs little in short rows
        return []
    loads = [i.args for i in nest.body[: nest.split] if i.op == "load"]
    return [args[0] for args in loads if stride(args[1], reduced) == 1 and stride(args[1], loop) == size]
