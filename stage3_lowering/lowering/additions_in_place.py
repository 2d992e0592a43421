"""The last pass of `fuse`: what a kernel adds to at places is the memory of its result, which another kernel fills.
So is that whose elements it replaces at places.

Input: a Program in which each buffer has one maker: the zeros that are added to, and beside them the sums. No other
step reads those zeros, so their kernel writes them where the sums will be; from here on two steps write that buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage_contracts.graph import GraphError
from stage_contracts.kernel import Kernel
from stage_contracts.loop_ir import AT_PLACES, LoopNest
from stage_contracts.program import Launch, Program, step_accesses


def additions_in_place(program: Program) -> Program:
    """The program, with one buffer where there were the tensor that is added to and the sum."""
    instrs = [i for k in program.kernels.values() for nest in k.nests for i in nest.body]
    sums = {i.args[3]: i.args[0] for i in instrs if i.op in AT_PLACES and i.args[3] != i.args[0]}
    if not sums:
        return program
    _check(program, sums)
    sums = {start: _last(start, sums) for start in sums}
    steps = tuple(
        replace(step, buffers=tuple(dict.fromkeys(sums.get(name, name) for name in step.buffers)))
        if isinstance(step, Launch) and not sums.keys().isdisjoint(step.buffers)
        else step
        for step in program.steps
    )
    return program.with_(
        kernels={name: _on(kernel, sums) for name, kernel in program.kernels.items()},
        steps=steps,
        buffers={name: buffer for name, buffer in program.buffers.items() if name not in sums},
    )


def _last(name: str, sums: Mapping[str, str]) -> str:
    """What it has become when all is added: the sum may itself be added to."""
    while name in sums:
        name = sums[name]
    return name


def _check(program: Program, sums: Mapping[str, str]) -> None:
    """Each tensor that is added to is a temporary of one kernel, which only the kernel that adds to it reads."""
    uses: dict[str, list[Any]] = {name: [] for name in sums}
    for step in program.steps:
        for names in step_accesses(step, program.kernels):
            for name in sums.keys() & {*names}:
                uses[name].append(step)
    for name, out in sums.items():
        alike = program.buffers[name].meta == program.buffers[out].meta
        launches = [isinstance(step, Launch) for step in uses[name]]
        if launches != [True, True] or program.buffers[name].role != "temporary" or not alike:
            raise GraphError(
                f"program {program.name}: {out} is {name} with more added, so {name} has to be a temporary that is "
                f"laid out alike, that one kernel writes and no other step reads; its steps are {uses[name]}"
            )


def _on(kernel: Kernel, sums: Mapping[str, str]) -> Kernel:
    """The kernel on the sums' buffers."""
    if sums.keys().isdisjoint(kernel.params):
        return kernel
    params = tuple(dict.fromkeys(sums.get(name, name) for name in kernel.params))
    columns = tuple(sums.get(name, name) for name in kernel.columns)
    nests = tuple(_moved(nest, sums) for nest in kernel.nests)
    return replace(kernel, nests=nests, params=params, columns=columns)


def _moved(nest: LoopNest, sums: Mapping[str, str]) -> LoopNest:
    body = tuple(
        replace(i, args=tuple(sums.get(a, a) if type(a) is str else a for a in i.args)) for i in nest.body
    )
    return replace(nest, name=sums.get(nest.name, nest.name), body=body)
