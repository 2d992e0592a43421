"""Rows of a table that a kernel asks the memory for before it comes to them: an embedding's.

Input: a C++ kernel whose result is written past the caches, row by row, from rows at places that the data decides. The
CPU cannot guess the next row; two ahead, part by part while one is written, took .65 of the time (AMD Zen 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage3_lowering.lowering.gathers import made_of
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Kernel

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText
    from stage3_lowering.lowering.cpp_nest import Tile

AHEAD = 2  # rows


@dataclass(frozen=True)
class RowsAhead:
    load: Instr
    place: tuple[Instr, ...]  # what its row's place is made of


def with_rows_ahead(kernel: Kernel) -> Kernel:
    """The kernel, its schedule naming the tables whose rows it asks for."""
    schedule = kernel.schedule
    assert schedule is not None
    if not schedule.streamed or len(schedule.tiles) != 1 or len(schedule.order) < 2:
        return kernel
    tables = dict.fromkeys(found.load.args[0] for found in rows_ahead(kernel.nests[0], schedule.order))
    return replace(kernel, schedule=replace(schedule, prefetch=tuple(tables)).verify(kernel))


def rows_ahead(nest: LoopNest, order: tuple[str, ...]) -> list[RowsAhead]:
    """The loads of whole rows at a place that the last loop but one decides through a checked index."""
    by_row, by_last = (made_of(nest, loop) for loop in order[-2:])
    found = []
    for load in (i for i in nest.body if i.op == "load" and len(i.args) == 2):
        values = {s.name for s in load.args[1].free_symbols} & by_row.keys()
        made = set[str]().union(*(by_row[name] for name in values))
        place = tuple(i for i in nest.body if i.name in made and not by_last[i.name])
        checked = any(i.op == "indirect_index" and {i.name} == values for i in place)
        if checked and _again(place, nest) and stride(load.args[1], order[-1]) == 1:
            found.append(RowsAhead(load, place))
    return found


def _again(place: tuple[Instr, ...], nest: LoopNest) -> bool:
    """Whether it can be computed for a later row: it loads nothing under a mask, and nothing that the nest writes."""
    loads = [i for i in place if i.op == "load"]
    return not any(len(i.args) > 2 or i.args[0] in nest.writes for i in loads)


def asked_for(text: KernelText, writer: Statements, tile: Tile) -> tuple[list[str], list[str]]:
    """What stands in a row's loop, where a later row is found, and in the loop over its tiles."""
    schedule = text.schedule
    if not (schedule.streamed and schedule.prefetch):
        return [], []
    row = schedule.order[-2]
    later, size = text.fresh(f"{row}_ahead"), cpp_index(text.sizes[row])
    lines = [f"const int64_t {later} = {row} + {AHEAD} < {size} ? {row} + {AHEAD} : {row};"]
    names, asks = {row: later}, []
    own = Statements(writer.nest, text, (), writer)
    found = rows_ahead(writer.nest, schedule.order)
    for each in (rows for rows in found if rows.load.args[0] in schedule.prefetch):
        for instr in (i for i in each.place if i.name not in names):
            names[instr.name] = text.fresh(f"{instr.name}_ahead")
            args = tuple(_renamed(arg, names) for arg in instr.args)
            lines += own.write(replace(instr, name=names[instr.name], args=args))
        place = cpp_index(_renamed(each.load.args[1], names | {tile.loop: tile.block}))
        asks.append(f"cutaway::prefetch(&{each.load.args[0]}[{place}], {tile.size});")
    return lines, asks


def _renamed(arg: Any, names: dict[str, str]) -> Any:
    """An argument with other names for loops and values."""
    if isinstance(arg, Value):
        return Value(names.get(arg, arg))
    return arg.subs({symbol(old): symbol(new) for old, new in names.items()}) if hasattr(arg, "subs") else arg
