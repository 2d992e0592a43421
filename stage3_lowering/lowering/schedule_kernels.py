"""The seam `schedule`: gives each kernel of a Program a KernelSchedule for one target; its results stay the same.

Input: fuse.py's Program. Strides decide: the loop with stride 1 in memory is innermost and SIMD. If two loops have
stride 1, each in another buffer, they run in tiles. Threads share the outermost loops if there is enough work.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.accesses import access_steps, innermost_cost, stride
from stage3_lowering.lowering.additions_in_place import additions_in_place
from stage3_lowering.lowering.attention import attention
from stage3_lowering.lowering.attention_backward import attention_backward
from stage3_lowering.lowering.attention_results import attention_results
from stage3_lowering.lowering.attention_row_sums import attention_row_sums
from stage3_lowering.lowering.column_values import column_values
from stage3_lowering.lowering.columns_with_rows import columns_with_rows
from stage3_lowering.lowering.cpp_columns import in_groups
from stage3_lowering.lowering.cpp_ops import COSTS
from stage3_lowering.lowering.gathers import TILE as TILE_OF_PLACES
from stage3_lowering.lowering.gathers import in_gather_tiles
from stage3_lowering.lowering.index_set_splitting import choose
from stage3_lowering.lowering.late_division import late_division
from stage3_lowering.lowering.long_chains import tile_of
from stage3_lowering.lowering.matmul_templates import matmul_templates
from stage3_lowering.lowering.matrices_in_blocks import matrices_in_blocks
from stage3_lowering.lowering.placed_in_order import in_place_tiles, with_placements_in_order
from stage3_lowering.lowering.prefetch import with_prefetch
from stage3_lowering.lowering.product_bias import product_bias
from stage3_lowering.lowering.reductions_early import reductions_early
from stage3_lowering.lowering.reductions_together import reductions_together
from stage3_lowering.lowering.register_products import register_products
from stage3_lowering.lowering.row_blocks import row_blocks
from stage3_lowering.lowering.row_values import row_values
from stage3_lowering.lowering.rows_ahead import with_rows_ahead
from stage3_lowering.lowering.rows_in_scratch import rows_in_scratch
from stage3_lowering.lowering.sort_first import sort_first
from stage3_lowering.lowering.sort_rows import sort_rows
from stage3_lowering.lowering.split_reductions import split_reductions
from stage3_lowering.lowering.streamed import results_alone, with_streamed
from stage3_lowering.lowering.turned_tiles import with_turned_tiles
from stage3_lowering.lowering.written_back import written_back
from stage3_lowering.verify import verify_pass
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.kernel_tables import row_kernel
from stage_contracts.loop_ir import LoopNest
from stage_contracts.passes import Pass, PassTable
from stage_contracts.program import Kernel, Launch, Program, RowBlocks, Target
from stage_contracts.symbolic import hinted

Tiles = tuple[tuple[str, int], ...]  # of a KernelSchedule

PARALLEL_WORK = 1 << 21  # additions, about half a millisecond; less is done before the threads are awake
TILE = 32  # of a transpose: 32 rows of 32 elements, all of which stay in the first cache
NARROW = 4  # the least of its sides: four elements of a row are one register
COLUMNS = 2048  # accumulators in a row: 16 KiB of doubles, half of the first cache
WORDS = 256  # random ones that a tile draws at once: 1 KiB
SPLIT = (
    64  # parts of a reduction over everything; the same for every number of threads, so a sum never changes
)
ROW_PARTS = 16  # parts of the rows of a reduction across rows: each needs memory for all columns
SHORT_ROW = 128  # elements whose lanes cost more to reduce to one at the end than to add up


def schedule(program: Program, target: Target) -> Program:
    """The program, each of its kernels with a schedule for `target`."""
    return SCHEDULE.run_as_configured(program, target, verify=verify_pass).verify()


def kernel_schedules(program: Program, target: Target) -> Program:
    """The program, each of its kernels with a schedule. Threads share the blocks of RowBlocks, not its kernels."""
    kernels = {
        n: k if k.template else replace(k, schedule=schedule_of(k)) for n, k in program.kernels.items()
    }
    if target.name == "cpp":
        kernels = {n: with_placements_in_order(k) for n, k in kernels.items()}
        kernels = {n: with_prefetch(_in_tiles(with_turned_tiles(k))) for n, k in kernels.items()}
        results = results_alone(program)
        launched = {step.kernel for step in program.steps if isinstance(step, Launch)} if results else ()
        streamed = {n: with_streamed(kernels[n], results) for n in launched if not kernels[n].template}
        kernels |= {n: with_rows_ahead(kernel) for n, kernel in streamed.items()}
    blocks = (step for step in program.steps if isinstance(step, RowBlocks))
    for name in (step.kernel for block in blocks for step in block.steps if isinstance(step, Launch)):
        kernel = kernels[name]
        assert kernel.schedule is not None
        kernels[name] = replace(kernel, schedule=replace(kernel.schedule, parallel=()))
    return program.with_(kernels=kernels)


def schedule_of(kernel: Kernel) -> KernelSchedule:
    """The schedule of one kernel."""
    if kernel.rows:
        return _schedule_of_table(kernel)
    outer = [str(v) for v in kernel.nests[0].loop_variables]
    inner = next(([str(v) for v in n.reduction_variables] for n in kernel.nests if n.reduction_ranges), [])
    order, tiles, vector = _loops(kernel, outer, inner)
    work = sum(hinted(math.prod((*n.ranges, *n.reduction_ranges))) * _cost(n) for n in kernel.nests)
    split = _parts(kernel, outer, vector) if inner and work >= PARALLEL_WORK and _splits(kernel) else 0
    parallel = _shared_loops(order, bool(inner)) if _worth_threads(kernel, work) and not split else ()
    pieces = choose(kernel.nests[0], order) if order and not inner and len(tiles) != 1 else None
    scratch = kernel.schedule.scratch if kernel.schedule else ()
    return KernelSchedule(order, tiles, vector, parallel, split, scratch, pieces=pieces).verify(kernel)


def _loops(kernel: Kernel, outer: list[str], inner: list[str]) -> tuple[tuple[str, ...], Tiles, str]:
    """The order of the loops over points, their tiles, and the loop whose steps are SIMD lanes."""
    sizes = dict(zip(outer, kernel.nests[0].ranges, strict=True))
    if not inner:
        order, tiles = _pointwise_order(kernel, outer, sizes)
        return tuple(order), tiles, order[-1] if order else ""
    vector, tiles = _reduction_vector(kernel, outer, inner, sizes)
    return tuple(sorted(outer, key=lambda v: v == vector)), tiles, vector


def _shared_loops(order: tuple[str, ...], reduces: bool) -> tuple[str, ...]:
    """The loops that threads share: all, but the innermost of a pointwise kernel stays whole."""
    return order if reduces or len(order) < 2 else order[:-1]


def _schedule_of_table(kernel: Kernel) -> KernelSchedule:
    """The schedule of its largest row. If there is enough work, threads share the points of each row, or whole rows
    where the kernel reduces."""
    sizes = [tuple(column[row] for column in kernel.row_sizes.values()) for row in range(kernel.rows)]
    rows = {of: row_kernel(kernel, sizes.index(of)) for of in dict.fromkeys(sizes)}  # equal rows once
    work = {of: hinted(work_of(row)) for of, row in rows.items()}
    alone = replace(schedule_of(rows[max(work, key=work.__getitem__)]), pieces=None)
    threads = bool(kernel.sizes) or sum(work[of] for of in sizes) >= PARALLEL_WORK
    if any(nest.reduction_ranges for nest in kernel.nests) or not alone.order:
        return replace(alone, parallel=(), table="across" if threads else "").verify(kernel)
    parallel = alone.order[: max(1, len(alone.order) - 1)] if threads else ()
    return replace(alone, parallel=parallel, table="within" if threads else "").verify(kernel)


def _worth_threads(kernel: Kernel, work: int) -> bool:
    """Whether threads pay. With open sizes the nominal work is only a guess: then the call decides."""
    return bool(kernel.sizes) or work >= PARALLEL_WORK


def work_of(kernel: Kernel) -> Any:
    """The kernel's work in additions; an expression where sizes are open."""
    return sum(math.prod((*n.ranges, *n.reduction_ranges)) * _cost(n) for n in kernel.nests)


def _cost(nest: LoopNest) -> int:
    return sum(COSTS.get(instr.op, 1) for instr in nest.body)


def _parts(kernel: Kernel, outer: list[str], vector: str) -> int:
    """How many parts a reduction is made in that has no outer loop, or too few columns for all threads; 0: one."""
    if not outer:
        return SPLIT
    (nest,) = kernel.nests
    few = outer == [vector] and isinstance(nest.ranges[0], int) and nest.ranges[0] < ROW_PARTS * COLUMNS
    rows = nest.reduction_ranges
    return ROW_PARTS if few and len(rows) == 1 and rows[0] >= 32 * ROW_PARTS and in_groups(nest) else 0


def _splits(kernel: Kernel) -> bool:
    """Whether the kernel is one reduction of one loop, of a kind whose parts can be combined."""
    reductions = [i for n in kernel.nests for i in n.body if i.op == "reduction"]
    points = bool(kernel.nests[0].ranges)  # positions have parts in lanes only
    positions = not points and any(i.args[0] in ("argmax", "argmin") for i in reductions)
    checks = any(i.op in ("indirect_index", "scan") for n in kernel.nests for i in n.body[: n.split])
    rows = len(kernel.nests) == 1 and isinstance(kernel.nests[0].reduction_ranges[0], int)
    return rows and not positions and not checks and kernel.nests[0].reduction_ranges[0] >= 2 * SPLIT


# ---- loop order --------------------------------------------------------------------------------------


def _pointwise_order(kernel: Kernel, outer: list[str], sizes: dict[str, Any]) -> tuple[list[str], Tiles]:
    if len(outer) < 2:
        return outer, ()
    accesses = access_steps(kernel)
    long = [v for v in outer if hinted(sizes[v]) >= 8] or outer
    costs = {v: innermost_cost(accesses, v) for v in long}
    best = min(reversed(long), key=lambda v: costs[v])  # the last of equals: as it lies in memory
    order = [v for v in outer if v != best] + [best]
    scattered = [a for a in accesses if a.get(best, 0) not in (0, 1)]
    across = [v for v in order[:-1] if any(a.get(v) == 1 for a in scattered) and hinted(sizes[v]) >= NARROW]
    other = across[-1] if across else best
    if other != best and hinted(sizes[best]) >= NARROW and hinted(sizes[best] * sizes[other]) >= TILE * TILE:
        # a transpose: what one loop jumps over, another walks along
        order = [v for v in order if v not in (other, best)] + [other, best]
        return order, ((other, TILE), (best, TILE))
    return order, ()


def _in_tiles(kernel: Kernel) -> Kernel:
    """A pointwise kernel that draws random words one after the other, as Philox makes them by fours, that loads from
    places or stores at some in its innermost loop, or whose elementary functions wait for one another: tile by tile."""
    schedule = kernel.schedule
    assert schedule is not None
    if schedule.tiles or schedule.pieces or kernel.rows or not schedule.order:
        return kernel
    loop, nest = schedule.order[-1], kernel.nests[0]
    size = dict(zip(map(str, nest.loop_variables), nest.ranges, strict=True))[loop]
    if any(n.reduction_ranges for n in kernel.nests):
        return kernel
    drawn = [i.args[2] for i in nest.body if i.op == "random_bits"]
    if any(stride(index, loop) == 1 for index in drawn):
        most = WORDS
    elif in_gather_tiles(nest, loop, size) or in_place_tiles(nest, loop, size):
        most = TILE_OF_PLACES
    elif not (most := 0 if column_values(nest, schedule.order) else tile_of(nest, loop, size)):
        return kernel
    tile = max(min(size, most), 1) if isinstance(size, int) else most
    return replace(kernel, schedule=replace(schedule, tiles=((loop, tile),)).verify(kernel))


def _reduction_vector(
    kernel: Kernel, outer: list[str], inner: list[str], sizes: dict[str, Any]
) -> tuple[str, Tiles]:
    """The SIMD loop of a kernel that reduces: the last reduction loop, or an outer one with a row of accumulators."""
    accesses, last = access_steps(kernel), inner[-1]
    candidates = [v for v in outer if hinted(sizes[v]) >= 8]
    if candidates and not kernel.row_buffers:
        best = min(reversed(candidates), key=lambda v: innermost_cost(accesses, v))
        across, along = innermost_cost(accesses, best), innermost_cost(accesses, last)
        row = next(hinted(math.prod(n.reduction_ranges)) for n in kernel.nests if n.reduction_ranges)
        if across < along or (across == along and row <= SHORT_ROW):
            size = sizes[best]
            return best, ((best, min(size, COLUMNS) if isinstance(size, int) else COLUMNS),)
    return last, ()


SCHEDULE = PassTable(
    "schedule",
    (
        Pass(
            "additions_in_place",
            lambda program, target: additions_in_place(program),
            "a `fuse` of your own need not know of it",
            needed=True,
        ),
        Pass("attention", attention, "softmax(f(q @ k.T)) @ v is one kernel on a GPU"),
        Pass("attention_backward", attention_backward, "its gradients are two kernels on a GPU"),
        Pass(
            "attention_row_sums",
            attention_row_sums,
            "a gradient's kernel adds up the rows that only it reads",
        ),
        Pass("attention_results", attention_results, "its kernels write where their results are placed"),
        Pass(
            "matmul_templates",
            matmul_templates,
            "what is done to a product's elements joins it, if measured faster",
        ),
        Pass("product_bias", product_bias, "on a GPU a product adds the row that a kernel only added"),
        Pass("sort_first", sort_first, "on a CPU top-k and k-th values do not sort the rest of a row"),
        Pass("sort_rows", sort_rows, "sorts and top-k of rows that registers hold are kernels on a GPU"),
        Pass("rows_in_scratch", rows_in_scratch, "rows that only their kernel reads stay in its scratch"),
        Pass("columns_with_rows", columns_with_rows, "sums over columns are made beside rows on a GPU"),
        Pass("row_values", row_values, "what all columns of a reduction share is computed once on a GPU"),
        Pass("split_reductions", split_reductions, "few long rows are reduced in two levels on a GPU"),
        Pass("reductions_early", reductions_early, "on a GPU they run while the cache has what they read"),
        Pass("reductions_together", reductions_together, "short ones that no step waits for are one launch"),
        Pass("written_back", written_back, "on a GPU one table copies the new values of inputs that wait"),
        Pass("matrices_in_blocks", matrices_in_blocks, "a product's matrix is made right before it is read"),
        Pass("row_blocks", row_blocks, "a product and what follows it by rows run block by block"),
        Pass("late_division", late_division, "a block's rows are divided by their sums after a product"),
        Pass("register_products", register_products, "a block's products with small matrices need no BLAS"),
        Pass("kernel_schedules", kernel_schedules, "loop order, tiles, SIMD and threads of each kernel"),
    ),
    (
        ("additions_in_place", "kernel_schedules", "it renames what a kernel writes"),
        ("attention", "attention_results", "whose results are placed is known then"),
        ("attention_backward", "attention_results", "whose results are placed is known then"),
        ("attention_backward", "attention_row_sums", "it is a kernel that it makes that takes the sums"),
        ("attention", "matmul_templates", "its products are no others"),
        ("attention_backward", "matmul_templates", "its products are no others"),
        ("matmul_templates", "product_bias", "the row of a product that joined is part of its kernel"),
        ("attention", "product_bias", "a score's bias is the attention kernel's"),
        ("attention_backward", "rows_in_scratch", "the rows between its products are not kept"),
        ("attention", "rows_in_scratch", "the rows between its two products are not kept"),
        ("sort_first", "kernel_schedules", "what reads a sort's first elements finds them elsewhere"),
        ("sort_rows", "kernel_schedules", "what reads a sort's first elements finds them elsewhere"),
        ("rows_in_scratch", "kernel_schedules", "a kernel with rows in scratch reduces along its last loop"),
        ("rows_in_scratch", "row_blocks", "a row in scratch is not passed on"),
        ("rows_in_scratch", "columns_with_rows", "a row in registers stays there"),
        ("columns_with_rows", "row_values", "where rows are held, each row's values are there"),
        ("columns_with_rows", "split_reductions", "what is left to add up are the parts"),
        ("row_values", "split_reductions", "a part of a row loads what the row has"),
        ("split_reductions", "reductions_early", "the first level is what reads much"),
        ("reductions_early", "reductions_together", "one launch comes where the last of its kernels was"),
        ("split_reductions", "reductions_together", "the second levels are what is short"),
        ("reductions_together", "kernel_schedules", "the kernels of one launch need no loops of their own"),
        ("split_reductions", "kernel_schedules", "both levels have loops of their own"),
        (
            "reductions_together",
            "written_back",
            "a kernel of several launches is none that may write an input",
        ),
        ("written_back", "kernel_schedules", "it makes kernels"),
        ("matrices_in_blocks", "row_blocks", "each point's matrix serves all rows: they are one block"),
        ("row_blocks", "kernel_schedules", "what runs in a block has the block's loops"),
        ("row_blocks", "late_division", "which product reads the rows is known then"),
        ("late_division", "register_products", "the sums have as many rows as a block"),
        ("late_division", "kernel_schedules", "it makes a kernel"),
        ("row_blocks", "register_products", "it is blocks that multiply by one matrix many times"),
    ),
)
