"""The pass `matrices_in_blocks`: what makes the matrices of a stack of products makes each right before its product.

Input: a Program with kernels and calls, before its kernels have schedules. The columns of a convolution's windows are
such matrices: of all images they would go through memory, of a few rows of windows they stay in a core's cache.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from stage3_lowering.lowering.row_blocks import SMALLEST_WORK, block_product, names_taken, product_of
from stage3_lowering.lowering.row_space import RowSpace, kernel_at_point
from stage_contracts.blas import Contraction, Matrix
from stage_contracts.device import CPU
from stage_contracts.program import Buffer, Launch, Program, RowBlocks, Target, step_accesses
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import contiguous_strides

LARGEST = 1 << 20  # bytes of a matrix: a core's own cache holds it
SMALLEST = 1 << 21  # bytes of all of them: fewer are in a cache anyway
FEWEST = 4  # products, so that threads have some to share


def matrices_in_blocks(program: Program, target: Target) -> Program:
    """The program, each such kernel and its products as one step."""
    if target.name != "cpp" or program.device != CPU:
        return program
    for step in program.steps:
        product = product_of(step, program.buffers)
        if product is None:
            continue
        for made in _made(product, program):
            maker = _maker(made.matrix.buffer, step, program)
            together = None if maker is None else _together(program, product, step, made, maker)
            if together is not None:
                program = together
                break
    return program


@dataclass(frozen=True)
class Made:
    """An operand of a stack of products, each of its matrices whole and right behind the one before."""

    matrix: Matrix
    stored: tuple[int, int]  # rows and columns as they lie
    rows: bool  # whether its rows are those of the result


def _made(product: Contraction, program: Program) -> list[Made]:
    """The operands whose matrices lie one after the other, of a size that pays."""
    if any(map(is_open, (*product.batch, product.m, product.n, product.k))):
        return []
    sides = [(product.b, (product.k, product.n), False), (product.a, (product.m, product.k), True)]
    found = [Made(m, shape[:: -1 if m.transposed else 1], rows) for m, shape, rows in sides]
    return [made for made in found if _fits(product, made, program)]


def _fits(product: Contraction, made: Made, program: Program) -> bool:
    matrix, (rows, columns) = made.matrix, made.stored
    if matrix.offset != 0 or matrix.row != columns:
        return False
    buffer, each, points = program.buffers[matrix.buffer], rows * columns, math.prod(product.batch)
    steps = RowSpace(product.batch, rows, (), "", "").steps(columns)
    one_by_one = all(
        n == 1 or step == own for n, step, own in zip(product.batch, matrix.batch, steps, strict=True)
    )
    nbytes = each * buffer.meta.dtype.itemsize
    pays = points >= FEWEST and nbytes <= LARGEST and nbytes * points >= SMALLEST
    whole = buffer.role == "temporary" and buffer.meta.numel == each * points
    work = 2 * math.prod((*product.batch, product.m, product.n, product.k))
    return one_by_one and pays and whole and work >= SMALLEST_WORK


def _maker(name: str, step: object, program: Program) -> Launch | None:
    """The kernel that makes those matrices and nothing else, if only the products read them."""
    number = program.steps.index(step)
    accesses = [step_accesses(each, program.kernels) for each in program.steps]
    makes = [k for k, (_, writes) in enumerate(accesses) if name in writes]
    reads = [k for k, (reads, _) in enumerate(accesses) if name in reads]
    if reads != [number] or len(makes) != 1 or makes[0] > number:
        return None
    maker = program.steps[makes[0]]
    if not isinstance(maker, Launch) or {*accesses[makes[0]][1]} != {name}:
        return None
    needed = {*accesses[makes[0]][0]}
    if any(needed & {*writes} for _, writes in accesses[makes[0] + 1 : number]):
        return None
    launched = Counter(each.kernel for each in program.steps if isinstance(each, Launch))
    alone = launched[maker.kernel] == 1 and maker.buffers == program.kernels[maker.kernel].params
    return maker if alone else None


def _together(
    program: Program, product: Contraction, step: object, made: Made, maker: Launch
) -> Program | None:
    space = RowSpace.of(product.batch, product.m, names_taken(program))
    name, number = made.matrix.buffer, program.steps.index(step)
    kernel = kernel_at_point(program.kernels[maker.kernel], space, name, math.prod(made.stored))
    if kernel is None:
        return None
    of_block = block_product(product, space, (name,))
    if made.rows:  # all of the matrix is there, of which a block is some rows
        a = of_block.a
        assert a.strides is not None
        of_block = replace(of_block, a=replace(a, offset=space.first_row * a.strides[0]))
    origins = tuple(dict.fromkeys((*kernel.origins, *getattr(step, "origins", ()))))
    run = RowBlocks(
        space.named_batch,
        space.first,
        space.rows,
        product.m,
        product.m,
        (name,),
        (maker, of_block),
        origins,
    )
    meta = program.buffers[name].meta.with_(shape=made.stored, strides=contiguous_strides(made.stored))
    steps = [run if k == number else each for k, each in enumerate(program.steps) if each is not maker]
    return program.with_(
        buffers={**program.buffers, name: Buffer(name, meta, "local")},
        kernels={**program.kernels, kernel.name: kernel},
        steps=tuple(steps),
    )
