"""The pass `row_values`: what a reduction over columns computes from each row's number alone is computed once a row.

Input: a Program for a GPU, before its kernels have schedules. Lowering recomputes what is cheap, and for a row of
elements that is right; a block of columns would repeat a root and two divisions for each of its elements. A first
kernel with a point per row writes those values, and the reduction loads them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.cpp_ops import COSTS
from stage3_lowering.lowering.triton_blocks import column_loop
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Buffer, Kernel, Launch, Program, Target
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

FEWEST_COLUMNS = 64
WORTH = 8  # additions that a row's values must cost


def row_values(program: Program, target: Target) -> Program:
    """The program, each such reduction behind a kernel that computes what is the same for all of its columns."""
    if target.name != "triton":
        return program
    steps: list[Any] = []
    kernels, buffers = dict(program.kernels), dict(program.buffers)
    for step in program.steps:
        kernel = program.kernels[step.kernel] if isinstance(step, Launch) else None
        if kernel is None or kernel.template or step.buffers != kernel.params:
            steps.append(step)
            continue
        if alike := _alike(kernel):
            first, kernels[kernel.name], made = _apart(kernel, alike, program.device)
            kernels[first.name] = first
            buffers |= made
            steps.append(Launch(first.name, first.params, step.stream))
            step = replace(step, buffers=kernels[kernel.name].params)
        steps.append(step)
    return program.with_(kernels=kernels, buffers=buffers, steps=tuple(steps))


def _alike(kernel: Kernel) -> list[Instr]:
    """The instructions that are the same for every column; none where they cost little."""
    nest = kernel.nests[0]
    if not one_fixed_reduction(kernel) or math.prod(nest.ranges) < FEWEST_COLUMNS:
        return []
    if column_loop(kernel) is None:
        return []
    rows = {f"r{k}" for k in range(len(nest.reduction_ranges))}
    found: dict[str, Instr] = {}
    for instr in nest.body[: nest.split]:
        if instr.op not in _BOUND and all(n in found or n in rows for n in _read(instr)):
            found[instr.name] = instr
    cost = sum(COSTS.get(i.op, 1) for i in found.values() if i.op not in ("load", "constant"))
    reads = any(i.op == "load" for i in found.values())
    return list(found.values()) if cost >= WORTH and reads else []


_BOUND = ("store", "reduction", "scan", "indirect_index", "random_bits")  # these stay where they are


def _read(instr: Instr) -> set[str]:
    """The values and loops that an instruction reads, by name."""
    values = {str(a) for a in instr.args if isinstance(a, Value)}
    return values | {s.name for a in instr.args for s in getattr(a, "free_symbols", ())}


def one_fixed_reduction(kernel: Kernel) -> bool:
    """Whether the kernel is one nest with reductions, all of its sizes known, and nothing kept inside."""
    nest = kernel.nests[0]
    alone = len(kernel.nests) == 1 and not kernel.rows and not kernel.internal
    sizes = (*nest.ranges, *nest.reduction_ranges)
    return alone and bool(nest.reduction_ranges) and all(isinstance(n, int) and n > 0 for n in sizes)


def _apart(kernel: Kernel, alike: list[Instr], device: Any) -> tuple[Kernel, Kernel, dict[str, Buffer]]:
    """The kernel of the rows' values, the one that loads them, and the buffers between the two."""
    (nest,) = kernel.nests
    names = {instr.name for instr in alike}
    rest = [i for i in nest.body if i.name not in names]
    used = {name for instr in rest for name in _read(instr)}
    strides = contiguous_strides(nest.reduction_ranges)
    place = sum((s * symbol(f"r{k}") for k, s in enumerate(strides)), start=0 * symbol("r0"))
    moved = {symbol(f"r{k}"): symbol(f"i{k}") for k in range(len(strides))}
    first, loads, made = [moved_to(i, moved) for i in alike], list[Instr](), dict[str, Buffer]()
    for instr in alike:
        if instr.name not in used:
            continue
        if instr.op == "constant":
            loads.append(instr)
            continue
        assert instr.dtype is not None
        name = f"{kernel.name}_{instr.name}_rows"
        made[name] = Buffer(
            name, TensorMeta(nest.reduction_ranges, instr.dtype, strides, device), "temporary"
        )
        at = place.xreplace(moved)
        first.append(Instr("", "store", (name, at, Value(instr.name)), None, instr.origins))
        loads.append(replace(instr, op="load", args=(name, place)))
    one = LoopNest(next(reversed(made)), nest.reduction_ranges, (), tuple(first), nest.origins)
    two = replace(nest, body=(*loads, *rest))
    return kernel_of(f"{kernel.name}_rows", one), kernel_of(kernel.name, two), made


def moved_to(instr: Instr, moved: dict[Any, Any]) -> Instr:
    """The instruction with other loops in its indices."""
    args = [a.xreplace(moved) if hasattr(a, "xreplace") else a for a in instr.args]
    return replace(instr, args=tuple(args))


def kernel_of(name: str, nest: LoopNest) -> Kernel:
    """A kernel of one nest, its parameters in the order of their use."""
    params = dict.fromkeys((*(n for n in nest.reads if n not in nest.writes), *nest.writes))
    return Kernel(name, (nest,), tuple(params))
