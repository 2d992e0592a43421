"""A loop in pieces: where masks compare its variable with numbers, each stretch between these numbers is a loop of its
own, in which every mask is known and what it hides is gone. (Compilers' books call it index set splitting.)

Input: the nest of a pointwise kernel. schedule_kernels.py chooses the loop, cpp_loops.py writes the pieces.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stage_contracts.loop_ir import Instr, LoopNest, Value

LIMIT = 8  # pieces of a kernel: each is its whole text again
SHORTEST = 16  # steps of an innermost loop that is worth a loop of its own: the lanes of a register


def choose(nest: LoopNest, order: tuple[str, ...]) -> tuple[str, tuple[int, ...]] | None:
    """The loop to run in pieces and where they begin and end, or None. The loop with the most pieces is best."""
    sizes = dict(zip(map(str, nest.loop_variables), nest.ranges, strict=True))
    found = []
    for loop, places in _compared(nest).items():
        size = sizes.get(loop)
        if not isinstance(size, int):
            continue
        cuts = (0, *sorted({p for p in places if 0 < p < size}), size)
        shortest = SHORTEST if loop == order[-1] else 1
        steps = [b - a for a, b in zip(cuts, cuts[1:], strict=False)]
        if 2 < len(cuts) <= LIMIT + 1 and min(steps) >= shortest:
            found.append((len(cuts), loop, cuts))
    return max(found)[1:] if found else None


def in_piece(nest: LoopNest, loop: str, first: int, end: int) -> LoopNest:
    """The nest as it is where `first <= loop < end`: comparisons known there are made, and what is unused goes."""
    known: dict[str, bool] = {}
    same: dict[str, Value] = {}  # a value that is another one here
    places = dict(_places(nest))
    body: list[Instr] = []
    for instr in nest.body:
        instr = replace(instr, args=tuple(same.get(a, a) if isinstance(a, Value) else a for a in instr.args))
        truth = _truth(instr, places, loop, first, end)
        if truth is not None:
            known[instr.name] = truth
            instr = replace(instr, op="constant", args=(truth,))
        elif instr.op in ("logical_and", "logical_or"):
            instr = _connected(instr, known, same)
        elif instr.op == "where" and instr.args[0] in known:
            same[instr.name] = instr.args[1 if known[instr.args[0]] else 2]
            continue
        elif instr.op == "load" and len(instr.args) == 3 and known.get(instr.args[2]):
            instr = replace(instr, args=instr.args[:2])
        if instr.name not in same:
            body.append(instr)
    return replace(nest, body=_used(body))


def _compared(nest: LoopNest) -> dict[str, set[int]]:
    """Each loop whose variable is compared with numbers, and the numbers."""
    found: dict[str, set[int]] = {}
    places = dict(_places(nest))
    for instr in nest.body:
        if (
            instr.op in ("lt", "ge")
            and instr.args[0] in places
            and isinstance(places.get(instr.args[1]), int)
        ):
            found.setdefault(str(places[instr.args[0]]), set()).add(places[instr.args[1]])
    return found


def _places(nest: LoopNest) -> Any:
    """Values that are a loop's variable, or a whole number."""
    for instr in nest.body:
        if instr.op == "index_expr" and instr.args[0].is_Symbol:
            yield instr.name, instr.args[0]
        if instr.op == "constant" and type(instr.args[0]) is int:
            yield instr.name, instr.args[0]


def _truth(instr: Instr, places: dict[str, Any], loop: str, first: int, end: int) -> bool | None:
    """What a comparison of the loop's variable gives at every step of the piece; None: not one, or not known."""
    if instr.op not in ("lt", "ge") or str(places.get(instr.args[0])) != loop:
        return None
    number = places.get(instr.args[1])
    if not isinstance(number, int) or first < number < end:
        return None
    return (end <= number) if instr.op == "lt" else (first >= number)


def _connected(instr: Instr, known: dict[str, bool], same: dict[str, Value]) -> Instr:
    """`and` or `or` with a known operand: known itself, or the other operand."""
    decides = instr.op == "logical_or"  # the truth that one operand needs to settle it
    truths = [known.get(a) for a in instr.args]
    if decides in truths or None not in truths:
        known[instr.name] = decides if decides in truths else not decides
        return replace(instr, op="constant", args=(known[instr.name],))
    if truths != [None, None]:
        same[instr.name] = instr.args[truths.index(None)]
    return instr


def _used(body: list[Instr]) -> tuple[Instr, ...]:
    """The stores, and what they need."""
    needed: set[str] = set()
    kept = []
    for instr in reversed(body):
        if instr.op == "store" or instr.name in needed or instr.op == "indirect_index":
            kept.append(instr)
            needed |= {str(a) for a in instr.args if isinstance(a, Value)}
            needed |= {s.name for a in instr.args for s in getattr(a, "free_symbols", ())}
    return tuple(reversed(kept))
