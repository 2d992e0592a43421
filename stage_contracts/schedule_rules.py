"""What must hold of a KernelSchedule and its kernel, rule by rule, each with what an error says.

Input: kernel_schedule.py's `verify` asks for the rules in order. A later one may use what an earlier one has checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stage_contracts.index_expr import symbol

if TYPE_CHECKING:
    from stage_contracts.kernel_schedule import KernelSchedule
    from stage_contracts.loop_ir import Instr, LoopNest
    from stage_contracts.program import Kernel

Rules = Iterator[tuple[bool, str]]  # whether it holds, and the problem where it does not


def rules(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    """All of them."""
    yield from _of_order(schedule, kernel)
    yield from _of_tiles(schedule, kernel)
    yield from _of_reductions(schedule, kernel)
    yield from _of_tables(schedule, kernel)
    yield from _of_pieces(schedule, kernel)
    yield from _of_loads(schedule, kernel)
    yield from _of_stores(schedule, kernel)


def _outer(kernel: Kernel) -> list[str]:
    return [v.name for v in kernel.nests[0].loop_variables]


def _inner(kernel: Kernel) -> list[str]:
    return [v.name for nest in kernel.nests for v in nest.reduction_variables]


def _of_order(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    order, vector, outer = schedule.order, schedule.vector, _outer(kernel)
    loops = outer + _inner(kernel)
    yield sorted(order) == sorted(outer), f"order must name each of the loops {outer} once"
    yield not vector or vector in loops, f"vector names no loop of {loops}"
    first = order[: len(schedule.parallel)]
    yield schedule.parallel == first, "parallel loops must be the first ones of order"


def _of_tiles(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    outer, tiled = _outer(kernel), [loop for loop, _ in schedule.tiles]
    of_loops = all(loop in outer and size > 0 for loop, size in schedule.tiles)
    yield of_loops, f"tiles must be of {outer}"
    yield len(set(tiled)) == len(tiled), "a loop is tiled twice"
    last = schedule.order[len(outer) - len(tiled) :]
    yield set(tiled) == set(last), "tiled loops are the last ones of order"


def _of_reductions(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    vector, outer, reduces = schedule.vector, _outer(kernel), bool(_inner(kernel))
    tiled, across = [loop for loop, _ in schedule.tiles], vector in outer
    only = "only a reduction without outer loops, or with its vector loop alone, can be split"
    yield not schedule.split or (schedule.split > 1 and outer in ([], [vector])), only
    yield not (tiled and reduces) or tiled == [vector], "a kernel that reduces tiles its vector loop alone"
    needs = "an outer vector loop of a kernel that reduces needs a tile: the row of accumulators"
    yield not (across and reduces) or vector in tiled, needs
    yield not across or vector == schedule.order[-1], "an outer vector loop is the last one"
    if across and reduces:
        yield not schedule.split or len(kernel.nests) == 1, "rows are split in parts in a kernel of one pass"
        yield not kernel.row_buffers, "rows that stay in the kernel need the vector loop inside the row"


def _of_tables(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    named = schedule.table in ("", "across", "within") and (not schedule.table or kernel.rows > 0)
    yield named, "table must be across or within, and of a kernel that has rows"
    if kernel.rows:
        neither = not schedule.split and not schedule.scratch
        yield neither, "a row of a table is neither split nor given scratch"
        where = "the loops of a table's rows are parallel exactly where threads share them `within`"
        yield bool(schedule.parallel) is (schedule.table == "within"), where


def _of_pieces(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    if not schedule.pieces:
        return
    loop, cuts = schedule.pieces
    size = dict(zip(_outer(kernel), kernel.nests[0].ranges, strict=True)).get(loop)
    plain = not _inner(kernel) and len(schedule.tiles) != 1 and not kernel.rows
    yield plain, "only a pointwise kernel without a table or a tile of one loop runs a loop in pieces"
    leads = len(cuts) > 1 and (cuts[0], cuts[-1]) == (0, size) and list(cuts) == sorted(set(cuts))
    yield leads, f"pieces must lead from 0 to the loop's size, {size}"


def _of_loads(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    rows = 1 if _inner(kernel) else 2  # loops: a pointwise kernel's last one runs along the row
    by_rows = len(_outer(kernel)) >= rows and bool(_inner(kernel) or schedule.streamed)
    asked = set(schedule.prefetch) <= set(kernel.params) and (not schedule.prefetch or by_rows)
    yield asked, "prefetch must be of parameters that a kernel reads by rows"
    yield not schedule.turned or len(schedule.tiles) == 2, "tiles are turned of two tiled loops"
    nest = kernel.nests[0]
    loads = {i.name: i for i in nest.body if i.op == "load" and len(i.args) == 2}
    along = "walk along the first of the two tiled loops and step evenly along the second"
    for name in schedule.turned:
        walks = name in loads and _walks(loads[name], nest, *schedule.order[-2:])
        yield walks, f"turned must be of loads without a mask, which {along}; {name} is none"


def _of_stores(schedule: KernelSchedule, kernel: Kernel) -> Rules:
    along = "along its last loop, which is tiled or the only one that it reduces"
    for name in schedule.streamed:
        written = name in kernel.params and _written_along(kernel, name, schedule)
        yield (
            written,
            (f"streamed must be of parameters that one nest writes, and none reads, {along}; {name} is none"),
        )
    yield set(schedule.scratch) <= set(kernel.internal), "scratch must be of internal buffers"


def _walks(load: Instr, nest: LoopNest, walked: str, stepped: str) -> bool:
    """Whether the load takes the next element where the first loop steps, and a fixed step where the second does."""
    buffer, index = load.args
    placed = {s.name for s in index.free_symbols} & {i.name for i in nest.body}
    steps = [index.coeff(symbol(v)) for v in (walked, stepped)]
    rest = (index - steps[0] * symbol(walked) - steps[1] * symbol(stepped)).expand().free_symbols
    moved = steps[1].free_symbols & {*nest.loop_variables}
    even = not rest & {symbol(walked), symbol(stepped)} and not moved
    return steps[0] == 1 and steps[1] != 0 and even and not placed and buffer not in nest.writes


def _written_along(kernel: Kernel, name: str, schedule: KernelSchedule) -> bool:
    """Whether the only access to the parameter is one store, element after element in the loop that runs by blocks."""
    accesses = [
        (nest, i)
        for nest in kernel.nests
        for i in nest.body
        if i.op in ("load", "store") and i.args[0] == name
    ]
    if len(accesses) != 1 or kernel.rows or schedule.split or schedule.pieces:
        return False
    ((nest, instr),) = accesses
    loop = _by_blocks(kernel, nest, instr, schedule)
    return bool(loop) and instr.op == "store" and instr.args[1].coeff(symbol(loop)) == 1


def _by_blocks(kernel: Kernel, nest: LoopNest, instr: Instr, schedule: KernelSchedule) -> str:
    """The loop around the instruction that runs by blocks: the last one, tiled; or the only one that reduces."""
    tiled, last = dict(schedule.tiles), schedule.order[-1] if schedule.order else ""
    if not any(n.reduction_ranges for n in kernel.nests):
        return last if last in tiled else ""
    alone = len(nest.reduction_ranges) == 1 and not tiled and instr in nest.body[: nest.split]
    return nest.reduction_variables[0].name if alone else ""
