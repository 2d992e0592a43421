"""Triton for the template `together`: reductions that do the same on other buffers, side by side in one launch.

Input: reductions_together.py's kernel, a nest for each of them, its parameters one after the other. An instance finds
which reduction it belongs to, and takes that one's pointers; the text is that of the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stage3_lowering.lowering.row_values import kernel_of
from stage3_lowering.lowering.triton_blocks import blocks_of
from stage3_lowering.lowering.triton_loops import INDENT, axis_points, row_points, section
from stage3_lowering.lowering.triton_ops import POINTERS, TRITON_TYPES
from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts.program import Kernel, Target
from stage_contracts.tensor_meta import TensorMeta

ALIGNMENT = 16  # bytes: what the runtime promises of every pointer


def together_source(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target
) -> tuple[str, dict[str, Any]]:
    """The text of the kernel, and how to launch it."""
    count = len(kernel.nests)
    width = len(kernel.params) // count
    rows = [kernel.params[k * width : (k + 1) * width] for k in range(count)]
    first = kernel_of(kernel.name, kernel.nests[0])
    assert first.params == rows[0]
    blocks = blocks_of(first)
    writer = Statements(first, blocks)
    outer, inner = first.nests[0].ranges, first.nests[0].reduction_ranges
    instances = -(-math.prod(outer) // blocks.xblock)
    names = [f"i{k}" for k in blocks.x]
    body = [
        f"which = tl.program_id(0) // {instances}",
        *(line for k, column in enumerate(zip(*rows, strict=True)) for line in _chosen(column, metas)),
        *axis_points(names, [outer[k] for k in blocks.x],
                     f"tl.program_id(0) % {instances} * XBLOCK + tl.arange(0, XBLOCK)[:, None]", "xindex",
                     "xmask" * writer.partial["x"]),
        *row_points(writer, "tl.arange(0, RBLOCK)[None, :]", inner),
        *section(first.nests[0], writer, inner, loop=False),
    ]  # fmt: skip
    params = [*kernel.params, *(f"{name}: tl.constexpr" for name in blocks.constants)]
    head = [f"def {kernel.name}(", *(f"{INDENT}{p}," for p in params), "):"]
    grid = {
        "grid": (instances * count, 1, 1),
        "num_warps": blocks.warps,
        "constants": blocks.constants,
        "signature": {p: POINTERS[metas[p].dtype.name] for p in kernel.params},
    }
    return "\n".join([*head, *(INDENT + line for line in body)]) + "\n", grid


def _chosen(column: tuple[str, ...], metas: Mapping[str, TensorMeta]) -> list[str]:
    """The pointer that this instance takes, under the name of the first."""
    name = column[0]
    kind = "tl.int1" if metas[name].dtype.name == "bool" else TRITON_TYPES[metas[name].dtype.name]
    lines = [f"at = {name}.to(tl.int64)"]
    lines += [f"at = tl.where(which == {k}, {other}.to(tl.int64), at)" for k, other in enumerate(column) if k]
    return [*lines, f"{name} = tl.multiple_of(at.to(tl.pointer_type({kind})), {ALIGNMENT})"]
