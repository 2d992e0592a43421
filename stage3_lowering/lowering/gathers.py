"""Loads at places that the data decides, in the innermost loop of a pointwise kernel: tile by tile, in three loops.

Input: such a kernel's nest. The first loop finds and checks the places of a tile, in SIMD lanes; the second loads from
them one by one (the CPU's own gather was no faster on an AMD EPYC, and keeps the rest of the loop waiting; Intel's was
not measured); the third does what is left, in lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from stage_contracts.loop_ir import WRITES, Instr, LoopNest, Value

TILE = 256  # places and elements: at most 4 KiB of the first cache
SHORTEST = 64  # steps of a loop that is worth three


@dataclass(frozen=True)
class Gathers:
    loads: tuple[Instr, ...]
    places: tuple[Instr, ...]  # what their indices are made of, in the first loop
    only: frozenset[str]  # those of them that the third loop does not need


def gathers(nest: LoopNest, loop: str) -> Gathers | None:
    """The loads whose indices hold a checked index that `loop` changes; None if there are none.

    These stay as they are: a load under a mask, one at a place that another of them loads or that is made of random
    words, and what the kernel itself writes.
    """
    needs = made_of(nest, loop)
    checked = {i.name for i in nest.body if i.op == "indirect_index"}
    bound = {
        i.name for i in nest.body if i.op == "random_bits" or i.op == "load" and i.args[0] in nest.writes
    }
    found: list[Instr] = []
    for instr in nest.body:
        made = needs[instr.name]
        at_places = instr.op == "load" and len(instr.args) == 2 and bool(made & checked)
        if at_places and not made & bound:
            found.append(instr)
            bound.add(instr.name)
    if not found:
        return None
    inside = set[str]().union(*(needs[load.name] - {load.name} for load in found))
    places = tuple(instr for instr in nest.body if instr.name in inside)
    return Gathers(tuple(found), places, frozenset(inside - _needed_after(nest, found)))


def made_of(nest: LoopNest, loop: str) -> dict[str, set[str]]:
    """Value -> what it is made of, itself included, as far as `loop` changes it."""
    needs: dict[str, set[str]] = {}
    for instr in nest.body:
        operands = read_by(instr)
        made = set[str]().union(*(needs.get(name, ()) for name in operands))
        needs[instr.name] = {*made, instr.name} if made or loop in operands else set()
    return needs


def read_by(instr: Instr) -> set[str]:
    """The values and loops that an instruction reads, by name."""
    values = {str(a) for a in instr.args if isinstance(a, Value)}
    return values | {s.name for a in instr.args for s in getattr(a, "free_symbols", ())}


def _needed_after(nest: LoopNest, loads: list[Instr]) -> set[str]:
    """What the third loop computes: what it stores, and all that this is made of, up to the loads."""
    stop, needed = {load.name for load in loads}, set[str]()
    for instr in reversed(nest.body):
        if (instr.op in WRITES or instr.name in needed) and instr.name not in stop:
            needed |= read_by(instr)
    return needed


def in_gather_tiles(nest: LoopNest, loop: str, size: object) -> bool:
    """Whether the kernel is worth its three loops."""
    return not (isinstance(size, int) and size < SHORTEST) and gathers(nest, loop) is not None
