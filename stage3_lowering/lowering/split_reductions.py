"""The pass `split_reductions`: a reduction with few points runs in two levels, so that a whole GPU works on it.

Input: a Program for a GPU, before its kernels have schedules. The first kernel reduces parts of each row into a
temporary, a second one reduces the parts. No atomics: a sum has the same bits on every run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.row_values import kernel_of, moved_to, one_fixed_reduction
from stage3_lowering.lowering.triton_blocks import COLUMN_BLOCK, COLUMNS, column_loop
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Buffer, Kernel, Launch, Program, Target
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

INSTANCES = 1056  # of a kernel that keeps a GPU of 132 multiprocessors busy: eight each
SMALLEST_PART = 2048  # elements that are worth an instance
KINDS = ("sum", "prod", "amax", "amin", "any", "all")


def split_reductions(program: Program, target: Target) -> Program:
    """The program, each launch of a reduction with few points and long rows as two launches."""
    if target.name != "triton":
        return program
    steps: list[Any] = []
    kernels, buffers = dict(program.kernels), dict(program.buffers)
    for step in program.steps:
        kernel = program.kernels[step.kernel] if isinstance(step, Launch) else None
        own = kernel is not None and not kernel.template and step.buffers == kernel.params
        parts = parts_of(kernel) if kernel is not None and own else None
        if kernel is None or parts is None:
            steps.append(step)
            continue
        first, second, made = two_levels(kernel, *parts, buffers)
        if kernel.name in kernels:
            del kernels[kernel.name]
        kernels |= {first.name: first, second.name: second}
        buffers |= made
        steps += [
            Launch(first.name, first.params, step.stream),
            Launch(second.name, second.params, step.stream),
        ]
    used = {step.kernel for step in steps if isinstance(step, Launch)}
    kept = {name: kernel for name, kernel in kernels.items() if name in used}
    return program.with_(kernels=kept, buffers=buffers, steps=tuple(steps))


def parts_of(kernel: Kernel) -> tuple[int, int] | None:
    """(reduction loop, number of parts) of a kernel that should be split; None where it should stay whole, or must."""
    nest = kernel.nests[0]
    if not one_fixed_reduction(kernel) or not separable(nest):
        return None
    points, row = math.prod(nest.ranges), math.prod(nest.reduction_ranges)
    columns = column_loop(kernel) is not None
    instances = -(-points // min(COLUMNS, points)) if columns else points
    smallest = 4 * COLUMN_BLOCK if columns else SMALLEST_PART
    loop = max(range(len(nest.reduction_ranges)), key=lambda k: nest.reduction_ranges[k])
    size = nest.reduction_ranges[loop]
    wanted = min(INSTANCES // instances, row // smallest, size // 2)
    if wanted < 2:
        return None
    exact = [n for n in (*range(wanted, 2 * wanted + 1), *range(wanted, wanted // 2, -1)) if size % n == 0]
    return (loop, exact[0]) if exact else None


def separable(nest: LoopNest) -> bool:
    """Whether what follows the reductions needs nothing else of the rows, and nothing is stored along them."""
    inner, outer = nest.body[: nest.split], nest.body[nest.split :]
    reduced = {i.name for i in inner if i.op == "reduction"}
    plain = {i.name for i in inner} - reduced
    if any(i.op in ("store", "scan", "indirect_index") for i in inner):
        return False
    if any(i.op == "reduction" and i.args[0] not in KINDS for i in inner):
        return False
    used = {str(a) for i in outer for a in i.args if isinstance(a, Value)}
    used |= {s.name for i in outer for a in i.args for s in getattr(a, "free_symbols", ())}
    return not used & plain


def two_levels(
    kernel: Kernel, loop: int, parts: int, buffers: Mapping[str, Buffer]
) -> tuple[Kernel, Kernel, dict[str, Buffer]]:
    """The kernel that reduces parts, the one that reduces those, and the buffers between them."""
    (nest,) = kernel.nests
    part = nest.reduction_ranges[loop] // parts
    inner, outer = nest.body[: nest.split], nest.body[nest.split :]
    shape = (parts, *nest.ranges)
    rank = len(nest.ranges)
    # in the first kernel i0 is the part, and the points follow
    moved = {symbol(f"i{k}"): symbol(f"i{k + 1}") for k in range(rank)}
    moved[symbol(f"r{loop}")] = part * symbol("i0") + symbol(f"r{loop}")
    strides = contiguous_strides(shape)
    place = sum((s * symbol(f"i{k}") for k, s in enumerate(strides)), start=symbol("i0") * 0)
    origin = sum((s * symbol(f"i{k}") for k, s in enumerate(strides[1:])), start=symbol("i0") * 0)
    origin += strides[0] * symbol("r0")
    first, second, made = [moved_to(i, moved) for i in inner], list[Instr](), dict[str, Buffer]()
    device = next(iter(buffers.values())).meta.device
    for instr in inner:
        if instr.op != "reduction":
            continue
        assert instr.dtype is not None
        name = f"{kernel.name}_{instr.name}_parts"
        name += "_of_parts" * (name in buffers)
        value, of = Value(f"{instr.name}_part"), instr.dtype
        made[name] = Buffer(name, TensorMeta(shape, of, strides, device), "temporary")
        first.append(Instr("", "store", (name, place, Value(instr.name)), None, instr.origins))
        second.append(Instr(value, "load", (name, origin), of, instr.origins))
        second.append(replace(instr, args=(instr.args[0], value)))
    second.sort(key=lambda i: i.op == "reduction")
    smaller = (*nest.reduction_ranges[:loop], part, *nest.reduction_ranges[loop + 1 :])
    one = LoopNest(next(reversed(made)), shape, smaller, tuple(first), nest.origins)
    two = LoopNest(nest.name, nest.ranges, (parts,), (*second, *outer), nest.origins)
    return kernel_of(f"{kernel.name}_in_parts", one), kernel_of(kernel.name, two), made
