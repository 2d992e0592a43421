"""Tiny emit: writes each kernel as C++ loops, or as a Triton function over a block of points.

Input: fuse.py's Program (planned or not). An instruction is one line in either language; only the loops around the
lines differ. This file has the seam and C++; Triton is in emit_triton.py.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from stage3_lowering.tiny.emit_triton import triton_grid, triton_kernel
from stage3_lowering.tiny.spellings import CPP, TYPES
from stage3_lowering.tiny.statements import INDENT, assign, limit, statements
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import print_index
from stage_contracts.kernel_tables import rows_apart
from stage_contracts.loop_ir import Instr, Value
from stage_contracts.loop_text import origin_comments
from stage_contracts.program import Kernel, Program, SourceUnit, Target

INCLUDES = "#include <cmath>\n#include <cstdint>\n\n"


def emit(program: Program, target: Target) -> Program:
    """Write source for the kernels: one unit per graph (cpp), one module per kernel (triton)."""
    program = rows_apart(program)
    types = {name: buffer.meta.dtype for name, buffer in program.buffers.items()}
    kernels, units = dict(program.kernels), list(program.units)
    if target.name == "cpp" and kernels:
        text = INCLUDES + "\n".join(cpp_kernel(kernel, types) for kernel in kernels.values())
        units.append(SourceUnit(f"{program.name}_cpp", "cpp", text, tuple(kernels), target))
        kernels = {name: replace(kernel, unit=units[-1].name) for name, kernel in kernels.items()}
    for name, kernel in kernels.items() if target.name == "triton" else ():
        grid, unit = triton_grid(kernel, types), f"{name}_triton"
        units.append(SourceUnit(unit, "triton", triton_kernel(kernel), (name,), target, {name: grid}))
        kernels[name] = replace(kernel, unit=unit, grid=grid)
    return program.with_(kernels=kernels, units=tuple(units))


# ---- C++ -------------------------------------------------------------------------------------------------


def cpp_kernel(kernel: Kernel, types: dict[str, DType]) -> str:
    """The C++ function of a kernel: its lines, its loops around them, its parameters."""
    # lab: begin cpp_kernel
    (nest,) = kernel.nests
    params = [
        f"{'' if p in nest.writes else 'const '}{TYPES[types[p].name][CPP]}* {p}" for p in kernel.params
    ]
    before, after = list[str](), list[str]()
    simd = {"#pragma omp simd"}

    def reduction(instr: Instr, kind: str, value: Value) -> str:
        acc, of = f"{instr.name}_acc", instr.dtype
        assert of is not None
        # float sums are kept in double; integers wrap, which only unsigned ones may
        wide = "uint64_t" if of is dt.int64 and kind in ("sum", "prod") else TYPES[of.name][CPP]
        wide = "double" if of is dt.float32 and kind == "sum" else wide
        starts = {"sum": "0", "prod": "1", "any": "false", "all": "true"}
        before.append(f"{wide} {acc} = {starts.get(kind) or limit(of, kind == 'amin', 'INFINITY')};")
        after.append(f"{TYPES[of.name][CPP]} {instr.name} = {TYPES[of.name][CPP]}({acc});")
        signs = {"sum": "+", "prod": "*", "any": "||", "all": "&&"}
        simd.clear()
        if kind in signs:
            simd.add(f"#pragma omp simd reduction({signs[kind]}: {acc})")
            return f"{acc} = {acc} {signs[kind]} {wide}({value});"
        better = f"{value} {'>' if kind == 'amax' else '<'} {acc}"
        return f"if ({better}{f' || {value} != {value}' * of.is_floating_point}) {acc} = {value};"  # NaN wins

    floats = {i.name for i in nest.body if i.dtype is not None and i.dtype.is_floating_point}
    lines = statements(nest, CPP, {
        "load": lambda i, buffer, index: assign(CPP, i, f"{buffer}[{print_index(index)}]"),
        "store": lambda i, buffer, index, value: f"{buffer}[{print_index(index)}] = {value};",
        "constant": lambda i, value: assign(CPP, i, cpp_literal(value, i.dtype)),
        "cast": lambda i, value, to: assign(CPP, i, convert(value, floats, to)),
        "reduction": reduction,
    })  # fmt: skip
    inner, outer = lines[: nest.split], lines[nest.split :]
    if nest.is_reduction:
        inner = [*before, *loops("r", nest.reduction_ranges, inner, simd), *after, *outer]
    inner = loops("i", nest.ranges, inner, set() if nest.is_reduction else simd)
    comments = [line.replace("#", "//", 1) for line in origin_comments(kernel.origins)]
    head = f'extern "C" int64_t {kernel.name}({", ".join(params)}) {{'
    return "\n".join([*comments, head, *(INDENT + line for line in [*inner, "return 0;"]), "}", ""])
    # lab: end


def convert(value: str, floats: set[str], to: DType) -> str:
    """`value` as another type; a float that int64 cannot hold gives the smallest integer."""
    # lab: begin convert
    if to is dt.int64 and value in floats:
        return f"{value} >= -0x1p63 && {value} < 0x1p63 ? int64_t({value}) : INT64_MIN"
    return f"{value} != 0" if to is dt.bool_ else f"{TYPES[to.name][CPP]}({value})"
    # lab: end


def loops(letter: str, sizes: tuple[int, ...], body: list[str], pragma: set[str]) -> list[str]:
    """`body` in nested loops, the pragma above the innermost."""
    # lab: begin loops
    for k, size in reversed(list(enumerate(sizes))):
        head = f"for (int64_t {letter}{k} = 0; {letter}{k} < {size}; ++{letter}{k}) {{"
        body = [*(pragma if k == len(sizes) - 1 else ()), head, *(INDENT + line for line in body), "}"]
    return body
    # lab: end


def cpp_literal(value: Any, dtype: DType | None) -> str:
    """A number as C++ writes it, of the type `dtype`."""
    # lab: begin cpp_literal
    if isinstance(value, float):
        text = str(abs(value)).replace("inf", "INFINITY").replace("nan", "NAN")
        sign = "-" if math.copysign(1, value) < 0 else ""
        return f"{sign}{text}{'f' * (dtype is dt.float32 and text[0].isdigit())}"
    return str(value).lower() if value != -(2**63) else "INT64_MIN"
    # lab: end
