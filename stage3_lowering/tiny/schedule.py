"""Which nests may share their loops: groups of scheduler nodes, and every decision with its reason.

Input: fuse.py's SchedulerNodes, one after the other. Two groups may fuse when their loops can be made equal,
each reads what the other writes at the very index it is written, and no path leads from one to the other
through a third.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from stage3_lowering.tiny.merge import ROW_LIMIT
from stage3_lowering.tiny.spaces import Sizes, common, rewrite, split
from stage_contracts.events import record
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import ExternCall, LoopNest, run
from stage_contracts.scheduler_ir import FusedSchedulerNode, FusionDecision, MemoryDep, SchedulerNode
from stage_contracts.tensor_meta import TensorMeta


def scheduler_node(node: LoopNest | ExternCall) -> SchedulerNode:
    """The node with its memory dependencies, found by running its body."""
    if isinstance(node, ExternCall):
        whole = lambda names: tuple(MemoryDep(name, None, ()) for name in names)  # noqa: E731
        return SchedulerNode(node, whole(node.reads), whole(node.writes))
    seen = _Dependencies((*node.ranges, *node.reduction_ranges))
    run(node, seen)
    return SchedulerNode(node, tuple(dict.fromkeys(seen.reads)), tuple(dict.fromkeys(seen.writes)))


class _Dependencies:
    """An `ops` handler that only remembers which elements are touched."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.reads, self.writes = sizes, [], []  # type: ignore[var-annotated]

    def load(self, buffer: str, index: Any) -> None:
        self.reads.append(MemoryDep(buffer, index, self.sizes))

    def store(self, buffer: str, index: Any, value: None) -> None:
        self.writes.append(MemoryDep(buffer, index, self.sizes))

    def __getattr__(self, op: str) -> Any:
        return lambda *args: None


class Schedule:
    """The groups so far, by the buffers they write, and the decisions taken."""

    def __init__(self, buffers: Mapping[str, TensorMeta], nodes: list[SchedulerNode]) -> None:
        self.buffers = buffers
        self.readers: dict[str, list[str]] = {}  # buffer -> the nodes that read it
        for node in nodes:
            for name in dict.fromkeys(d.buffer for d in node.reads):
                self.readers.setdefault(name, []).append(node.name)
        self.position = {node.name: k for k, node in enumerate(nodes)}
        self.group_of = {d.buffer: FusedSchedulerNode((node,)) for node in nodes for d in node.writes}
        self.decisions: list[FusionDecision] = []

    @property
    def groups(self) -> list[FusedSchedulerNode]:
        return list({id(g): g for g in self.group_of.values()}.values())

    def consider(self, node: SchedulerNode) -> None:
        """Try to join `node` with every earlier group it shares a buffer with, the most shared bytes
        first."""
        mine = self.group_of[node.name]
        scored = [(self._shared_bytes(group, mine), group) for group in self._neighbours(node)]
        for score, group in sorted(scored, key=lambda pair: -pair[0]):
            if group.nodes[0].is_extern and not written_by(group) & read_by(mine):
                continue
            mine = self.group_of[node.name]
            merged, reason = self._merge(group, mine)
            self._decide(FusionDecision(group.name, mine.name, merged is not None, reason, float(score)))
            if merged is not None:
                for name in (d.buffer for n in merged.nodes for d in n.writes):
                    self.group_of[name] = merged

    def _decide(self, decision: FusionDecision) -> None:
        self.decisions.append(decision)
        verdict = "fused" if decision.fused else "not fused"
        first, second, reason, score = decision.first, decision.second, decision.reason, decision.score
        record("fusion", verdict, first=first, second=second, reason=reason, score=score)

    def _shared_bytes(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> int:
        """Bytes of the buffers both touch: what fusing them saves from going through memory."""
        return sum(int(self.buffers[name].nbytes) or 1 for name in _touched(a) & _touched(b))

    def _neighbours(self, node: SchedulerNode) -> list[FusedSchedulerNode]:
        """The earlier groups that write what `node` reads, or read the same."""
        buffers = [d.buffer for d in node.reads]
        related = [n for b in buffers for n in (b, *self.readers[b]) if n in self.group_of]
        groups = [self.group_of[n] for n in related if self.position.get(n, 0) < self.position[node.name]]
        return list({id(g): g for g in groups if g is not self.group_of[node.name]}.values())

    # ---- may they fuse? ------------------------------------------------------------------------------

    def _merge(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> tuple[FusedSchedulerNode | None, str]:
        """The two groups as one over common loops, or None; and the reason, in plain English."""
        for group in (a, b):
            if group.nodes[0].is_extern:
                return None, f"{group.nodes[0].node.target} is a call, not a loop nest"  # type: ignore[union-attr]
        if {self._device(a), self._device(b)} != {self._device(a)}:
            return None, "they run on different devices"
        third = self._between(a, b) or self._between(b, a)
        if third is not None:
            return None, f"{third.name} has to run between them: it reads one and feeds the other"
        if _waits_for_a_long_fold(a, b):
            return (
                None,
                f"{b.name} needs the fold over all points first, and so many are not kept in a kernel",
            )
        reason = f"their loops differ: {_loops(a)} against {_loops(b)}"
        for nests in _over_common_loops(a, b):
            order = sorted(nests, key=lambda n: self.position[n.name])
            clash = _clash(order)
            if clash is None:
                return FusedSchedulerNode(tuple(order)), self._why(a, b)
            reason = clash
        return None, reason

    def _why(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> str:
        passed = sorted((written_by(a) & read_by(b)) | (written_by(b) & read_by(a)))
        both = sorted(read_by(a) & read_by(b))
        saved = f"{self._shared_bytes(a, b)} bytes of memory traffic saved"
        if passed:
            return f"{', '.join(passed)} is read at the very index it is written; {saved}"
        return f"both read {', '.join(both)}; {saved}"

    def _device(self, group: FusedSchedulerNode) -> Any:
        return self.buffers[group.nodes[0].name].device

    def _between(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> FusedSchedulerNode | None:
        """A third group on a path from `a` to `b`."""
        seen: set[int] = set()
        stack = [g for g in self._producers(b) if g is not a]
        while stack:
            group = stack.pop()
            if id(group) in seen or group is b:
                continue
            seen.add(id(group))
            above = self._producers(group)
            if any(g is a for g in above):
                return group
            stack += above
        return None

    def _producers(self, group: FusedSchedulerNode) -> list[FusedSchedulerNode]:
        found = (self.group_of[name] for name in sorted(read_by(group)) if name in self.group_of)
        return list({id(g): g for g in found if g is not group}.values())

    def ordered(self) -> list[FusedSchedulerNode]:
        """Groups after the groups they read, else in the graph's order."""
        done: dict[int, FusedSchedulerNode] = {}

        def visit(group: FusedSchedulerNode) -> None:
            if id(group) not in done:
                for producer in self._producers(group):
                    visit(producer)
                done[id(group)] = group

        for group in sorted(self.groups, key=lambda g: self.position[g.nodes[0].name]):
            visit(group)
        return list(done.values())


# ---- loops in common, and whether they keep the dependencies -----------------------------------------


def nests_of(group: FusedSchedulerNode) -> list[LoopNest]:
    return [n.node for n in group.nodes if isinstance(n.node, LoopNest)]


def _space(group: FusedSchedulerNode) -> tuple[Sizes, Sizes]:
    nests = nests_of(group)
    return nests[0].ranges, next((n.reduction_ranges for n in nests if n.reduction_ranges), ())


def _loops(group: FusedSchedulerNode) -> str:
    outer, inner = _space(group)
    return f"{outer} points" + (f" with a reduction over {inner}" if inner else "")


def _over_common_loops(a: FusedSchedulerNode, b: FusedSchedulerNode) -> Iterator[list[SchedulerNode]]:
    """The nodes of both over equal loops: each way there is to do that."""
    (outer_a, inner_a), (outer_b, inner_b) = _space(a), _space(b)
    if bool(inner_a) == bool(inner_b):
        outer, inner = common(outer_a, outer_b), common(inner_a, inner_b)
        if outer is not None and inner is not None:
            yield _over(a, outer, inner or inner_a) + _over(b, outer, inner or inner_b)
        return
    folding, plain = (a, b) if inner_a else (b, a)
    (outer, inner), (points, _) = _space(folding), _space(plain)
    both = common((*outer, *inner), points)
    cut = split(both, math.prod(inner)) if both is not None and math.prod(inner) > 1 else None
    if cut is not None:  # the plain nests run inside the reduction's loops
        yield _over(folding, *cut) + _over(plain, *cut, everywhere=True)
    shared = common(outer, points)
    if shared is not None:  # or once per point, before or after the reduction
        yield _over(folding, shared, inner) + _over(plain, shared, ())


def _over(
    group: FusedSchedulerNode, outer: Sizes, inner: Sizes, everywhere: bool = False
) -> list[SchedulerNode]:
    """The group's nodes over these loops; the reduction loops for those that have some, or for all."""
    found = []
    for node in group.nodes:
        nest: Any = node.node
        moved = rewrite(nest, outer, inner if everywhere or nest.reduction_ranges else ())
        found.append(node if moved is nest else scheduler_node(moved))
    return found


def _waits_for_a_long_fold(a: FusedSchedulerNode, b: FusedSchedulerNode) -> bool:
    """Whether `b` reads what `a` folds from a whole large tensor: a second pass over memory, better in
    threads."""
    outer, inner = _space(a)
    folded = {d.buffer for n in a.nodes if n.node.reduction_ranges for d in n.writes}  # type: ignore[union-attr]
    return (
        not outer
        and math.prod(inner) > ROW_LIMIT
        and bool(folded & read_by(b))
        and math.prod(_space(b)[0]) > 1
    )


def _clash(nodes: list[SchedulerNode]) -> str | None:
    """Why these nodes cannot share loops: one reads a buffer elsewhere than the other writes it."""
    written = {dep.buffer: (node, dep) for node in nodes for dep in node.writes}
    for node in nodes:
        for read in node.reads:
            writer, write = written.get(read.buffer, (None, None))
            if write is not None and writer is not node and read.index != write.index:
                at, there = print_index(read.index), print_index(write.index)
                return f"{node.name} reads {read.buffer}[{at}], but {read.buffer} is written at [{there}]"
    return None


def read_by(group: FusedSchedulerNode) -> set[str]:
    return {d.buffer for n in group.nodes for d in n.reads}


def written_by(group: FusedSchedulerNode) -> set[str]:
    return {d.buffer for n in group.nodes for d in n.writes}


def _touched(group: FusedSchedulerNode) -> set[str]:
    return read_by(group) | written_by(group)
