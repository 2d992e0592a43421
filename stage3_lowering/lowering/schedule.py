"""Which nests may share their loops: groups of scheduler nodes, and every decision with its reason.

Input: fuse.py's SchedulerNodes, one after the other. Two groups may fuse when their loops can be made equal, each reads
what the other writes at the same index, and no dependency runs from one to the other through a third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from stage3_lowering.lowering.collectives import tokens
from stage3_lowering.lowering.legality import (
    adds,
    clash,
    elements,
    loops,
    loses_unit_stride,
    nests_of,
    only_numbers,
    over_common_loops,
    read_by,
    touched,
    waits_for_a_long_reduction,
    written_by,
)
from stage_contracts.events import record
from stage_contracts.loop_ir import LoopNest
from stage_contracts.scheduler_ir import FusedSchedulerNode, FusionDecision, SchedulerNode
from stage_contracts.size_vars import is_open, sizes_in
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

MAKES = "unbacked."  # calls whose result only the data sizes
CHECK = "unbacked.check"  # the call that raises an error if the data is not as the program says
FEW_READERS = 8  # of one number; what more nests read alike, as a rate of learning, says nothing about them
LITTLE = 16  # how many times more each of two kernels touches alone where they share little
LARGEST_KERNEL = 1024  # instructions; g++ takes more than twice as long for twice as many


class Schedule:
    """The groups so far, by the buffers they write, and the decisions taken."""

    def __init__(
        self,
        buffers: Mapping[str, TensorMeta],
        nodes: list[SchedulerNode],
        late: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        self.buffers = buffers
        self.late = late  # sizes that only the data decides -> the buffers that show them
        self.readers: dict[str, list[str]] = {}  # buffer -> the nodes that read it
        for node in nodes:
            for name in dict.fromkeys(d.buffer for d in node.reads):
                self.readers.setdefault(name, []).append(node.name)
        calls = [node.node for node in nodes if node.is_extern]
        self.made = {n for call in calls if call.target.startswith(MAKES) for n in call.outputs}  # type: ignore[union-attr]
        self.checks = [node.name for node in nodes if getattr(node.node, "target", "") == CHECK]
        self.token = tokens(nodes)
        self.position = {node.name: k for k, node in enumerate(nodes)}
        # one each: a call with several results runs once
        alone = [FusedSchedulerNode((node,)) for node in nodes]
        self.group_of = {d.buffer: group for group in alone for d in group.nodes[0].writes}
        self.first_write = {node.name: node.writes[0].buffer for node in nodes if node.writes}
        self.above: dict[int, list[FusedSchedulerNode]] = {}  # what _producers found
        # Of each group, as bits by position: the nodes in it, and those it needs by any path.
        self.members: dict[int, int] = {}
        self.ancestors: dict[int, int] = {}
        for k, group in enumerate(alone):
            self.members[id(group)] = 1 << k
            self.ancestors[id(group)] = self._needed_by(group)
        self.groups = {id(group): group for group in self.group_of.values()}
        self.past = alone  # kept, so that no id is given twice
        self.decisions: list[FusionDecision] = []

    def consider(self, node: SchedulerNode) -> None:
        """Try to join `node` with every earlier group it shares a buffer with, most shared bytes first."""
        mine = self.group_of[node.name]
        scored = [(self._shared_bytes(group, mine), group) for group in self._neighbours(node)]
        for score, group in sorted(scored, key=lambda pair: -pair[0]):
            if group.nodes[0].is_extern and not written_by(group) & read_by(mine):
                continue
            mine = self.group_of[node.name]
            merged, reason, code = self._merge(group, mine)
            saved = float(self._equal_bytes(group, merged) if merged else score)
            self._decide(FusionDecision(group.name, mine.name, merged is not None, reason, saved, code))
            if merged is not None:
                self._put_in_place(group, mine, merged)

    def _put_in_place(self, a: FusedSchedulerNode, b: FusedSchedulerNode, merged: FusedSchedulerNode) -> None:
        """Put `merged` in the place of both groups; whatever depends on one of them now depends on it."""
        self.past.append(merged)
        del self.groups[id(a)], self.groups[id(b)]
        self.groups[id(merged)] = merged
        written = written_by(merged)
        for name in written:
            self.group_of[name] = merged
        for reader in {n for name in written for n in self.readers.get(name, ())} & self.first_write.keys():
            self.above.pop(id(self.group_of[self.first_write[reader]]), None)
        both = self.members[id(merged)] = self.members[id(a)] | self.members[id(b)]
        needed = self.ancestors[id(merged)] = (self.ancestors[id(a)] | self.ancestors[id(b)]) & ~both
        for group in self.groups.values():
            if self.ancestors[id(group)] & both:
                self.ancestors[id(group)] |= needed | both

    def _needed_by(self, group: FusedSchedulerNode) -> int:
        needed = 0
        for producer in self._producers(group):
            needed |= self.members[id(producer)] | self.ancestors[id(producer)]
        return needed

    def _decide(self, decision: FusionDecision) -> None:
        self.decisions.append(decision)
        verdict = "fused" if decision.fused else "not fused"
        first, second, reason, score = decision.first, decision.second, decision.reason, decision.score
        record("fusion", verdict, first=first, second=second, reason=reason, score=score, code=decision.code)

    def _shared_bytes(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> int:
        """Bytes of the buffers both touch, open sizes at their nominal value: what fusing saves of memory traffic."""
        return sum(map(self._bytes, touched(a) & touched(b)))

    def _neighbours(self, node: SchedulerNode) -> list[FusedSchedulerNode]:
        """The earlier groups that write what `node` reads, or read the same; one number is no reason (only_numbers)."""
        loops = isinstance(node.node, LoopNest) and (*node.node.ranges, *node.node.reduction_ranges)
        related: list[str] = []
        for buffer in dict.fromkeys(d.buffer for d in node.reads):
            many = loops or len(self.readers[buffer]) > FEW_READERS
            one_number = many and self.buffers[buffer].numel == 1
            related += (buffer, *(() if one_number else self.readers[buffer]))
        related = [name for name in related if name in self.group_of]
        groups = [self.group_of[n] for n in related if self.position.get(n, 0) < self.position[node.name]]
        return list({id(g): g for g in groups if g is not self.group_of[node.name]}.values())

    # ---- may they fuse? ------------------------------------------------------------------------------

    def _merge(
        self, a: FusedSchedulerNode, b: FusedSchedulerNode
    ) -> tuple[FusedSchedulerNode | None, str, str]:
        """The two groups as one over common loops, or None; the reason, in plain English; the refusal's code."""
        if (refused := self._refused(a, b)) is not None:
            return None, *refused
        refused = f"their loops differ: {loops(a)} against {loops(b)}", "loops"
        for nests in over_common_loops(a, b):
            order = sorted(nests, key=lambda n: self.position[n.name])
            refused = self._refused_over(order, a, b)
            if refused is None:
                return FusedSchedulerNode(tuple(order)), self._why(a, b), ""
            if refused[1] == "only_numbers":  # over whichever loops
                break
        return None, *refused

    def _refused(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> tuple[str, str] | None:
        """Why they do not fuse whatever their loops are: the reason and its code."""
        for group in (a, b):
            if group.nodes[0].is_extern:
                return f"{group.nodes[0].node.target} is a call, not a loop nest", "call"  # type: ignore[union-attr]
        if self._device(a) != self._device(b):
            return "they run on different devices", "device"
        if adds(a) or adds(b):
            return f"{(a if adds(a) else b).name} adds at places that the data decides", "added_to"
        third = self._between(a, b) or self._between(b, a)
        if third is not None:
            return f"{third.name} has to run between them: it reads one and feeds the other", "between"
        if sum(len(n.body) for n in (*nests_of(a), *nests_of(b))) > LARGEST_KERNEL:
            return f"together they are more than {LARGEST_KERNEL} instructions", "large"
        if waits_for_a_long_reduction(a, b):
            long = f"{b.name} needs the reduction over all points first; so many do not stay in a kernel"
            return long, "long_reduction"
        return None

    def _refused_over(
        self, order: list[SchedulerNode], a: FusedSchedulerNode, b: FusedSchedulerNode
    ) -> tuple[str, str] | None:
        """The same of their nodes in order, over loops that both can have."""
        problem, parts = clash(order), _parts(order, a)
        if problem is not None:
            return problem, "index"
        shared = elements(parts[0]) & elements(parts[1])
        if not shared:
            return f"{a.name} and {b.name} touch no element at the same point", "nothing_shared"
        if only_numbers(shared, order):
            return f"{a.name} and {b.name} share only numbers", "only_numbers"
        if self._device(a).type == "cuda" and self._shares_little(parts, shared):
            return f"{a.name} and {b.name} share little of what they touch", "little_shared"
        if loses_unit_stride(*parts):
            return "together no loop walks through memory one by one", "unit_stride"
        return None

    def _shares_little(self, parts: Sequence[Sequence[SchedulerNode]], shared: set[tuple[str, Any]]) -> bool:
        """Whether apart, each could go its own way: the copy of attention's weights for the backward, above all, which
        has only the rows' sums in common with the weights that it is a copy of."""
        alone = [
            sum(map(self._bytes, {d.buffer for n in part for d in (*n.reads, *n.writes)})) for part in parts
        ]
        return LITTLE * sum(map(self._bytes, {name for name, _ in shared})) < min(alone)

    def _bytes(self, name: str) -> int:
        return hinted(self.buffers[name].nbytes) or 1

    def _equal_bytes(self, a: FusedSchedulerNode, merged: FusedSchedulerNode) -> int:
        """Bytes of the buffers that both parts touch at equal indices."""
        parts = _parts(merged.nodes, a)
        shared = {buffer for buffer, _ in elements(parts[0]) & elements(parts[1])}
        return sum(map(self._bytes, shared))

    def _why(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> str:
        passed = sorted((written_by(a) & read_by(b)) | (written_by(b) & read_by(a)))
        both = sorted(read_by(a) & read_by(b))
        total = sum(self.buffers[name].nbytes for name in touched(a) & touched(b))
        saved = f"{total if is_open(total) else self._shared_bytes(a, b)} bytes of memory traffic saved"
        if passed:
            return f"{', '.join(passed)} is read at the very index it is written; {saved}"
        return f"both read {', '.join(both)}; {saved}"

    def _device(self, group: FusedSchedulerNode) -> Any:
        return self.buffers[group.nodes[0].name].device

    def _between(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> FusedSchedulerNode | None:
        """A third group on a path from `a` to `b`."""
        sought = self.members[id(a)]
        if not self.ancestors[id(b)] & sought:
            return None
        seen: set[int] = set()
        stack = [g for g in self._producers(b) if g is not a and self.ancestors[id(g)] & sought]
        while stack:
            group = stack.pop()
            if id(group) in seen or group is b:
                continue
            seen.add(id(group))
            above = self._producers(group)
            if any(g is a for g in above):
                return group
            stack += (g for g in above if self.ancestors[id(g)] & sought)
        return None

    def _producers(self, group: FusedSchedulerNode) -> list[FusedSchedulerNode]:
        if id(group) not in self.above:
            needed = read_by(group) | self._showing(group)
            needed |= {self.token[node.name] for node in group.nodes if node.name in self.token}
            found = (self.group_of[name] for name in sorted(needed) if name in self.group_of)
            self.above[id(group)] = list({id(g): g for g in found if g is not group}.values())
        return self.above[id(group)]

    def _showing(self, group: FusedSchedulerNode) -> set[str]:
        """The buffers that show the sizes of this group, and the checks of the data above it: they come before it.

        Without the checks, a kernel might read past the end of a tensor.
        """
        found: set[str] = set()
        for node in (each.node for each in group.nodes) if self.made else ():
            used = sizes_in([self.buffers[name] for name in node.writes])
            used |= set(node.sizes) if isinstance(node, LoopNest) else sizes_in((node.args, node.kwargs))
            showing = {name for size in used for name in self.late.get(size, ())}
            if showing or not self.made.isdisjoint(node.reads):
                found |= showing | {n for n in self.checks if self.position[n] < self.position[node.name]}
        return found - written_by(group)

    def ordered(self) -> list[FusedSchedulerNode]:
        """Groups after the groups they read, else in the graph's order."""
        done: dict[int, FusedSchedulerNode] = {}

        def visit(group: FusedSchedulerNode) -> None:
            if id(group) not in done:
                for producer in self._producers(group):
                    visit(producer)
                done[id(group)] = group

        for group in sorted(self.groups.values(), key=lambda g: self.position[g.nodes[0].name]):
            visit(group)
        return list(done.values())


def _parts(
    nodes: Sequence[SchedulerNode], group: FusedSchedulerNode
) -> tuple[list[SchedulerNode], list[SchedulerNode]]:
    """Those of the nodes that are the group's, and the others."""
    mine = {node.name for node in group.nodes}
    return [n for n in nodes if n.name in mine], [n for n in nodes if n.name not in mine]
