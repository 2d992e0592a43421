"""What a nest of C++ loops consists of, as data, and the functions that print it.

Input: the files that know a kind of loop: cpp_plain.py, cpp_tiled.py, cpp_reductions.py. Loops stand inside one
another; threads share the first of them, and each thread may have memory of its own and something to do at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stage3_lowering.lowering.cpp_statements import INDENT
from stage_contracts.index_expr import symbol

SIMD = "#pragma omp simd"
BAD_INDEX = " reduction(|:bad_index)"


@dataclass(frozen=True)
class Loop:
    """One loop: its first line, what stands in it before the next loop, above it and behind it."""

    head: str
    inside: Sequence[str] = ()
    pragma: str = ""
    behind: Sequence[str] = ()


@dataclass(frozen=True)
class Tile:
    """A loop that runs block by block, and where it begins and ends."""

    loop: str
    block: str  # the name of a block's first element
    size: int  # elements
    first: str
    end: str
    whole: bool  # the last block is as long as the others

    @property
    def place(self) -> str:
        """The place of an element in its block."""
        return f"{self.loop} - {self.block}"

    @property
    def left(self) -> str:
        """How many elements there are from a block's first one on."""
        return f"{self.end} - {self.block}"

    @property
    def stop(self) -> str:
        """Where a block ends."""
        stop = f"{self.block} + {self.size}"
        return stop if self.whole else f"({stop} < {self.end} ? {stop} : {self.end})"

    @property
    def over_blocks(self) -> str:
        """The first line of the loop over blocks."""
        return head(self.block, self.first, self.end, self.size)

    @property
    def over_elements(self) -> str:
        """The first line of the loop over a block."""
        return head(self.loop, self.block, self.stop)

    def at_block(self, index: Any) -> Any:
        """An index, of a block's first element."""
        return index.subs(symbol(self.loop), symbol(self.block))


@dataclass(frozen=True)
class Threads:
    """How threads share the first loops of a nest."""

    loops: int
    status: str = ""  # what they reduce
    condition: str = ""  # when there are threads
    there: bool = False  # around the nest already; between rows of a table they do not wait for one another
    simd: bool = False  # the loop's steps are lanes, too


@dataclass(frozen=True)
class Nest:
    """The loops of a kernel, or of a piece of it."""

    loops: Sequence[Loop]
    before: Sequence[str] = ()
    body: Sequence[str] = ()  # inside the last loop
    threads: Threads | None = None
    own: Sequence[str] = ()  # memory of each thread, declared once
    last: Sequence[str] = ()  # what each thread does at the end


def head(loop: str, first: object, end: object, step: int = 0) -> str:
    """The first line of a loop: over elements, or with a step, over the first ones of blocks."""
    each = f"{loop} += {step}" if step else f"++{loop}"
    return f"for (int64_t {loop} = {first}; {loop} < {end}; {each}) {{"


def indented(lines: Sequence[str]) -> list[str]:
    return [INDENT + line for line in lines]


def braces(lines: Sequence[str]) -> list[str]:
    return ["{", *indented(lines), "}"]


def nested(loops: Sequence[Loop], body: Sequence[str] = ()) -> list[str]:
    """The loops inside one another, the body inside the last."""
    lines = list(body)
    for loop in reversed(loops):
        above = [loop.pragma] * bool(loop.pragma)
        lines = [*above, loop.head, *indented([*loop.inside, *lines]), "}", *loop.behind]
    return lines


def stacked(heads: Sequence[str], inside: Sequence[Sequence[str]]) -> list[Loop]:
    """A loop for each head, with the statements that stand in it."""
    return [Loop(head, lines) for head, lines in zip(heads, inside, strict=True)]


def under(pragma: str, loops: Sequence[Loop], place: int) -> list[Loop]:
    """The loops, with a pragma above the first (0) or the last (-1)."""
    changed = list(loops)
    changed[place] = replace(changed[place], pragma=pragma)
    return changed


def printed(nest: Nest) -> list[str]:
    """The lines of a nest: as it is, with its first loops shared, or inside a team of threads."""
    threads = nest.threads
    if threads is None:
        lines = nested(nest.loops, nest.body)
        lines = braces([*nest.own, *lines]) if nest.own else lines
        return [*nest.before, *lines, *nest.last]
    if threads.there or not (nest.own or nest.last):
        return [*nest.before, *nested(under(_shared(threads), nest.loops, 0), nest.body)]
    within = f"#pragma omp for{_collapse(threads)}{'' if nest.own else ' nowait'}"
    lines = nested(under(within, nest.loops, 0), nest.body)
    team = f"#pragma omp parallel{_clauses(threads)}"
    return [*nest.before, team, *braces([*nest.own, *lines, *nest.last])]


def _shared(threads: Threads) -> str:
    """The pragma above loops whose steps threads share."""
    loop = f"for{' simd' * threads.simd}{_collapse(threads)}"
    if threads.there:
        return f"#pragma omp {loop} nowait"
    return f"#pragma omp parallel {loop}{_clauses(threads)}"


def _collapse(threads: Threads) -> str:
    return f" collapse({threads.loops})" if threads.loops > 1 else ""


def _clauses(threads: Threads) -> str:
    of = "parallel: " * threads.simd
    return threads.status + (f" if({of}{threads.condition})" if threads.condition else "")
