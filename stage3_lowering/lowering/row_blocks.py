"""The pass `row_blocks`: a product and what follows it row by row run block by block, so its result stays in the cache.

Input: a Program with kernels and calls, before its kernels have schedules. Attention is one such group: the scores of a
block of rows, their softmax, and its product with the values; nobody writes the whole score matrix. The idea is
FlashAttention's (Dao et al., NeurIPS 2022), with whole rows: a row of scores fits in a CPU's cache.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stage3_lowering.lowering.row_space import Blocked, RowSpace, blocked_kernel, in_local, row_width
from stage_contracts.blas import DTYPES, Contraction, Matrix, contraction
from stage_contracts.device import CPU
from stage_contracts.loop_ir import BufferRef
from stage_contracts.origin import Origin
from stage_contracts.program import (
    Buffer,
    External,
    Kernel,
    Launch,
    Product,
    Program,
    RowBlocks,
    Target,
    step_accesses,
)
from stage_contracts.size_vars import is_open
from stage_contracts.symbolic import hinted

SMALLEST_WORK = 1 << 22  # additions and multiplications: for less, loops over blocks cost more than they save
FEWEST_ROWS = 32
CACHE = 3 << 19  # bytes of a core's own cache that a block may fill
# The same where a product's other operand is that of all blocks, such as a weight. BLAS packs it again for each block,
# which costs as much as the products of 20 to 60 rows do: more than what then comes from the next cache.
CACHE_OF_WEIGHTS = 4 * CACHE
BLOCKS = (512, 256, 128, 64, 32)  # rows, the largest that fits: the more rows, the better BLAS does
SHARES = 4  # batch points there should be at least where the blocks of each run in order


def row_blocks(program: Program, target: Target) -> Program:
    """The program, each group of steps that may run by rows as one step."""
    if target.name != "cpp" or program.device != CPU:
        return program
    done, taken = 0, names_taken(program)
    while (found := _next_group(program, done, taken)) is not None:
        done, group = found
        program = _with_group(program, group)
    return program


@dataclass
class Group:
    """Steps that run by rows: `made` has, of each buffer they make row by row, the elements in a row."""

    space: RowSpace
    members: list[int]
    made: dict[str, Any]
    waiting: list[int]  # steps among them that read what they make, but not by rows: they come after
    launched: Mapping[str, int]  # kernel -> how often the program launches it
    blocked: dict[str, Blocked] = field(default_factory=dict)  # kernels of members


def _next_group(program: Program, start: int, taken: set[str]) -> tuple[int, Group] | None:
    """The next group, and the number that its step will have plus one."""
    launched = Counter(step.kernel for step in program.steps if isinstance(step, Launch))
    for number in range(start, len(program.steps)):
        found = product_of(program.steps[number], program.buffers)
        if found is None or hinted(found.m) < FEWEST_ROWS:
            continue
        space = RowSpace.of(found.batch, found.m, taken)
        group = _grown(program, number, Group(space, [number], {found.c.buffer: found.n}, [], launched))
        if len(group.members) > 1 and _work(program, group) >= SMALLEST_WORK:
            return number + 1, group
    return None


def product_of(step: Any, buffers: Mapping[str, Buffer]) -> Contraction | None:
    """A step that is a product BLAS takes, its result row-major."""
    if not isinstance(step, External) or step.target != "matmul" or len(step.outputs) != 1:
        return None
    out = buffers[step.outputs[0]].meta
    if not out.is_contiguous or out.dtype.name not in DTYPES:
        return None
    return contraction(replace(step, into=True), buffers)


# ---- which steps ---------------------------------------------------------------------------------------------


def _grown(program: Program, seed: int, group: Group) -> Group:
    """The group of the product that is step `seed`, with each later step that reads its rows as they are made."""
    space = group.space
    later: set[str] = set()  # made by steps that wait for the whole group
    apart: dict[str, int] = {}  # made by a product that does not: the group may take it in
    for number in range(seed + 1, len(program.steps) - 1):
        step = program.steps[number]
        reads, writes = step_accesses(step, program.kernels)
        if not later & {*reads} and not group.made.keys() & {*reads}:
            if (other := product_of(step, program.buffers)) and space.has(other.batch, other.m):
                apart[other.c.buffer] = number
            continue
        rows = None if later & {*reads} else _rows_of_step(program, step, group, apart)
        if rows is None:
            later |= {*writes}
            group.waiting.append(number)
            continue
        used, made = rows
        group.members += sorted(apart.pop(name) for name in used)
        group.members.append(number)
        group.made |= made
        later |= {name for name in writes if name not in made}
    group.members.sort()
    group.waiting = [number for number in group.waiting if number < group.members[-1]]
    return group


def _rows_of_step(
    program: Program, step: Any, group: Group, apart: Mapping[str, int]
) -> tuple[list[str], dict[str, Any]] | None:
    """(products it takes in, what it makes by rows), or None for a step that needs more than its own rows."""
    if isinstance(step, Launch):
        return _rows_of_kernel(program, step, group, apart)
    product = product_of(step, program.buffers)
    if product is None:
        return None
    if _multiplies_rows(product, group):
        return [], {product.c.buffer: product.n}
    return ([], {}) if _adds_over_rows(product, group) else None


def _rows_of_kernel(
    program: Program, step: Launch, group: Group, apart: Mapping[str, int]
) -> tuple[list[str], dict[str, Any]] | None:
    """The same for a kernel: one that runs once, and needs of each row only that row."""
    kernel = program.kernels[step.kernel]
    if step.buffers != kernel.params or group.launched[kernel.name] > 1:
        return None
    metas = {name: program.buffers[name].meta for name in kernel.params}
    others = {name: row_width(metas[name], group.space) for name in apart if name in kernel.params}
    found = blocked_kernel(kernel, group.space, group.made | others, metas)
    used = list(others)
    if found is None and others:
        found, used = blocked_kernel(kernel, group.space, group.made, metas), []
    if found is not None:
        group.blocked[kernel.name] = found
    return None if found is None else (used, {**{name: others[name] for name in used}, **found.made})


def _multiplies_rows(product: Contraction, group: Group) -> bool:
    """Whether it multiplies rows that the group makes by a matrix that is there before."""
    a, width = product.a, group.made.get(product.a.buffer)
    if width is None or product.b.buffer in group.made or not group.space.has(product.batch, product.m):
        return False
    inside = product.k == width or (
        isinstance(a.offset, int) and isinstance(width, int) and a.offset + product.k <= width
    )
    return inside and not a.transposed and _are_rows(a, product.batch, group)


def _adds_over_rows(product: Contraction, group: Group) -> bool:
    """Whether it adds up, over the rows that the group makes, products of each with another row.

    Its result is whole only after the last block, so that those of one batch point run in order, and in one thread.
    """
    space = group.space
    if not space.has(product.batch, product.k) or hinted(math.prod(space.batch)) < SHARES:
        return False
    inside = [m for m in (product.a, product.b) if m.buffer in group.made]
    return bool(inside) and all(
        m.transposed is (m is product.a) and m.offset == 0 and _are_rows(m, product.batch, group)
        for m in inside
    )


def _are_rows(matrix: Matrix, batch: tuple[Any, ...], group: Group) -> bool:
    """Whether the matrix lies in memory as the group's rows do, at each batch point."""
    width = group.made[matrix.buffer]
    steps = zip(batch, matrix.batch, group.space.steps(width), strict=True)
    return matrix.row == width and all(n == 1 or step == own for n, step, own in steps)


def _work(program: Program, group: Group) -> int:
    products = (product_of(program.steps[n], program.buffers) for n in group.members)
    return sum(hinted(2 * math.prod((*p.batch, p.m, p.n, p.k))) for p in products if p)


def names_taken(program: Program) -> set[str]:
    """Names that the indices of blocks must not have."""
    values = {i.name for k in program.kernels.values() for n in k.nests for i in n.body}
    return {*program.buffers, *program.kernels, *(size.name for size in program.sizes), *values}


# ---- the step ------------------------------------------------------------------------------------------------


def _with_group(program: Program, group: Group) -> Program:
    """The program with the group as one step; what it waits for comes before, what waits for it after."""
    first, last = group.members[0], group.members[-1]
    inside = [program.steps[n] for n in group.members]
    local = _local(program, group)
    kernels, steps = dict(program.kernels), list[Any]()
    origins: list[Origin] = []
    for step in inside:
        if isinstance(step, Launch):
            kernels[step.kernel] = kernel = in_local(group.blocked[step.kernel].kernel, local, group.space)
            origins += kernel.origins
            steps.append(step)
        else:
            product = product_of(step, program.buffers)
            assert product is not None
            rows = product.c.buffer in group.made
            steps.append((block_product if rows else _summed_product)(product, group.space, local))
            origins += step.origins
    space = group.space
    steps, local = _in_place(steps, kernels, local, program)
    block, cache = _block(program, group, local)
    run = RowBlocks(
        space.named_batch, space.first, space.rows, space.count, block, tuple(local), tuple(steps),
        tuple(dict.fromkeys(origins)), cache,
    )  # fmt: skip
    buffers = dict(program.buffers)
    for name, width in local.items():
        meta = buffers[name].meta
        shape = (block, width)
        buffers[name] = Buffer(name, meta.with_(shape=shape, strides=(width, 1)), "local")
    between = [n for n in range(first, last + 1) if n not in group.members]
    before = [program.steps[n] for n in between if n not in group.waiting]
    after = [program.steps[n] for n in between if n in group.waiting]
    ordered = (*program.steps[:first], *before, run, *after, *program.steps[last + 1 :])
    return program.with_(buffers=buffers, kernels=kernels, steps=ordered)


def _local(program: Program, group: Group) -> dict[str, Any]:
    """The buffers that only the group reads, and how many elements each has in a row."""
    outside = {
        name
        for number, step in enumerate(program.steps)
        if number not in group.members
        for name in step_accesses(step, program.kernels)[0]
    }
    return {
        name: width
        for name, width in group.made.items()
        if name not in outside and program.buffers[name].role == "temporary"
    }


def _in_place(
    steps: list[Any], kernels: Mapping[str, Kernel], local: dict[str, Any], program: Program
) -> tuple[list[Any], dict[str, Any]]:
    """The steps, each kernel's local result written over a local operand that nothing needs any more."""
    stands_for: dict[str, str] = {}
    dtypes = {name: program.buffers[name].meta.dtype for name in local}
    done: list[Any] = []
    for number, step in enumerate(steps):
        if isinstance(step, Launch):
            wanted = {name for later in steps[number + 1 :] for name in step_accesses(later, kernels)[0]}
            reads, writes = step_accesses(step, kernels)
            free = [name for name in reads if name in local and name not in wanted]
            for out in (name for name in writes if name in local):
                alike = [f for f in free if (local[f], dtypes[f]) == (local[out], dtypes[out])]
                over = next((f for f in alike if kernels[step.kernel].may_write_over(out, f)), None)
                if over:
                    stands_for[out] = stands_for.get(over, over)
                    free.remove(over)
        done.append(_renamed(step, stands_for))
    return done, {name: width for name, width in local.items() if name not in stands_for}


def _renamed(step: Any, names: Mapping[str, str]) -> Any:
    if isinstance(step, Launch):
        return replace(step, buffers=tuple(names.get(name, name) for name in step.buffers))
    a, b, out = (replace(ref, name=names.get(ref.name, ref.name)) for ref in (step.a, step.b, step.out))
    return replace(step, a=a, b=b, out=out)


def _block(program: Program, group: Group, local: Mapping[str, Any]) -> tuple[int, int]:
    """(rows, 0); or where a width is open (the most rows, how many bytes they should take)."""
    widths = [hinted(width) * program.buffers[name].meta.dtype.itemsize for name, width in local.items()]
    cache = CACHE_OF_WEIGHTS if _has_weights(program, group) else CACHE
    if any(is_open(width) for width in local.values()):
        return BLOCKS[0], cache
    fits = [n for n in BLOCKS if n * sum(widths) <= cache] or BLOCKS[-1:]
    whole = [n for n in fits if n >= hinted(group.space.count)]  # the memory of more rows would not be used
    return (whole[-1] if whole else fits[0]), 0


def _has_weights(program: Program, group: Group) -> bool:
    """Whether all blocks multiply by one matrix, the same at each batch point."""
    products = (product_of(program.steps[n], program.buffers) for n in group.members)
    return any(p and p.c.buffer in group.made and not any(p.b.batch) for p in products)


def block_product(product: Contraction, space: RowSpace, local: Iterable[str]) -> Product:
    """The product of one block's rows."""
    a = rows_view(product.a, space, product.k, local)
    c = rows_view(product.c, space, product.n, local)
    b, at = product.b, product.b.offset
    if b.buffer not in local:
        at += space.at(b.batch)
    strides = (1, b.row) if b.transposed else (b.row, 1)
    return Product(a, BufferRef(b.buffer, (product.k, product.n), strides, at), c)


def _summed_product(product: Contraction, space: RowSpace, local: Iterable[str]) -> Product:
    """The product over one block's rows, which is added to those of the blocks before."""
    a = _along_rows(product.a, space, (product.m, space.rows_symbol), local)
    b = _along_rows(product.b, space, (space.rows_symbol, product.n), local)
    c = product.c
    out = BufferRef(c.buffer, (product.m, product.n), (c.row, 1), c.offset + space.at(c.batch))
    return Product(a, b, out, adds=True)


def _along_rows(matrix: Matrix, space: RowSpace, shape: tuple[Any, Any], local: Iterable[str]) -> BufferRef:
    """The matrix's part for the rows of the block; the rows run along one of its two dimensions."""
    strides = (1, matrix.row) if matrix.transposed else (matrix.row, 1)
    at = matrix.offset
    if matrix.buffer not in local:
        at += space.at(matrix.batch) + space.first_row * strides[shape.index(space.rows_symbol)]
    return BufferRef(matrix.buffer, shape, strides, at)


def rows_view(matrix: Matrix, space: RowSpace, columns: Any, local: Iterable[str]) -> BufferRef:
    """The block's rows of a matrix."""
    down, along = (1, matrix.row) if matrix.transposed else (matrix.row, 1)
    at = matrix.offset
    if matrix.buffer not in local:
        at += space.at(matrix.batch) + space.first_row * down
    return BufferRef(matrix.buffer, (space.rows_symbol, columns), (down, along), at)
