"""Tables in Triton: one launch for kernels that do the same work on other buffers, such as an optimizer's step.

Input: a kernel with rows, as side_by_side.py makes it, of one loop without reductions. It takes the buffers that all
rows share, and `table`: the first block of each row, then each size, then each column of pointers, a number for each
row. A program instance looks its row up. The runtime (cuda_tables.py) writes the pointers into the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stage3_lowering.lowering.triton_blocks import POINTWISE, Blocks, power_of_2, warps_of
from stage3_lowering.lowering.triton_loops import INDENT, axis_points, section
from stage3_lowering.lowering.triton_ops import POINTERS, TRITON_TYPES
from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts.program import Kernel
from stage_contracts.tensor_meta import TensorMeta

MOST_ROWS = 4096  # each program instance reads the first block of every row
ALIGNMENT = 16  # bytes: what the runtime promises of every pointer
LARGEST = 1 << 30  # elements of a row: its index has 32 bits


def fits_triton(kernel: Kernel) -> bool:
    """Whether a kernel, of a row or with a table, may be a table in Triton."""
    plain = not (kernel.template or kernel.sizes or kernel.row_buffers)
    sizes = [math.prod(kernel.nests[0].ranges)] if not kernel.row_sizes else list(lengths(kernel))
    one_loop = all(not n.reduction_ranges and len(n.ranges) <= 1 for n in kernel.nests)
    return plain and one_loop and all(0 < n < LARGEST for n in sizes) and kernel.rows <= MOST_ROWS


def lengths(kernel: Kernel) -> tuple[int, ...]:
    """The points of each row."""
    for numbers in kernel.row_sizes.values():
        return numbers
    return (math.prod(kernel.nests[0].ranges),) * kernel.rows


def table_source(kernel: Kernel, metas: Mapping[str, TensorMeta]) -> tuple[str, dict[str, Any]]:
    """The function's text, and how to launch it."""
    points, rows = lengths(kernel), kernel.rows
    block = min(power_of_2(max(points)), POINTWISE)
    blocks = Blocks(tuple(range(len(kernel.nests[0].ranges))), None, block, 0, True, warps_of(block))
    writer = Statements(kernel, blocks)
    counts = [-(-n // block) for n in points]
    starts = [sum(counts[:k]) for k in range(rows)]
    shared = kernel.params[: len(kernel.params) - len(kernel.columns)]
    taken = {*kernel.params, *(i.name for n in kernel.nests for i in n.body)}
    names = {name: _fresh(name, taken) for name in ("table", "row", "start", "starts")}
    table, start = names["table"], names["start"]
    mask = "mask" * writer.partial["x"]
    body = _looked_up(kernel, metas, names, sum(counts))
    places = f"(tl.program_id(0) - {start}) * XBLOCK + tl.arange(0, XBLOCK)"
    loops = [f"i{k}" for k in range(len(kernel.nests[0].ranges))]
    body += axis_points(loops or ["i"], list(kernel.nests[0].ranges), places, "xindex", mask)
    for nest in kernel.nests:
        body += section(nest, writer, (), loop=False)
    params = [*shared, table, "XBLOCK: tl.constexpr"]
    text = "\n".join([f"def {kernel.name}({', '.join(params)}):", *(INDENT + line for line in body)]) + "\n"
    grid = {
        "grid": (sum(counts), 1, 1),
        "num_warps": blocks.warps,
        "constants": blocks.constants,
        "signature": {p: POINTERS[metas[p].dtype.name] for p in shared} | {table: "*i64"},
        "table": [*starts, *(n for numbers in kernel.row_sizes.values() for n in numbers)],
        "columns": len(kernel.columns),
    }
    return text, grid


def _looked_up(
    kernel: Kernel, metas: Mapping[str, TensorMeta], names: Mapping[str, str], blocks: int
) -> list[str]:
    """The row of this program instance, and what the table has of it."""
    table, row, start, firsts = names.values()
    rows = kernel.rows
    body = [
        f"{firsts} = tl.arange(0, {power_of_2(rows)})",
        f"{firsts} = tl.load({table} + {firsts}, {firsts} < {rows}, {blocks})",
        f"{row} = tl.sum(({firsts} <= tl.program_id(0)).to(tl.int32), 0) - 1",
        f"{start} = tl.load({table} + {row}).to(tl.int32)",
    ]
    for k, name in enumerate(kernel.row_sizes, start=1):
        multiple = math.gcd(ALIGNMENT, *kernel.row_sizes[name])  # else each element has a load of its own
        number = f"tl.load({table} + {k * rows} + {row}).to(tl.int32)"
        body.append(f"{name} = {f'tl.multiple_of({number}, {multiple})' if multiple > 1 else number}")
    for k, name in enumerate(kernel.columns, start=1 + len(kernel.row_sizes)):
        kind = "tl.int1" if metas[name].dtype.name == "bool" else TRITON_TYPES[metas[name].dtype.name]
        pointer = f"tl.load({table} + {k * rows} + {row}).to(tl.pointer_type({kind}))"
        body.append(f"{name} = tl.multiple_of({pointer}, {ALIGNMENT})")
    return body


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
