"""Places that the data decides: what computes and checks them, apart from what is read or written there.

Input: a loop nest, or a kernel. A C++ kernel that writes at places checks them before it writes an element, so an index
that is out of range leaves everything as it was: then it may write into an input (in_place.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import AT_PLACES, Instr, LoopNest, Value

if TYPE_CHECKING:
    from stage_contracts.kernel import Kernel


def decided_places(nest: LoopNest) -> frozenset[str]:
    return frozenset(i.name for i in nest.body if i.op == "indirect_index")


def places_alone(nest: LoopNest) -> LoopNest:
    """The nest that computes the places and nothing else, in the loops that it needs."""
    needed, kept = set(decided_places(nest)), list[Instr]()
    for instr in reversed(nest.body):
        if instr.name and instr.name in needed:
            kept.append(instr)
            needed |= _names(instr)
    loops = [v for v in nest.loop_variables if str(v) in needed]
    moved = {v: symbol(f"i{k}") for k, v in enumerate(loops)}
    sizes = dict(zip(nest.loop_variables, nest.ranges, strict=True))
    body = tuple(i.with_args(tuple(_moved(a, moved) for a in i.args)) for i in reversed(kept))
    return LoopNest(nest.name, tuple(sizes[v] for v in loops), (), body, nest.origins)


def _names(instr: Instr) -> set[str]:
    """The values and loop variables that it uses."""
    values = {str(a) for a in instr.args if isinstance(a, Value)}
    return values | {s.name for a in instr.args if hasattr(a, "free_symbols") for s in a.free_symbols}


def _moved(arg: Any, moved: Mapping[Any, Any]) -> Any:
    return arg.xreplace(moved) if hasattr(arg, "free_symbols") else arg


def checks_places_first(kernel: Kernel) -> bool:
    """Whether a C++ kernel that writes at places checks all of them before. Where each element of an inner loop has one
    of its own, to compute them twice would cost as much as the copy that it saves, and it does not."""
    if len(kernel.nests) != 1 or kernel.rows or kernel.template:
        return False
    (nest,) = kernel.nests
    if not decided_places(nest) or not any(i.op in AT_PLACES for i in nest.body) or nest.reduction_ranges:
        return False
    needed = places_alone(nest).ranges
    known = all(type(n) is int for n in nest.ranges if n not in needed)  # where one is 0, nothing is checked
    return known and (len(nest.ranges) == 1 or len(needed) < len(nest.ranges))


def checks_of(kernel: Kernel, buffers: tuple[str, ...]) -> frozenset[Any]:
    """What a launch checks, so that it can be compared: the same of two launches need not be checked twice."""
    found = set()
    for bound in kernel.bindings(buffers):
        for nest in kernel.nests:
            alone = places_alone(nest)
            numbers = {i.name: f"v{k}" for k, i in enumerate(alone.body)}
            steps = tuple((i.op, tuple(_known_as(a, bound, numbers) for a in i.args)) for i in alone.body)
            found.add((alone.ranges, steps))
    return frozenset(found)


def _known_as(arg: Any, bound: Mapping[str, str], numbers: Mapping[str, str]) -> Any:
    if isinstance(arg, Value):
        return numbers[str(arg)]
    if hasattr(arg, "free_symbols"):
        return arg.xreplace({symbol(name): symbol(number) for name, number in numbers.items()})
    return bound.get(arg, arg) if isinstance(arg, str) else arg
