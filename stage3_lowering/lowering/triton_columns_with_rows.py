"""Triton for the template `columns_with_rows`: rows in registers, a few at a time, with rows of sums that are kept.

Input: columns_with_rows.py's kernel: the nests of a kernel that holds rows, and last the nest that adds up columns in
parts. An instance takes a part of the rows. What the rows' nests loaded or computed, the sums take as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.columns_with_rows import turned
from stage3_lowering.lowering.triton_blocks import Blocks, is_far, power_of_2, warps_of
from stage3_lowering.lowering.triton_loops import INDENT, row_points, section
from stage3_lowering.lowering.triton_ops import POINTERS, TRITON_TYPES
from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts import config
from stage_contracts.loop_text import with_comments
from stage_contracts.program import Kernel
from stage_contracts.tensor_meta import TensorMeta

# Elements that an instance loads of each matrix before it waits: with one row of 1,024 at a time, the rows of a norm of
# 768 took 28 to 37 us on an H200 where 10 us of memory traffic would do.
AT_ONCE, PER_WARP_OF_ROWS = 4096, 256


def rows_at_once(rows: int, rblock: int) -> int:
    """How many rows an instance takes at a time, of those that it has."""
    most = max(1, AT_ONCE // rblock)
    return next(n for n in (16, 8, 4, 2, 1) if n <= most and rows % n == 0)


def columns_with_rows_source(
    kernel: Kernel, metas: Mapping[str, TensorMeta], arch: str
) -> tuple[str, dict[str, Any]]:
    """The text of the kernel, and how to launch it."""
    *rows, parts = kernel.nests
    sums = turned(parts)
    count, width = parts.ranges
    rblock = power_of_2(width)
    at_once = rows_at_once(parts.reduction_ranges[0], rblock)
    constants = {"ROWS": parts.reduction_ranges[0], "XBLOCK": at_once, "RBLOCK": rblock}
    warps = warps_of(rblock) if at_once == 1 else max(warps_of(rblock), at_once * rblock // PER_WARP_OF_ROWS)
    blocks = Blocks((0,), None, at_once, rblock, True, warps)
    writer = Statements(replace(kernel, nests=(*rows, sums), template=""), blocks)
    outside = row_points(writer, "tl.arange(0, RBLOCK)[None, :]", (width,))
    inside = [f"i0 = {'tl.program_id(0).to(tl.int64)' if is_far(kernel, metas) else 'tl.program_id(0)'} * ROWS + step "
              "+ tl.arange(0, XBLOCK)[:, None]"]  # fmt: skip
    for nest in rows:
        inside += section(nest, writer, (width,), loop=False)
    writer.begin(sums, loop=False)
    after = []
    stored = {i.args[2]: i.args[0] for i in parts.body if i.op == "store"}
    for comments, instr in with_comments(sums, header=False):
        inside += comments if config.current().lowering.comments else []
        if instr.op != "reduction":
            inside += writer.write(instr, inner=True)
            continue
        assert instr.dtype is not None
        accumulator, value = f"{instr.name}_acc", writer.block_text(instr.args[1])
        outside.append(f"{accumulator} = tl.full([XBLOCK, RBLOCK], 0, {TRITON_TYPES[instr.dtype.name]})")
        inside.append(f"{accumulator} += {value}")
        mask = ", rmask" * writer.partial["r"]
        total = accumulator if at_once == 1 else f"tl.sum({accumulator}, 0)[None, :]"
        after.append(f"tl.store({stored[instr.name]} + {width}*tl.program_id(0) + r0, {total}{mask})")
    body = [*outside, "for step in range(0, ROWS, XBLOCK):", *(INDENT + line for line in inside), *after]
    params = [*kernel.params, *(f"{name}: tl.constexpr" for name in constants)]
    head = [f"def {kernel.name}(", *(f"{INDENT}{p}," for p in params), "):"]
    grid = {
        "grid": (count, 1, 1),
        "num_warps": blocks.warps,
        "constants": constants,
        "signature": {p: POINTERS[metas[p].dtype.name] for p in kernel.params},
    }
    return "\n".join([*head, *(INDENT + line for line in body)]) + "\n", grid
