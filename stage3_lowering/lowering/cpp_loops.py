"""Writes the loops of one C++ kernel as its schedule says, and puts each statement at the loop it depends on.

Input: emit_cpp.py's kernel and its KernelSchedule. There are three shapes: a pointwise kernel; reductions along rows,
with the SIMD lanes in the reduction loop; reductions across rows, with a lane and an accumulator for each point of a
block.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from stage3_lowering.lowering.column_values import ColumnValues, column_values
from stage3_lowering.lowering.cpp_accumulators import SHORTEST, accumulators
from stage3_lowering.lowering.cpp_columns import in_groups, rows_in_groups, rows_in_parts
from stage3_lowering.lowering.cpp_lanes import row_lanes
from stage3_lowering.lowering.cpp_ops import CPP_TYPES, REDUCTIONS
from stage3_lowering.lowering.cpp_pairs import Pairs, in_pairs, nests_in_pairs
from stage3_lowering.lowering.cpp_statements import INDENT, Statements, cpp_index, nested
from stage3_lowering.lowering.cpp_streamed import line_step, through_lines, with_fence
from stage3_lowering.lowering.cpp_tiles import BAD_INDEX, gathered_loop, stage_loop, stages_of, turned_loop
from stage3_lowering.lowering.gathers import gathers
from stage3_lowering.lowering.index_set_splitting import in_piece
from stage3_lowering.lowering.prefetch import asking
from stage3_lowering.lowering.rows_ahead import asked_for
from stage3_lowering.lowering.schedule_kernels import PARALLEL_WORK, work_of
from stage3_lowering.lowering.streamed import streamed_stores
from stage3_lowering.lowering.values import dot
from stage_contracts import config
from stage_contracts.index_expr import symbol
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import with_comments
from stage_contracts.program import Kernel
from stage_contracts.tensor_meta import contiguous_strides

BLOCK = 256  # elements that are summed in float before a double takes over
# The same of a row below LONG, whose few blocks leave more of the error; NumPy's own blocks are as long.
SHORT_BLOCK, LONG = 128, 1024


class KernelText:
    """The body of one kernel."""

    def __init__(self, kernel: Kernel, schedule: KernelSchedule, checks: bool) -> None:
        self.kernel, self.schedule, self.checks = kernel, schedule, checks
        self.sizes = {v: s for n in kernel.nests for v, s in _loops_of(n).items()}
        self.inner = next((n.reduction_ranges for n in kernel.nests if n.reduction_ranges), ())
        self.names = {*kernel.params, *kernel.sizes, *(i.name for n in kernel.nests for i in n.body)}
        self.column_names = {p: self.fresh(f"{p}_rows") for p in kernel.columns}  # a table's columns
        self.inside: dict[str, str] = {}  # internal buffer -> what to write for its element
        columns = bool(self.inner) and schedule.vector in schedule.order
        self.column = schedule.vector if columns else ""
        self.width = dict(schedule.tiles).get(self.column, 0)
        self.block, self.end = self.fresh(f"{self.column}_block"), self.fresh(f"{self.column}_end")
        self.lane = f"{self.column} - {self.block}" if columns else ""
        size, last = cpp_index(self.sizes.get(self.column, 0)), f"{self.block} + {self.width}"
        self.block_head = (
            f"for (int64_t {self.block} = 0; {self.block} < {size}; {self.block} += {self.width}) {{"
        )
        self.block_end = f"const int64_t {self.end} = {last} < {size} ? {last} : {size};"
        asked = asking(kernel, schedule.order[-1]) if schedule.prefetch and self.inner else {}
        self.asking = {buffer: nest for buffer, nest in asked.items() if buffer in schedule.prefetch}
        self.kept_rows: dict[str, str] = {}  # internal buffer -> its array of an element per reduction point
        self.group = self.fresh("r0_group")  # the first of the elements that stand side by side
        self.in_pairs, self.float_rows = nests_in_pairs(self)
        self.rows = self._declare_rows()
        self.lane_names = tuple(self.fresh(name) for name in ("first", "lane", "active"))
        self.first_of_pair = self.fresh("pair") if self.in_pairs else ""
        # the loop that runs tile by tile alone: its name, where a tile starts, its size, how many steps are left
        self.tile = ("", "", 0, "")
        self.bounds: dict[str, tuple[int, Any]] = {}  # of the loop that runs in pieces: the one being written

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
                of, size = CPP_TYPES[dtype.name], cpp_index(math.prod(self.inner))
                of = "float" if instr.args[0] in self.float_rows else of
                if instr.args[0] in self.schedule.scratch:
                    declared.append(f"cutaway::Row<{of}> {name}({size});")
                else:
                    declared.append(f"{of} {name}[{size}];")
                self.inside[instr.args[0]] = f"{name}[{cpp_index(row)}]"
                self.kept_rows[instr.args[0]] = name
        return declared

    def lines(self) -> list[str]:
        return with_fence(self._loops()) if self.schedule.streamed else self._loops()

    def _loops(self) -> list[str]:
        if not self.inner:
            return self._pointwise(self.kernel.nests[0]) if not self.schedule.pieces else self._pieces()
        order = self.schedule.order
        # memory of the heap is taken once per thread, where the rows' loop stands right inside it
        once = [row for row in self.rows if row.startswith("cutaway::Row") and order and not self.column]
        body = [row for row in self.rows if row not in once]
        for nest in self.kernel.nests:
            body += self._section(nest)
        heads = [self._head(v) for v in order if v != self.column]
        if self.column and self.schedule.split:
            return body  # its parts stand around the blocks
        if self.column:
            heads.append(self.block_head)
            body = [self.block_end, *body]
        lines = nested(heads, [[] for _ in heads] + [body], self._threads(len(heads)))
        return self._with_memory(once, lines) if once else lines

    def _with_memory(self, declared: list[str], lines: list[str]) -> list[str]:
        """The loops with memory declared before them; where threads share them, inside the team."""
        head, rest = lines[0], lines[1:]
        if not head.startswith("#pragma omp parallel for"):
            return ["{", *(INDENT + line for line in [*declared, *lines]), "}"]
        collapse = re.search(r" collapse\(\d+\)", head)
        team = head.replace(" for", "", 1).replace(collapse[0] if collapse else "", "")
        shared = f"#pragma omp for{collapse[0] if collapse else ''}"
        return [team, "{", *(INDENT + line for line in [*declared, shared, *rest]), "}"]

    # ---- pointwise -----------------------------------------------------------------------------------

    def _pieces(self) -> list[str]:
        """The loops once for each piece of one of them."""
        assert self.schedule.pieces is not None
        loop, cuts = self.schedule.pieces
        lines = []
        for first, end in zip(cuts, cuts[1:], strict=False):
            self.bounds = {loop: (first, end)}
            piece = self._pointwise(in_piece(self.kernel.nests[0], loop, first, end))
            alone = piece[0].startswith(("#pragma", "for"))  # else it declares names of its own
            lines += piece if alone else ["{", *(INDENT + line for line in piece), "}"]
        return lines

    def _pointwise(self, nest: LoopNest) -> list[str]:
        order, tiles = self.schedule.order, dict(self.schedule.tiles)
        names = {v: self.fresh(f"{v}_block") for v in order if v in tiles}
        if len(tiles) == 1:
            block = names[order[-1]]
            self.tile = (order[-1], block, tiles[order[-1]], f"{cpp_index(self.sizes[order[-1]])} - {block}")
        loops = {v: depth for depth, v in enumerate(order, 1)}
        if not (tiles or self.schedule.pieces) and (columns := column_values(nest, order)):
            return self._with_columns(nest, loops, columns)
        writer = Statements(nest, self, loops)
        if found := gathers(nest, self.tile[0]):
            writer.elsewhere = found.only
            writer.gathered = {i.name: self.fresh(f"{i.name}_tile") for i in found.loads}
        writer.tile_starts += turned_loop(self, writer, names)
        stages = stages_of(self, writer)
        writer.pairs = None if found or stages else self._pairs(nest, order)
        step = line_step(self, nest, order[-1]) if self.schedule.streamed else 0
        line = self.fresh(f"{order[-1]}_line") if step else ""
        lines, streams = (
            self._streamed(writer, line or names[order[-1]], step) if self.schedule.streamed else ([], [])
        )
        levels = self.levels(writer, nest, 0, len(nest.body), len(order))
        if not order:
            return levels[0]
        levels[-1] = in_pairs(writer, levels[-1])
        ahead, asks = asked_for(self, writer, nest, names)
        levels[-2] += ahead
        writer.tile_starts += asks
        heads, blocks = [], []
        for v in order:
            pairs = writer.pairs if v == order[-1] else None
            if v not in tiles:
                heads.append(pairs.head("0", cpp_index(self.sizes[v])) if pairs else self._head(v))
                continue
            block, (first, end) = names[v], self.bounds.get(v, (0, self.sizes[v]))
            size = cpp_index(end)
            blocks.append(f"for (int64_t {block} = {first}; {block} < {size}; {block} += {tiles[v]}) {{")
            stop = f"{block} + {tiles[v]}"
            whole = isinstance(end, int) and (end - first) % tiles[v] == 0
            stop = stop if whole else f"({stop} < {size} ? {stop} : {size})"
            of_tile = f"for (int64_t {v} = {block}; {v} < {stop}; ++{v}) {{"
            if line and v == order[-1]:
                heads.append(f"for (int64_t {line} = {block}; {line} < {stop}; {line} += {step}) {{")
                block, stop = line, f"{line} + {step}"
            each = f"for (int64_t {v} = {block}; {v} < {stop}; ++{v}) {{"
            heads.append(pairs.head(block, stop) if pairs else each)
        tiled = len(blocks)
        simd = f"#pragma omp simd{BAD_INDEX * (self.checks and order[-1] in writer.checked)}"
        # statements end a collapse
        perfect = next((k for k in range(1, len(order)) if levels[k]), len(order))
        threads = self._threads(len(blocks) or max(1, min(perfect, len(order) - 1)))
        if len(order) == 1 and threads and not tiled:  # one loop for both
            threads = {0: threads[0].replace("for", "for simd", 1).replace("if(", "if(parallel: ")}
            return nested(heads, levels, threads)
        if tiled:
            plain = [self._head(v) for v in order if v not in tiles]
            heads = plain + blocks + heads[len(plain) :]
            if found:
                writer.tile_starts += gathered_loop(self, writer, found, of_tile)
            for stage in stages:
                writer.tile_starts += stage_loop(self, writer, stage, of_tile)
            inside = [*[[]] * (tiled - 1), writer.tile_starts]
            levels = levels[: len(plain) + 1] + inside + levels[len(plain) + 1 :]
            levels[-2:] = [levels[-2], lines, levels[-1]] if line else [[*levels[-2], *lines], levels[-1]]
            if plain:
                threads = self._threads(min(perfect, len(plain)))
        return nested(heads, levels, threads | {len(heads) - 1: simd}, {len(heads) - 1: streams})

    def _streamed(self, writer: Statements, block: str, step: int) -> tuple[list[str], list[str]]:
        """What stands before the last loop and behind it, where results are written past the caches."""
        last = self.schedule.order[-1]
        return through_lines(self, writer, writer.nest, last, block, step or dict(self.schedule.tiles)[last])

    def _with_columns(self, nest: LoopNest, loops: dict[str, int], found: ColumnValues) -> list[str]:
        """The values of each column, in a loop before the others, and the loops that read them."""
        column = self.schedule.order[-1]
        size = cpp_index(self.sizes[column])
        before = Statements(nest, self, {column: 1})
        body = [line for instr in found.body for line in before.write(instr)]
        writer = Statements(nest, self, loops, before)
        arrays = []
        for instr in found.kept:
            name = self.fresh(f"{instr.name}_columns")
            arrays.append(f"{CPP_TYPES[writer.types[instr.name].name]} {name}[{size}];")
            body.append(f"{name}[{column}] = {writer.text[instr.name]};")
            writer.text[instr.name] = f"{name}[{column}]"
            writer.depth[instr.name] = loops[column]
        writer.elsewhere = found.only
        levels = self.levels(writer, nest, 0, len(nest.body), len(loops))
        perfect = next((k for k in range(1, len(loops)) if levels[k]), len(loops))
        threads = self._threads(max(1, min(perfect, len(loops) - 1)))
        simd = {len(loops) - 1: "#pragma omp simd"}
        first = ["#pragma omp simd", self._head(column), *(INDENT + line for line in body), "}"]
        return [*arrays, *first, *nested([self._head(v) for v in loops], levels, threads | simd)]

    # ---- reductions ---------------------------------------------------------------------------------------

    def _section(self, nest: LoopNest) -> list[str]:
        """One pass: the reduction loops with what runs in them, and what follows once per point."""
        loops = [str(v) for v in nest.reduction_variables]
        inner = [*loops, *[self.column] * bool(self.column)]
        writer = Statements(nest, self, {v: depth for depth, v in enumerate(inner, 1)})
        if not loops:
            return self._after(writer, self.levels(writer, nest, 0, len(nest.body), len(inner)))
        writer.pairs = self._pairs(nest, loops)
        if streamed_stores(nest, self.schedule.streamed):
            writer.block = self.fresh("r0_block")
            step = line_step(self, nest, "r0") or self.block_of(nest)
            writer.streams = through_lines(self, writer, nest, "r0", writer.block, step)
        writer.lanes, writer.side_by_side = row_lanes(self, nest), accumulators(self, nest)
        levels = self.levels(writer, nest, 0, nest.split, len(inner))
        levels[-1] = in_pairs(writer, levels[-1])
        heads, before = [self._head(v) for v in loops], list(writer.accumulators)
        if self.column:
            heads.append(self._lanes())
            starts = writer.starts
            before += [self._lanes(), *(INDENT + s for s in starts), "}"] if starts else []
            pragma = {len(heads) - 1: "#pragma omp simd"}
        else:
            before += writer.starts
            pragma = self._reduction_pragma(writer, nest, len(heads))
        hoisted, levels[0] = levels[0], []
        results = list(writer.results)
        in_parts = bool(self.column and self.schedule.split)
        body = [] if in_parts else self._reduction_loops(writer, loops, heads, levels, pragma, before)
        ends = Statements(nest, self, {v: 1 for v in [self.column] if v}, writer)
        ends.depth = {i.name: int(bool(self.column)) for i in nest.body if i.op == "reduction"}
        after = self.levels(ends, nest, nest.split, len(nest.body), int(bool(self.column)))
        after[-1] = results + after[-1]
        lines = self._after(ends, after)
        if in_parts:
            return rows_in_parts(self, writer, loops, heads, levels, [*hoisted, *before], lines)
        return hoisted + body + lines

    def _reduction_loops(
        self, writer: Statements, loops: list[str], heads: list[str], levels: list[list[str]],
        pragma: dict[int, str], before: list[str],
    ) -> list[str]:  # fmt: skip
        """The reduction loops, and before them where their accumulators begin."""
        if self.schedule.split:
            return self._split(writer, heads, levels, pragma)
        if self.column and writer.parts:
            return before + rows_in_groups(self, writer, loops, heads, levels)
        return before + self._blocks(writer, heads, levels, pragma, "0", cpp_index(self.sizes[loops[0]]))

    def _after(self, writer: Statements, levels: list[list[str]]) -> list[str]:
        """The statements that run once per point: as they are, or in a loop over the lanes."""
        if not self.column or not any(levels):
            return [line for level in levels for line in level]
        return writer.arrays + nested([self._lanes()], levels, {0: "#pragma omp simd"})

    def _split(
        self, writer: Statements, heads: list[str], levels: list[list[str]], pragma: dict[int, str]
    ) -> list[str]:
        """The one reduction of the kernel in parts, which threads share. The parts are combined in a fixed order."""
        parts, size, part = self.schedule.split, cpp_index(self.sizes["r0"]), self.fresh("part")
        arrays, keep, combine = [], [], []
        for type_, accumulator, kind in writer.partials:
            name = self.fresh(f"{accumulator}_parts")
            arrays.append(f"{type_} {name}[{parts}];")
            keep.append(f"{name}[{part}] = {accumulator};")
            combine.append(REDUCTIONS[kind][0].format(acc=accumulator, value=f"{name}[{part}]", T=type_))
        loop = f"for (int64_t {part} = 0; {part} < {parts}; ++{part}) {{"
        first, last = f"{part} * {size} / {parts}", f"({part} + 1) * {size} / {parts}"
        own = [*writer.starts, *self._blocks(writer, heads, levels, pragma, first, last), *keep]
        return [
            *arrays,
            "#pragma omp parallel for",
            loop,
            *(INDENT + line for line in own),
            "}",
            *writer.starts,
            loop,
            *(INDENT + line for line in combine),
            "}",
        ]

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
        return isinstance(size, int) and SHORTEST <= size <= SHORT_BLOCK and _in_lanes(nest)

    def in_groups(self, nest: LoopNest) -> bool:
        """Whether a register adds up some rows before the lane's accumulator takes them."""
        return bool(self.column) and in_groups(nest)

    def _blocks(
        self, writer: Statements, heads: list[str], levels: list[list[str]], pragma: dict[int, str],
        first: str, last: str,
    ) -> list[str]:  # fmt: skip
        """The reduction loops from `first` to `last`, in blocks where float sums ask for it."""
        if not (writer.parts or writer.block):
            return self._row(writer, first, last, heads[1:], levels, pragma)
        size, step = writer.nest.reduction_ranges[0], self.block_of(writer.nest)
        step = (writer.block and line_step(self, writer.nest, "r0")) or step
        block = writer.block or self.fresh("r0_block")
        head = f"for (int64_t {block} = {first}; {block} < {last}; {block} += {step}) {{"
        end, stop = f"{block} + {step}", list[str]()
        if self.schedule.split or not isinstance(size, int) or size % step:
            end = self.fresh("r0_end")
            stop = [f"const int64_t {end} = {block} + {step} < {last} ? {block} + {step} : {last};"]
        loop = self._row(writer, block, end, [], levels, pragma)
        count = f"{end} - {block}" if stop else str(step)
        starts = [*self._next_row(writer, block, count), *(start for start, _ in writer.parts)]
        lines, streams = writer.streams
        inside = [*stop, *lines, *starts, *loop, *streams, *(add for _, add in writer.parts)]
        return [head, *(INDENT + line for line in inside), "}"]

    def _row(
        self, writer: Statements, first: str, last: str, inner: list[str], levels: list[list[str]],
        pragma: dict[int, str],
    ) -> list[str]:  # fmt: skip
        """The loop over the elements from `first` to `last`, and those inside it."""
        if writer.lanes:
            return writer.lanes.loop(first, last, levels[1])
        if writer.side_by_side:
            return writer.side_by_side.loop(first, last, levels)
        each = f"for (int64_t r0 = {first}; r0 < {last}; ++r0) {{"
        return nested([writer.pairs.head(first, last) if writer.pairs else each, *inner], levels, pragma)

    def _pairs(self, nest: LoopNest, loops: Sequence[str]) -> Pairs | None:
        """The names of the nest's last loop where it takes two elements at a time."""
        return Pairs(loops[-1], self.first_of_pair) if nest in self.in_pairs else None

    def block_of(self, nest: LoopNest) -> int:
        """The elements of a block of a row."""
        size = nest.reduction_ranges[0]
        return SHORT_BLOCK if isinstance(size, int) and size < LONG else BLOCK

    def _next_row(self, writer: Statements, block: str, count: str) -> list[str]:
        """Asks memory for the same block of the next row, where this is the pass that does."""
        found: dict[str, str] = {}
        for instr in writer.nest.body[: writer.nest.split] if self.schedule.prefetch else ():
            if instr.op == "load" and self.asking.get(instr.args[0]) is writer.nest:
                row = symbol(self.schedule.order[-1])
                place = cpp_index(instr.args[1].subs({row: row + 1, symbol("r0"): symbol(block)}))
                found[instr.args[0]] = f"cutaway::prefetch(&{instr.args[0]}[{place}], {count});"
        return list(found.values())

    def _reduction_pragma(self, writer: Statements, nest: LoopNest, depth: int) -> dict[int, str]:
        """SIMD over the innermost reduction loop: its lanes are combined in one order, which the compiler fixes."""
        if not _in_lanes(nest):
            return {}
        clauses = "".join(
            f" reduction({reduction}: {', '.join(names)})" for reduction, names in writer.reductions.items()
        )
        clauses += " reduction(|: bad_index)" * bool(self.checks and writer.checked & set(_loops_of(nest)))
        return {depth - 1: f"#pragma omp simd{clauses}"}

    # ---- pieces --------------------------------------------------------------------------------------

    def levels(
        self, writer: Statements, nest: LoopNest, start: int, stop: int, depth: int
    ) -> list[list[str]]:
        """Statements of a part of the body, by the number of loops around them."""
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

    def _head(self, variable: str) -> str:
        first, end = self.bounds.get(variable, (0, cpp_index(self.sizes[variable])))
        return f"for (int64_t {variable} = {first}; {variable} < {end}; ++{variable}) {{"

    def _lanes(self) -> str:
        v = self.column
        return f"for (int64_t {v} = {self.block}; {v} < {self.end}; ++{v}) {{"

    def _threads(self, loops: int) -> dict[int, str]:
        """Threads over the first loops, if the schedule says so; with open sizes the call decides."""
        shared = min(loops, len(self.schedule.parallel))
        if not shared:
            return {}
        if self.kernel.rows:  # the threads are there already, and need not wait for one another between rows
            return {0: f"#pragma omp for{f' collapse({shared})' if shared > 1 else ''} nowait"}
        work = work_of(self.kernel)
        clause = "" if isinstance(work, int) else f" if({cpp_index(work)} >= {PARALLEL_WORK})"
        status = BAD_INDEX * self.checks
        collapse = f" collapse({shared})" if shared > 1 else ""
        return {0: f"#pragma omp parallel for{collapse}{status}{clause}"}


def _in_lanes(nest: LoopNest) -> bool:
    """Whether the nest's reductions run in lanes: a position, or a running sum, is found one by one."""
    return not any(i.op == "scan" or (i.op == "reduction" and i.args[0] not in REDUCTIONS) for i in nest.body)


def _loops_of(nest: LoopNest) -> dict[str, Any]:
    variables = (*nest.loop_variables, *nest.reduction_variables)
    return {str(v): size for v, size in zip(variables, (*nest.ranges, *nest.reduction_ranges), strict=True)}
