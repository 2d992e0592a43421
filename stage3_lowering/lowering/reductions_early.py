"""The pass `reductions_early`: on a GPU a reduction runs as soon as what it reads is there, and still in the cache.

Input: a Program whose long reductions are in two levels. The sums of a backward wait for nothing but one matrix, and
the order of the graph leaves them to its end, when that matrix has to come from memory again.
"""

from __future__ import annotations

import math
from typing import Any

from stage3_lowering.lowering.step_uses import step_uses
from stage_contracts.program import Launch, Program, Target
from stage_contracts.size_vars import is_open

FEW_POINTS = 1 << 16


def reductions_early(program: Program, target: Target) -> Program:
    """The program, each reduction behind the last step that writes what it reads."""
    if target.name != "triton":
        return program
    uses, written = step_uses(program), dict[str, int]()
    after: dict[int, list[Any]] = {}  # the steps that come behind each of those that stay
    order: list[int] = []
    for number, step in enumerate(program.steps):
        behind = max((written.get(name, -1) for name in uses.reads(number)), default=-1)
        early = behind >= 0 and _reduces(program, step) or _is_small(program, step)
        if early:
            after.setdefault(behind, []).append(step)
        else:
            order.append(number)
        written |= dict.fromkeys(uses.writes(number), behind if early else number)
    steps = [step for number in order for step in (program.steps[number], *after.get(number, ()))]
    return program.with_(steps=(*after.get(-1, ()), *steps))


def _is_small(program: Program, step: Any) -> bool:
    """Whether it is a kernel of few points, all known, such as the values of each row that a reduction waits for."""
    if not isinstance(step, Launch) or (kernel := program.kernels[step.kernel]).template or kernel.rows:
        return False
    sizes = kernel.nests[0].ranges
    if kernel.sizes or any(nest.reduction_ranges for nest in kernel.nests):
        return False
    return not any(map(is_open, sizes)) and math.prod(sizes) <= FEW_POINTS


def _reduces(program: Program, step: Any) -> bool:
    """Whether it is a reduction that makes much less of what it reads."""
    if not isinstance(step, Launch) or (kernel := program.kernels[step.kernel]).template or kernel.rows:
        return False
    return all(nest.reduction_ranges for nest in kernel.nests) and not kernel.row_buffers
