"""Kernel: loop nests that run as one function, its parameters, and what its launches read and write.

Input: `fuse` makes it; it gets its loops' order at the seam `schedule`, its source at `emit`. program.py launches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stage_contracts.checked_once import checked_once
from stage_contracts.graph import GraphError
from stage_contracts.index_expr import print_index
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.loop_ir import WRITES, LoopNest, accesses_of
from stage_contracts.origin import Origin
from stage_contracts.places import decided_places


@dataclass(frozen=True)
class Kernel:
    """Loop nests that run as one kernel, in order. They have equal `ranges`, and `reduction_ranges` that are equal or
    empty.

    params: the buffers that it takes as pointers, in the order of its parameters. `internal` buffers exist only inside
    the kernel (in registers, or as a row on the stack), so they have no memory and are not parameters.

    Binary interface. C++: `extern "C" int64_t <name>(T0* p0, T1* p1, ..., int64_t s0, ...)`, one pointer per param,
    then the open sizes in `sizes`, returning 0, or 1 when an indirect index was out of range. Triton:
    `@triton.jit def <name>(p0, p1, ..., s0, ..., BLOCK: tl.constexpr)` with `grid` = {"grid": (x, y, z),
    "num_warps": n, "constants": {...}, "signature": {param: "*fp32", size: "i64"}}; with open sizes x is their
    expression, as text.

    A kernel with `rows` runs its nests once for each row of a table, in any order. In each row, the `columns` (its last
    params) are different buffers, and the sizes in `row_sizes` have different values. A column is passed as a pointer
    to its `rows` pointers. `bindings` says which buffer each parameter is.

    A kernel with a `template` is written by an emitter of its own. Its nests say what it computes, one after the other:
    their loops may differ, and one may read what another wrote anywhere.
    """

    name: str
    nests: tuple[LoopNest, ...]
    params: tuple[str, ...]
    internal: tuple[str, ...] = ()
    unit: str = ""  # the SourceUnit that defines it, after `emit`
    grid: Mapping[str, Any] = field(default_factory=dict)  # Triton: constants, num_warps, grid size
    schedule: KernelSchedule | None = None  # how its loops run, after the seam `schedule`
    rows: int = 0  # 0: no table, so it runs once
    columns: tuple[str, ...] = ()
    row_sizes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # size -> its value in each row
    template: str = ""  # the emitter that writes it, such as "attention"; "": its loops as they are

    @cached_property
    def accesses(self) -> tuple[frozenset[str], frozenset[str]]:
        """(buffers that it reads before it writes them, buffers that it writes), by the names of its params."""
        return accesses_of(self.nests)

    @cached_property
    def launched_on(self) -> dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]]:
        """(buffers read, buffers written) by the launches that were asked for: passes ask again and again."""
        return {}

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of the open sizes that it takes after its buffers."""
        return tuple(sorted({name for nest in self.nests for name in nest.sizes} - set(self.row_sizes)))

    def bindings(self, buffers: Sequence[str]) -> list[dict[str, str]]:
        """The buffer of each parameter when the kernel is launched on `buffers`: one mapping for each row, or only one.

        `buffers` has the params that all rows share, then the columns, row by row.
        """
        return [dict(zip(self.params, row, strict=True)) for row in self.by_rows(buffers)]

    def by_rows(self, buffers: Sequence[str]) -> list[tuple[str, ...]]:
        """The same without the parameters: the buffers in their order."""
        if not self.rows:
            return [tuple(buffers)]
        shared, width = len(self.params) - len(self.columns), len(self.columns)
        starts = range(shared, shared + self.rows * width, width)
        return [(*buffers[:shared], *buffers[k : k + width]) for k in starts]

    @property
    def row_buffers(self) -> tuple[str, ...]:
        """The internal buffers that have one element per reduction point, which is a row for each point."""
        reductions = [nest for nest in self.nests if nest.reduction_ranges]
        stores = [i.args[0] for nest in reductions for i in nest.body[: nest.split] if i.op == "store"]
        return tuple(name for name in stores if name in self.internal)

    @property
    def origins(self) -> tuple[Origin, ...]:
        return tuple(dict.fromkeys(o for nest in self.nests for o in nest.origins))

    def may_write_over(self, out: str, into: str) -> bool:
        """Whether it reads each element of the param `into` before it writes the param `out`, at the same index."""
        stored, read = self._places(WRITES, out), self._places(("load",), into)
        if not stored or any(when > stored[0][0] for when, _ in read):
            return False
        place = stored[-1][1]
        # several points may have one place: a later one would read what an earlier one wrote
        if read and any(s.name in decided_places(nest) for s in place.free_symbols for nest in self.nests):
            return False
        return all(index == place for _, index in read)

    def _places(self, ops: Sequence[str], param: str) -> list[tuple[int, Any]]:
        """The loads and stores of a parameter in order: when, and at which index."""
        body = (instr for nest in self.nests for instr in nest.body)
        return [(when, i.args[1]) for when, i in enumerate(body) if i.op in ops and i.args[0] == param]

    @checked_once
    def verify(self) -> Kernel:
        """Check that points of the loops do not depend on one another. Raises GraphError.

        Points run in any order, so a kernel may read a buffer that it writes only at the index of the write, and one
        that it adds to nowhere.
        """
        if self.schedule is not None:
            self.schedule.verify(self)
        self._verify_table()
        if self.template:
            for nest in self.nests:
                nest.verify()
            return self
        writes = [i for nest in self.nests for i in nest.body if i.op in WRITES]
        # what is added to has no index that reads may have: None
        places = {i.args[0]: i.args[1] if i.op == "store" else None for i in writes}
        for nest in self.nests:
            nest.verify()
            if nest.ranges != self.nests[0].ranges:
                raise GraphError(
                    f"kernel {self.name}: all nests of a kernel have the same ranges, but {nest.name} has "
                    f"{nest.ranges} and {self.nests[0].name} has {self.nests[0].ranges}"
                )
            for instr in nest.body:
                if instr.op == "load" and instr.args[1] != places.get(instr.args[0], instr.args[1]):
                    buffer, at = instr.args[0], print_index(instr.args[1])
                    there = places[buffer]
                    how = "added to by any point" if there is None else f"written at [{print_index(there)}]"
                    raise GraphError(
                        f"kernel {self.name}: {nest.name} reads {buffer}[{at}], but {buffer} is {how}"
                    )
        return self

    def _verify_table(self) -> None:
        """Check that no row depends on another: all buffers that it writes are columns, which belong to one row
        each."""
        shared = self.params[: len(self.params) - len(self.columns)]
        written = {name for nest in self.nests for name in nest.writes}
        rows = {len(numbers) for numbers in self.row_sizes.values()}
        if self.rows < 0 or (not self.rows and (self.columns or self.row_sizes)) or rows - {self.rows}:
            raise GraphError(
                f"kernel {self.name}: its table has {self.rows} rows, but its row sizes are for {sorted(rows)} rows"
            )
        if self.rows and (self.params[len(shared) :] != self.columns or written & set(shared)):
            raise GraphError(
                f"kernel {self.name}: the columns {self.columns} must be its last params, and it may write to columns "
                "only"
            )
