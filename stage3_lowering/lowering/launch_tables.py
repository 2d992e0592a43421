"""One kernel and one launch for several that do the same work on other buffers and sizes: the rows of a table.

Input: launches of kernels that are equal up to names and free sizes. What all rows share is a parameter as before; what
differs is a column, or a size that each row has a number for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.origin import Origin
from stage_contracts.program import Kernel, Launch, Program

LAST = -1  # the depth of a launch that no other step waits for


@dataclass(frozen=True)
class Row:
    """A launch that may be a row of a table, and where in the graph it runs."""

    number: int  # of its step
    step: Launch
    kernel: Kernel
    between: tuple[
        int, int
    ]  # the collectives that it waits for and that wait for it: one table keeps no other waiting
    depth: (
        int  # the steps before it that wait for one another; rows of equal depth never wait for one another
    )
    numbers: tuple[Any, ...] = ()  # of a row of a table: the free sizes


def table_of(rows: Sequence[Row], program: Program) -> tuple[Kernel, Launch]:
    """The kernel of all rows, in the names of the first, and its launch."""
    first = rows[0].kernel
    columns = list(zip(*(row.step.buffers for row in rows), strict=True))
    own = [len({*column}) > 1 for column in columns]
    shared = [k for k, several in enumerate(own) if not several]
    apart = [k for k, several in enumerate(own) if several]
    sizes, row_sizes = _row_sizes(rows, program)
    same_nests = zip(*(row.kernel.nests for row in rows), strict=True)
    nests = [_nest_of_all(of_rows, sizes) for of_rows in same_nests]
    kernel = replace(
        first,
        nests=tuple(nests),
        params=tuple(first.params[k] for k in (*shared, *apart)),
        rows=len(rows),
        columns=tuple(first.params[k] for k in apart),
        row_sizes=row_sizes,
    )
    buffers = [rows[0].step.buffers[k] for k in shared]
    buffers += [row.step.buffers[k] for row in rows for k in apart]
    return kernel, Launch(first.name, tuple(buffers))


def _nest_of_all(of_rows: Sequence[LoopNest], sizes: tuple[Any, ...]) -> LoopNest:
    """The nest that does what these do, over `sizes` where theirs differ, and that comes from where all of them do."""
    nest = of_rows[0]
    if sizes:
        outer, inner = sizes[: len(nest.ranges)], sizes[len(nest.ranges) :]
        inner = inner if inner and nest.reduction_ranges else nest.reduction_ranges
        nest = replace(nest, ranges=outer, reduction_ranges=inner)
    origins: dict[Origin, None] = dict.fromkeys(o for of_row in of_rows for o in of_row.origins)
    return replace(nest, origins=tuple(origins))


def _row_sizes(rows: Sequence[Row], program: Program) -> tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
    """Each free size as the kernel is to name it: the number that all rows have, or a size of the table."""
    kernel = rows[0].kernel
    taken = {*kernel.params, *kernel.internal, *(i.name for n in kernel.nests for i in n.body)}
    taken |= {size.name for size in program.sizes}
    sizes: list[Any] = []
    row_sizes: dict[str, tuple[Any, ...]] = {}
    for k, numbers in enumerate(zip(*(row.numbers for row in rows), strict=True)):
        if len({*numbers}) == 1:
            sizes.append(numbers[0])
            continue
        name = f"n{k}"
        while name in taken:
            name += "_"
        row_sizes[name] = numbers
        sizes.append(symbol(name))
    return tuple(sizes), row_sizes
