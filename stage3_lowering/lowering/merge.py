"""Turns the nests of one fused group into a kernel: merges bodies into sections and drops repeated loads.

Input: LoopNests over one iteration space, in order. A section is one pass over the reduction loops. Nests share it
unless one needs the result of another's reduction. The sections of the result are LoopNests again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import AT_PLACES, WRITES, Instr, LoopNest, Value
from stage_contracts.origin import Origin
from stage_contracts.program import Kernel
from stage_contracts.tensor_meta import TensorMeta

ROW_LIMIT = 4096  # elements of one row that a kernel may keep for itself: a stack frame, or a Triton block


@dataclass
class Section:
    """A LoopNest being filled. `inner` runs in the full nest, then the reductions end, then `outer` runs per
    point."""

    ranges: tuple[Any, ...]
    reduction_ranges: tuple[Any, ...]
    inner: list[Instr] = field(default_factory=list)
    reductions: list[Instr] = field(default_factory=list)
    outer: list[Instr] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    inner_known: dict[Any, Value] = field(default_factory=dict)  # what a load or an instruction already gave
    outer_known: dict[Any, Value] = field(default_factory=dict)

    @property
    def body(self) -> list[Instr]:
        return [*self.inner, *self.reductions, *self.outer]

    def nest(self) -> LoopNest:
        body = tuple(self.body)
        name = [i.args[0] for i in body if i.op in WRITES][-1]
        return LoopNest(name, self.ranges, self.reduction_ranges, body, tuple(dict.fromkeys(self.origins)))


def build_kernel(
    number: int, nests: Sequence[LoopNest], needed: Collection[str], buffers: Mapping[str, TensorMeta]
) -> Kernel:
    """One kernel of all `nests`. `needed`: the buffers that somebody outside reads."""
    sections: list[Section] = []
    # buffer -> its section, and whether it is stored once per outer point
    produced: dict[str, tuple[int, bool]] = {}
    renamed: dict[str, Value] = {}
    for nest in nests:
        at, part = _place(nest, sections, produced)
        section = sections[at]
        section.origins += nest.origins
        for k, instr in enumerate(nest.body):
            here = "outer" if part == "outer" or k >= nest.split else "inner"
            its = instr if instr.origins else instr.with_origins(nest.origins)
            _append(section, here, its, renamed)
            if instr.op == "store":
                produced[instr.args[0]] = (at, here == "outer" or not section.reduction_ranges)
    internal = _prune(sections, produced, needed)
    kept = tuple(s.nest() for s in sections if s.body)
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for nest in kept:
        reads.update(dict.fromkeys(r for r in nest.reads if r not in writes))
        writes.update(dict.fromkeys(nest.writes))
    params = tuple(name for name in dict.fromkeys((*reads, *writes)) if name not in internal)
    return Kernel(_kernel_name(number, kept), kept, params, tuple(n for n in writes if n in internal))


def _place(
    nest: LoopNest, sections: list[Section], produced: Mapping[str, tuple[int, bool]]
) -> tuple[int, str]:
    """The section `nest` goes into, made if there is none, and whether into its inner or its outer part."""
    inner_reads = {i.args[0] for i in nest.body[: nest.split] if i.op == "load"}
    earliest = 0
    for name in nest.reads:
        if name in produced:
            section, per_point = produced[name]
            # a point's value is whole when the section ends; a row, be it of one, when its loops have
            reduced = per_point and name in inner_reads and bool(nest.reduction_ranges)
            ends_before = reduced or not (per_point or nest.reduction_ranges)
            earliest = max(earliest, section + ends_before)
    for at in range(earliest, len(sections)):
        here = sections[at]
        if here.reduction_ranges == nest.reduction_ranges:
            return at, "inner"
        if not nest.reduction_ranges and here.reductions:
            return at, "outer"
    sections.append(Section(nest.ranges, nest.reduction_ranges))
    return len(sections) - 1, "inner"


def _append(section: Section, part: str, instr: Instr, renamed: dict[str, Value]) -> None:
    """Add an instruction, unless an equal one is there; a load of what was stored here is the stored
    value."""
    if renamed:
        instr = instr.with_args(tuple(rename(a, renamed) for a in instr.args))
    known = section.inner_known if part == "inner" else section.outer_known
    if instr.op == "store":
        buffer, index, value = instr.args
        known["load", buffer, index] = value
    elif instr.op not in AT_PLACES:  # twice is twice
        load = instr.op == "load"
        key = ("load", *instr.args) if load else (instr.op, *map(_key, instr.args), instr.dtype)
        if load and key[:3] in known:  # what is there without a mask will do under one
            key = key[:3]
        if key in known:
            renamed[instr.name] = known[key]
            return
        known[key] = Value(instr.name)
    target = (
        section.reductions if instr.op == "reduction" else section.inner if part == "inner" else section.outer
    )
    target.append(instr)


def _key(arg: Any) -> Any:
    """Constants by type and text: 0.0 is not -0.0, 1 is not True."""
    return (type(arg), repr(arg)) if isinstance(arg, (bool, int, float)) else arg


def rename(arg: Any, renamed: Mapping[str, Value]) -> Any:
    """An instruction's argument with other names for values, also for those in an index."""
    if isinstance(arg, Value):
        return renamed.get(arg, arg)
    if isinstance(arg, sympy.Basic):
        moved = {s: symbol(renamed[s.name]) for s in arg.free_symbols if s.name in renamed}
        return arg.xreplace(moved) if moved else arg
    return arg


def _prune(
    sections: list[Section], produced: Mapping[str, tuple[int, bool]], needed: Collection[str]
) -> set[str]:
    """Drop stores that nothing reads and what only they needed; gives the buffers that stay inside the kernel."""
    while _drop_unread(sections, needed):
        pass
    loaded = _loaded(sections)
    inside = set(produced) & loaded - set(needed)
    row = math.prod(next((s.reduction_ranges for s in sections if s.reduction_ranges), ()))
    return {name for name in inside if produced[name][1] or (isinstance(row, int) and row <= ROW_LIMIT)}


def _drop_unread(sections: list[Section], needed: Collection[str]) -> bool:
    """Drop the stores and values that nothing reads. Returns whether there were any: then more may be unread now."""
    read = _loaded(sections) | set(needed)
    used = {v for s in sections for i in s.body for v in _values_read(i)}
    before = sum(len(s.body) for s in sections)
    for part in (part for s in sections for part in (s.inner, s.reductions, s.outer)):
        part[:] = [i for i in part if (i.args[0] in read if i.op in WRITES else i.name in used)]
    return sum(len(s.body) for s in sections) < before


def _loaded(sections: list[Section]) -> set[str]:
    return {i.args[0] for s in sections for i in s.body if i.op == "load"}


def _values_read(instr: Instr) -> list[str]:
    values: list[str] = [a for a in instr.args if isinstance(a, Value)]
    return values + [s.name for a in instr.args if isinstance(a, sympy.Basic) for s in a.free_symbols]


_SILENT = ("load", "store", "constant", "index_expr", "indirect_index", "cast", "bitcast")


def _kernel_name(number: int, nests: Sequence[LoopNest]) -> str:
    """`fused_sub_exp_sum_3`: what it computes, and its place in the program."""
    body = (
        i for n in nests for i in n.body if i.op not in _SILENT and not i.name.startswith("inside")
    )  # masks
    words = [i.args[0] if i.op == "reduction" else i.op for i in body]
    words = list(dict.fromkeys(words))
    return f"fused_{'_'.join(words[:4]) or 'copy'}_{number}"
