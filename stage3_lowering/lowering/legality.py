"""Whether groups of nests can share loops: their dependencies, how to make their loops equal, and what would clash.

Input: schedule.py's groups. To find the dependencies it runs the bodies with a handler that only records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from stage3_lowering.lowering.accesses import SCATTERED, innermost_cost, stride
from stage3_lowering.lowering.merge import ROW_LIMIT
from stage3_lowering.lowering.spaces import Sizes, common, rewrite, split
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import AT_PLACES, ExternCall, LoopNest, run
from stage_contracts.scheduler_ir import FusedSchedulerNode, MemoryDep, SchedulerNode
from stage_contracts.size_vars import likely_above, quotient
from stage_contracts.symbolic import hinted

ROWS, POINTS = 64, 32  # fewer are not worth a loop of their own


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

    def load(self, buffer: str, index: Any, mask: None = None) -> None:
        self.reads.append(MemoryDep(buffer, index, self.sizes))

    def store(self, buffer: str, index: Any, value: None) -> None:
        self.writes.append(MemoryDep(buffer, index, self.sizes))

    def atomic_add(self, buffer: str, index: Any, value: None, start: str) -> None:
        """All of both: which elements, the data decides."""
        self.reads.append(MemoryDep(start, None, ()))
        self.writes.append(MemoryDep(buffer, None, ()))

    store_last = atomic_add

    def __getattr__(self, op: str) -> Any:
        return lambda *args: None


def nests_of(group: FusedSchedulerNode) -> list[LoopNest]:
    return [n.node for n in group.nodes if isinstance(n.node, LoopNest)]


def space(group: FusedSchedulerNode) -> tuple[Sizes, Sizes]:
    nests = nests_of(group)
    return nests[0].ranges, next((n.reduction_ranges for n in nests if n.reduction_ranges), ())


def adds(group: FusedSchedulerNode) -> bool:
    """Whether it adds to a tensor, or replaces its elements, at places that the data decides."""
    return any(instr.op in AT_PLACES for nest in nests_of(group) for instr in nest.body)


def loops(group: FusedSchedulerNode) -> str:
    outer, inner = space(group)
    return f"{outer} points" + (f" with a reduction over {inner}" if inner else "")


def over_common_loops(a: FusedSchedulerNode, b: FusedSchedulerNode) -> Iterator[list[SchedulerNode]]:
    """The nodes of both over equal loops: each way there is to do that."""
    (outer_a, inner_a), (outer_b, inner_b) = space(a), space(b)
    if bool(inner_a) == bool(inner_b):
        outer, inner = common(outer_a, outer_b), common(inner_a, inner_b)
        if outer is not None and inner is not None:
            yield _over(a, outer, inner or inner_a) + _over(b, outer, inner or inner_b)
        elif not inner_a:
            yield from _rows_and_their_points(a, b)
        return
    reducing, plain = (a, b) if inner_a else (b, a)
    (outer, inner), (points, _) = space(reducing), space(plain)
    both = common((*outer, *inner), points)
    cut = split(both, math.prod(inner)) if both is not None and likely_above(math.prod(inner), 1) else None
    if cut is not None:  # the plain nests run inside the reduction's loops
        yield _over(reducing, *cut) + _over(plain, *cut, everywhere=True)
    shared = common(outer, points)
    if shared is not None:  # or once per point, before or after the reduction
        yield _over(reducing, shared, inner) + _over(plain, shared, ())


def _rows_and_their_points(a: FusedSchedulerNode, b: FusedSchedulerNode) -> Iterator[list[SchedulerNode]]:
    """What is computed once per row, then what runs over the points of the rows: enough rows for threads, and points
    for SIMD."""
    rows, points = sorted((a, b), key=lambda group: hinted(math.prod(space(group)[0])))
    outer, whole = space(rows)[0], space(points)[0]
    each = quotient(math.prod(whole), math.prod(outer))
    if each is None or not likely_above(math.prod(outer), ROWS - 1) or not likely_above(each, POINTS - 1):
        return
    cut = split(whole, each)
    shared = common(outer, cut[0]) if cut is not None else None
    if cut is not None and shared is not None:
        yield _over(rows, shared, ()) + _over(points, shared, cut[1], everywhere=True)


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


def waits_for_a_long_reduction(a: FusedSchedulerNode, b: FusedSchedulerNode) -> bool:
    """Whether `b` reads what `a` reduces from a whole large tensor: another pass, better in threads."""
    outer, inner = space(a)
    reduced = {d.buffer for n in a.nodes if n.node.reduction_ranges for d in n.writes}  # type: ignore[union-attr]
    return (
        not outer
        and likely_above(math.prod(inner), ROW_LIMIT)
        and bool(reduced & read_by(b))
        and likely_above(math.prod(space(b)[0]), 1)
    )


def clash(nodes: list[SchedulerNode]) -> str | None:
    """Why these nodes cannot share loops: one reads a buffer elsewhere than the other writes it."""
    written = {dep.buffer: (node, dep) for node in nodes for dep in node.writes}
    for node in nodes:
        for read in node.reads:
            writer, write = written.get(read.buffer, (None, None))
            if write is not None and writer is not node and read.index != write.index:
                at, there = print_index(read.index), print_index(write.index)
                return f"{node.name} reads {read.buffer}[{at}], but {read.buffer} is written at [{there}]"
    return None


def elements(nodes: Iterable[SchedulerNode]) -> set[tuple[str, Any]]:
    """What the nodes touch: a buffer, and where at each point of their loops."""
    return {(dep.buffer, dep.index) for node in nodes for dep in (*node.reads, *node.writes)}


def only_numbers(shared: set[tuple[str, Any]], nodes: list[SchedulerNode]) -> bool:
    """Whether the two share only single elements, which loops over many points read and which nobody here writes."""
    written = {dep.buffer for node in nodes for dep in node.writes}
    nests: list[Any] = [node.node for node in nodes]
    return all(
        index is not None and not index.free_symbols and buffer not in written for buffer, index in shared
    ) and any((*nest.ranges, *nest.reduction_ranges) for nest in nests)


def loses_unit_stride(a: list[SchedulerNode], b: list[SchedulerNode]) -> bool:
    """Whether together they access memory worse than apart, whichever loop is innermost in each."""

    def best(nodes: list[SchedulerNode]) -> int:
        nests: list[Any] = [node.node for node in nodes]
        loops = {v.name for nest in nests for v in (*nest.loop_variables, *nest.reduction_variables)}
        steps = [{v: stride(index, v) for v in loops} for _, index in elements(nodes) if index is not None]
        return min((innermost_cost(steps, v) for v in loops), default=0)

    return best([*a, *b]) > best(a) + best(b) + SCATTERED // 2


def read_by(group: FusedSchedulerNode) -> set[str]:
    return {d.buffer for n in group.nodes for d in n.reads}


def written_by(group: FusedSchedulerNode) -> set[str]:
    return {d.buffer for n in group.nodes for d in n.writes}


def touched(group: FusedSchedulerNode) -> set[str]:
    return read_by(group) | written_by(group)
