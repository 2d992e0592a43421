"""What a pointwise kernel's loop over a tile finds done: the loops and the loads that stand before it.

Input: cpp_loops.py's kernel, whose last loops run tile by tile, and the writer of its statements. Tiles are turned
(turned_tiles.py), gathered (gathers.py), or come from the stages of a long chain (long_chains.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.cpp_ops import CPP_TYPES
from stage3_lowering.lowering.cpp_statements import INDENT, Statements, cpp_index
from stage3_lowering.lowering.gathers import Gathers
from stage3_lowering.lowering.long_chains import Stage, long_chains
from stage3_lowering.lowering.turned_tiles import turned_loads
from stage_contracts.index_expr import symbol

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_loops import KernelText

BAD_INDEX = " reduction(|:bad_index)"


def stages_of(text: KernelText, writer: Statements) -> list[Stage]:
    """The loops that run over a tile before the last one; the last one reads from arrays what they keep."""
    loop, block, _, _ = text.tile
    chain = long_chains(writer.nest, loop) if loop else None
    if chain is None:
        return []
    stages, last = chain
    for instr in writer.nest.body:
        if instr.dtype is not None:
            writer.types[instr.name] = instr.dtype
    for instr in (i for stage in stages for i in stage.kept):
        writer.text[instr.name] = f"{text.fresh(f'{instr.name}_tile')}[{loop} - {block}]"
    early = frozenset[str]().union(*(stage.body for stage in stages))
    writer.elsewhere = early - last
    return stages


def stage_loop(text: KernelText, writer: Statements, stage: Stage, head: str) -> list[str]:
    """One of these loops."""
    own = Statements(writer.nest, text, writer.loops, writer)
    own.text = dict(writer.text)
    own.elsewhere = frozenset(i.name for i in writer.nest.body) - stage.body
    body = text.levels(own, writer.nest, 0, len(writer.nest.body), len(writer.loops))[-1]
    arrays = []
    for instr in stage.kept:
        kept, of = writer.text[instr.name], CPP_TYPES[writer.types[instr.name].name]
        arrays.append(f"{of} {kept.partition('[')[0]}[{text.tile[2]}];")
        body.append(f"{kept} = {own.text[instr.name]};")
    return [*arrays, "#pragma omp simd", head, *(INDENT + line for line in body), "}"]


def gathered_loop(text: KernelText, writer: Statements, found: Gathers, head: str) -> list[str]:
    """The places of a tile, in a loop of their own, and the elements there."""
    loop, block, size, left = text.tile
    places = Statements(writer.nest, text, writer.loops, writer)
    body = [line for instr in found.places for line in places.write(instr)]
    arrays, loads = [], []
    for load in found.loads:
        name, of = text.fresh(f"{load.name}_places"), CPP_TYPES[writer.types[load.name].name]
        arrays.append(f"int64_t {name}[{size}];")
        body.append(f"{name}[{loop} - {block}] = {cpp_index(load.args[1])};")
        element = f"{writer.gathered[load.name]}({load.args[0]}, {name}, {left})"
        loads.append(f"const cutaway::Gathered<{of}, {size}> {element};")
    return [*arrays, f"#pragma omp simd{BAD_INDEX}", head, *(INDENT + line for line in body), "}", *loads]


def turned_loop(text: KernelText, writer: Statements, blocks: dict[str, str]) -> list[str]:
    """The tiles that are turned before the loops read them."""
    lines, loops, tiles = [], text.schedule.order[-2:], dict(text.schedule.tiles)
    for load in turned_loads(writer.nest, text.schedule.turned):
        (buffer, index), of = load.args, CPP_TYPES[load.dtype.name] if load.dtype else ""
        first = index.subs({symbol(v): symbol(blocks[v]) for v in loops})
        start = f"&{buffer}[{cpp_index(first)}]"
        if of == "bool":  # SIMD lanes are numbers
            of, start = "uint8_t", f"(const uint8_t*){start}"
        left = (f"{cpp_index(text.bounds.get(v, (0, text.sizes[v]))[1])} - {blocks[v]}" for v in loops)
        given = ", ".join([start, cpp_index(stride(index, loops[1])), *left])
        name, size = text.fresh(f"{load.name}_tile"), ", ".join(str(tiles[v]) for v in loops)
        lines.append(f"const cutaway::Turned<{of}, {size}> {name}({given});")
        places = "".join(f"[{v} - {blocks[v]}]" for v in loops)
        writer.turned[load.name] = f"{name}.elements{places}"
    return lines
