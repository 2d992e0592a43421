"""Which results a kernel writes past the caches, whole lines at once.

Input: a scheduled C++ kernel, and the results that no other step of the program reads or puts in an input's place. A
plain store first reads the line that it overwrites, and drives out another. From 16 MiB on, written past the caches, a
copy takes .6 of its time, layer norm .7, a copy whose result is read right after .75 to .85 (AMD Zen 3).
"""

from __future__ import annotations

from collections.abc import Collection
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
    stores = [
        (nest, i) for nest in kernel.nests for i in nest.body if i.op == "store" and i.args[0] in results
    ]
    found = tuple(store.args[0] for nest, store in stores if _by_lines(nest, store, kernel))
    if len(set(found)) < len(stores) or not found:  # some is written twice, or otherwise
        return kernel
    made = replace(schedule, tiles=schedule.tiles or _tiles(kernel), streamed=found)
    return replace(kernel, schedule=made.verify(kernel))


def streamed_stores(nest: LoopNest, streamed: tuple[str, ...]) -> list[Instr]:
    """The nest's stores to those results."""
    return [i for i in nest.body if i.op == "store" and i.args[0] in streamed]


def _reduces(kernel: Kernel) -> bool:
    return any(nest.reduction_ranges for nest in kernel.nests)


def _sizes(nest: LoopNest) -> dict[str, int]:
    variables = map(str, (*nest.loop_variables, *nest.reduction_variables))
    return dict(zip(variables, (*nest.ranges, *nest.reduction_ranges), strict=True))


def _tiles(kernel: Kernel) -> tuple[tuple[str, int], ...]:
    """A pointwise kernel's last loop runs tile by tile; one over a row runs by blocks as it is."""
    assert kernel.schedule is not None
    last = kernel.schedule.order[-1]
    return () if _reduces(kernel) else ((last, min(TILE, _sizes(kernel.nests[0])[last])),)


def _last_loop(nest: LoopNest, store: Instr, kernel: Kernel) -> str:
    """The loop around the store that runs by blocks; "" if there is none. A sum would change with them."""
    schedule = kernel.schedule
    assert schedule is not None
    if kernel.rows or kernel.sizes or schedule.split or schedule.pieces or not schedule.order:
        return ""
    if not _reduces(kernel):
        columns = not schedule.tiles and column_values(nest, schedule.order)
        return "" if columns else schedule.order[-1]
    alone = len(nest.reduction_ranges) == 1 and not any(i.op == "reduction" for i in nest.body)
    in_row = alone and not schedule.tiles and store in nest.body[: nest.split]
    return str(nest.reduction_variables[0]) if in_row else ""


def _by_lines(nest: LoopNest, store: Instr, kernel: Kernel) -> bool:
    """Whether such a loop writes the result's elements one after the other, each row from where a line begins."""
    assert kernel.schedule is not None
    if not (last := _last_loop(nest, store, kernel)):
        return False
    index, sizes = store.args[1], _sizes(nest)
    width = next(i.dtype.itemsize for i in nest.body if i.name == store.args[2] and i.dtype)
    first = index.subs({symbol(v): 0 for v in sizes})
    apart = [
        first,
        *(stride(index, v) for v in sizes if v != last),
        dict(kernel.schedule.tiles).get(last, TILE),
    ]
    whole = all(isinstance(step, int) or getattr(step, "is_Integer", False) for step in apart)
    in_order = stride(index, last) == 1 and sizes[last] * width >= SHORTEST
    return whole and in_order and all(int(step) * width % CACHE_LINE == 0 for step in apart)
