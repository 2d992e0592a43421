"""The pass `reductions_together`: short reductions that only the caller waits for run in one launch on a GPU.

Input: a Program whose long reductions are in two levels. The second levels of a model's gradients, one for each bias
and gain, take two microseconds each, and their launches as long again. Those that do the same on other buffers become
one kernel; triton_together.py writes it. What they read is small, so little memory waits for the last of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from stage3_lowering.lowering.row_values import one_fixed_reduction
from stage3_lowering.lowering.share_kernels import buffer_words, nest_form
from stage3_lowering.lowering.step_uses import StepUses, step_uses
from stage_contracts.program import Kernel, Launch, Program, Return, Target

TEMPLATE = "together"
LONGEST_ROW = 256  # elements of a reduction: registers hold the row
MOST_READ = 1 << 20  # elements that one of them reads
MOST_PARAMS = 96  # pointers of a kernel, out of 4 kB of parameters


def reductions_together(program: Program, target: Target) -> Program:
    """The program, each set of such reductions in one launch, where the last of them was."""
    if target.name != "triton":
        return program
    uses = step_uses(program)
    alike: dict[Any, list[int]] = defaultdict(list)
    for number, step in enumerate(program.steps):
        if isinstance(step, Launch) and _is_short(uses, number, program.kernels[step.kernel]):
            alike[_form(program, program.kernels[step.kernel])].append(number)
    steps: list[Any] = [*program.steps]
    kernels = dict(program.kernels)
    for numbers in alike.values():
        most = MOST_PARAMS // len(program.steps[numbers[0]].buffers)
        for k in range(0, len(numbers), most):
            _join(program, numbers[k : k + most], steps, kernels)
    return program.with_(kernels=kernels, steps=tuple(s for s in steps if s is not None))


def _is_short(uses: StepUses, number: int, kernel: Kernel) -> bool:
    """Whether a launch reduces short rows, all of it known, and no step reads the result."""
    if kernel.template or kernel.sizes or uses.program.steps[number].buffers != kernel.params:
        return False
    if not one_fixed_reduction(kernel):
        return False
    nest = kernel.nests[0]
    row = math.prod(nest.reduction_ranges)
    if row > LONGEST_ROW or row * math.prod(nest.ranges) > MOST_READ or not nest.ranges:
        return False
    if any(i.op in ("indirect_index", "scan", "random_bits") for i in nest.body):
        return False
    steps = uses.program.steps
    readers = {n for name in nest.writes for n in uses.users[name] if n >= 0} - {number}
    return all(isinstance(steps[n], Return) for n in readers)


def _form(program: Program, kernel: Kernel) -> Any:
    types = tuple(program.buffers[name].meta.dtype for name in kernel.params)
    return types, nest_form(kernel.nests[0], buffer_words(kernel))


def _join(program: Program, numbers: Sequence[int], steps: list[Any], kernels: dict[str, Kernel]) -> None:
    """One launch in the place of the last of these."""
    own = [program.kernels[program.steps[n].kernel] for n in numbers]
    if len({k.name for k in own}) < max(2, len(own)):
        return
    params = tuple(name for kernel in own for name in kernel.params)
    if len({*params}) < len(params):
        return
    nests = tuple(nest for kernel in own for nest in kernel.nests)
    made = Kernel(f"{own[0].name}_together", nests, params, template=TEMPLATE)
    for number, kernel in zip(numbers, own, strict=True):
        steps[number] = None
        del kernels[kernel.name]
    steps[numbers[-1]] = Launch(made.name, made.params)
    kernels[made.name] = made
