"""Which block of points one instance of a Triton kernel takes: its axes, its sizes, and how many warps share it.

Input: a kernel, with or without a schedule. Neighbouring lanes should read neighbouring elements: a reduction whose
rows are strided takes a block of columns, and a transposition takes a tile. A row that registers hold is read once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stage3_lowering.lowering.accesses import access_steps, innermost_cost
from stage3_lowering.lowering.triton_ops import LONG_CODE
from stage_contracts.loop_ir import LoopNest
from stage_contracts.program import Kernel
from stage_contracts.size_vars import is_open, plain
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

POINTWISE = 1024  # points of a kernel that neither reduces nor transposes
REDUCED = 1024  # elements of the rows that a kernel with short rows reduces at once
TILE = 64  # of a transposition: 64 rows of 64 elements pass through shared memory
HELD = 16384  # elements of a row that the registers of one program hold, beside a few values made of them
# The part of a longer row that is read at once. With 16 warps, four programs fill a multiprocessor, and the rows that
# are on their way stay in the L2 cache for a second pass: 0.41 ms for 8192 rows of 32,000, against 0.69 with 8 warps.
LONG_BLOCK, LONG_WARPS = 4096, 16
COLUMNS, COLUMN_BLOCK = 64, 32  # of a reduction over strided rows: how many of them, and how much of each
FEW_COLUMNS, SECTOR = 132, 8  # instances for as many multiprocessors; floats that memory gives at once
PER_WARP = 1024  # elements, from 4 warps on
# The same of a kernel that calls functions of LONG_CODE, which are written out for each of a lane's elements. With
# 1,024, the gradients of two cosines over 6,700 elements took all 255 registers, and ptxas (12.8 and 13.0, sm_90) made
# code that had one element wrong. With as many as here it is right, as it is without ptxas's optimisations.
PER_WARP_OF_LONG_CODE = 512
# Times as many warps where one row of floats is read and is reduced again with what that gave: a layer norm of 4,096
# takes 132 us with 16 warps and 134 with 4, its backward, which reads two rows, 418 and 349 (H200).
REDUCED_AGAIN = 4
# Elements of rows that are made of few loads (`spread`): one warp takes them, and each lane adds up its own. The sum of
# 65,536 outer products of 64 by 64 then takes 25 us, where blocks of one row and 4 warps take 67 (H200).
SPREAD, SPREAD_INSTANCES = 16384, 2048


@dataclass(frozen=True)
class Blocks:
    """Loops by number: `x` go along the first axis, the last one fastest, and `across`, of a tile, along the second."""

    x: tuple[int, ...]
    across: int | None
    xblock: int
    rblock: int  # 0: there is one axis
    whole_row: bool  # whether the second axis covers the whole row of a reduction
    warps: int

    @property
    def constants(self) -> dict[str, int]:
        return {"XBLOCK": self.xblock} | ({"RBLOCK": self.rblock} if self.rblock else {})


def blocks_of(kernel: Kernel) -> Blocks:
    """The blocks of one kernel."""
    outer = kernel.nests[0].ranges
    rows = [nest.reduction_ranges for nest in kernel.nests if nest.reduction_ranges]
    order = tuple(int(name[1:]) for name in kernel.schedule.order) if kernel.schedule else ()
    x = order if len(order) == len(outer) else tuple(range(len(outer)))
    points = plain(math.prod(outer))
    if rows:
        return _of_reduction(kernel, points, plain(math.prod(rows[0])))
    if tile := _tile(kernel, outer):
        first, second = tile
        return Blocks(
            (*(k for k in x if k not in tile), first), second, TILE, TILE, False, _warps(kernel, TILE * TILE)
        )
    block = POINTWISE if is_open(points) else min(power_of_2(points), POINTWISE)
    return Blocks(x, None, block, 0, True, warps_of(block))


def _tile(kernel: Kernel, outer: tuple[Any, ...]) -> tuple[int, int] | None:
    """The two loops of a transposition, as the schedule has them; None where there is none."""
    tiles = kernel.schedule.tiles if kernel.schedule else ()
    loops = [int(name[1:]) for name, _ in tiles]
    if len(loops) != 2 or any(is_open(size) for size in outer) or 0 in outer:
        return None
    return loops[0], loops[1]


def _of_reduction(kernel: Kernel, points: Any, row: Any) -> Blocks:
    best = column_loop(kernel)
    return _of_rows(kernel, points, row) if best is None else _of_columns(kernel, points, row, best)


def _of_columns(kernel: Kernel, points: Any, row: Any, best: int) -> Blocks:
    """Of a reduction over strided rows: columns side by side along the loop `best`."""
    x = (*(k for k in range(len(kernel.nests[0].ranges)) if k != best), best)
    fixed = not is_open(row)
    columns = COLUMNS if is_open(points) else min(power_of_2(points), COLUMNS)
    long_block = COLUMN_BLOCK
    if fixed and not is_open(points) and points < FEW_COLUMNS * columns:  # or a few of them read all rows
        columns = min(columns, max(SECTOR, power_of_2(points // FEW_COLUMNS)))
        long_block = COLUMNS * COLUMN_BLOCK // columns
    whole = fixed and row <= long_block or bool(kernel.row_buffers)
    rblock = power_of_2(row) if whole else long_block
    columns = max(1, min(columns, COLUMNS * COLUMN_BLOCK // rblock))
    return Blocks(x, None, columns, rblock, whole, _warps(kernel, columns * rblock))


def _of_rows(kernel: Kernel, points: Any, row: Any) -> Blocks:
    loops, fixed = tuple(range(len(kernel.nests[0].ranges))), not is_open(row)
    whole = fixed and row <= held_row(kernel) or bool(kernel.row_buffers)  # these rows have no memory
    rblock = power_of_2(row) if whole else LONG_BLOCK
    many = not is_open(points) and points >= SPREAD_INSTANCES
    if fixed and rblock == row and many and spread(kernel):
        block = max(1, min(SPREAD // rblock, points // SPREAD_INSTANCES))
        return Blocks(loops, None, 1 << (block.bit_length() - 1), rblock, True, 1)
    block = max(1, REDUCED // rblock)
    block = block if is_open(points) else min(power_of_2(points), block)
    elements = block * rblock * (REDUCED_AGAIN if reduced_again(kernel) else 1)
    warps = _warps(kernel, elements) if whole else min(LONG_WARPS, max(1, rblock // 32))
    return Blocks(loops, None, block, rblock, whole, warps)


def reduced_again(kernel: Kernel) -> bool:
    """Whether the kernel reads one row, of float32, and reduces it in one section after another."""
    nests = [nest for nest in kernel.nests if nest.reduction_ranges]
    rows = {
        (i.args[0], i.dtype.name)
        for nest in nests
        for i in nest.body[: nest.split]
        if i.op == "load" and i.dtype
        and i.args[1].free_symbols & {*nest.loop_variables}
        and i.args[1].free_symbols & {*nest.reduction_variables}
    }  # fmt: skip
    reductions = sum(any(i.op == "reduction" for i in nest.body) for nest in nests)
    return reductions > 1 and len(rows) == 1 and {name for _, name in rows} == {"float32"}


def spread(kernel: Kernel) -> bool:
    """Whether a kernel only sums over several axes, and each element that it loads varies along one of them at most."""
    inside = [i for nest in kernel.nests if nest.reduction_ranges for i in nest.body[: nest.split]]
    axes = {v for nest in kernel.nests for v in nest.reduction_variables}
    loads = [i.args[1].free_symbols & axes for i in inside if i.op == "load"]
    plain_loads = not any(i.op in ("store", "scan", "indirect_index") for i in inside)
    return len(axes) > 1 and plain_loads and all(len(found) <= 1 for found in loads)


def column_loop(kernel: Kernel) -> int | None:
    """The outer loop along which the memory of a reduction is contiguous, if its rows are not."""
    inner = next(nest.reduction_variables for nest in kernel.nests if nest.reduction_ranges)
    sizes = kernel.nests[0].ranges
    accesses = access_steps(kernel)
    long = [k for k, size in enumerate(sizes) if hinted(size) >= 8]
    if not long:
        return None
    best = min(reversed(long), key=lambda k: innermost_cost(accesses, f"i{k}"))
    across, along = innermost_cost(accesses, f"i{best}"), innermost_cost(accesses, str(inner[-1]))
    return best if across < along else None


def held_row(kernel: Kernel) -> int:
    """How long a row may be for the kernel to hold it."""
    rows = {(instr.args[0], instr.op) for nest in kernel.nests for instr in nest.body[: nest.split]
            if instr.op in ("load", "store", "scan") and nest.reduction_ranges}  # fmt: skip
    return HELD if len(rows) <= 4 and not _has_long_code(kernel) else HELD // 2


def holds_rows(kernel: Kernel) -> bool:
    """Whether it reduces rows and has each in registers from its first section to its last."""
    return any(nest.reduction_ranges for nest in kernel.nests) and blocks_of(kernel).whole_row


def is_far(kernel: Kernel, metas: Mapping[str, TensorMeta]) -> bool:
    """Whether an element may lie beyond what 32 bits can address."""
    last = [sum((n - 1) * s for n, s in zip(m.shape, m.strides, strict=True))
            for m in (metas[p] for p in kernel.params)]  # fmt: skip
    return any(is_open(place) or place + 1 >= 1 << 31 for place in last)


def _warps(kernel: Kernel, elements: int) -> int:
    return warps_of(elements, PER_WARP_OF_LONG_CODE if _has_long_code(kernel) else PER_WARP)


def _has_long_code(kernel: Kernel) -> bool:
    return any(LONG_CODE.intersection(nest.ops) for nest in kernel.nests)


def is_far_along_rows(kernel: Kernel, metas: Mapping[str, TensorMeta]) -> bool:
    """The same of what a place along a row is multiplied with: where neighbours in a row are not in memory."""
    return is_far(kernel, metas) and any(map(_steps_along_rows, kernel.nests))


def _steps_along_rows(nest: LoopNest) -> bool:
    row = nest.reduction_variables
    inside = (i.args[1].as_independent(*row, as_Add=True)[1] for i in nest.body if i.op in ("load", "store"))
    return bool(row) and any(rest != 0 and rest not in row for rest in inside)


def warps_of(elements: int, per_warp: int = PER_WARP) -> int:
    """How many warps share a block of so many elements."""
    return max(1, min(16, max(elements // per_warp, min(4, elements // 256))))


def power_of_2(n: int) -> int:
    """The smallest power of 2 that is at least `n`, and at least 1."""
    return 1 << max(n - 1, 0).bit_length()
