"""The pass `attention_row_sums`: a sum over each row's elements that a gradient of attention reads first is made by it.

Input: a Program after the pass `attention_backward`. The sum of a row's result times its gradient (the delta of
FlashAttention-2, Dao, 2023) is a kernel of its own, which reads what the kernel over queries has to load anyway. That
one keeps it in memory where a later step, the kernel over keys, reads it too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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
            kernel = _with_sum(kernel, nest, kept=uses.users[nest.name] != {at, number})
            steps[at] = None
        kernels[kernel.name], steps[number] = kernel, replace(step, buffers=kernel.params)
    return _of(program, kernels, [s for s in steps if s is not None])


def _of(program: Program, kernels: Mapping[str, Kernel], steps: Sequence[Any]) -> Program:
    """These steps, with the kernels that they launch and the buffers that are still in memory."""
    used = {s.kernel for s in steps if isinstance(s, Launch)}
    inner = {name for n in used for name in kernels[n].internal}
    buffers = {n: b for n, b in program.buffers.items() if n not in inner}
    return program.with_(
        kernels={n: kernels[n] for n in kernels if n in used}, buffers=buffers, steps=tuple(steps)
    )


def _makers(uses: StepUses, number: int, kernel: Kernel) -> list[int]:
    """The steps before this one that only add up rows for it."""
    found = []
    for name in uses.reads(number):
        makers = [n for n in uses.users[name] if n >= 0 and n != number and name in uses.writes(n)]
        others = uses.users[name] - {*makers, number}
        if len(makers) != 1 or makers[0] > number or any(n < number for n in others):
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
    if made is None or made.template or made.rows or made.sizes or made.params != step.buffers:
        return False
    *batch, rows, _ = kernel.nests[0].ranges
    whole = (*batch, rows)
    alone = len(made.nests) == 1 and made.nests[0].ranges in (whole, (math.prod(whole),))
    return alone and _adds_up(made.nests[0])


def _adds_up(nest: LoopNest) -> bool:
    """Whether it stores, where its own point lies, a float32 sum over one loop, and nothing else."""
    reductions = [i for i in nest.body if i.op == "reduction"]
    stores = [i for i in nest.body if i.op == "store"]
    place = sum(s * symbol(f"i{k}") for k, s in enumerate(contiguous_strides(nest.ranges)))
    return (
        len(nest.reduction_ranges) == 1
        and {*nest.ops} <= {"load", "cast", "mul", "reduction", "store"}
        and [(i.args[0], i.dtype) for i in reductions] == [("sum", dt.float32)]
        and [(s.args[1] - place, s.args[2]) for s in stores] == [(0, reductions[0].name)]
    )


def _with_sum(kernel: Kernel, nest: LoopNest, kept: bool) -> Kernel:
    """The kernel with that nest after its first two, the products whose rows it shares. `kept`: it writes the sums."""
    (name,) = nest.writes
    first, rest = kernel.nests[:2], kernel.nests[2:]
    params = tuple(dict.fromkeys((*nest.reads, *(p for p in kernel.params if kept or p != name))))
    internal = kernel.internal if kept else (*kernel.internal, name)
    return replace(kernel, nests=(*first, nest, *rest), params=params, internal=internal)
