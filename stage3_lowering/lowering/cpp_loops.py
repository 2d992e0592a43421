"""The loops of one C++ kernel, as its schedule says: which kind they are, and what stands around them all.

Input: cpp_kernel.py's kernel. Each kind has a file: pointwise loops that run as they are (cpp_plain.py) or tile by tile
(cpp_tiled.py), and reductions (cpp_reductions.py). A nest is data until it is printed (cpp_nest.py).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from stage3_lowering.lowering.column_values import column_values
from stage3_lowering.lowering.cpp_kernel import KernelText
from stage3_lowering.lowering.cpp_nest import Nest, braces, printed
from stage3_lowering.lowering.cpp_plain import plain, with_columns
from stage3_lowering.lowering.cpp_reductions import over_points
from stage3_lowering.lowering.cpp_streamed import FENCE
from stage3_lowering.lowering.cpp_tiled import tiled
from stage3_lowering.lowering.index_set_splitting import in_piece
from stage_contracts.loop_ir import LoopNest


def kernel_loops(text: KernelText) -> list[str]:
    """The body of the kernel."""
    if text.schedule.pieces:
        return _in_pieces(text)
    nest = over_points(text) if text.inner else _pointwise(text, text.kernel.nests[0])
    return printed(replace(nest, last=[FENCE]) if text.schedule.streamed else nest)


def _pointwise(text: KernelText, nest: LoopNest) -> Nest:
    schedule = text.schedule
    if schedule.tiles:
        return tiled(text, nest)
    columns = None if schedule.pieces else column_values(nest, schedule.order)
    return with_columns(text, nest, columns) if columns else plain(text, nest)


def _in_pieces(text: KernelText) -> list[str]:
    """The loops once for each piece of one of them."""
    assert text.schedule.pieces is not None
    loop, cuts = text.schedule.pieces
    lines = []
    for first, end in pairwise(cuts):
        text.bounds[loop] = first, end
        piece = _pointwise(text, in_piece(text.kernel.nests[0], loop, first, end))
        # what stands before its loops has names of its own
        lines += braces(printed(piece)) if piece.before else printed(piece)
    return lines
