"""Triton for a Program: one module per kernel, a block of points per program instance, written to be read.

Input: fuse.py's Program (planned or not), the same that emit_cpp takes, and triton_blocks.py's sizes. A pointwise
kernel runs over a row of XBLOCK points, or a tile; a reduction over [XBLOCK, RBLOCK]: the whole row at once where it
fits, else in a loop over RBLOCK steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.attention_backward import BY_COLUMNS, BY_ROWS
from stage3_lowering.lowering.columns_with_rows import TEMPLATE as COLUMNS_WITH_ROWS
from stage3_lowering.lowering.reductions_together import TEMPLATE as TOGETHER
from stage3_lowering.lowering.sort_rows import TEMPLATE as SORT
from stage3_lowering.lowering.triton_attention import attention_source, other_attention_sources
from stage3_lowering.lowering.triton_attention_backward import (
    attention_backward_source,
    other_attention_backward_sources,
)
from stage3_lowering.lowering.triton_blocks import Blocks, blocks_of, is_far, is_far_along_rows
from stage3_lowering.lowering.triton_columns_with_rows import columns_with_rows_source
from stage3_lowering.lowering.triton_configurations import arguments_at, other_blocks
from stage3_lowering.lowering.triton_loops import INDENT, axis_points, row_points, section
from stage3_lowering.lowering.triton_matmul import TEMPLATE as MATMUL
from stage3_lowering.lowering.triton_matmul import matmul_source, other_matmul_sources
from stage3_lowering.lowering.triton_online import in_one_pass, online_section
from stage3_lowering.lowering.triton_ops import HELPERS, POINTERS
from stage3_lowering.lowering.triton_sort import other_sort_sources, sort_source
from stage3_lowering.lowering.triton_statements import Statements
from stage3_lowering.lowering.triton_tables import fits_triton, table_source
from stage3_lowering.lowering.triton_together import together_source
from stage_contracts.index_expr import FloorDiv, print_index
from stage_contracts.program import Configuration, Kernel, Program, SourceUnit, Target
from stage_contracts.size_vars import is_open, plain
from stage_contracts.tensor_meta import TensorMeta

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
"""  # Triton's cache key has the line a kernel starts at, so that is the same in every module


# What writes a kernel that has a template: (kernel, metas, target) -> (the function's text, its grid)
TEMPLATES: dict[str, Callable[[Kernel, Mapping[str, TensorMeta], Target], tuple[str, dict[str, Any]]]] = {
    "attention": attention_source,
    BY_ROWS: attention_backward_source,
    BY_COLUMNS: attention_backward_source,
    COLUMNS_WITH_ROWS: columns_with_rows_source,
    TOGETHER: together_source,
    MATMUL: matmul_source,
    SORT: sort_source,
}


# The other configurations of a template's kernels, as TEMPLATES has the first
OTHERS: dict[
    str, Callable[[Kernel, Mapping[str, TensorMeta], Target], Iterable[tuple[str, dict[str, Any]]]]
] = {
    "attention": other_attention_sources,
    BY_ROWS: other_attention_backward_sources,
    BY_COLUMNS: other_attention_backward_sources,
    MATMUL: other_matmul_sources,
    SORT: other_sort_sources,
}


def emit_triton(program: Program, target: Target) -> Program:
    """The program with one Triton module per kernel, and each kernel's grid, constants and signature."""
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    arguments = arguments_at(program)
    kernels, units = {}, []
    for name, kernel in program.kernels.items():
        if kernel.rows and not fits_triton(kernel):
            raise ValueError(
                f"kernel {name} is a table of {kernel.rows} rows, and a Triton kernel takes none that reduces: "
                "call the seam `emit`, whose pass rows_apart comes first"
            )
        first, *others = configurations(kernel, metas, target)
        unit = SourceUnit(f"{name}_triton", "triton", first.text, (name,), target, {name: first.grid})
        if others:
            unit = replace(unit, alternatives=tuple(others), arguments=arguments(kernel))
        kernels[name] = replace(kernel, unit=unit.name, grid=first.grid)
        units.append(unit)
    return program.with_(kernels=kernels, units=(*program.units, *units))


def configurations(kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target) -> list[Configuration]:
    """The kernel as the rule has it. Where the target asks for `max_autotune`, then the others that a build measures:
    none of a table."""
    measured = bool(target.options.get("max_autotune")) and not kernel.rows
    if kernel.rows or kernel.template:
        template = TEMPLATES.get(kernel.template)
        made = template(kernel, metas, target) if template else table_source(kernel, metas)
        others = (
            OTHERS[kernel.template](kernel, metas, target) if measured and kernel.template in OTHERS else ()
        )
        return [Configuration(HEADER + body + helpers_of(body), grid) for body, grid in (made, *others)]
    rule = blocks_of(kernel)
    every = (rule, *(other_blocks(kernel, rule) if measured else ()))
    texts = [emit_kernel(kernel, blocks, metas) for blocks in every]
    return [
        Configuration(text, _grid(kernel, blocks, metas, text))
        for text, blocks in zip(texts, every, strict=True)
    ]


def _grid(kernel: Kernel, blocks: Blocks, metas: Mapping[str, TensorMeta], text: str) -> dict:
    """How to launch: {"grid": (x, y, z), "num_warps": n, "constants": {...}, "signature": {param:
    "*fp32"}}. Open sizes are parameters too, of which x is an expression, as text; nothing is assumed of them."""
    outer = kernel.nests[0].ranges
    tiled = 1 if blocks.across is None else outer[blocks.across]
    points, block = plain(math.prod(outer[k] for k in blocks.x)), blocks.xblock
    instances = FloorDiv(points + block - 1, block) if is_open(points) else -(-points // block)
    x = print_index(instances) if is_open(points) else max(1, instances * -(-tiled // (blocks.rblock or 1)))
    return (
        {
            "grid": (x, 1, 1),
            "num_warps": blocks.warps,
            "constants": blocks.constants,
            "signature": {p: POINTERS[metas[p].dtype.name] for p in kernel.params}
            | dict.fromkeys(kernel.sizes, "i64"),
        }
        | ({"sizes": kernel.sizes} if kernel.sizes else {})
        | ({"asserts": True} if "tl.device_assert" in text else {})
    )


def emit_kernel(kernel: Kernel, blocks: Blocks, metas: Mapping[str, TensorMeta]) -> str:
    """The module text of one kernel, with the helpers it calls after it."""
    inner = next((nest.reduction_ranges for nest in kernel.nests if nest.reduction_ranges), ())
    writer = Statements(kernel, blocks)
    writer.far_rows = is_far_along_rows(kernel, metas)
    body = _places(kernel, blocks, writer, is_far(kernel, metas))
    if inner and blocks.whole_row:
        body += row_points(writer, "tl.arange(0, RBLOCK)[None, :]", inner)
    written: set[str] = set()
    nests = [*kernel.nests]
    while nests:
        nest = nests.pop(0)
        if not blocks.whole_row and written & set(nest.reads):
            body.append("tl.debug_barrier()  # what other threads stored is read below")
        written |= set(nest.writes)
        if not blocks.whole_row and nests and in_one_pass(nest, nests[0]):
            written |= set(nests[0].writes)
            body += online_section(nest, nests.pop(0), writer)
            continue
        body += section(nest, writer, inner, loop=not blocks.whole_row and bool(nest.reduction_ranges))
    params = [*kernel.params, *kernel.sizes, *(f"{name}: tl.constexpr" for name in blocks.constants)]
    signature = [f"def {kernel.name}({', '.join(params)}):"]
    if len(signature[0]) > 100:
        signature = [f"def {kernel.name}(", *(f"{INDENT}{p}," for p in params), "):"]
    text = HEADER + "\n".join([*signature, *(INDENT + line for line in body)]) + "\n"
    return text + helpers_of(text)


def _places(kernel: Kernel, blocks: Blocks, writer: Statements, far: bool) -> list[str]:
    """The points of this program instance; of a tile, along both axes."""
    outer = kernel.nests[0].ranges
    names, sizes = [f"i{k}" for k in blocks.x], [outer[k] for k in blocks.x]
    mask = ("xmask" if blocks.rblock else "mask") * writer.partial["x"]
    instance = "tl.program_id(0).to(tl.int64)" if far else "tl.program_id(0)"
    points = f" * XBLOCK + tl.arange(0, XBLOCK){'[:, None]' * (blocks.rblock > 0)}"
    if blocks.across is None:
        return axis_points(names or ["i"], sizes, instance + points, "xindex", mask)
    size = outer[blocks.across]
    tiles = -(-size // blocks.rblock)
    along = f"{instance} % {tiles} * RBLOCK + tl.arange(0, RBLOCK)[None, :]"
    return [
        *axis_points(names, sizes, f"{instance} // {tiles}{points}", "xindex", mask),
        *axis_points([f"i{blocks.across}"], [size], along, "rindex", "rmask" * writer.partial["r"]),
        *writer.both_masks(),
    ]


def helpers_of(text: str) -> str:
    """The helpers that `text` calls, and those that they call."""
    used: set[str] = set()
    pending = [text]
    while pending:
        names = set(re.findall(r"\b(_[a-z_]+)\b", pending.pop())) & set(HELPERS) - used
        used |= names
        pending += [HELPERS[name] for name in names]
    return "".join(f"\n\n@triton.jit{body}" for name, body in HELPERS.items() if name in used)
