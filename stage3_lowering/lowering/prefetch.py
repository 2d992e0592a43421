"""Which inputs a kernel asks the memory for one row ahead, while it computes on the row it has.

Input: a scheduled C++ kernel that reduces along rows. Softmax reads a row twice: for its maximum, which waits for
memory, and for the exponentials, which leave memory idle. The second pass asks for the next row: 1.1 to 1.3 times. So
does layer norm's second pass, 1.4 times: where rows are pages of their own, the CPU does not see the next one coming.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.cpp_ops import COSTS
from stage_contracts import dtype as dt
from stage_contracts.loop_ir import Instr, LoopNest
from stage_contracts.program import Kernel
from stage_contracts.symbolic import hinted

LONG_ROW = 1024  # elements: below, the processor itself sees the next row coming
MOST = 1 << 16  # elements: above, the next row would drive this one out of the cache
AT_ONCE = 4096  # bytes, a page: of a longer row, a pass asks block by block, as it adds up, or not at all
FAR = (
    1 << 20
)  # bytes that all rows take: less is in the second cache, where a pass that computes little finds it
COSTLY = 20  # additions; an elementary function


def with_prefetch(kernel: Kernel) -> Kernel:
    """The kernel, its schedule naming the inputs to ask for a row ahead."""
    schedule = kernel.schedule
    assert schedule is not None
    if not schedule.order or schedule.tiles or kernel.rows:
        return kernel
    asked = tuple(asking(kernel, schedule.order[-1]))
    return replace(kernel, schedule=replace(schedule, prefetch=asked).verify(kernel))


def asking(kernel: Kernel, loop: str) -> dict[str, LoopNest]:
    """Each input whose rows the kernel reads again, and the pass that asks for the next one: one that computes much, or
    the first of those that read again."""
    found: dict[str, LoopNest] = {}
    rows = [n for n in kernel.nests if len(n.reduction_ranges) == 1]
    for k, nest in enumerate(rows):
        for load in whole_rows(nest, loop):
            again = any(load.args[0] == before.args[0] for n in rows[:k] for before in whole_rows(n, loop))
            settled = load.args[0] in found and (costly(found[load.args[0]]) or not costly(nest))
            if again and not settled and _pays(nest, load):
                found[load.args[0]] = nest
    return found


def _pays(nest: LoopNest, load: Instr) -> bool:
    """Whether the pass has time to ask, and what it asks for is far."""
    assert load.dtype is not None
    (size,), width = nest.reduction_ranges, load.dtype.itemsize
    adds = any(i.op == "reduction" and i.args[0] == "sum" and i.dtype is dt.float32 for i in nest.body)
    far = hinted(math.prod((*nest.ranges, size))) * width >= FAR
    return (adds or isinstance(size, int) and size * width <= AT_ONCE) and (far or costly(nest))


def costly(nest: LoopNest) -> bool:
    """Whether a pass calls an elementary function for each element: it computes longer than it reads."""
    return any(COSTS.get(i.op, 1) >= COSTLY for i in nest.body[: nest.split])


def whole_rows(nest: LoopNest, loop: str) -> list[Instr]:
    """What the reduction loads of buffers whose rows lie one after the other, as `loop` steps."""
    size, reduced = nest.reduction_ranges[0], str(nest.reduction_variables[0])
    if (
        isinstance(size, int) and not LONG_ROW <= size <= MOST
    ):  # of an open size, a wish costs little in short rows
        return []
    loads = [i for i in nest.body[: nest.split] if i.op == "load"]
    return [i for i in loads if stride(i.args[1], reduced) == 1 and stride(i.args[1], loop) == size]
