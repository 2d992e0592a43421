"""Elementary functions that wait for one another, as in tanh(exp(x)): tile by tile, a loop for each of them.

Input: the nest of a pointwise kernel. In one loop the CPU holds too few steps at once to hide how long one takes:
tanh(exp(-x * x) + .5) took 1.9 ns an element where its two loops take .6 each (AVX2, float32).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stage3_lowering.lowering.cpp_ops import COSTS
from stage3_lowering.lowering.values import is_half
from stage_contracts.loop_ir import Instr, LoopNest, Value

TILES = (128, 64, 96, 112, 80)  # elements; the first that divides the loop, else the first
SHORTEST = 256  # steps of a loop that is worth two
LONG = 20  # additions that an elementary function costs
MOST_STAGES = 4
MOST_KEPT = 6  # arrays of a tile on the stack
_ALONE = {"random_bits", "indirect_index", "reduction", "scan"}


@dataclass(frozen=True)
class Stage:
    body: frozenset[str]  # what its loop computes
    kept: tuple[Instr, ...]  # those of them that later loops read


def long_chains(nest: LoopNest, loop: str) -> tuple[list[Stage], frozenset[str]] | None:
    """The loops that run before the last one, and what the last one computes; None where one loop is as good."""
    waits = _waits(nest, loop)
    depth = 0 if _stands_alone(nest) else max(waits.values(), default=0)
    if depth < 2:
        return None
    stages, known = list[Stage](), set[str]()
    per_stage = -(-depth // MOST_STAGES)
    for last in range(per_stage, depth, per_stage):
        kept = tuple(i for i in _handed_on(nest, waits, last) if i.name not in known)
        stages.append(Stage(frozenset(_body(nest, waits, kept, known) - known), kept))
        known |= {i.name for i in kept}
    values = [i for stage in stages for i in stage.kept]
    if len(values) > MOST_KEPT or any(i.dtype is None or is_half(i.dtype) for i in values):
        return None
    stores = [i for i in nest.body if i.op == "store"]
    return stages, frozenset(_body(nest, waits, stores, known) - known)


def tile_of(nest: LoopNest, loop: str, size: object) -> int:
    """How many elements each of the loops runs over; 0: one loop is as good."""
    if isinstance(size, int) and size < SHORTEST or long_chains(nest, loop) is None:
        return 0
    whole = (tile for tile in TILES if isinstance(size, int) and size % tile == 0)
    return next(whole, TILES[0])


def _stands_alone(nest: LoopNest) -> bool:
    """Whether the kernel has tiles of its own, or reads what it writes."""
    return any(i.op in _ALONE or i.op == "load" and i.args[0] in nest.writes for i in nest.body)


def _waits(nest: LoopNest, loop: str) -> dict[str, int]:
    """Value that `loop` changes -> how many elementary functions, one after the other, it waits for."""
    waits: dict[str, int] = {}
    for instr in nest.body:
        before = [waits[str(a)] for a in instr.args if isinstance(a, Value) and str(a) in waits]
        moves = any(loop == s.name for a in instr.args for s in getattr(a, "free_symbols", ()))
        if before or moves:
            waits[instr.name] = max(before, default=0) + (COSTS.get(instr.op, 1) >= LONG)
    return waits


def _handed_on(nest: LoopNest, waits: dict[str, int], last: int) -> list[Instr]:
    """What the loops after the one for `last` functions read of what it, and those before it, compute."""
    early = {name for name, wait in waits.items() if wait <= last}
    late = [i for i in nest.body if waits.get(i.name, 0) > last or i.op == "store"]
    read = _body(nest, waits, late, early)
    return [i for i in nest.body if i.name in read & early and not is_cheap(i) and i.op != "store"]


def is_cheap(instr: Instr) -> bool:
    """Whether to make the value again costs no more than to load it."""
    return instr.op in ("constant", "index_expr") or instr.op == "load" and len(instr.args) == 2


def _body(nest: LoopNest, waits: dict[str, int], ends: Iterable[Instr], known: set[str]) -> set[str]:
    """What a loop computes that makes `ends` of what is `known`: values that the loop changes, by name."""
    needed = {instr.name for instr in ends}
    for instr in reversed(nest.body):
        if instr.name in needed and (instr.name not in known or is_cheap(instr)):
            needed |= {str(a) for a in instr.args if isinstance(a, Value) and str(a) in waits}
    return needed
