"""Which inputs a kernel asks the memory for one row ahead, while it computes on the row it has.

Input: a scheduled C++ kernel that reduces along rows. Softmax reads a row twice: for its maximum, which waits for
memory, and for the exponentials, which leave memory idle. The second pass asks for the next row: 1.1 to 1.3 times. So
does layer norm's second sum, 1.2 times: where rows are pages of their own, the CPU does not see the next one coming.
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
FAR = 4 << 20  # bytes of all rows: less is near, and a pass that computes little has no time to ask
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
    """Each input whose rows several passes read, and the pass that asks for the next row, block by block as it adds up:
    one that computes much, or the last. To ask for two inputs where passes compute little costs what it saves."""
    readers: dict[str, list[LoopNest]] = {}
    for nest in (n for n in kernel.nests if len(n.reduction_ranges) == 1):
        for load in whole_rows(nest, loop):
            readers.setdefault(load.args[0], []).append(nest)
    again = {
        b: [n for n in nests if _adds_up(n)] for b, nests in readers.items() if nests[-1] is not nests[0]
    }
    dear = {b: next(filter(costly, nests)) for b, nests in again.items() if any(map(costly, nests))}
    cheap = {b: nests[-1] for b, nests in again.items() if nests and b not in dear and _is_far(nests[-1], b)}
    return dear | (cheap if len(cheap) == 1 else {})


def _adds_up(nest: LoopNest) -> bool:
    return any(i.op == "reduction" and i.args[0] == "sum" and i.dtype is dt.float32 for i in nest.body)


def _is_far(nest: LoopNest, buffer: str) -> bool:
    """Whether all rows are more than the second cache holds."""
    width = max(i.dtype.itemsize for i in nest.body if i.op == "load" and i.args[0] == buffer and i.dtype)
    return hinted(math.prod((*nest.ranges, *nest.reduction_ranges))) * width >= FAR


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
