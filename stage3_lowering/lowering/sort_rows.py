"""The pass `sort_rows`: a sort along one dimension becomes a kernel on a GPU where a program's registers hold a row.

Input: a Program with calls of `sort`, whose readers are kernels. top-k, k-th values, medians and quantiles are sorts of
which something is read. What only reads the first elements of each row (sorted_prefix.py) has the kernel store no
others, so top-k is one kernel that sorts no more than it must. triton_sort.py writes it.
"""

# The eager kernel is some ten kernels of CuPy's (turn around, copy, sort, gather), which also sort all rows as one long
# array: over 100 us for any size. One kernel reads and writes each element once, and a program of a CUDA graph can have
# it. That holds while a row fits in the registers of a program. Longer rows stay a call, and so do elements of 64 bits:
# they and their positions are too wide for a key. So do open sizes, because the kernel's text has them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from stage3_lowering.lowering.attention import free_name
from stage3_lowering.lowering.sorted_prefix import narrowed, without_copy
from stage3_lowering.lowering.step_uses import step_uses
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.index_expr import symbol
from stage_contracts.kernel_tables import rows_apart
from stage_contracts.loop_ir import BufferRef, Instr, LoopNest, Value
from stage_contracts.program import External, Kernel, Launch, Program, Target
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

TEMPLATE = "sort"
LONGEST = 4096  # elements of a row: 16 in each of 256 lanes
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "float16", "bfloat16", "float32")
VALUES, INDICES = 0, 1  # the results of a sort


def sort_rows(program: Program, target: Target) -> Program:
    """The program, each sort of short rows a kernel."""
    if target.name != "triton":
        return program
    sorts = [step for step in program.steps if _is_short(step, program)]
    if sorts:
        program = _readers_apart(program, {name for step in sorts for name in step.outputs})
    for step in sorts:
        program = _with_kernel(program, step)
    return program


def _readers_apart(program: Program, results: set[str]) -> Program:
    """The program without tables of kernels that each read a sort's result: what a row reads of it decides the sort."""
    tables = [s for s in program.steps if isinstance(s, Launch) and program.kernels[s.kernel].rows]
    split = {
        s.kernel
        for s in tables
        if all(results & {*row} for row in program.kernels[s.kernel].by_rows(s.buffers))
    }
    return rows_apart(program, lambda kernel: kernel.name not in split) if split else program


def _is_short(step: Any, program: Program) -> bool:
    """Whether a step is a sort whose rows a program can hold, on the program's device."""
    if not isinstance(step, External) or step.target != "sort" or not isinstance(step.args[0], BufferRef):
        return False
    source = _source(step, program)
    if any(map(is_open, (*source.shape, *source.strides, step.args[0].offset))):
        return False
    row = source.shape[wrap_dim(step.args[1], source.ndim)] if source.ndim else 0
    here = source.device == program.device and source.dtype.name in DTYPES
    results = (program.buffers[name].meta for name in step.outputs)
    return here and 0 < row <= LONGEST and source.numel > 0 and all(m.is_contiguous for m in results)


def _source(step: External, program: Program) -> TensorMeta:
    """What is sorted, with the strides that it has in its buffer."""
    ref = step.args[0]
    meta = program.buffers[ref.name].meta
    return meta if ref.shape is None else meta.with_(shape=ref.shape, strides=ref.strides)


def _with_kernel(program: Program, step: External) -> Program:
    """The program with a kernel in place of the step, which stores what is read."""
    uses = step_uses(program)
    number = next(n for n, other in enumerate(program.steps) if other is step)
    source = _source(step, program)
    dim = wrap_dim(step.args[1], source.ndim)
    read = {k: name for k, name in enumerate(step.outputs) if uses.users[name] != {number}}
    if not read:
        return program
    shapes: dict[int, tuple[int, ...]] = {}
    for k, name in read.items():
        program = narrowed(program, name, number, dim)
        shapes[k] = program.buffers[name].meta.shape
        program, read[k] = without_copy(program, name, number)
    kept = max(shape[dim] for shape in shapes.values())
    name = free_name(TEMPLATE if kept == source.shape[dim] else "topk", program.kernels)
    nests = _nests(step, source, dim, {read[k]: (k, shape) for k, shape in shapes.items()}, f"{name}_order")
    params = tuple(dict.fromkeys((step.args[0].name, *read.values())))
    kernel = Kernel(name, nests, params, (f"{name}_order",), template=TEMPLATE)
    steps = tuple(Launch(name, params) if other is step else other for other in program.steps)
    gone = {*step.outputs} - {*read.values()}
    buffers = {n: buffer for n, buffer in program.buffers.items() if n not in gone}
    return program.with_(kernels={**program.kernels, name: kernel}, steps=steps, buffers=buffers)


# ---- what the kernel computes -----------------------------------------------------------------------------------


def _nests(
    step: External,
    source: TensorMeta,
    dim: int,
    results: dict[str, tuple[int, tuple[int, ...]]],
    order: str,
) -> tuple[LoopNest, ...]:
    """The order of each row; then, for each buffer of `results`, the values or positions that come first, by shape."""
    row = source.shape[dim]
    outer = tuple(n for d, n in enumerate(source.shape) if d != dim and n != 1)
    ref, along = step.args[0], symbol("r0")
    kind = "descending" if step.args[2] else "ascending"

    def read(index: Any) -> Instr:
        place = _place(source.shape, source.strides, dim, index) + ref.offset
        return Instr(Value("value"), "load", (ref.name, place), source.dtype)

    def placed(index: Any) -> tuple[str, Any]:
        return order, _place((*outer, row), contiguous_strides((*outer, row)), len(outer), index)

    body = (
        read(along),
        Instr(Value("order"), "argsort", (kind, Value("value")), dt.int64),
        Instr("", "store", (*placed(along), Value("order")), None),
    )
    nests = [LoopNest(order, outer, (row,), body, step.origins)]
    for name, (result, shape) in results.items():
        what = [Instr(Value("order"), "load", placed(along), dt.int64)]
        if result == VALUES:
            what += [
                Instr(Value("position"), "indirect_index", (Value("order"), sympy.Integer(row)), dt.int64),
                read(symbol("position")),
            ]
        place = _place(shape, contiguous_strides(shape), dim, along)
        what.append(Instr("", "store", (name, place, Value("value" if result == VALUES else "order")), None))
        nests.append(LoopNest(name, outer, (shape[dim],), tuple(what), step.origins))
    return tuple(nests)


def _place(shape: Sequence[int], strides: Sequence[int], dim: int, along: Any) -> Any:
    """Where a point of a row lies: a loop for each other dimension of more than one element."""
    others = [s for d, (n, s) in enumerate(zip(shape, strides, strict=True)) if d != dim and n != 1]
    at = (s * symbol(f"i{k}") for k, s in enumerate(others))
    return sympy.expand(sum(at, sympy.Integer(0)) + strides[dim] * along)
