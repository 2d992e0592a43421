"""KernelSchedule: how the loops of a kernel run. The loop nests say what is computed; the schedule is separate data.

Input: the seam `schedule` makes one per kernel, for one target; the C++ and Triton emitters read it. Every schedule of
a kernel gives the same values, up to the rounding of sums. The idea is Halide's (Ragan-Kelley et al., PLDI 2013).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stage_contracts.graph import GraphError
from stage_contracts.index_expr import symbol

if TYPE_CHECKING:
    from stage_contracts.loop_ir import Instr, LoopNest
    from stage_contracts.program import Kernel

CACHE_LINE = 64  # bytes
# Bytes of a result that is written past the caches, and whose memory begins with a line. Half of a last-level cache of
# 32 MiB: from here on a plain store waits for the line that it will overwrite, and who reads the result soon waits too.
FROM_MEMORY = 16 << 20


@dataclass(frozen=True)
class KernelSchedule:
    """Loops have the names of the nests: i0.. over the points, r0.. over the elements that each point reduces.

    It prints as one line, which reads back: `order=i1,i0 tiles=i0:32,i1:32 vector=i0 parallel=i1 scratch=buf2`.
    """

    order: tuple[str, ...]  # the outer loops, outermost first
    # (loop, size): these loops run block by block; the loops over blocks are outermost
    tiles: tuple[tuple[str, int], ...] = ()
    vector: str = (
        ""  # the loop whose steps are SIMD lanes; with an outer loop, a reduction has a row of accumulators
    )
    # the loops whose steps are divided among threads; they are the first ones of `order`
    parallel: tuple[str, ...] = ()
    split: int = (
        0  # a reduction with no outer loop but the vector loop: how many parts, combined in order; 0: one
    )
    scratch: tuple[str, ...] = ()  # internal buffers that each thread keeps as a row in its own memory
    # for a kernel with a table: threads divide the rows (`across`), the parallel loops of each row (`within`), or
    # nothing
    table: str = ""
    # of a pointwise kernel: a loop, and where its pieces begin and end; each is written apart, with masks that hold
    # all through it left out
    pieces: tuple[str, tuple[int, ...]] | None = None
    # inputs that a kernel which reduces rows asks for one row ahead; tables that one with `streamed` loads rows from
    prefetch: tuple[str, ...] = ()
    # of a kernel with two tiled loops: loads of a matrix whose tiles are turned in registers before the loops read them
    turned: tuple[str, ...] = ()
    # results that are written past the caches, by lines, each through an array of a tile's, or a block's, size
    streamed: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = {
            "order": ",".join(self.order),
            "tiles": ",".join(f"{loop}:{size}" for loop, size in self.tiles),
            "vector": self.vector,
            "parallel": ",".join(self.parallel),
            "split": str(self.split or ""),
            "scratch": ",".join(self.scratch),
            "table": self.table,
            "pieces": ":".join(map(str, (self.pieces[0], *self.pieces[1]))) if self.pieces else "",
            "prefetch": ",".join(self.prefetch),
            "turned": ",".join(self.turned),
            "streamed": ",".join(self.streamed),
        }
        return " ".join(f"{key}={value}" for key, value in words.items() if value or key == "order")

    def verify(self, kernel: Kernel) -> KernelSchedule:
        """Check it against the kernel's loops and buffers. Raises GraphError."""
        outer = [str(v) for v in kernel.nests[0].loop_variables]
        inner = [str(v) for nest in kernel.nests for v in nest.reduction_variables]

        def check(holds: bool, problem: str) -> None:
            if not holds:
                raise GraphError(f"kernel {kernel.name}: schedule `{self}`: {problem}")

        check(sorted(self.order) == sorted(outer), f"order must name each of the loops {outer} once")
        check(not self.vector or self.vector in (*outer, *inner), f"vector names no loop of {outer + inner}")
        check(
            self.parallel == self.order[: len(self.parallel)],
            "parallel loops must be the first ones of order",
        )
        check(all(loop in outer and size > 0 for loop, size in self.tiles), f"tiles must be of {outer}")
        check(len(dict(self.tiles)) == len(self.tiles), "a loop is tiled twice")
        tiled = [loop for loop, _ in self.tiles]
        check(
            set(tiled) == set(self.order[len(outer) - len(tiled) :]), "tiled loops are the last ones of order"
        )
        check(
            not self.split or (self.split > 1 and outer in ([], [self.vector])),
            "only a reduction without outer loops, or with its vector loop alone, can be split",
        )
        check(not self.tiles or not inner or self.vector in dict(self.tiles) and len(self.tiles) == 1,
              "a kernel that reduces tiles its vector loop alone")  # fmt: skip
        check(self.vector not in outer or not inner or self.vector in dict(self.tiles),
              "an outer vector loop of a kernel that reduces needs a tile: the row of accumulators")  # fmt: skip
        check(
            self.vector not in outer or self.vector == self.order[-1], "an outer vector loop is the last one"
        )
        if inner and self.vector in outer:
            kinds = {i.args[0] for n in kernel.nests for i in n.body if i.op == "reduction"}
            check(not kinds & {"argmax", "argmin"}, "positions are not reduced in lanes of an outer loop")
            check(not kernel.row_buffers, "rows that stay in the kernel need the vector loop inside the row")
        check(
            self.table in ("", "across", "within") and (not self.table or kernel.rows > 0),
            "table must be across or within, and of a kernel that has rows",
        )
        check(not kernel.rows or (not self.split and not self.scratch),
              "a row of a table is neither split nor given scratch")  # fmt: skip
        check(not kernel.rows or bool(self.parallel) is (self.table == "within"),
              "the loops of a table's rows are parallel exactly where threads share them `within`")  # fmt: skip
        if self.pieces:
            loop, cuts = self.pieces
            size = dict(zip(outer, kernel.nests[0].ranges, strict=True)).get(loop)
            check(not inner and len(self.tiles) != 1 and not kernel.rows,
                  "only a pointwise kernel without a table or a tile of one loop runs a loop in pieces")  # fmt: skip
            check(len(cuts) > 1 and (cuts[0], cuts[-1]) == (0, size) and list(cuts) == sorted(set(cuts)),
                  f"pieces must lead from 0 to the loop's size, {size}")  # fmt: skip
        by_rows = bool(outer and (inner or self.streamed))
        check(set(self.prefetch) <= set(kernel.params) and (not self.prefetch or by_rows),
              "prefetch must be of parameters that a kernel reads by rows")  # fmt: skip
        check(not self.turned or len(self.tiles) == 2, "tiles are turned of two tiled loops")
        loads = {i.name: i for i in kernel.nests[0].body if i.op == "load" and len(i.args) == 2}
        for name in self.turned:
            check(name in loads and _walks(loads[name], kernel.nests[0], *self.order[-2:]),
                  f"turned must be of loads without a mask, which walk along the first of the two tiled loops and step "
                  f"evenly along the second; {name} is none")  # fmt: skip
        for name in self.streamed:
            check(name in kernel.params and _written_along(kernel, name, self),
                  f"streamed must be of parameters that one nest writes, and none reads, along its last loop, which is "
                  f"tiled or the only one that it reduces; {name} is none")  # fmt: skip
        check(set(self.scratch) <= set(kernel.internal), "scratch must be of internal buffers")
        return self


def _walks(load: Instr, nest: LoopNest, walked: str, stepped: str) -> bool:
    """Whether the load takes the next element where the first loop steps, and a fixed step where the second does."""
    buffer, index = load.args
    placed = {str(s) for s in index.free_symbols} & {i.name for i in nest.body}
    steps = [index.coeff(symbol(v)) for v in (walked, stepped)]
    rest = (index - steps[0] * symbol(walked) - steps[1] * symbol(stepped)).expand().free_symbols
    moved = steps[1].free_symbols & {*nest.loop_variables}
    even = not rest & {symbol(walked), symbol(stepped)} and not moved
    return steps[0] == 1 and steps[1] != 0 and even and not placed and buffer not in nest.writes


def _written_along(kernel: Kernel, name: str, schedule: KernelSchedule) -> bool:
    """Whether the only access to the parameter is one store, element after element in the loop that runs by blocks."""
    accesses = [
        (nest, i)
        for nest in kernel.nests
        for i in nest.body
        if i.op in ("load", "store") and i.args[0] == name
    ]
    if len(accesses) != 1 or kernel.rows or schedule.split or schedule.pieces:
        return False
    ((nest, instr),) = accesses
    loop = _by_blocks(kernel, nest, instr, schedule)
    return bool(loop) and instr.op == "store" and instr.args[1].coeff(symbol(loop)) == 1


def _by_blocks(kernel: Kernel, nest: LoopNest, instr: Instr, schedule: KernelSchedule) -> str:
    """The loop around the instruction that runs by blocks: the last one, tiled; or the only one that reduces."""
    tiled, last = dict(schedule.tiles), schedule.order[-1] if schedule.order else ""
    if not any(n.reduction_ranges for n in kernel.nests):
        return last if last in tiled else ""
    alone = len(nest.reduction_ranges) == 1 and not tiled and instr in nest.body[: nest.split]
    return str(nest.reduction_variables[0]) if alone else ""


_WORD = re.compile(r"(order|tiles|vector|parallel|split|scratch|table|pieces|prefetch|turned|streamed)=(\S*)")


def parse_schedule(text: str) -> KernelSchedule:
    """Read back `str(schedule)`. Raises ValueError."""
    found = dict(_WORD.findall(text))
    if " ".join(f"{key}={value}" for key, value in found.items()) != text or "order" not in found:
        raise ValueError(f"not a schedule: {text!r}; expected words such as order=i1,i0 vector=i0")
    names = {key: tuple(filter(None, found.get(key, "").split(","))) for key in found}
    tiles = tuple((loop, int(size)) for loop, _, size in (t.partition(":") for t in names.get("tiles", ())))
    loop, *cuts = found.get("pieces", "").split(":")
    return KernelSchedule(
        names["order"],
        tiles,
        found.get("vector", ""),
        names.get("parallel", ()),
        int(found.get("split", 0)),
        names.get("scratch", ()),
        found.get("table", ""),
        (loop, tuple(map(int, cuts))) if loop else None,
        names.get("prefetch", ()),
        names.get("turned", ()),
        names.get("streamed", ()),
    )
