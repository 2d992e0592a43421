"""Collectives in a program: each is started as soon as its input is there, and awaited where its result is first read.

Input: calls of core operators of kind "collective", in the order of the graph, which is the order of every rank. The
token of a collective is its number in that order; no pass changes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Lazy, strided
from stage_contracts import config
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Node, meta_of
from stage_contracts.loop_ir import ExternCall
from stage_contracts.program import (
    Await,
    Collective,
    External,
    Kernel,
    Launch,
    Program,
    Return,
    step_accesses,
)
from stage_contracts.scheduler_ir import SchedulerNode
from stage_contracts.size_vars import late_sizes
from stage_contracts.tensor_meta import TensorMeta

NONE = -1  # no collective before it
LAST = 1 << 30  # no collective after it
GATHER = "all_gather"


def collective(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """The operand as a whole row-major buffer, which is what a communicator takes; then the call."""
    (used,) = node.all_input_nodes
    value, meta = state.values[used], state.sizes.meta(meta_of(used))
    plain = TensorMeta(meta.shape, meta.dtype, device=meta.device)
    ref = state.shorten(value.ref) if value.ref else None
    if ref is None or ref.shape is not None or state.buffers[ref.name].strides != plain.strides:
        ref = state.copy(value, plain, used.origins)
        state.values[used] = strided(ref.name, plain, plain.strides)
    return None  # lower.py makes the call


def is_collective(node: Any) -> bool:
    """Whether a node of a lowered graph is a call that other ranks wait for."""
    row = CORE_OPS.get(node.target) if isinstance(node, ExternCall) else None
    return row is not None and row.kind == "collective"


def tokens(nodes: Sequence[SchedulerNode]) -> dict[str, str]:
    """A collective -> what the one before it writes, which it waits for: that keeps the graph's order."""
    talking = [node.name for node in nodes if is_collective(node.node)]
    return dict(zip(talking[1:], talking, strict=False))


def called(node: ExternCall, before: Sequence[Any]) -> list[Any]:
    """The step of a call, or of a collective its two, one after the other."""
    if not is_collective(node):
        return [External(node.target, node.args, node.kwargs, node.outputs, origins=node.origins)]
    source, *words = node.args
    token = sum(isinstance(step, Collective) for step in before)
    start = Collective(token, node.target, source.name, node.outputs[0], tuple(words), node.origins)
    return [start, Await(token, source.name, node.outputs[0])]


def between_collectives(program: Program) -> list[tuple[int, int]]:
    """For each step, the last collective that it waits for by any path, and the first that waits for it."""
    accesses = [step_accesses(step, program.kernels) for step in program.steps]
    if not any(isinstance(step, Collective) for step in program.steps):
        return [(NONE, LAST)] * len(accesses)
    after: dict[str, int] = {}
    waits: list[int] = []
    for step, (reads, writes) in zip(program.steps, accesses, strict=True):
        last = max((after.get(name, NONE) for name in reads), default=NONE)
        if isinstance(step, Await):
            last = max(last, step.token)
        if isinstance(step, Collective) and waits:  # not before the one whose token is smaller
            earlier = [w for s, w in zip(program.steps, waits, strict=False) if isinstance(s, Collective)]
            last = max([last, *earlier[-1:]])
        waits.append(last)
        after.update((name, max(last, after.get(name, NONE))) for name in writes)
    before: dict[str, int] = {}
    feeds: list[int] = []
    for step, (reads, writes) in zip(program.steps[::-1], accesses[::-1], strict=True):
        first = min((before.get(name, LAST) for name in writes), default=LAST)
        if isinstance(step, Collective):
            first = step.token
        feeds.append(first)
        before.update((name, min(first, before.get(name, LAST))) for name in reads)
    return [*zip(waits, feeds[::-1], strict=True)]


def overlap(program: Program) -> Program:
    """Start each collective as early as its source is there, await it when nothing else can run: a list scheduler.

    What is ready runs in the program's order. What is gathered takes memory until it is used, so a gather starts only
    when the one `distributed.prefetch` places before it has come; it starts before the reductions between the two.
    """
    started = [step for step in program.steps if isinstance(step, Collective)]
    if not started or late_sizes(program.sizes, program.inputs):  # late: a step needs more than what it reads
        return program
    ahead = max(1, config.current().distributed.prefetch)
    tokens = _tokens(started, {*program.inputs}, ahead)
    steps = [_renumbered(step, tokens) for step in program.steps]
    return program.with_(steps=tuple(_scheduled(steps, program, ahead))).verify()


def _tokens(started: Sequence[Collective], given: set[str], ahead: int) -> dict[int, int]:
    """Old token -> new token. A gather of an input moves up behind an earlier gather; all else keeps its order."""
    places: list[float] = []
    gathers: list[int] = []
    for k, step in enumerate(started):
        free = step.operation == GATHER and step.source in given
        places.append((gathers[-ahead] + 0.5 if len(gathers) >= ahead else -1.0) if free else k)
        if step.operation == GATHER:
            gathers.append(k)
    order = sorted(range(len(started)), key=lambda k: (places[k], k))
    return {started[k].token: token for token, k in enumerate(order)}


def _renumbered(step: Any, tokens: dict[int, int]) -> Any:
    return replace(step, token=tokens[step.token]) if isinstance(step, Collective | Await) else step


def _limits(starts: Sequence[Collective], ahead: int) -> dict[int, int]:
    """The token of a gather -> the one that must have come before it starts."""
    gathers = [s.token for s in starts if s.operation == GATHER]
    return dict(zip(gathers[ahead:], gathers, strict=False))


def _computing(steps: Sequence[Any]) -> list[Any]:
    return [s for s in steps if not isinstance(s, Collective | Await | Return)]


def _scheduled(steps: list[Any], program: Program, ahead: int) -> list[Any]:
    """The steps in their new order. Every buffer has one writer, so what a step reads is all that it waits for."""
    accesses = {id(step): step_accesses(step, program.kernels) for step in steps}
    starts = sorted((s for s in steps if isinstance(s, Collective)), key=lambda s: s.token)
    before = _limits(starts, ahead)
    awaits = {s.token: s for s in steps if isinstance(s, Await)}
    queue = _Queue(_computing(steps), accesses, _feeding(steps, accesses, program.kernels))
    under_way: list[int] = []
    come: set[int] = set()
    done: list[Any] = []
    step: Any
    while starts or under_way or queue.waiting:
        if (
            starts
            and queue.is_there(starts[0].source)
            and before.get(starts[0].token, NONE) in (come | {NONE})
        ):
            step = starts.pop(0)
            under_way.append(step.token)
        elif (step := queue.next()) is None:
            token = under_way.pop(0)
            step = awaits[token]
            come.add(token)
            queue.arrived(step.destination)
        done.append(step)
    return [*done, steps[-1]]


def _feeding(steps: Sequence[Any], accesses: Mapping[int, Any], kernels: Mapping[str, Kernel]) -> set[int]:
    """The steps whose results only collectives read, such as a bucket of gradients, and the pointwise kernels that work
    for those alone: they run as soon as they can."""
    readers: dict[str, list[Any]] = defaultdict(list)
    for step in steps:
        for name in accesses[id(step)][0]:
            readers[name].append(step)
    found: set[int] = set()
    for step in reversed(steps):
        own = [r for name in accesses[id(step)][1] for r in readers[name] if r is not step]
        sends = all(isinstance(r, Collective | Await) for r in own)
        if own and (sends or (_is_pointwise(step, kernels) and all(id(r) in found for r in own))):
            found.add(id(step))
    return found


def _is_pointwise(step: Any, kernels: Mapping[str, Kernel]) -> bool:
    return isinstance(step, Launch) and not any(n.reduction_ranges for n in kernels[step.kernel].nests)


class _Queue:
    """The computing steps, each given out once all that it reads is there: those that feed a collective first, then in
    the program's order."""

    def __init__(self, steps: Sequence[Any], accesses: Mapping[int, Any], first: Collection[int]) -> None:
        self.steps, self.accesses = steps, accesses
        self.rank = [(id(step) not in first, n) for n, step in enumerate(steps)]
        self.waiting = len(steps)
        self.missing = {name for reads, writes in accesses.values() for name in writes}
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.waits: list[int] = []
        self.ready: list[tuple[bool, int]] = []
        for n, step in enumerate(steps):
            reads, writes = accesses[id(step)]
            needed = (set(reads) - set(writes)) & self.missing
            self.waits.append(len(needed))
            for name in needed:
                self.readers[name].append(n)
            if not needed:
                heappush(self.ready, self.rank[n])

    def is_there(self, name: str) -> bool:
        return name not in self.missing

    def arrived(self, name: str) -> None:
        """A buffer is there: what waited for it alone is ready."""
        if name not in self.missing:
            return
        self.missing.discard(name)
        for n in self.readers[name]:
            self.waits[n] -= 1
            if not self.waits[n]:
                heappush(self.ready, self.rank[n])

    def next(self) -> Any:
        """The next step that is ready, which counts as done; None while all wait."""
        if not self.ready:
            return None
        step = self.steps[heappop(self.ready)[1]]
        self.waiting -= 1
        for name in self.accesses[id(step)][1]:
            self.arrived(name)
        return step
