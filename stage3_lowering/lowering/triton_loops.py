"""The loops of Triton kernels: the points of a block along each axis, and one pass over the row of each.

Input: nests, and the writer of their statements (triton_statements.py). emit_triton.py asks for a kernel's loops as
they are; templates that keep rows ask for a part of them.
"""

from __future__ import annotations

import math
from typing import Any

from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts import config
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import Instr, LoopNest
from stage_contracts.loop_text import with_comments
from stage_contracts.size_vars import plain

INDENT = "    "
# Zero, which no compiler knows. Where it knows a place in a row to be below 65,536 and the place is divided, LLVM
# computes with pairs of 16 bits, of which ptxas (12.8 and 12.9, sm_90) made code that took six elements for their
# neighbours' (random program 70379). The multiple keeps loads wide.
UNKNOWN_ZERO = "tl.multiple_of(tl.program_id(2), 16)"


def axis_points(names: list[str], sizes: list[Any], places: str, flat: str, mask: str) -> list[str]:
    """The points along one axis: `i0 = ...`, taken apart into one variable per loop where there are more."""
    flat = names[0] if len(sizes) == 1 else flat
    lines = [f"{flat} = {places}"]
    if mask:
        lines.append(f"{mask} = {flat} < {print_index(math.prod(sizes))}")
    return lines + _digits(names, flat, sizes)


def row_points(writer: Statements, places: str, sizes: tuple[int, ...]) -> list[str]:
    """The reduction points, likewise, and the mask of the block."""
    names = [f"r{k}" for k in range(len(sizes))]
    places = f"{places} + {UNKNOWN_ZERO}" if writer.divided_rows else places
    places = f"({places}).to(tl.int64)" if writer.far_rows else places
    return [
        *axis_points(names, list(sizes), places, "rindex", "rmask" * writer.partial["r"]),
        *writer.both_masks(),
    ]


def _digits(names: list[str], flat: str, sizes: list[Any]) -> list[str]:
    if len(sizes) <= 1:
        return []
    lines = []
    for k, (name, size) in enumerate(zip(names, sizes, strict=True)):
        stride = plain(math.prod(n if n != 0 else 1 for n in sizes[k + 1 :]))
        digit = flat if stride == 1 else f"{flat} // {_operand(stride)}"
        lines.append(f"{name} = {digit}" + f" % {_operand(size if size != 0 else 1)}" * (k > 0))
    return lines


def _operand(size: Any) -> str:
    return f"({print_index(size)})" if getattr(size, "is_Mul", False) else print_index(size)


def section(nest: LoopNest, writer: Statements, inner: tuple[int, ...], loop: bool) -> list[str]:
    """One pass over the row; in a loop where the row does not fit."""
    listed = [*with_comments(nest, header=False)]
    before = writer.begin(nest, loop)
    inside = _written(listed[: nest.split], writer, inner=True)
    ends = writer.end() if loop else []
    after = _written(listed[nest.split :], writer, inner=False)
    if not loop:
        return before + inside + after
    head = [f"for roffset in range(0, {print_index(math.prod(inner))}, RBLOCK):"]
    here = row_points(writer, "roffset + tl.arange(0, RBLOCK)[None, :]", inner)
    return before + head + [INDENT + line for line in here + inside] + ends + after


def _written(listed: list[tuple[list[str], Instr]], writer: Statements, inner: bool) -> list[str]:
    shown = config.current().lowering.comments
    return [
        line
        for comments, instr in listed
        for line in (comments if shown else []) + writer.write(instr, inner=inner)
    ]
