"""The pass `product_bias`: a row that is added to each row of a product is added by the product, on a GPU.

Input: a Program for a GPU. A kernel that does nothing else would read and write the whole result once more. Where the
kernel does more, the row costs nothing there, and stays. cuBLASLt adds it before it rounds, as torch's addmm does; only
in what tensor cores multiply: halves, and float32 where the program allows tf32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sympy

from stage3_lowering.lowering.step_uses import StepUses, step_uses
from stage3_lowering.lowering.terms import Term, stored_terms
from stage3_lowering.lowering.triton_precision import allows_tf32
from stage_contracts import dtype as dt
from stage_contracts.blas import contraction
from stage_contracts.loop_ir import BufferRef, LoopNest
from stage_contracts.program import External, Kernel, Launch, Program, Target
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import contiguous_strides

STEP = "matmul_add_row"
HALVES = {"bfloat16": "b", "float16": "h"}


def product_bias(program: Program, target: Target) -> Program:
    """The program, each product and the kernel that adds a row to it as one step."""
    if target.name != "triton":
        return program
    uses, steps = step_uses(program), list[Any](program.steps)
    letters = {**HALVES, **({"float32": "s"} if allows_tf32(target) else {})}
    for number, step in enumerate(program.steps):
        if isinstance(step, Launch) and (found := _product_and_row(uses, number, letters)) is not None:
            at, row, out = found
            product = program.steps[at]
            steps[at] = None
            left, right = product.args
            args = (_as_result(program, left, out), right, BufferRef(row))
            origins = tuple(dict.fromkeys((*product.origins, *program.kernels[step.kernel].origins)))
            steps[number] = replace(product, target=STEP, args=args, outputs=(out,), origins=origins)
    kept = tuple(step for step in steps if step is not None)
    used = {step.kernel for step in kept if isinstance(step, Launch)}
    return program.with_(steps=kept, kernels={n: k for n, k in program.kernels.items() if n in used})


def _as_result(program: Program, left: BufferRef, out: str) -> BufferRef:
    """The first matrix with its rows in the dimensions that the result has."""
    meta = program.buffers[left.name].meta
    (_, k), (down, along) = (meta.shape, meta.strides) if left.shape is None else (left.shape, left.strides)  # type: ignore[misc]
    lead = program.buffers[out].meta.shape[:-1]
    strides = (*(down * step for step in contiguous_strides(lead)), along)
    return BufferRef(left.name, (*lead, k), strides, left.offset)


def _product_and_row(uses: StepUses, number: int, letters: Mapping[str, str]) -> tuple[int, str, str] | None:
    """(the step of the product, the row, the result) of a kernel that adds one row to a product that only it reads."""
    program = uses.program
    step, kernel = program.steps[number], program.kernels[program.steps[number].kernel]
    if step.buffers != kernel.params or len(kernel.params) != 3 or not _is_plain(kernel):
        return None
    nest = kernel.nests[0]
    added = _added(nest)
    if added is None:
        return None
    out, at, one, other = added
    for (matrix, place), (row, column) in ((one, other), (other, one)):
        makers = [
            n for n in uses.users[matrix] if 0 <= n < number and _is_product(program, n, matrix, letters)
        ]
        if place != at or uses.users[matrix] != {number, *makers} or len(makers) != 1:
            continue
        if _is_row(program, nest, column, program.steps[makers[0]]) and _fits(program, row, matrix, out):
            return makers[0], row, out
    return None


def _is_plain(kernel: Kernel) -> bool:
    whole = not (kernel.template or kernel.rows or kernel.sizes or kernel.internal)
    return whole and len(kernel.nests) == 1 and not kernel.nests[0].reduction_ranges


def _added(nest: LoopNest) -> tuple[str, Any, tuple[str, Any], tuple[str, Any]] | None:
    """(result, place, one load, the other) of a nest that stores a sum of two loads, each as (buffer, place)."""
    stores = stored_terms([nest], keep_roundings=False)
    if len(stores) != 1:
        return None
    ((out, at), term) = next(iter(stores.items()))
    while term.op == "cast" and term.dtype in (dt.float16, dt.bfloat16):
        term = term.args[0]
    loads = [_load(a) for a in term.operands] if term.op == "add" else []
    if len(loads) != 2 or loads[0] is None or loads[1] is None:
        return None
    return out, at, loads[0], loads[1]


def _load(term: Term) -> tuple[str, Any] | None:
    while term.op == "cast" and term.dtype is dt.float32:
        term = term.args[0]
    return (str(term.args[0]), term.args[1]) if term.op == "load" and len(term.args) == 2 else None


def _is_product(program: Program, number: int, buffer: str, letters: Mapping[str, str]) -> bool:
    step = program.steps[number]
    if not isinstance(step, External) or step.target != "matmul" or step.outputs != (buffer,):
        return False
    found = contraction(replace(step, into=True), program.buffers, letters)
    known = found is not None and not found.batch and not any(map(is_open, (found.m, found.n, found.k)))
    return known and program.buffers[buffer].meta.is_contiguous


def _is_row(program: Program, nest: LoopNest, column: Any, product: External) -> bool:
    """Whether a place is the column of the matrix that the loops walk through."""
    if not nest.ranges or any(map(is_open, nest.ranges)):
        return False
    made = program.buffers[product.outputs[0]].meta
    whole = math.prod(nest.ranges) == made.numel and nest.ranges[-1] == made.shape[-1]
    return bool(whole and sympy.sympify(column) == nest.loop_variables[-1])


def _fits(program: Program, row: str, matrix: str, out: str) -> bool:
    """Whether the row and the result are of the product's kind, and the result lies as the product does."""
    metas = [program.buffers[name].meta for name in (row, matrix, out)]
    alike = len({(m.dtype, m.device) for m in metas}) == 1
    columns = metas[1].shape[-1]
    same = metas[2].numel == metas[1].numel and all(m.shape[-1:] == (columns,) for m in metas)
    return alike and metas[2].is_contiguous and same and metas[0].numel == columns
