"""Who uses which buffer, for the passes that look around a step: one table of a program, made once.

Input: a Program with kernels and calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from stage_contracts.program import Program, step_accesses

OUTSIDE = -1  # stands for whoever uses an input, an output or a constant besides the steps

Names = tuple[str, ...]


@dataclass(frozen=True)
class StepUses:
    """`accesses`: (buffers read, buffers written) of each step. `users`: buffer -> the numbers of the steps."""

    program: Program
    accesses: tuple[tuple[Names, Names], ...]
    users: Mapping[str, frozenset[int]]

    def reads(self, number: int) -> Names:
        return self.accesses[number][0]

    def writes(self, number: int) -> Names:
        return self.accesses[number][1]


def step_uses(program: Program) -> StepUses:
    accesses = tuple(step_accesses(step, program.kernels) for step in program.steps)
    users: dict[str, set[int]] = defaultdict(set)
    for number, (reads, writes) in enumerate(accesses):
        for name in (*reads, *writes):
            users[name].add(number)
    for name, buffer in program.buffers.items():
        if buffer.role != "temporary":
            users[name].add(OUTSIDE)
    return StepUses(program, accesses, {name: frozenset(found) for name, found in users.items()})
