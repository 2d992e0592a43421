"""Which operands of a transposition are turned tile by tile in registers, before the loops that read them.

Input: a scheduled C++ kernel with two tiled loops. Element by element, such a load takes a cache line for each of them;
turned, it reads whole lines: 2 to 2.5 times faster at 4096x4096, and 4 times with elements of one byte (AMD Zen 3).
"""

from __future__ import annotations

from dataclasses import replace

from stage3_lowering.lowering.accesses import stride
from stage_contracts.loop_ir import Instr, LoopNest
from stage_contracts.program import Kernel

TILE = 64  # elements each way: four lines of float32 from each row, all used while the first cache has them
SMALL = 2  # bytes: of smaller elements a line has more
SMALL_TILE = 128
MOST = 4  # operands: each has a tile on the stack


def with_turned_tiles(kernel: Kernel) -> Kernel:
    """The kernel, its schedule naming the loads to turn and with tiles for them; as it was where there are none."""
    schedule, nest = kernel.schedule, kernel.nests[0]
    assert schedule is not None
    if len(schedule.tiles) != 2 or any(n.reduction_ranges for n in kernel.nests):
        return kernel
    for order in (schedule.order, (*schedule.order[:-2], *reversed(schedule.order[-2:]))):
        found = _turnable(nest, order)
        if 0 < len(found) <= MOST and _stores_in_order(nest, order):
            sizes = dict(zip(map(str, nest.loop_variables), nest.ranges, strict=True))
            most = max(SMALL_TILE if i.dtype and i.dtype.itemsize <= SMALL else TILE for i in found)
            tiles = ((v, min(sizes[v], most) if isinstance(sizes[v], int) else most) for v in order[-2:])
            parallel, turned = order[: len(schedule.parallel)], tuple(i.name for i in found)
            made = replace(
                schedule, order=order, tiles=tuple(tiles), vector=order[-1], parallel=parallel, turned=turned
            )
            return replace(kernel, schedule=made.verify(kernel))
        if schedule.pieces:  # they are of this order
            break
    return kernel


def turned_loads(nest: LoopNest, turned: tuple[str, ...]) -> list[Instr]:
    """The loads of those names, as far as the nest, which may be a piece, has them."""
    return [i for i in nest.body if i.op == "load" and len(i.args) == 2 and i.name in turned]


def _turnable(nest: LoopNest, order: tuple[str, ...]) -> list[Instr]:
    """The loads that jump where the last loop steps, and walk where the one before it does."""
    loops = set(map(str, nest.loop_variables))
    values = {i.name for i in nest.body}
    found = []
    for instr in nest.body:
        if instr.op != "load" or len(instr.args) != 2 or instr.args[0] in nest.writes:
            continue
        index, (outer, inner) = instr.args[1], order[-2:]
        apart, placed = stride(index, inner), {s.name for s in index.free_symbols}
        fixed = apart not in (None, 0, 1) and not {s.name for s in getattr(apart, "free_symbols", ())} & loops
        if fixed and stride(index, outer) == 1 and not placed & values:
            found.append(instr)
    return found


def _stores_in_order(nest: LoopNest, order: tuple[str, ...]) -> bool:
    """Whether what the nest writes lies along its last loop."""
    return all(stride(i.args[1], order[-1]) in (0, 1) for i in nest.body if i.op == "store")
