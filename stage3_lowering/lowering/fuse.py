"""The seam `fuse`: loop nests that may share their loops become one kernel, greedily.

Input: lower.py's LoweredGraph. Each nest joins the earlier nests it shares a buffer with, the most shared
bytes first; schedule.py says whether it may. merge.py makes a kernel of each group, side_by_side.py one of
kernels that do the same work. The result is a Program without memory or source.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from stage3_lowering.lowering.legality import nests_of, read_by, scheduler_node, written_by
from stage3_lowering.lowering.merge import build_kernel
from stage3_lowering.lowering.schedule import Schedule
from stage3_lowering.lowering.side_by_side import refusal, side_by_side
from stage3_lowering.lowering.spaces import normalise
from stage_contracts import config
from stage_contracts.device import CPU
from stage_contracts.loop_ir import ExternCall, LoopNest, LoweredGraph, buffer_refs
from stage_contracts.program import Buffer, External, Kernel, Launch, Program, Return, step_accesses


def fuse(lowered: LoweredGraph) -> Program:
    """Group loop nests into kernels and order the steps: a Program without memory or source."""
    nodes = [scheduler_node(n if isinstance(n, ExternCall) else normalise(n)) for n in _used(lowered)]
    schedule = Schedule(lowered.buffers, nodes)
    if config.current().lowering.fusion:
        for node in nodes:
            schedule.consider(node)
        return side_by_side(_program(lowered, schedule)).verify()
    return _program(lowered, schedule)


def why_not_fused(program: Program, a: str, b: str) -> str:
    """The code of the refusal (scheduler_ir.REFUSALS) that keeps the buffers `a` and `b` in two kernels; "" if none.

    The last decision that was about both of them counts.
    """
    for step in program.steps:
        if isinstance(step, Launch):
            kernel = program.kernels[step.kernel]
            inside = {*kernel.internal, *step_accesses(step, program.kernels)[1]}
            if {a, b} <= inside:
                return ""
    about = lambda d, x, y: x in d.first.split("_") and y in d.second.split("_")  # noqa: E731
    found = [d for d in program.decisions if about(d, a, b) or about(d, b, a)]
    return found[-1].code if found else refusal(program, a, b)


def _used(lowered: LoweredGraph) -> list[LoopNest | ExternCall]:
    """The nodes without the nests nobody reads. A call is kept: it may raise."""
    wanted = {ref.name for ref in buffer_refs(lowered.outputs)}
    kept: list[LoopNest | ExternCall] = []
    for node in reversed(lowered.nodes):
        if isinstance(node, ExternCall) or node.name in wanted:
            wanted.update(node.reads)
            kept.append(node)
    return kept[::-1]


# ---- the program -------------------------------------------------------------------------------------


def _program(lowered: LoweredGraph, schedule: Schedule) -> Program:
    outputs = {ref.name for ref in buffer_refs(lowered.outputs)}
    groups = schedule.ordered()
    readers = Counter(name for group in groups for name in read_by(group))
    kernels: dict[str, Kernel] = {}
    steps: list[Any] = []
    for group in groups:
        node = group.nodes[0].node
        if isinstance(node, ExternCall):
            steps.append(External(node.target, node.args, node.kwargs, node.outputs, origins=node.origins))
            continue
        mine = read_by(group)
        needed = outputs | {name for name in written_by(group) if readers[name] > (name in mine)}
        kernel = build_kernel(len(kernels), nests_of(group), needed, lowered.buffers)
        kernels[kernel.name] = kernel
        steps.append(Launch(kernel.name, kernel.params))
    steps.append(Return(lowered.outputs))
    roles = {**dict.fromkeys(outputs, "output"), **dict.fromkeys(lowered.constants, "constant")}
    roles |= dict.fromkeys(lowered.inputs, "input")
    alive = {*lowered.inputs, *lowered.constants, *(p for k in kernels.values() for p in k.params)}
    alive |= {name for step in steps if isinstance(step, External) for name in step.outputs}
    buffers = {n: Buffer(n, m, roles.get(n, "temporary")) for n, m in lowered.buffers.items() if n in alive}
    device = next((m.device for m in lowered.buffers.values() if m.device != CPU), CPU)
    decisions = tuple(schedule.decisions)
    return Program(
        lowered.name, device, lowered.inputs, buffers, kernels, tuple(steps), (), (), decisions, lowered.sizes
    ).verify()
