"""The last pass of `fuse`: what a kernel adds to at places is the memory of its result, which another kernel fills.
So is that whose elements it replaces at places.

Input: a Program in which each buffer has one maker: the zeros that are added to, and beside them the sums. No other
step reads those zeros, so their kernel writes them where the sums will be; from here on several steps write that
buffer. Below, "added" stands for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage_contracts.graph import GraphError
from stage_contracts.kernel import Kernel
from stage_contracts.loop_ir import AT_PLACES, LoopNest
from stage_contracts.program import Launch, Program, step_accesses
from stage_contracts.symbolic import same_size
from stage_contracts.tensor_meta import TensorMeta


def additions_in_place(program: Program) -> Program:
    """The program, with one buffer where there were the tensor that is added to and the sum."""
    sums = dict[str, str]()
    for step in program.steps:
        if isinstance(step, Launch) and (starts := _starts(program.kernels[step.kernel])):
            for bound in program.kernels[step.kernel].bindings(step.buffers):
                sums |= {bound[start]: bound[out] for start, out in starts.items()}
    if not sums:
        return program
    _check(program, sums)
    sums = {start: _last(start, sums) for start in sums}
    steps = tuple(
        replace(step, buffers=_buffers(step, program.kernels[step.kernel], sums))
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
        alike = _alike(program.buffers[name].meta, program.buffers[out].meta)
        launches = [isinstance(step, Launch) for step in uses[name]]
        if launches != [True, True] or program.buffers[name].role != "temporary" or not alike:
            raise GraphError(
                f"program {program.name}: {out} is {name} with more added, so {name} has to be a temporary that is "
                f"laid out alike, that one kernel writes and no other step reads; its steps are {uses[name]}"
            )


def _starts(kernel: Kernel) -> dict[str, str]:
    """The params that are added to, and those of their sums, where these are two."""
    instrs = (i for nest in kernel.nests for i in nest.body if i.op in AT_PLACES)
    return {i.args[3]: i.args[0] for i in instrs if i.args[3] != i.args[0]}


def _buffers(step: Launch, kernel: Kernel, sums: Mapping[str, str]) -> tuple[str, ...]:
    """What the step is launched on: in each row of a table, start and sum are one."""
    starts = _starts(kernel)
    shared = len(kernel.params) - len(kernel.columns)
    params = [*kernel.params[:shared], *kernel.columns * max(kernel.rows, 1)]
    pairs = zip(params, step.buffers, strict=True)
    return tuple(sums.get(buffer, buffer) for param, buffer in pairs if param not in starts)


def _alike(one: TensorMeta, other: TensorMeta) -> bool:
    """Whether they are the same memory, though it may be under another shape."""
    return (one.dtype, one.device) == (other.dtype, other.device) and same_size(one.numel, other.numel)


def _on(kernel: Kernel, sums: Mapping[str, str]) -> Kernel:
    """The kernel on the sums' buffers."""
    starts = _starts(kernel)
    if not starts and sums.keys().isdisjoint(kernel.params):
        return kernel
    names = {p: sums.get(p, p) for p in kernel.params} | {p: sums.get(out, out) for p, out in starts.items()}
    params = tuple(names[p] for p in kernel.params if p not in starts)
    columns = tuple(names[p] for p in kernel.columns if p not in starts)
    nests = tuple(_moved(nest, names) for nest in kernel.nests)
    return replace(kernel, nests=nests, params=params, columns=columns)


def _moved(nest: LoopNest, sums: Mapping[str, str]) -> LoopNest:
    body = tuple(
        replace(i, args=tuple(sums.get(a, a) if type(a) is str else a for a in i.args)) for i in nest.body
    )
    return replace(nest, name=sums.get(nest.name, nest.name), body=body)
