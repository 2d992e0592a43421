"""C++ that adds, or stores, at places that the data decides: one element after the other, by one thread.

Input: a kernel with one of AT_PLACES. Two points may have one place, and their order counts (of sums in floats, and of
what is stored): the loops stay as they are. The last one has lanes where its steps are elements side by side, of rows
that the data names; else a loop before it finds the places of a tile, in lanes.
"""

from __future__ import annotations

from dataclasses import replace

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.gathers import SHORTEST, made_of, read_by
from stage3_lowering.lowering.long_chains import Stage, is_cheap
from stage3_lowering.lowering.values import is_half
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.loop_ir import AT_PLACES, WRITES, Instr, LoopNest
from stage_contracts.places import decided_places
from stage_contracts.program import Kernel


def placements(nest: LoopNest) -> list[Instr]:
    """What adds or stores at places that the data decides; others, of a slice, are different ones."""
    return [instr for instr in nest.body if instr.op in AT_PLACES] if decided_places(nest) else []


def with_placements_in_order(kernel: Kernel) -> Kernel:
    """The kernel, its schedule in order where it adds or stores at places that the data decides."""
    if not any(map(placements, kernel.nests)):
        return kernel
    (nest,) = kernel.nests
    order = tuple(map(str, nest.loop_variables))
    vector = order[-1] if order and has_lanes(nest, order[-1]) else ""
    return replace(kernel, schedule=KernelSchedule(order, vector=vector).verify(kernel))


def with_plain_stores(kernel: Kernel) -> Kernel:
    """The kernel, with ordinary stores where the places are not the data's: they are different ones, in any order."""
    nests = tuple(nest if decided_places(nest) else _stored(nest) for nest in kernel.nests)
    return kernel if nests == kernel.nests else replace(kernel, nests=nests)


def _stored(nest: LoopNest) -> LoopNest:
    body = (i if i.op != "store_last" else replace(i, op="store", args=i.args[:3]) for i in nest.body)
    return replace(nest, body=tuple(body))


def has_lanes(nest: LoopNest, loop: str) -> bool:
    """Whether no two steps of the loop have one place. (A schedule may say what it likes: emit asks this, too.)"""
    found = placements(nest)
    by_loop = made_of(nest, loop) if found else {}
    return all(
        stride(i.args[1], loop) == 1 and not any(by_loop.get(s.name) for s in i.args[1].free_symbols)
        for i in found
    )


def places_first(nest: LoopNest, loop: str) -> tuple[list[Stage], frozenset[str]] | None:
    """The loop over a tile that runs before the last one, and what the last one computes; None where there is none."""
    found = placements(nest)
    if not found or has_lanes(nest, loop):
        return None
    by_loop = made_of(nest, loop)
    used = set[str]().union(*map(read_by, found))
    kept = tuple(
        i for i in nest.body if i.name in used and by_loop[i.name] and not is_cheap(i) and not _is_half(i)
    )
    if not kept:
        return None
    body = frozenset[str]().union(*(by_loop[i.name] for i in kept))
    needed, known = set[str](), {i.name for i in kept}
    for instr in reversed(nest.body):
        if instr.op in WRITES or instr.name in needed - known:
            needed |= read_by(instr)
    return [Stage(body, kept)], frozenset(needed - known)


def _is_half(instr: Instr) -> bool:
    return instr.dtype is not None and is_half(instr.dtype)


def in_place_tiles(nest: LoopNest, loop: str, size: object) -> bool:
    """Whether the kernel is worth its two loops."""
    return not (isinstance(size, int) and size < SHORTEST) and places_first(nest, loop) is not None
