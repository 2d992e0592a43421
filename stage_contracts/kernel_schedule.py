"""KernelSchedule: how the loops of a kernel run. The loop nests say what is computed; the schedule is separate data.

Input: the seam `schedule` makes one per kernel, for one target; the C++ and Triton emitters read it. Every schedule of
a kernel gives the same values, up to the rounding of sums. The idea is Halide's (Ragan-Kelley et al., PLDI 2013).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stage_contracts.graph import GraphError
from stage_contracts.schedule_rules import rules

if TYPE_CHECKING:
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
        for holds, problem in rules(self, kernel):
            if not holds:
                raise GraphError(f"kernel {kernel.name}: schedule `{self}`: {problem}")
        return self


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
