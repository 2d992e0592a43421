"""The C++ of float32 sums over a row of fixed length: STEP elements at a time, with an accumulator for each lane.

Input: cpp_loops.py's kernel and one pass of it over the elements of a row. A compiler adds up the lanes of a reduction
one by one, as it must: after each block of 256 elements, half as long as the block took (AMD Zen 4). Here blocks are
added to doubles lane by lane, and lanes by halves, once per row; the numbers are the same with vectors of any width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stage3_lowering.lowering.cpp_statements import INDENT, Statements
from stage_contracts import dtype as dt

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_loops import KernelText
    from stage3_lowering.lowering.cpp_pairs import Pairs

STEP = 32  # elements: two vectors of AVX-512 or four of AVX2, whose additions need not wait for one another
_ONE_BY_ONE = {"scan", "indirect_index", "random_bits"}


@dataclass(frozen=True)
class SumLanes:
    """How one pass adds up: the names of a step's first element and of a lane, elements in a row and in a block.

    A lane of a loop by pairs adds both. A row of one block keeps each element's value, and needs no accumulators.
    """

    first: str
    lane: str
    size: int
    block: int
    pairs: Pairs | None
    arrays: list[tuple[str, str]] = field(
        default_factory=list
    )  # the names of a sum's registers, and of its lanes
    blocks: list[str] = field(default_factory=list)  # what follows a block

    @property
    def count(self) -> int:
        return STEP // 2 if self.pairs else STEP

    def reduction(self, name: str, names: tuple[str, str, str], value: str) -> tuple[list[str], str, str]:
        """Of one sum: the declarations before the loop, the statement in it, and the result behind it."""
        part, array, wide = names
        if self.size == self.block:
            starts, result = [f"float {array}[{self.size}];"], f"float {name} = cutaway::total({array});"
            return starts, f"{array}[r0] = {value};", result
        self.arrays.append((part, array))
        self.blocks.append(f"{part}.move_to({wide});")
        starts = [f"double {wide}[{self.count}] = {{}};", f"cutaway::Lanes<float, {self.count}> {part}(0);"]
        result = f"float {name} = float(cutaway::total({wide}));"
        return starts, f"{array}[{self.lane}] += {value};", result

    def loop(self, asks: list[str], body: list[str]) -> list[str]:
        """The loop over the elements. `asks` stands before each step.

        What follows a block stands in the one loop: of loops inside one another with nothing else, g++ 12 makes a
        version for the outer one, and then no SIMD code of the inner one.
        """
        if self.size == self.block:
            head = f"for (int64_t r0 = 0; r0 < {self.size}; ++r0) {{"
            return ["#pragma omp simd", head, *(INDENT + line for line in body), "}"]
        of, step = (self.pairs.first, f"2 * {self.lane}") if self.pairs else ("r0", self.lane)
        ends = [f"{self.first} % {self.block} == {self.block - STEP}"]
        ends += [f"{self.first} == {self.size - STEP}"] * bool(self.size % self.block)
        inside = [
            *asks,
            *(f"float {array}[{self.count}];" for _, array in self.arrays),
            *(f"{name}.to({array});" for name, array in self.arrays),
            "#pragma omp simd",
            f"for (int {self.lane} = 0; {self.lane} < {self.count}; ++{self.lane}) {{",
            f"{INDENT}const int64_t {of} = {self.first} + {step};",
            *(INDENT + line for line in body),
            "}",
            *(f"{name}.from({array});" for name, array in self.arrays),
            f"if ({' || '.join(ends)}) {{",
            *(INDENT + line for line in self.blocks),
            "}",
        ]
        head = f"for (int64_t {self.first} = 0; {self.first} < {self.size}; {self.first} += {STEP}) {{"
        return [head, *(INDENT + line for line in inside), "}"]


def sum_lanes(text: KernelText, writer: Statements) -> SumLanes | None:
    """How a pass adds up whose reductions are all float32 sums, and whose row has no rest; None for others."""
    nest = writer.nest
    (size,) = nest.reduction_ranges if len(nest.reduction_ranges) == 1 else (0,)
    if (
        text.column
        or text.schedule.split
        or text.kernel.rows
        or not isinstance(size, int)
        or not size
        or size % STEP
    ):
        return None
    reductions = [i for i in nest.body[: nest.split] if i.op == "reduction"]
    sums = all(i.args[0] == "sum" and i.dtype is dt.float32 for i in reductions)
    one_by_one = any(i.op in _ONE_BY_ONE for i in nest.body[: nest.split])
    in_blocks = text.blocked(nest) or (text.in_floats(nest) and not writer.pairs)
    if not reductions or not sums or one_by_one or not in_blocks:
        return None
    first, lane, _ = text.lane_names
    return SumLanes(first, lane, size, text.block_of(nest) if text.blocked(nest) else size, writer.pairs)
