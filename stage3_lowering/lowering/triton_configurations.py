"""Other configurations of a Triton kernel, for a build that measures: a few blocks and warps beside those of the rule.

Input: a kernel and the blocks that triton_blocks.py's rule gives it, or the tiles of a template. Each table below says
what is tried; what a kernel cannot have is left out. Other blocks add a row's elements in another order, so the last
bits of a sum may differ between configurations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import sympy

from stage3_lowering.lowering.triton_blocks import LONG_BLOCK, LONG_WARPS, Blocks, power_of_2
from stage_contracts.index_expr import symbol
from stage_contracts.program import Kernel, Program
from stage_contracts.size_vars import at_sizes, is_open, plain
from stage_contracts.symbolic import NOMINAL
from stage_contracts.tensor_meta import TensorMeta

POINTS = ((512, 4), (1024, 8), (2048, 4), (2048, 8), (256, 4))  # (points, warps) of a pointwise kernel
TILES = ((32, 32, 4), (64, 64, 8), (32, 64, 4), (64, 32, 4))  # (rows, columns, warps) of a transposition
ROW_WARPS = (4, 8, 16, 1)  # of a kernel that holds rows
LONG = ((2048, 8), (4096, 8), (8192, 16), (2048, 16))  # (elements at once, warps) of a longer row
LONGEST_HELD, MOST_WARPS = 32768, 32  # a row that 32 warps can hold
FACTORS = (
    (1, 2, 1),
    (2, 1, 1),
    (1, 1, 2),
    (2, 1, 2),
)  # of a block of columns: (columns, rows, warps), times the rule's
MOST = 6  # that are tried beside the rule's


def other_blocks(kernel: Kernel, blocks: Blocks) -> list[Blocks]:
    """Other blocks of the kernel, at most MOST, none twice."""
    made = [b for b in _kind(kernel, blocks)(kernel, blocks) if 1 <= b.warps <= MOST_WARPS]
    return [b for b in dict.fromkeys(made) if b != blocks][:MOST]


def _kind(kernel: Kernel, blocks: Blocks) -> Callable[[Kernel, Blocks], Iterable[Blocks]]:
    if not blocks.rblock:
        return _pointwise
    if blocks.across is not None:
        return _transposed
    rows_in_order = (
        blocks.x == tuple(range(len(kernel.nests[0].ranges))) and blocks.xblock * 4 <= blocks.rblock
    )
    return _rows if rows_in_order or blocks.warps == 1 else _columns


def _pointwise(kernel: Kernel, blocks: Blocks) -> Iterable[Blocks]:
    points = plain(math.prod(kernel.nests[0].ranges))
    for block, warps in POINTS:
        if is_open(points) or block <= power_of_2(points):
            yield replace(blocks, xblock=block, warps=warps)


def _transposed(kernel: Kernel, blocks: Blocks) -> Iterable[Blocks]:
    return (replace(blocks, xblock=x, rblock=r, warps=warps) for x, r, warps in TILES)


def _rows(kernel: Kernel, blocks: Blocks) -> Iterable[Blocks]:
    row = _row_of(kernel)
    if not blocks.whole_row:
        yield from (replace(blocks, rblock=block, warps=warps) for block, warps in LONG)
        if not is_open(row) and row <= LONGEST_HELD:
            yield replace(blocks, xblock=1, rblock=power_of_2(row), whole_row=True, warps=MOST_WARPS)
        return
    elements = blocks.xblock * blocks.rblock
    yield from (replace(blocks, warps=w) for w in ROW_WARPS if 128 <= elements // w <= 8192)
    if blocks.xblock > 1:
        yield replace(blocks, xblock=blocks.xblock // 2)
    points = plain(math.prod(kernel.nests[0].ranges))
    if elements <= 2048 and not is_open(points) and 2 * blocks.xblock <= points:
        yield replace(blocks, xblock=2 * blocks.xblock)
    if blocks.rblock > LONG_BLOCK and not kernel.row_buffers:
        yield replace(blocks, xblock=1, rblock=LONG_BLOCK, whole_row=False, warps=LONG_WARPS)


def _columns(kernel: Kernel, blocks: Blocks) -> Iterable[Blocks]:
    for columns, rows, warps in FACTORS:
        grown = blocks.rblock * (1 if blocks.whole_row else rows)
        if columns * blocks.xblock * grown <= 16384:
            yield replace(blocks, xblock=columns * blocks.xblock, rblock=grown, warps=warps * blocks.warps)
    if blocks.xblock >= 16:
        yield replace(blocks, xblock=blocks.xblock // 2)


def _row_of(kernel: Kernel) -> Any:
    return plain(next(math.prod(n.reduction_ranges) for n in kernel.nests if n.reduction_ranges))


Arguments = tuple[tuple[str, int], ...]


def arguments_at(program: Program) -> Callable[[Kernel], Arguments]:
    """What tells what a kernel takes: (dtype, elements) for each array, then ("size", its value). An open size is
    NOMINAL, for the text of a program does not depend on the size that it was first compiled for."""
    values: dict[Any, int] = {}
    for var in program.sizes:
        free = NOMINAL if var.buffer else max(int(sympy.sympify(var.expr).subs(values)), 0)
        values[symbol(var.name)] = free

    def elements(meta: TensorMeta) -> int:
        shape, strides = at_sizes(meta.shape, values), at_sizes(meta.strides, values)
        return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))

    def of(kernel: Kernel) -> Arguments:
        metas = [program.buffers[name].meta for name in kernel.params]
        sizes = (("size", values[symbol(name)]) for name in kernel.sizes)
        return (*((meta.dtype.name, int(elements(meta))) for meta in metas), *sizes)

    return of
