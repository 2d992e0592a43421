"""Triton for a Program: one module per kernel, a block of points per program instance, written to be read.

Input: fuse.py's Program (planned or not), the same that emit_cpp takes. A pointwise kernel runs over a row of
XBLOCK points; a reduction over [XBLOCK, RBLOCK]: the whole row at once where it fits, else in a loop over
RBLOCK steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.merge import ROW_LIMIT
from stage3_lowering.lowering.triton_ops import HELPERS, POINTERS
from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts import config
from stage_contracts.index_expr import FloorDiv, print_index
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import with_comments
from stage_contracts.program import Kernel, Program, SourceUnit, Target
from stage_contracts.size_vars import is_open, plain
from stage_contracts.tensor_meta import TensorMeta

INDENT = "    "
HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
"""  # Triton's cache key has the line a kernel starts at, so that is the same in every module
POINTWISE_BLOCK = 1024
LOOP_BLOCK = 1024  # RBLOCK of a reduction that does not fit
ELEMENTS_PER_WARP = 256


def emit_triton(program: Program, target: Target) -> Program:
    """The program with one Triton module per kernel, and each kernel's grid, constants and signature."""
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    kernels, units = {}, []
    for name, kernel in program.kernels.items():
        if kernel.rows:
            raise ValueError(
                f"kernel {name} is a table of {kernel.rows} rows, and a Triton kernel takes none: "
                "call the seam `emit`, whose pass rows_apart comes first"
            )
        grid = _grid(kernel, metas)
        unit = SourceUnit(
            f"{name}_triton", "triton", emit_kernel(kernel, metas), (name,), target, {name: grid}
        )
        kernels[name] = replace(kernel, unit=unit.name, grid=grid)
        units.append(unit)
    return program.with_(kernels=kernels, units=(*program.units, *units))


def _space(kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    reductions = (nest.reduction_ranges for nest in kernel.nests if nest.reduction_ranges)
    return kernel.nests[0].ranges, next(reductions, ())


def _grid(kernel: Kernel, metas: Mapping[str, TensorMeta]) -> dict:
    """How to launch: {"grid": (x, y, z), "num_warps": n, "constants": {...}, "signature": {param:
    "*fp32"}}. Open sizes are parameters too, of which x is an expression, as text; nothing is assumed of them."""
    outer, inner = _space(kernel)
    points, row = plain(math.prod(outer)), plain(math.prod(inner))
    if inner:
        row_block = _power_of_2(row) if _fits(row) else LOOP_BLOCK
        constants = {"XBLOCK": max(1, 1024 // row_block), "RBLOCK": row_block}
    else:
        constants = {"XBLOCK": POINTWISE_BLOCK}
    block = constants["XBLOCK"] = (
        constants["XBLOCK"] if is_open(points) else min(_power_of_2(points), constants["XBLOCK"])
    )
    x = print_index(FloorDiv(points + block - 1, block)) if is_open(points) else max(1, -(-points // block))
    warps = _power_of_2(math.prod(constants.values()) // ELEMENTS_PER_WARP)
    return {
        "grid": (x, 1, 1),
        "num_warps": min(8, warps),
        "constants": constants,
        "signature": {p: POINTERS[metas[p].dtype.name] for p in kernel.params}
        | dict.fromkeys(kernel.sizes, "i64"),
    } | ({"sizes": kernel.sizes} if kernel.sizes else {})


def _fits(row: Any) -> bool:
    """Whether a whole row is held at once."""
    return isinstance(row, int) and row <= ROW_LIMIT


def _power_of_2(n: int) -> int:
    """The smallest power of 2 that is at least `n`, and at least 1."""
    return 1 << max(n - 1, 0).bit_length()


def emit_kernel(kernel: Kernel, metas: Mapping[str, TensorMeta]) -> str:
    """The module text of one kernel, with the helpers it calls after it."""
    outer, inner = _space(kernel)
    last = [sum((n - 1) * s for n, s in zip(m.shape, m.strides, strict=True))
            for m in (metas[p] for p in kernel.params)]  # fmt: skip
    far = any(is_open(place) or place + 1 >= 1 << 31 for place in last)
    body = _points("i", "XBLOCK", outer, bool(inner), far)
    whole_row = _fits(math.prod(inner))
    if inner and whole_row:
        body += [*_row("tl.arange(0, RBLOCK)[None, :]", inner), "mask = xmask & rmask"]
    writer = Statements(kernel, whole_row)
    written: set[str] = set()
    for nest in kernel.nests:
        if not whole_row and written & set(nest.reads):
            body.append("tl.debug_barrier()  # what other threads stored is read below")
        body += _section(nest, writer, inner, loop=not whole_row and bool(nest.reduction_ranges))
        written |= set(nest.writes)
    params = [*kernel.params, *kernel.sizes, "XBLOCK: tl.constexpr", *["RBLOCK: tl.constexpr"] * bool(inner)]
    signature = [f"def {kernel.name}({', '.join(params)}):"]
    if len(signature[0]) > 100:
        signature = [f"def {kernel.name}(", *(f"{INDENT}{p}," for p in params), "):"]
    text = HEADER + "\n".join([*signature, *(INDENT + line for line in body)]) + "\n"
    return text + _helpers(text)


def _points(letter: str, block: str, sizes: tuple[int, ...], column: bool, far: bool) -> list[str]:
    """The points of this program instance: `i0 = ...`, taken apart into one variable per loop where there are
    more."""
    flat = f"{letter}0" if len(sizes) == 1 else "xindex"
    start = "tl.program_id(0).to(tl.int64)" if far else "tl.program_id(0)"
    lines = [f"{flat} = {start} * {block} + tl.arange(0, {block}){'[:, None]' * column}"]
    lines += [f"xmask = {flat} < {print_index(math.prod(sizes))}", *_digits(letter, flat, sizes)]
    return lines if column else [*lines[:1], lines[1].replace("xmask", "mask"), *lines[2:]]


def _row(places: str, sizes: tuple[int, ...]) -> list[str]:
    """The reduction points, likewise."""
    flat = "r0" if len(sizes) == 1 else "rindex"
    return [
        f"{flat} = {places}",
        f"rmask = {flat} < {print_index(math.prod(sizes))}",
        *_digits("r", flat, sizes),
    ]


def _digits(letter: str, flat: str, sizes: tuple[int, ...]) -> list[str]:
    if len(sizes) <= 1:
        return []
    lines = []
    for k, size in enumerate(sizes):
        stride = plain(math.prod(n if n != 0 else 1 for n in sizes[k + 1 :]))
        digit = flat if stride == 1 else f"{flat} // {_operand(stride)}"
        lines.append(f"{letter}{k} = {digit}" + f" % {_operand(size if size != 0 else 1)}" * (k > 0))
    return lines


def _operand(size: Any) -> str:
    return f"({print_index(size)})" if getattr(size, "is_Mul", False) else print_index(size)


def _section(nest: LoopNest, writer: Statements, inner: tuple[int, ...], loop: bool) -> list[str]:
    """One pass over the row; in a loop where the row does not fit."""
    shown = config.current().lowering.comments
    before, inside, after = writer.begin(nest, loop), list[str](), list[str]()
    for k, (comments, instr) in enumerate(with_comments(nest, header=False)):
        part = inside if k < nest.split else after
        part += (comments if shown else []) + writer.write(instr, inner=k < nest.split)
    if not loop:
        return before + inside + after
    head = [f"for roffset in range(0, {print_index(math.prod(inner))}, RBLOCK):"]
    row = [*_row("roffset + tl.arange(0, RBLOCK)[None, :]", inner), "mask = xmask & rmask"]
    return before + head + [INDENT + line for line in row + inside] + writer.end() + after


def _helpers(text: str) -> str:
    """The helpers that `text` calls, and those that they call."""
    used: set[str] = set()
    pending = [text]
    while pending:
        names = set(re.findall(r"\b(_[a-z_]+)\b", pending.pop())) & set(HELPERS) - used
        used |= names
        pending += [HELPERS[name] for name in names]
    return "".join(f"\n\n@triton.jit{body}" for name, body in HELPERS.items() if name in used)
