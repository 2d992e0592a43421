"""Tiny fuse: greedily joins nests with equal loops into one kernel; values used only inside it never reach memory.

Input: lower.py's LoweredGraph. Bodies are pasted one after the other. A load of an element that the body has already
loaded or stored becomes that value. A store that nothing outside the kernel reads is removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy

from stage_contracts.device import CPU
from stage_contracts.events import record
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import ExternCall, Instr, LoopNest, LoweredGraph, Value, buffer_refs
from stage_contracts.program import Buffer, External, Kernel, Launch, Program, Return
from stage_contracts.scheduler_ir import FusionDecision

Group = LoopNest | ExternCall


def fuse(lowered: LoweredGraph) -> Program:
    """Group loop nests into kernels and order the steps: a Program without memory or source."""
    # lab: begin fuse
    outputs = {ref.name for ref in buffer_refs(lowered.outputs)}
    groups: list[Group] = []  # in the order they will run
    decisions: list[FusionDecision] = []
    for node in used(lowered, outputs):
        groups.append(node)
        at = len(groups) - 1
        for name in node.reads:
            for k in [k for k in range(at) if name in groups[k].writes]:
                merged, reason = merge(groups[k], groups[at])
                spot = place(groups, k, at)
                if spot is None:
                    merged, reason = None, "another step has to run between them"
                names, saved = (groups[k].name, groups[at].name), float(lowered.buffers[name].nbytes)
                decisions.append(FusionDecision(*names, merged is not None, reason, saved))
                record("fusion", reason, first=names[0], second=names[1], fused=merged is not None)
                if merged and spot is not None:
                    groups[spot] = merged
                    del groups[k + at - spot]
                    at = spot - (spot == at)
    return program(lowered, groups, outputs, tuple(decisions))
    # lab: end


def used(lowered: LoweredGraph, outputs: set[str]) -> list[Group]:
    """The nodes without the nests that nothing reads. A call stays: it may raise."""
    wanted, kept = set(outputs), list[Group]()
    for node in reversed(lowered.nodes):
        if isinstance(node, ExternCall) or node.name in wanted:
            wanted.update(node.reads)
            kept.append(node)
    return kept[::-1]


def place(groups: list[Group], first: int, second: int) -> int | None:
    """Where the two can run as one: `first` sinks past what is between, or `second` rises, or neither may."""
    # lab: begin place
    between = groups[first + 1 : second]
    if not any(set(groups[first].writes) & set(g.reads) for g in between):
        return second
    return first if not any(set(g.writes) & set(groups[second].reads) for g in between) else None
    # lab: end


def merge(a: Group, b: Group) -> tuple[LoopNest | None, str]:
    """Both bodies in one nest, or None; and why (not). `b` reads what `a` writes."""
    # lab: begin merge
    if isinstance(a, ExternCall) or isinstance(b, ExternCall):
        return None, "a call is not a loop nest"
    moved: dict[Any, Any] = {}
    if a.ranges == (*b.ranges, *b.reduction_ranges) and b.is_reduction and not a.is_reduction:
        moved = {symbol(f"i{len(b.ranges)}"): symbol("r0")}  # a runs inside b's reduction
    elif a.ranges != b.ranges or b.is_reduction:
        return (
            None,
            f"their loops differ: {a.ranges}, {a.reduction_ranges} and {b.ranges}, {b.reduction_ranges}",
        )
    held: dict[tuple[Any, ...], Value] = {}  # (buffer, index) -> its element, in this body
    same: dict[Value, Value] = {}  # a load that is not needed -> the value it would give
    body: list[Instr] = []
    for nest in (a, b):
        for instr in nest.body:
            args = tuple(same.get(x, x) if isinstance(x, Value) else
                         x.xreplace(moved) if nest is a and isinstance(x, sympy.Basic) else x
                         for x in instr.args)  # fmt: skip
            if instr.op == "load" and args in held:
                same[Value(instr.name)] = held[args]
                continue
            if instr.op == "load" and args[0] in a.writes:
                return None, f"{args[0]} is not read at the index it is written"
            if instr.op == "reduction":
                held.clear()  # what the reduction's loop computed ends with the loop
            if instr.op in ("load", "store"):
                held[args[:2]] = args[2] if instr.op == "store" else Value(instr.name)
            body.append(replace(instr, args=args, origins=instr.origins or nest.origins))
    origins = tuple(dict.fromkeys((*a.origins, *b.origins)))
    loops = a if a.is_reduction else b
    return LoopNest(
        b.name, loops.ranges, loops.reduction_ranges, tuple(body), origins
    ), "equal loops and indices"
    # lab: end


def program(lowered: LoweredGraph, groups: list[Group], outputs: set[str], decisions: tuple) -> Program:
    """A launch or a call per group, in order."""
    kernels: dict[str, Kernel] = {}
    steps: list[Any] = []
    for group in groups:
        if isinstance(group, ExternCall):
            steps.append(
                External(group.target, group.args, group.kwargs, group.outputs, origins=group.origins)
            )
            continue
        needed = outputs.union(*(g.reads for g in groups if g is not group))
        internal = tuple(name for name in group.writes if name not in needed)
        body = tuple(i for i in group.body if i.op != "store" or i.args[0] in needed)
        nest = replace(group, body=body)
        params = tuple(dict.fromkeys((*nest.reads, *nest.writes)))
        name = f"kernel{len(kernels)}_{nest.name}"
        kernels[name] = Kernel(name, (nest,), params, internal)
        steps.append(Launch(name, params))
    steps.append(Return(lowered.outputs))
    inside = {name for kernel in kernels.values() for name in kernel.internal}
    made = {name for group in groups for name in group.writes} - inside
    roles = {**dict.fromkeys(made, "temporary"), **dict.fromkeys(outputs, "output")}
    roles |= {**dict.fromkeys(lowered.constants, "constant"), **dict.fromkeys(lowered.inputs, "input")}
    buffers = {n: Buffer(n, m, roles[n]) for n, m in lowered.buffers.items() if n in roles}
    device = next((m.device for m in lowered.buffers.values() if m.device != CPU), CPU)
    return Program(lowered.name, device, lowered.inputs, buffers, kernels, tuple(steps),
                   decisions=decisions).verify()  # fmt: skip
