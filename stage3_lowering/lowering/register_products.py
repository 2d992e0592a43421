"""The pass `register_products`: products of blocks of rows with small matrices are done in registers, not by BLAS.

Input: a Program with blocks of rows (row_blocks.py). BLAS packs the other matrix again in each call, and its calls want
many rows; attention's matrices are a head's keys and values, which stay in a core's cache. cpp_panels.py is the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage_contracts.blas import block_contraction
from stage_contracts.program import Buffer, Product, Program, RowBlocks, Target
from stage_contracts.size_vars import is_open
from stage_contracts.symbolic import hinted

FEWEST_COLUMNS, FEWEST_FACTORS = 16, 16
FEWEST_ROWS = 192  # for fewer, BLAS takes as long
LARGEST = 1 << 20  # bytes of a matrix
NARROW = 128  # its shorter side, as wide as a head of attention: with 200 to 500 each way BLAS is 4 % faster
OPEN = NARROW  # what an open size of a matrix is taken for
CACHE = 128 << 10  # bytes that a block's rows may take: panels are in the cache beside them
SIX = 6  # rows that the registers hold
BLOCKS = (192, 96, 48)  # rows at most, the largest that fits


def register_products(program: Program, target: Target) -> Program:
    """The program, its products of blocks by registers where each of a step's is small enough."""
    if target.name != "cpp":
        return program
    buffers, steps = dict(program.buffers), list(program.steps)
    for number, step in enumerate(steps):
        if isinstance(step, RowBlocks) and _small(step, program.buffers):
            steps[number] = step = _by_registers(step, program.buffers)
            for name in step.local:
                meta = buffers[name].meta
                buffers[name] = replace(buffers[name], meta=meta.with_(shape=(step.block, *meta.shape[1:])))
    return program.with_(buffers=buffers, steps=tuple(steps))


def _small(step: RowBlocks, buffers: Mapping[str, Buffer]) -> bool:
    products = [inner for inner in step.steps if isinstance(inner, Product)]
    many = hinted(step.count) >= FEWEST_ROWS and not step.in_order
    # what each block makes whole: no panels serve several, and fewer rows would make it more often
    made = {m.name for p in products for m in (p.a, p.b) if m is p.b or m.offset != 0} & {*step.local}
    return many and not made and all(_fits(product, buffers) for product in products)


def _fits(product: Product, buffers: Mapping[str, Buffer]) -> bool:
    of = block_contraction(product, buffers)
    n, k = (OPEN if is_open(size) else hinted(size) for size in (of.n, of.k))
    itemsize = buffers[product.b.name].meta.dtype.itemsize
    enough = n >= FEWEST_COLUMNS and k >= FEWEST_FACTORS and min(n, k) <= NARROW
    return enough and n * k * itemsize <= LARGEST and not of.a.transposed


def _by_registers(step: RowBlocks, buffers: Mapping[str, Buffer]) -> RowBlocks:
    metas = [buffers[name].meta for name in step.local]
    row: Any = sum(hinted(meta.shape[1]) * meta.dtype.itemsize for meta in metas)
    most = next((n for n in BLOCKS if n * row <= CACHE), BLOCKS[-1])
    count = hinted(step.count)
    even = math.ceil(count / math.ceil(count / most))  # a last block of few rows would leave registers empty
    steps = tuple(replace(s, panels=True) if isinstance(s, Product) else s for s in step.steps)
    if any(is_open(meta.shape[1]) for meta in metas):
        return replace(step, block=BLOCKS[0], cache=CACHE, steps=steps)
    return replace(step, block=math.ceil(even / SIX) * SIX, steps=steps)
