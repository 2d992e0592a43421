"""The C++ of a loop over a row of open or uneven length: LANES elements at a time, then once more for the rest.

Input: cpp_kernel.py's kernel and one pass of it over the elements of a row. A compiler that does not know a loop's
length writes it in several forms, and begins and ends each: over 8 vectors that costs as much as the vectors. What is
left of a length that it knows it computes one by one: a softmax of 63 columns took 3.5 times as long. Here each loop it
sees has LANES steps, and each lane has an accumulator. What is left of a row is computed in all lanes too, so that an
element's bits do not depend on its place; a lane that is not active loads 0, stores nothing and adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.cpp_ops import CPP_OPS, LANES
from stage3_lowering.lowering.cpp_statements import INDENT, Statements
from stage3_lowering.lowering.streamed import streamed_stores
from stage_contracts import dtype as dt
from stage_contracts.dtype import FLOATING, DType
from stage_contracts.loop_ir import Instr, LoopNest, Value

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText

ROW = "r0"
EVEN = 32  # what divides the length of an even row, twice at least
# What has no instruction for lanes: a lane that is not active would cost as much as one that is.
_ONE_BY_ONE = {"fmod", "remainder", "floor_divide", "pow", "atan2"}
_ELEMENTWISE = {*CPP_OPS[FLOATING], "constant"} - _ONE_BY_ONE
_TYPES: set[DType | None] = {dt.float32, dt.bool_, None}
# The accumulators of two registers, or of two lanes, in one. (Each lambda would be a type of its own, for which the
# compiler makes what combines all lanes once more.)
COMBINE = {
    "sum": "cutaway::Sum()",
    "prod": "cutaway::Product()",
    "amax": "cutaway::Largest()",
    "amin": "cutaway::Smallest()",
}


@dataclass(frozen=True)
class RowLanes:
    """The names that one pass uses: of its first element, of a lane, of what says which lanes count."""

    first: str
    lane: str
    active: str
    changed: list[str]  # what the loop's body changes, or cannot copy
    # accumulators: the type, the name in registers, the name of an array while a vector is computed
    arrays: list[tuple[str, str, str]] = field(default_factory=list)

    def element(self, place: str, mask: str = "") -> str:
        """The element at a place; 0 where the lane is not active, or the program's own mask is not set.

        Compilers see that the 0 is of no use, and compute a lane that is not active with what a register happens to
        hold: if that is a denormal number, a vector takes a hundred cycles. So the bits of that lane are cleared, too.
        """
        condition = f"{self.active}[{self.lane}]" + f" && {mask}" * bool(mask)
        return f"{self.active}.kept({self.lane}, {condition} ? {place} : 0)"

    def store(self, place: str, value: str) -> str:
        return f"if ({self.active}[{self.lane}]) {place} = {value};"

    def accumulator(self, name: str, array: str, of: str, kind: str, start: str) -> tuple[str, str, str]:
        """An accumulator for each lane: its declaration, the text of one, and all of them in one."""
        self.changed.append(name)
        self.arrays.append((of, name, array))
        reduced = f"{name}.reduced({COMBINE[kind]})"
        return f"cutaway::Lanes<{of}> {name}({start});", f"{array}[{self.lane}]", reduced

    def reduced(self, value: str, start: str) -> str:
        return f"{self.active}[{self.lane}] ? {value} : {start}"

    def loop(self, first: str, last: str, body: Sequence[str]) -> list[str]:
        """The loop over the elements from `first` to `last`."""
        held = ", ".join(["=", *(f"&{name}" for name in self.changed)])
        inside = [f"const int64_t {ROW} = {self.first} + {self.lane};", *body]
        return [
            f"cutaway::in_lanes({first}, {last}, [{held}](int64_t {self.first}, auto {self.active}) {{",
            *(f"{INDENT}{of} {array}[{LANES}];" for of, _, array in self.arrays),
            *(f"{INDENT}{name}.to({array});" for _, name, array in self.arrays),
            f"{INDENT}#pragma omp simd",
            f"{INDENT}for (int {self.lane} = 0; {self.lane} < {LANES}; ++{self.lane}) {{",
            *(INDENT * 2 + line for line in inside),
            f"{INDENT}}}",
            *(f"{INDENT}{name}.from({array});" for _, name, array in self.arrays),
            "});",
        ]


def row_lanes(text: KernelText, nest: LoopNest) -> RowLanes | None:
    """The names of a pass that runs so: float32 elements side by side, in one loop of open or uneven length."""
    if not _one_loop(text, nest):
        return None
    depths, types = Statements(nest, text, [ROW]), dict[str, DType | None]()
    for instr in nest.body[: nest.split]:
        types[instr.name] = instr.dtype
        if depths.depth_of(instr) and not _fits(text, instr, types):
            return None
    rows = {text.kept_rows[name] for name in (*nest.reads, *nest.writes) if name in text.kept_rows}
    first, lane, active = text.lane_names
    return RowLanes(first, lane, active, sorted(rows))


def _one_loop(text: KernelText, nest: LoopNest) -> bool:
    if text.column or text.schedule.split or text.kernel.rows or len(nest.reduction_ranges) != 1:
        return False
    (size,) = nest.reduction_ranges
    lanes = not isinstance(size, int) or (size >= LANES and not is_even(size))
    return lanes and not streamed_stores(nest, text.schedule.streamed)


def is_even(size: int) -> bool:
    """Whether a compiler's own loop over a row leaves no rest: cpp_accumulators.py has the sums of these."""
    return size >= 2 * EVEN and size % EVEN == 0


def _fits(text: KernelText, instr: Instr, types: dict[str, DType | None]) -> bool:
    """Whether the lanes can run an instruction that depends on the element."""
    if not {types[str(a)] for a in instr.args if isinstance(a, Value)} | {instr.dtype} <= _TYPES:
        return False
    if instr.op in ("load", "store"):
        return instr.args[0] in text.kept_rows or stride(instr.args[1], ROW) == 1
    return instr.args[0] in COMBINE if instr.op == "reduction" else instr.op in _ELEMENTWISE
