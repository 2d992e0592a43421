"""Tiny emit, Triton: one program per row of a reduction, or per block of points.

Input: a fused Kernel. `/` and tl.sqrt round differently on a GPU than on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from stage3_lowering.tiny.spellings import POINTER, TRITON, TYPES
from stage3_lowering.tiny.statements import INDENT, limit, statements
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.loop_text import origin_comments
from stage_contracts.program import Kernel

IMPORTS = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
"""
FOLDERS = """

@triton.jit
def _prod(a, b):
    return a * b


@triton.jit
def _amax(a, b):  # NaN if either is NaN
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def _amin(a, b):
    return tl.where((a < b) | (a != a), a, b)
"""


def triton_grid(kernel: Kernel, types: dict[str, DType]) -> dict[str, Any]:
    """How to launch: one program per row of a reduction, or per block of points. A block is a power of two."""
    # lab: begin grid
    (nest,) = kernel.nests
    points, row = math.prod(nest.ranges), math.prod(nest.reduction_ranges)
    block = 1 << ((row if nest.is_reduction else min(points, 1024)) - 1).bit_length()
    programs = points if nest.is_reduction else -(-points // block)
    constants = {"RBLOCK" if nest.is_reduction else "XBLOCK": block}
    signature = {p: TYPES[types[p].name][POINTER] for p in kernel.params}
    return {"grid": (programs, 1, 1), "num_warps": max(1, min(8, block // 256)), "constants": constants,
            "signature": signature}  # fmt: skip
    # lab: end


def triton_points(nest: LoopNest) -> list[str]:
    """The lines that say which points this program computes: x taken apart into a variable per loop, and the mask."""
    # lab: begin points
    program_id = "tl.program_id(0).to(tl.int64)"
    x = program_id if nest.is_reduction else f"{program_id} * XBLOCK + tl.arange(0, XBLOCK)"
    lines, step = [f"x = {x}"], math.prod(nest.ranges)
    for k, size in enumerate(nest.ranges):
        step //= max(size, 1)
        lines.append(f"i{k} = x // {step} % {max(size, 1)}")
    if nest.is_reduction:
        return [*lines, "r0 = tl.arange(0, RBLOCK)", f"mask = r0 < {nest.reduction_ranges[0]}"]
    return [*lines, f"mask = x < {math.prod(nest.ranges)}"]
    # lab: end


def triton_reduction(instr: Instr, kind: str, value: Value) -> str:
    """One value for the row: lanes beyond its end hold what changes nothing."""
    # lab: begin reduction
    if kind in ("any", "all"):  # bits reduce as integers
        kept, largest = (f"mask & {value}", "max") if kind == "any" else (f"(mask == 0) | {value}", "min")
        return f"{instr.name} = tl.{largest}(({kept}).to(tl.int32), 0) != 0"
    start = {"sum": "0", "prod": "1"}.get(kind) or limit(instr.dtype, kind == "amin", "float('inf')")
    kept = f"tl.where(mask, {value}, {start})"
    return f"{instr.name} = " + (f"tl.sum({kept}, 0)" if kind == "sum" else f"tl.reduce({kept}, 0, _{kind})")
    # lab: end


def triton_memory(nest: LoopNest) -> tuple[Callable[..., str], Callable[..., str]]:
    """How to write a load and a store: with a mask if the address varies along the block, else one for all lanes."""
    # lab: begin memory
    axes = set(nest.reduction_variables if nest.is_reduction else nest.loop_variables)
    masked = lambda index: ", mask" if index.free_symbols & axes else ""  # noqa: E731
    return (
        lambda i, buffer, index: f"{i.name} = tl.load({buffer} + {print_index(index)}{masked(index)})",
        lambda i, buffer, index, v: f"tl.store({buffer} + {print_index(index)}, {v}{masked(index)})",
    )
    # lab: end


def triton_kernel(kernel: Kernel) -> str:
    """A value that varies along the block is a block; any other is a scalar, which needs no mask."""
    (nest,) = kernel.nests
    load, store = triton_memory(nest)
    floats = {i.name for i in nest.body if i.dtype is not None and i.dtype.is_floating_point}
    lines = statements(nest, TRITON, {
        "load": load, "store": store, "reduction": triton_reduction,
        "constant": lambda i, value: f"{i.name} = tl.full([], {triton_literal(value)}, {TYPES[i.dtype.name][TRITON]})",
        "cast": lambda i, value, to: f"{i.name} = {convert(value, floats, to)}",
    })  # fmt: skip
    block = "RBLOCK" if nest.is_reduction else "XBLOCK"
    head = f"def {kernel.name}({', '.join(kernel.params)}, {block}: tl.constexpr):"
    body = [*origin_comments(kernel.origins), *triton_points(nest), *lines]
    text = IMPORTS + "\n".join([head, *(INDENT + line for line in body)]) + "\n"
    return text + FOLDERS * ("tl.reduce" in text)


def convert(value: str, floats: set[str], to: DType) -> str:
    """`value` as another type; a float that int64 cannot hold gives the smallest integer."""
    if to is dt.int64 and value in floats:
        low = float(-(2**63))
        return f"tl.where(({value} >= {low}) & ({value} < {-low}), {value}, {low}).to(tl.int64)"
    return f"{value} != 0" if to is dt.bool_ else f"{value}.to({TYPES[to.name][TRITON]})"


def triton_literal(value: Any) -> str:
    return f"float('{value}')" if isinstance(value, float) and value - value != 0 else repr(value)
