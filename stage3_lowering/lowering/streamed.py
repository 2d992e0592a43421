"""Which results a kernel writes past the caches, whole lines at once.

Input: a scheduled C++ kernel, and the results that no other step of the program reads or puts in an input's place. A
plain store first reads the line that it overwrites, and drives out another. From 16 MiB on, written past the caches, a
copy takes .6 of its time, layer norm .7, a copy whose result is read right after .75 to .85 (AMD Zen 3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.column_values import column_values
from stage_contracts.index_expr import symbol
from stage_contracts.kernel_schedule import CACHE_LINE, FROM_MEMORY
from stage_contracts.loop_ir import Instr, LoopNest
from stage_contracts.program import Kernel, Program, Return, step_accesses

TILE = 256  # elements, written through an array on the stack
SHORTEST = 4 * CACHE_LINE  # bytes of a row


def results_alone(program: Program) -> set[str]:
    """The large results that only their own step touches, and that stay where they are."""
    steps = [step for step in program.steps if not isinstance(step, Return)]
    read = {name for step in steps for name in step_accesses(step, program.kernels)[0]}
    return {
        name
        for name, buffer in program.buffers.items()
        if buffer.role == "output" and name not in read and name not in program.updates
        and isinstance(buffer.meta.nbytes, int) and buffer.meta.nbytes >= FROM_MEMORY
    }  # fmt: skip


def with_streamed(kernel: Kernel, results: Collection[str]) -> Kernel:
    """The kernel, its schedule naming those results that it writes past the caches, and with a tile for them."""
    schedule = kernel.schedule
    assert schedule is not None
    if kernel.rows or kernel.sizes or schedule.split or schedule.pieces or not schedule.order:
        return kernel
    found = [
        store.args[0]
        for nest, store in _stores(kernel)
        if store.args[0] in results and _by_lines(nest, store, kernel)
    ]
    reduces, tiles = any(nest.reduction_ranges for nest in kernel.nests), schedule.tiles
    if not found or len(set(found)) < len(found) or (reduces and tiles):
        return kernel
    if not reduces and not tiles:
        nest, last = kernel.nests[0], schedule.order[-1]
        if column_values(nest, schedule.order):
            return kernel
        tiles = ((last, min(TILE, _sizes(nest)[last])),)
    made = replace(schedule, tiles=tiles, streamed=tuple(found))
    return replace(kernel, schedule=made.verify(kernel))


def streamed_stores(nest: LoopNest, streamed: tuple[str, ...]) -> list[Instr]:
    """The nest's stores to those results."""
    return [i for i in nest.body if i.op == "store" and i.args[0] in streamed]


def _stores(kernel: Kernel) -> Iterator[tuple[LoopNest, Instr]]:
    return ((nest, i) for nest in kernel.nests for i in nest.body if i.op == "store")


def _sizes(nest: LoopNest) -> dict[str, int]:
    variables = map(str, (*nest.loop_variables, *nest.reduction_variables))
    return dict(zip(variables, (*nest.ranges, *nest.reduction_ranges), strict=True))


def _by_lines(nest: LoopNest, store: Instr, kernel: Kernel) -> bool:
    """Whether the last loop writes the result's elements one after the other, each row from where a line begins.

    A sum that is not taken in blocks would change with them.
    """
    assert kernel.schedule is not None
    width = next(i.dtype.itemsize for i in nest.body if i.name == store.args[2] and i.dtype)
    if nest.reduction_ranges:
        if len(nest.reduction_ranges) > 1 or store not in nest.body[: nest.split]:
            return False
        if any(i.op == "reduction" for i in nest.body):
            return False
        last = str(nest.reduction_variables[0])
    elif any(n.reduction_ranges for n in kernel.nests):
        return False
    else:
        last = kernel.schedule.order[-1]
    index = store.args[1]
    first = index.subs({symbol(v): 0 for v in _sizes(nest)})
    apart = [first, *(stride(index, v) for v in _sizes(nest) if v != last)]
    tile = dict(kernel.schedule.tiles).get(last, TILE)
    return (
        stride(index, last) == 1
        and _sizes(nest)[last] * width >= SHORTEST
        and tile * width % CACHE_LINE == 0
        and all(
            step is not None and getattr(step, "is_number", True) and int(step) * width % CACHE_LINE == 0
            for step in apart
        )
    )
