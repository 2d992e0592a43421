"""The pass `attention_row_sums`: a sum over each row's elements that only a gradient of attention reads is made by it.

Input: a Program after the pass `attention_backward`. The sum of a row's result times its gradient (the delta of
FlashAttention-2, Dao, 2023) is a kernel of its own, which reads what the kernel over queries has to load anyway.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stage3_lowering.lowering.attention_backward import BY_ROWS
from stage3_lowering.lowering.step_uses import StepUses, step_uses
from stage_contracts import dtype as dt
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.program import Kernel, Launch, Program, Target
from stage_contracts.tensor_meta import contiguous_strides


def attention_row_sums(program: Program, target: Target) -> Program:
    """The program without kernels whose sums a gradient of attention makes itself."""
    if target.name != "triton" or not any(k.template == BY_ROWS for k in program.kernels.values()):
        return program
    uses = step_uses(program)
    kernels, steps = dict(program.kernels), list(program.steps)
    for number, step in enumerate(program.steps):
        kernel = program.kernels[step.kernel] if isinstance(step, Launch) else None
        if kernel is None or kernel.template != BY_ROWS or kernel.params != step.buffers:
            continue
        for at in _makers(uses, number, kernel):
            nest = program.kernels[program.steps[at].kernel].nests[0]
            kernel = _with_sum(kernel, nest)
            steps[at] = None
        kernels[kernel.name], steps[number] = kernel, replace(step, buffers=kernel.params)
    left = tuple(s for s in steps if s is not None)
    used = {s.kernel for s in left if isinstance(s, Launch)}
    inner = {name for n in used for name in kernels[n].internal}
    return program.with_(
        kernels={n: k for n, k in kernels.items() if n in used},
        buffers={n: b for n, b in program.buffers.items() if n not in inner},
        steps=left,
    )


def _makers(uses: StepUses, number: int, kernel: Kernel) -> list[int]:
    """The steps before this one that only add up rows for it."""
    found = []
    for name in uses.reads(number):
        makers = [n for n in uses.users[name] if n >= 0 and n != number and name in uses.writes(n)]
        if len(makers) != 1 or uses.users[name] != {makers[0], number} or makers[0] > number:
            continue
        read = {*uses.reads(makers[0])}
        between = range(makers[0] + 1, number)
        if _is_sum(uses.program, makers[0], kernel) and not any(read & {*uses.writes(n)} for n in between):
            found.append(makers[0])
    return found


def _is_sum(program: Program, number: int, kernel: Kernel) -> bool:
    """Whether a step does nothing but add up rows of the queries, one sum for each, as the template can write it."""
    step = program.steps[number]
    made = program.kernels[step.kernel] if isinstance(step, Launch) else None
    if (
        made is None
        or made.template
        or made.rows
        or made.sizes
        or made.params != step.buffers
        or len(made.nests) != 1
    ):
        return False
    nest = made.nests[0]
    *batch, rows, _ = kernel.nests[0].ranges
    whole, flat = (*batch, rows), (math.prod((*batch, rows)),)
    if nest.ranges not in (whole, flat) or len(nest.reduction_ranges) != 1:
        return False
    reductions = [i for i in nest.body if i.op == "reduction"]
    stores = [i for i in nest.body if i.op == "store"]
    place = sum(s * symbol(f"i{k}") for k, s in enumerate(contiguous_strides(nest.ranges)))
    return (
        [(i.args[0], i.dtype) for i in reductions] == [("sum", dt.float32)]
        and [(s.args[1] - place, s.args[2]) for s in stores] == [(0, reductions[0].name)]
        and {*nest.ops} <= {"load", "cast", "mul", "reduction", "store"}
    )


def _with_sum(kernel: Kernel, nest: LoopNest) -> Kernel:
    """The kernel with that nest after its first two, the products whose rows it shares."""
    (name,) = nest.writes
    first, rest = kernel.nests[:2], kernel.nests[2:]
    params = tuple(dict.fromkeys((*nest.reads, *(p for p in kernel.params if p != name))))
    return replace(kernel, nests=(*first, nest, *rest), params=params, internal=(*kernel.internal, name))
