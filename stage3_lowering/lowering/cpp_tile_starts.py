"""What a pointwise kernel's loop over a tile finds done: the loops and the loads that stand before it.

Input: cpp_kernel.py's kernel, a loop of it that runs tile by tile (cpp_tiled.py), and the writer of its statements.
Tiles are turned (turned_tiles.py), gathered (gathers.py), or come from the stages of a long chain (long_chains.py) or
of values at places (placed_in_order.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.column_values import ColumnValues, column_values
from stage3_lowering.lowering.cpp_nest import BAD_INDEX, SIMD, Loop, Tile, nested
from stage3_lowering.lowering.cpp_ops import MEMORY_TYPES
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage3_lowering.lowering.gathers import Gathers, gathers
from stage3_lowering.lowering.long_chains import Stage, long_chains
from stage3_lowering.lowering.placed_in_order import places_first
from stage3_lowering.lowering.turned_tiles import turned_loads
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText


# ---- stages ------------------------------------------------------------------------------------------


def stages_of(text: KernelText, writer: Statements) -> list[Stage]:
    """The loops that run over a tile before the last one; the last one reads from arrays what they keep."""
    tile = writer.tile
    if tile is None or writer.gathered:
        return []
    chain = places_first(writer.nest, tile.loop) or long_chains(writer.nest, tile.loop)
    if chain is None:
        return []
    stages, last = chain
    for instr in writer.nest.body:
        if instr.dtype is not None:
            writer.types[instr.name] = instr.dtype
    for instr in (i for stage in stages for i in stage.kept):
        writer.text[instr.name] = f"{text.fresh(f'{instr.name}_tile')}[{tile.place}]"
    early = frozenset[str]().union(*(stage.body for stage in stages))
    writer.elsewhere = early - last
    return stages


def stage_loop(text: KernelText, writer: Statements, stage: Stage) -> list[str]:
    """One of these loops."""
    assert writer.tile is not None
    own = Statements(writer.nest, text, writer.loops, writer)
    own.text = dict(writer.text)
    own.elsewhere = frozenset(i.name for i in writer.nest.body) - stage.body
    body = text.levels(own)[-1]
    arrays = []
    for instr in stage.kept:
        kept, of = writer.text[instr.name], MEMORY_TYPES[writer.types[instr.name].name]
        arrays.append(f"{of} {kept.partition('[')[0]}[{writer.tile.size}];")
        body.append(f"{kept} = {own.text[instr.name]};")
    pragma = SIMD + BAD_INDEX * (text.checks and writer.tile.loop in own.checked)
    return [*arrays, *nested([Loop(writer.tile.over_elements, body, pragma)])]


# ---- gathered tiles ----------------------------------------------------------------------------------


def gathers_of(text: KernelText, writer: Statements) -> Gathers | None:
    """The loads from places that the data decides; the last loop finds their elements in arrays."""
    found = gathers(writer.nest, writer.tile.loop) if writer.tile else None
    if found:
        writer.elsewhere |= found.only
        writer.gathered = {i.name: text.fresh(f"{i.name}_tile") for i in found.loads}
    return found


def columns_of_gathers(text: KernelText, nest: LoopNest) -> ColumnValues | None:
    """What is computed from a place in a row alone, such as the pixels to read, once instead of in each row."""
    schedule = text.schedule
    alone = len(schedule.tiles) == 1 and not schedule.pieces and not schedule.streamed
    found = alone and gathers(nest, schedule.order[-1])
    return column_values(nest, schedule.order) if found else None


def gathered_loop(text: KernelText, writer: Statements, found: Gathers) -> list[str]:
    """The places of a tile, in a loop of their own, and the elements there."""
    tile = writer.tile
    assert tile is not None
    places = Statements(writer.nest, text, writer.loops, writer)
    columns = columns_of_gathers(text, writer.nest)
    own = [instr for instr in found.places if columns is None or instr.name not in columns.only]
    body = [line for instr in own for line in places.write(instr)]
    arrays, loads = [], []
    for load in found.loads:
        name, of = text.fresh(f"{load.name}_places"), MEMORY_TYPES[writer.types[load.name].name]
        arrays.append(f"int64_t {name}[{tile.size}];")
        body.append(f"{name}[{tile.place}] = {cpp_index(load.args[1])};")
        element = f"{writer.gathered[load.name]}({load.args[0]}, {name}, {tile.left})"
        loads.append(f"const cutaway::Gathered<{of}, {tile.size}> {element};")
    return [*arrays, *nested([Loop(tile.over_elements, body, SIMD + BAD_INDEX, loads)])]


# ---- turned tiles ------------------------------------------------------------------------------------


def turned_loop(text: KernelText, writer: Statements, tiles: Sequence[Tile]) -> list[str]:
    """The tiles that are turned before the loops read them."""
    lines = []
    for load in turned_loads(writer.nest, text.schedule.turned):
        (buffer, index), of = load.args, MEMORY_TYPES[load.dtype.name] if load.dtype else ""
        first = index.subs({symbol(tile.loop): symbol(tile.block) for tile in tiles})
        given = ", ".join(
            [
                f"&{buffer}[{cpp_index(first)}]",
                cpp_index(stride(index, tiles[-1].loop)),
                *(tile.left for tile in tiles),
            ]
        )
        name, size = text.fresh(f"{load.name}_tile"), ", ".join(str(tile.size) for tile in tiles)
        lines.append(f"const cutaway::Turned<{of}, {size}> {name}({given});")
        places = "".join(f"[{tile.place}]" for tile in tiles)
        writer.turned[load.name] = f"{name}.elements{places}"
    return lines
