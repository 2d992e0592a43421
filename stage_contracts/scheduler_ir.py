"""The scheduler's IR: nodes with memory dependencies, and the decisions of fusion with their reasons.

Input: `fuse` wraps each LoopNest or ExternCall in a SchedulerNode. Names follow TorchInductor's scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stage_contracts.loop_ir import ExternCall, LoopNest
from stage_contracts.origin import Origin


@dataclass(frozen=True)
class MemoryDep:
    """One access: `buffer[index]` in loops of `sizes`. Equal deps access the same element at each point."""

    buffer: str
    index: Any  # sympy expression of i0.., r0..
    sizes: tuple[Any, ...]


@dataclass(frozen=True)
class SchedulerNode:
    """One nest or call, with the accesses that it makes."""

    node: LoopNest | ExternCall
    reads: tuple[MemoryDep, ...]
    writes: tuple[MemoryDep, ...]

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def is_extern(self) -> bool:
        return isinstance(self.node, ExternCall)


@dataclass(frozen=True)
class FusedSchedulerNode:
    """Nodes that become one kernel, in order. They share the outer loops."""

    nodes: tuple[SchedulerNode, ...]

    @property
    def name(self) -> str:
        return "_".join(n.name for n in self.nodes)

    @property
    def origins(self) -> tuple[Origin, ...]:
        return tuple(dict.fromkeys(o for n in self.nodes for o in n.node.origins))


# The reasons why two nodes do not become one kernel.
REFUSALS = {
    "call": "one of them is a call of a library or an eager kernel, not a loop nest",
    "device": "they run on different devices",
    "between": "a third node has to run between them: it reads what one writes and feeds the other",
    "long_reduction": "one needs a reduction over a whole large tensor first, which is better in threads of its own",
    "loops": "their loops cannot be made equal",
    "index": "one reads a buffer at another index than the other writes it",
    "nothing_shared": "they touch no element at the same point of their loops, so fusing saves no load",
    "little_shared": "on a GPU: what they share is little beside what each of them reads and writes alone",
    "unit_stride": "together no loop walks through memory one by one, as it does in each of them alone",
    "added_to": "one adds to a tensor that has to be whole before, and is whole only after all of its points",
    "large": "together they are so many instructions that compiling them takes longer than they save",
    "only_numbers": "all they share are numbers that every point reads alike, so fusing saves no load",
    "depth": "they do the same work, but one has to wait for more steps than the other",
    "own_threads": "they do the same work, but one is large enough to share its own loops among threads",
    "own_error": "they do the same work, but each may meet a bad index, and the error names its own lines",
    "no_shared_buffer": "they touch no buffer in common and do not do the same work: nothing to gain",
}


@dataclass(frozen=True)
class FusionDecision:
    """Whether two nodes became one kernel, and the reason."""

    first: str
    second: str
    fused: bool
    reason: str
    score: float = field(default=0.0)  # how many bytes of memory traffic it saves
    code: str = ""  # a code of REFUSALS, if they were not fused

    def __str__(self) -> str:
        return f"{self.first} + {self.second}: {'fused' if self.fused else 'not fused'}, {self.reason}"
