"""Triton for the template `columns_with_rows`: row after row in registers, with a row of sums that is kept.

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
from stage_contracts.program import Kernel, Target
from stage_contracts.tensor_meta import TensorMeta


def columns_with_rows_source(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target
) -> tuple[str, dict[str, Any]]:
    """The text of the kernel, and how to launch it."""
    *rows, parts = kernel.nests
    sums = turned(parts)
    count, width = parts.ranges
    rblock = power_of_2(width)
    constants = {"ROWS": parts.reduction_ranges[0], "XBLOCK": 1, "RBLOCK": rblock}
    blocks = Blocks((0,), None, 1, rblock, True, warps_of(rblock))
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
        after.append(f"tl.store({stored[instr.name]} + {width}*tl.program_id(0) + r0, {accumulator}{mask})")
    body = [*outside, "for step in range(0, ROWS):", *(INDENT + line for line in inside), *after]
    params = [*kernel.params, *(f"{name}: tl.constexpr" for name in constants)]
    head = [f"def {kernel.name}(", *(f"{INDENT}{p}," for p in params), "):"]
    grid = {
        "grid": (count, 1, 1),
        "num_warps": blocks.warps,
        "constants": constants,
        "signature": {p: POINTERS[metas[p].dtype.name] for p in kernel.params},
    }
    return "\n".join([*head, *(INDENT + line for line in body)]) + "\n", grid
