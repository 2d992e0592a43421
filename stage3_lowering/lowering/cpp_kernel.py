"""What the loops of one C++ kernel share: its names, its memory, and its statements by the loops around them.

Input: emit_cpp.py's kernel and its KernelSchedule. cpp_loops.py writes the loops, cpp_statements.py what is in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stage3_lowering.lowering.cpp_accumulators import accumulators
from stage3_lowering.lowering.cpp_columns import in_groups
from stage3_lowering.lowering.cpp_lanes import EVEN, row_lanes
from stage3_lowering.lowering.cpp_nest import BAD_INDEX, SIMD, Loop, Threads, head
from stage3_lowering.lowering.cpp_ops import MEMORY_TYPES, REDUCTIONS
from stage3_lowering.lowering.cpp_pairs import Pairs, nests_in_pairs
from stage3_lowering.lowering.cpp_statements import Statements, cpp_index
from stage3_lowering.lowering.placed_in_order import has_lanes, placements
from stage3_lowering.lowering.schedule_kernels import PARALLEL_WORK, work_of
from stage3_lowering.lowering.values import dot
from stage_contracts import config
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import with_comments
from stage_contracts.program import Kernel
from stage_contracts.tensor_meta import contiguous_strides

BLOCK = 256  # elements that are summed in float before a double takes over
# The same of a row below LONG, whose few blocks leave more of the error; NumPy's own blocks are as long.
SHORT_BLOCK, LONG = 128, 1024


class KernelText:
    """The body of one kernel, while it is written."""

    def __init__(self, kernel: Kernel, schedule: KernelSchedule, checks: bool) -> None:
        self.kernel, self.schedule, self.checks = kernel, schedule, checks
        self.sizes = {v: size for nest in kernel.nests for v, size in loop_sizes(nest).items()}
        # where each loop begins and ends; one that runs in pieces: the piece that is being written
        self.bounds: dict[str, tuple[int, Any]] = {v: (0, size) for v, size in self.sizes.items()}
        self.inner = next((n.reduction_ranges for n in kernel.nests if n.reduction_ranges), ())
        self.names = {*kernel.params, *kernel.sizes, *(i.name for n in kernel.nests for i in n.body)}
        self.column_names = {p: self.fresh(f"{p}_rows") for p in kernel.columns}  # a table's columns
        self.inside: dict[str, str] = {}  # internal buffer -> what to write for its element
        columns = bool(self.inner) and schedule.vector in schedule.order
        self.column = schedule.vector if columns else ""
        self.width = dict(schedule.tiles).get(self.column, 0)
        self.block, self.end = self.fresh(f"{self.column}_block"), self.fresh(f"{self.column}_end")
        self.lane = f"{self.column} - {self.block}" if columns else ""
        self.kept_rows: dict[str, str] = {}  # internal buffer -> its array of an element per reduction point
        self.group = self.fresh("r0_group")  # the first of the elements that stand side by side
        self.in_pairs, self.float_rows = nests_in_pairs(self)
        self.rows = self._declare_rows()
        self.lane_names = tuple(self.fresh(name) for name in ("first", "lane", "active"))
        self.first_of_pair = self.fresh("pair") if self.in_pairs else ""

    def fresh(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def _declare_rows(self) -> list[str]:
        """Memory for each internal buffer that has an element per reduction point: on the stack, or on the heap."""
        declared = []
        for nest in self.kernel.nests:
            types = {i.name: i.dtype for i in nest.body}
            row = dot(contiguous_strides(nest.reduction_ranges), nest.reduction_variables)
            for instr in nest.body[: nest.split] if nest.reduction_ranges else ():
                if instr.op != "store" or instr.args[0] not in self.kernel.internal:
                    continue
                dtype, name = types[instr.args[2]], self.fresh(f"{instr.args[2]}_row")
                assert dtype is not None
                of, size = MEMORY_TYPES[dtype.name], cpp_index(math.prod(self.inner))
                of = "float" if instr.args[0] in self.float_rows else of
                if instr.args[0] in self.schedule.scratch:
                    declared.append(f"cutaway::Row<{of}> {name}({size});")
                else:
                    declared.append(f"{of} {name}[{size}];")
                self.inside[instr.args[0]] = f"{name}[{cpp_index(row)}]"
                self.kept_rows[instr.args[0]] = name
        return declared

    # ---- loops ---------------------------------------------------------------------------------------

    def head(self, loop: str) -> str:
        """The first line of a loop that runs as it is."""
        first, end = self.bounds[loop]
        return head(loop, first, cpp_index(end))

    def simd(self, writer: Statements, loop: str) -> str:
        """The pragma above a loop whose steps are lanes; one bit says of all of them that a place is bad."""
        if not has_lanes(writer.nest, loop):
            return ""
        return SIMD + BAD_INDEX * (self.checks and loop in writer.checked)

    @property
    def over_blocks(self) -> Loop:
        """Of a reduction across rows: the loop over blocks of its lanes."""
        size, last = cpp_index(self.sizes[self.column]), f"{self.block} + {self.width}"
        end = f"const int64_t {self.end} = {last} < {size} ? {last} : {size};"
        return Loop(head(self.block, 0, size, self.width), [end])

    @property
    def over_lanes(self) -> str:
        """The first line of the loop over such a block's lanes."""
        return head(self.column, self.block, self.end)

    def threads(self, loops: int) -> Threads | None:
        """Threads over at most the first `loops`, if the schedule says so; with open sizes the call decides."""
        shared = min(loops, len(self.schedule.parallel))
        if not shared or any(map(placements, self.kernel.nests)):
            return None
        work = work_of(self.kernel)
        condition = "" if isinstance(work, int) else f"{cpp_index(work)} >= {PARALLEL_WORK}"
        return Threads(shared, BAD_INDEX * self.checks, condition, there=bool(self.kernel.rows))

    def pairs(self, nest: LoopNest, loops: Sequence[str]) -> Pairs | None:
        """The names of the nest's last loop where it takes two elements at a time."""
        return Pairs(loops[-1], self.first_of_pair) if nest in self.in_pairs else None

    # ---- statements ----------------------------------------------------------------------------------

    def levels(self, writer: Statements, start: int = 0, stop: int | None = None) -> list[list[str]]:
        """Statements of a part of the writer's nest, by the number of its loops around them."""
        nest, depth = writer.nest, len(writer.loops)
        stop = len(nest.body) if stop is None else stop
        levels: list[list[str]] = [[] for _ in range(depth + 1)]
        comments = config.current().lowering.comments and len(self.kernel.origins) > 1
        shown: dict[int, list[str]] = {}
        above: list[str] = []
        for k, (marks, instr) in enumerate(with_comments(nest, header=False)):
            above = marks or above
            if k < start:  # the user's line stands in the first part already
                shown = dict.fromkeys(range(depth + 1), above)
            if not start <= k < stop:
                continue
            statements = [] if instr.name in writer.elsewhere else writer.write(instr)
            at = writer.depth_of(instr)
            fresh = above if statements and comments and shown.get(at) != above else []
            shown[at] = fresh or shown.get(at, [])
            levels[at] += [c.replace("#", "//", 1) for c in fresh] + statements
        return levels

    # ---- sums ----------------------------------------------------------------------------------------

    def blocked(self, nest: LoopNest) -> bool:
        """Whether float sums over a row are taken in blocks: float lanes within one, doubles over them.

        Twice as fast as double lanes, and as exact as NumPy's sums of pairs: 16 to 64 additions, then a tree.
        """
        if self.column or len(nest.reduction_ranges) != 1:
            return False
        (size,) = nest.reduction_ranges
        return not isinstance(size, int) or size > SHORT_BLOCK

    def in_floats(self, nest: LoopNest) -> bool:
        """Whether a row is no longer than such a block, and its lanes run side by side: then no double is needed."""
        if self.column or len(nest.reduction_ranges) != 1 or self.schedule.split:
            return False
        (size,) = nest.reduction_ranges
        if not isinstance(size, int) or size > SHORT_BLOCK:
            return False
        own = row_lanes(self, nest) or accumulators(self, nest)
        return own is not None or (size >= 2 * EVEN and in_lanes(nest))

    def in_groups(self, nest: LoopNest) -> bool:
        """Whether a register adds up some rows before the lane's accumulator takes them."""
        return bool(self.column) and in_groups(nest)


def loop_sizes(nest: LoopNest) -> dict[str, Any]:
    """Each loop of the nest, and its size."""
    variables = (*nest.loop_variables, *nest.reduction_variables)
    return {str(v): size for v, size in zip(variables, (*nest.ranges, *nest.reduction_ranges), strict=True)}


def block_of(nest: LoopNest) -> int:
    """The elements of a block of a row."""
    size = nest.reduction_ranges[0]
    return SHORT_BLOCK if isinstance(size, int) and size < LONG else BLOCK


def in_lanes(nest: LoopNest) -> bool:
    """Whether the nest's reductions run in lanes: a position, or a running sum, is found one by one."""
    return not any(i.op == "scan" or (i.op == "reduction" and i.args[0] not in REDUCTIONS) for i in nest.body)
