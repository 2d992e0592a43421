"""The pass `matrices_in_blocks`: what makes the matrices of a stack of products makes each right before its product.

Input: a Program with kernels and calls, before its kernels have schedules. The columns of a convolution's windows are
such matrices: of all images they would go through memory, of a few rows of windows they stay in a core's cache.
"""

from __future__ import annotations

import math
from collections import Counter

from stage3_lowering.lowering.row_blocks import SMALLEST_WORK, names_taken, product_of, rows_view
from stage3_lowering.lowering.row_space import RowSpace, kernel_at_point
from stage_contracts.blas import Contraction
from stage_contracts.device import CPU
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, Launch, Product, Program, RowBlocks, Target, step_accesses
from stage_contracts.size_vars import is_open

LARGEST = 1 << 20  # bytes of a matrix: a core's own cache holds it
SMALLEST = 1 << 21  # bytes of all of them: fewer are in a cache anyway
FEWEST = 4  # products, so that threads have some to share


def matrices_in_blocks(program: Program, target: Target) -> Program:
    """The program, each such kernel and its products as one step."""
    if target.name != "cpp" or program.device != CPU:
        return program
    for step in program.steps:
        product = product_of(step, program.buffers)
        maker = None if product is None or not _fits(product, program) else _maker(product, step, program)
        if product is not None and maker is not None:
            program = _together(program, product, step, maker)
    return program


def _fits(product: Contraction, program: Program) -> bool:
    """Whether the right-hand matrices lie one after the other, of a size that pays."""
    b, sizes = product.b, (*product.batch, product.m, product.n, product.k)
    if any(map(is_open, sizes)) or b.transposed or b.offset != 0 or b.row != product.n:
        return False
    buffer, each, points = program.buffers[b.buffer], product.k * product.n, math.prod(product.batch)
    steps = RowSpace(product.batch, product.k, (), "", "").steps(product.n)
    one_by_one = all(
        n == 1 or step == own for n, step, own in zip(product.batch, b.batch, steps, strict=True)
    )
    nbytes = each * buffer.meta.dtype.itemsize
    pays = points >= FEWEST and nbytes <= LARGEST and nbytes * points >= SMALLEST
    whole = buffer.role == "temporary" and buffer.meta.numel == each * points
    return one_by_one and pays and whole and 2 * math.prod(sizes) >= SMALLEST_WORK


def _maker(product: Contraction, step: object, program: Program) -> Launch | None:
    """The kernel that makes those matrices and nothing else, if only the products read them."""
    name, number = product.b.buffer, program.steps.index(step)
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


def _together(program: Program, product: Contraction, step: object, maker: Launch) -> Program:
    space = RowSpace.of(product.batch, product.m, names_taken(program))
    name, number = product.b.buffer, program.steps.index(step)
    each = product.k * product.n
    kernel = kernel_at_point(program.kernels[maker.kernel], space, name, each)
    if kernel is None:
        return program
    a, c = (rows_view(m, space, n, ()) for m, n in ((product.a, product.k), (product.c, product.n)))
    b = BufferRef(name, (product.k, product.n), (product.n, 1), 0)
    origins = tuple(dict.fromkeys((*kernel.origins, *getattr(step, "origins", ()))))
    run = RowBlocks(
        space.named_batch,
        space.first,
        space.rows,
        product.m,
        product.m,
        (name,),
        (maker, Product(a, b, c)),
        origins,
    )
    meta = program.buffers[name].meta.with_(shape=(product.k, product.n), strides=(product.n, 1))
    steps = [run if k == number else each for k, each in enumerate(program.steps) if each is not maker]
    return program.with_(
        buffers={**program.buffers, name: Buffer(name, meta, "local")},
        kernels={**program.kernels, kernel.name: kernel},
        steps=tuple(steps),
    )
