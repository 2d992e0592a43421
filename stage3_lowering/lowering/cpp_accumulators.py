"""The C++ of a reduction along rows of known length: an accumulator for each of WIDTH elements that stand side by side.

Input: cpp_kernel.py's kernel and one pass of it over the elements of a row. Where a loop has one accumulator, the
compiler makes one register of it, waits for it at each step, and at the end adds its lanes one after another. WIDTH are
two or more registers on every machine, so that a sum has the same bits on each, and they become one by halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stage3_lowering.lowering.cpp_lanes import COMBINE, EVEN, is_even
from stage3_lowering.lowering.cpp_nest import SIMD, Loop, head, nested
from stage3_lowering.lowering.cpp_ops import POSITIONS
from stage_contracts import dtype as dt
from stage_contracts.loop_ir import LoopNest

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText

WIDTH = EVEN
UNEVEN = 8 * WIDTH  # elements of a row whose rest, one by one, is little
# These set a flag, or wait for the element before.
_ONE_BY_ONE = {"indirect_index", "scan"}


@dataclass(frozen=True)
class Accumulators:
    """The name that one pass uses, of the first of the elements side by side, and what the pass writes."""

    group: str
    even: bool  # whether nothing of the row is left after the last of these groups

    def accumulator(self, name: str, of: str, kind: str, start: str) -> tuple[str, str, str]:
        """An accumulator for each: their declaration, the text of one, and all of them in one."""
        one = f"{name}[r0 - {self.group}]"
        return f"cutaway::Accumulators<{of}> {name}({start});", one, f"{name}.reduced({COMBINE[kind]})"

    def positions(self, name: str, of: str, kind: str, start: str) -> tuple[str, tuple[str, str], str]:
        """The same of a position: the text of a lane's best element and of its place."""
        one = f"{name}.best[r0 - {self.group}]", f"{name}.place[r0 - {self.group}]"
        better = {"argmax": "larger", "argmin": "smaller"}[kind]
        return f"cutaway::Positions<{of}> {name}({start});", one, f"{name}.first(cutaway::{better}<{of}>)"

    def loop(self, first: str, last: str, body: Sequence[str]) -> list[str]:
        """The loop over the elements from `first` to `last`."""
        end = f"{self.group} + {WIDTH}"
        if self.even:
            groups = Loop(head(self.group, first, last, WIDTH))
            return nested([groups, Loop(head("r0", self.group, end), body, SIMD)])
        whole = f"{last} - ({last} - {first}) % {WIDTH}"
        groups = Loop(head(self.group, first, whole, WIDTH))
        rest = f"for (int64_t {self.group} = {whole}, r0 = {whole}; r0 < {last}; ++r0) {{"
        return [*nested([groups, Loop(head("r0", self.group, end), body, SIMD)]), *nested([Loop(rest, body)])]


def accumulators(text: KernelText, nest: LoopNest) -> Accumulators | None:
    """The names of a pass that runs so: reductions of floats over one loop of even length, or of a long one."""
    if text.column or text.schedule.split or len(nest.reduction_ranges) != 1:
        return None
    (size,) = nest.reduction_ranges
    fits = isinstance(size, int) and size < 1 << 31 and (is_even(size) or size >= UNEVEN)
    return Accumulators(text.group, is_even(size)) if fits and _side_by_side(nest) else None


def _side_by_side(nest: LoopNest) -> bool:
    """Whether all that it reduces are floats whose reductions lanes may share, and no step waits for another."""
    body = nest.body[: nest.split]
    types = {i.name: i.dtype for i in body}
    kinds = {(i.args[0], types[i.args[1]]) for i in body if i.op == "reduction"}
    known = {(kind, of) for kind in (*COMBINE, *POSITIONS) for of in (dt.float32, dt.float64)}
    return bool(kinds) and kinds <= known and not _ONE_BY_ONE & {i.op for i in body}
