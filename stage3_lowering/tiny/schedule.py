"""The seam `schedule` on one screen: every kernel runs its loops as written, on one thread.

Input: fuse.py's Program. The order of loops changes no value, so this schedule is correct, and slow.
"""

from __future__ import annotations

from dataclasses import replace

from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.program import Kernel, Program, Target


def schedule(program: Program, target: Target) -> Program:
    """The program, each of its kernels with a schedule."""
    return program.with_(kernels={name: as_written(kernel) for name, kernel in program.kernels.items()})


def as_written(kernel: Kernel) -> Kernel:
    order = tuple(str(v) for v in kernel.nests[0].loop_variables)
    inner = [str(v) for nest in kernel.nests for v in nest.reduction_variables]
    vector = inner[-1] if inner else order[-1] if order else ""
    return replace(kernel, schedule=KernelSchedule(order, vector=vector))
