"""The seam `fuse`: greedily joins loop nests that may share their loops into one kernel.

Input: lower.py's LoweredGraph. Each nest joins an earlier nest that it shares a buffer with, the one with the most
shared bytes first; schedule.py decides whether it may. merge.py makes a kernel of each group, and side_by_side.py makes
one kernel of kernels that do the same work. The result is a Program without memory or source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stage3_lowering.lowering.additions_in_place import additions_in_place
from stage3_lowering.lowering.collectives import called, overlap
from stage3_lowering.lowering.legality import nests_of, read_by, scheduler_node, written_by
from stage3_lowering.lowering.merge import build_kernel
from stage3_lowering.lowering.schedule import Schedule
from stage3_lowering.lowering.side_by_side import refusal, side_by_side
from stage3_lowering.lowering.spaces import normalise
from stage3_lowering.verify import verify_pass
from stage_contracts import config
from stage_contracts.device import CPU
from stage_contracts.loop_ir import ExternCall, LoopNest, LoweredGraph, buffer_refs
from stage_contracts.passes import Pass, PassTable, keep_made
from stage_contracts.program import (
    Buffer,
    Kernel,
    Launch,
    Program,
    Return,
    step_accesses,
)
from stage_contracts.scheduler_ir import FusedSchedulerNode, FusionDecision
from stage_contracts.size_vars import late_sizes


def fuse(lowered: LoweredGraph) -> Program:
    """Group loop nests into kernels and order the steps: a Program without memory or source."""
    return FUSE.run_as_configured(lowered, verify=verify_pass)


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


# ---- the passes --------------------------------------------------------------------------------------


def unused_nests(lowered: LoweredGraph) -> LoweredGraph:
    """The graph without the nests that nothing reads. A call is kept: it may raise."""
    wanted = {ref.name for ref in buffer_refs(lowered.outputs)}
    kept: list[LoopNest | ExternCall] = []
    for node in reversed(lowered.nodes):
        if isinstance(node, ExternCall) or node.name in wanted:
            wanted.update(node.reads)
            kept.append(node)
    return replace(lowered, nodes=tuple(kept[::-1]))


def common_loops(lowered: LoweredGraph) -> LoweredGraph:
    """The graph with every nest over as few loops as can be."""
    nodes = tuple(n if isinstance(n, ExternCall) else normalise(n) for n in lowered.nodes)
    return replace(lowered, nodes=nodes)


@dataclass(frozen=True)
class Grouped:
    """The nests of a graph in groups that become a kernel each, and every decision on the way."""

    lowered: LoweredGraph
    ordered: tuple[FusedSchedulerNode, ...]  # as they will run
    decisions: tuple[FusionDecision, ...]

    def in_order(self) -> LoweredGraph:
        """The same graph, its nodes in the order of the groups."""
        nodes = tuple(node.node for group in self.ordered for node in group.nodes)
        return replace(self.lowered, nodes=nodes)

    def verify(self) -> Grouped:
        self.in_order().verify()
        return self

    def __str__(self) -> str:
        groups = [" ".join(node.name for node in group.nodes) for group in self.ordered]
        decisions = [
            f"# {d.first} with {d.second}: {'fused' if d.fused else 'not fused'}, {d.reason}"
            for d in self.decisions
        ]
        return "\n".join([*groups, *decisions])


def unless_off(function: Callable[[Program], Program]) -> Callable[[Program], Program]:
    """The pass, or nothing where the configuration turns fusion off."""
    return lambda program: function(program) if config.current().lowering.fusion else program


def groups(lowered: LoweredGraph) -> Grouped:
    """Each nest joined to the earlier ones it may share loops with. A round is one nest against all of those."""
    nodes = [scheduler_node(node) for node in lowered.nodes]
    schedule = Schedule(lowered.buffers, nodes, late_sizes(lowered.sizes, lowered.inputs))

    def so_far() -> Grouped:
        return Grouped(lowered, tuple(schedule.ordered()), tuple(schedule.decisions))

    if config.current().lowering.fusion:
        keep_made("fuse.alone", "each nest alone, before the first round", so_far)
        for node in nodes:
            before = len(schedule.decisions)
            schedule.consider(node)
            if len(schedule.decisions) > before:
                keep_made(f"fuse.round_{node.name}", f"after {node.name} met the groups before it", so_far)
    return so_far()


def kernels_of(grouped: Grouped) -> Program:
    """A kernel for each group, a step for each kernel and call."""
    lowered, ordered = grouped.lowered, grouped.ordered
    outputs = {ref.name for ref in buffer_refs(lowered.outputs)}
    readers = Counter(name for group in ordered for name in read_by(group))
    kernels: dict[str, Kernel] = {}
    steps: list[Any] = []
    for group in ordered:
        node = group.nodes[0].node
        if isinstance(node, ExternCall):
            steps += called(node, steps)
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
    calls = [step for step in steps if not isinstance(step, Launch)]
    alive |= {name for step in calls for names in step_accesses(step, kernels) for name in names}
    buffers = {n: Buffer(n, m, roles.get(n, "temporary")) for n, m in lowered.buffers.items() if n in alive}
    device = next((m.device for m in lowered.buffers.values() if m.device != CPU), CPU)
    program = Program(
        lowered.name, device, lowered.inputs, buffers, kernels, tuple(steps), sizes=lowered.sizes
    )
    return replace(program, decisions=grouped.decisions).verify()


FUSE = PassTable(
    "fuse",
    (
        Pass("unused_nests", unused_nests, "nests that nothing reads go"),
        Pass("common_loops", common_loops, "each nest over as few loops as can be", needed=True),
        Pass("groups", groups, "which nests share their loops, round by round", needed=True),
        Pass("kernels", kernels_of, "a kernel for each group, and the steps in order", needed=True),
        Pass(
            "side_by_side", unless_off(side_by_side), "kernels that do the same work become one, over a table"
        ),
        Pass("overlap", overlap, "collectives start early and are awaited late, in one order"),
        Pass(
            "additions_in_place", additions_in_place, "what is added to is the result's memory", needed=True
        ),
    ),
    (
        ("unused_nests", "groups", "a nest that nothing reads would draw others into its group"),
        ("common_loops", "groups", "only loops written alike are seen to be equal"),
        ("groups", "kernels", "a kernel is a group"),
        ("kernels", "side_by_side", "a row of a table is a kernel"),
        ("side_by_side", "additions_in_place", "it asks which step makes a buffer, and two do then"),
        ("overlap", "additions_in_place", "it asks which step makes a buffer, and two do then"),
        ("side_by_side", "overlap", "a table stands where the last of its rows stood, which may be late"),
    ),
)
