"""Rows of a batch as coordinates, and a kernel that runs over all rows rewritten to run over a block of them.

Input: row_blocks.py's groups. A block is a point of the batch, its first row and how many rows it has; a kernel gets
these as sizes, as open sizes are. Its loops must be those of the batch and the rows, whether joined to one or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage3_lowering.lowering.spaces import common, rewrite
from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.program import Kernel
from stage_contracts.size_vars import never_below, plain, quotient
from stage_contracts.tensor_meta import TensorMeta


@dataclass(frozen=True)
class RowSpace:
    """The batch's sizes, the number of rows at each of its points, and the names of a block's place."""

    batch: tuple[Any, ...]
    count: Any
    indices: tuple[str, ...]  # of the batch
    first: str
    rows: str

    @staticmethod
    def of(batch: tuple[Any, ...], count: Any, taken: set[str]) -> RowSpace:
        """With names that are not `taken`."""

        def fresh(name: str) -> str:
            while name in taken:
                name += "_"
            return name

        indices = tuple(fresh(f"batch{k}") for k in range(len(batch)))
        return RowSpace(batch, count, indices, fresh("first_row"), fresh("rows"))

    def has(self, batch: tuple[Any, ...], count: Any) -> bool:
        return (self.batch, self.count) == (batch, count)

    @property
    def named_batch(self) -> tuple[tuple[str, Any], ...]:
        return tuple(zip(self.indices, self.batch, strict=True))

    @property
    def first_row(self) -> Any:
        return symbol(self.first)

    @property
    def rows_symbol(self) -> Any:
        return symbol(self.rows)

    def steps(self, width: Any) -> tuple[Any, ...]:
        """How far apart the points of each batch dimension are in a row-major buffer with rows of `width`."""
        return tuple(
            plain(sympy.expand(math.prod((*self.batch[k + 1 :], self.count, width))))
            for k in range(len(self.batch))
        )

    def at(self, steps: tuple[Any, ...]) -> Any:
        """Where the block's batch point is in a buffer with these steps."""
        return sum(
            (symbol(name) * step for name, step in zip(self.indices, steps, strict=True)), sympy.Integer(0)
        )


def row_width(meta: TensorMeta, space: RowSpace) -> Any | None:
    """The elements in a row of a row-major buffer; None where it does not lie so, or has other rows."""
    if not meta.is_contiguous:
        return None
    return quotient(plain(math.prod(meta.shape)), plain(math.prod((*space.batch, space.count))))


@dataclass(frozen=True)
class Blocked:
    """A kernel over a block of rows, and the width of each buffer that it makes row by row."""

    kernel: Kernel
    made: dict[str, Any]


def blocked_kernel(
    kernel: Kernel,
    space: RowSpace,
    made: Mapping[str, Any],
    metas: Mapping[str, TensorMeta],
) -> Blocked | None:
    """The kernel over a block; None where a point of its loops needs other rows of what was `made` than its own."""
    fine = None if _needs_more(kernel) else _loops(kernel.nests[0].ranges, space)
    if fine is None:
        return None
    nests = [_over_block(rewrite(nest, fine, nest.reduction_ranges), space) for nest in kernel.nests]
    read = _accessed(nests, "load")
    if any(name in read and not _by_rows(nests, name, width, space) for name, width in made.items()):
        return None
    widths = {name: row_width(metas[name], space) for name in _accessed(nests, "store") - {*kernel.internal}}
    rows = {name: width for name, width in widths.items() if _by_rows(nests, name, width, space)}
    return Blocked(replace(kernel, nests=tuple(nests)), rows)


def kernel_at_point(kernel: Kernel, space: RowSpace, name: str, size: int) -> Kernel | None:
    """The kernel at one point of the batch, where it makes `size` elements of `name`; None where points share some."""
    outer = tuple(n for n in space.batch if n != 1)
    if _needs_more(kernel) or any(nest.reduction_ranges for nest in kernel.nests):
        return None
    each = replace(space, count=1).steps(size)
    nests = []
    for nest in kernel.nests:
        inside = quotient(plain(math.prod(nest.ranges)), plain(math.prod(outer)))
        fine = None if inside is None else common(nest.ranges, (*outer, inside))
        if fine is None or fine[: len(outer)] != outer:
            return None
        nests.append(_moved_to(_at_point(rewrite(nest, fine, ()), space), name, space.at(each)))
    points = {symbol(index) for index in space.indices}
    stored = [i.args[1] for nest in nests for i in nest.body if i.op == "store"]
    if any(points & sympy.sympify(place).free_symbols for place in stored):
        return None
    return replace(kernel, nests=tuple(nests))


def _moved_to(nest: LoopNest, name: str, start: Any) -> LoopNest:
    """The nest, its accesses to `name` counted from `start`."""
    body = tuple(
        replace(i, args=(name, sympy.expand(i.args[1] - start), *i.args[2:]))
        if i.op in ("load", "store") and i.args[0] == name
        else i
        for i in nest.body
    )
    return replace(nest, body=body)


def in_local(kernel: Kernel, local: Mapping[str, Any], space: RowSpace) -> Kernel:
    """A kernel over a block, where `local` buffers (with the width of their rows) hold the block's rows alone."""
    nests = kernel.nests
    for name, width in local.items():
        if any(name in (*nest.reads, *nest.writes) for nest in nests):
            nests = tuple(_moved(nest, name, width, space) for nest in nests)
    return replace(kernel, nests=nests)


def _needs_more(kernel: Kernel) -> bool:
    """Whether it has a table, or can meet an index out of range, which ends the run."""
    return bool(kernel.rows) or any(i.op == "indirect_index" for nest in kernel.nests for i in nest.body)


def _accessed(nests: list[LoopNest], op: str) -> set[str]:
    return {i.args[0] for nest in nests for i in nest.body if i.op == op}


def _loops(ranges: tuple[Any, ...], space: RowSpace) -> tuple[Any, ...] | None:
    """The loops split into those of the batch, the rows, and what is in a row."""
    points = plain(math.prod((*space.batch, space.count)))
    inside = quotient(plain(math.prod(ranges)), points)
    if inside is None or inside == 0 or space.count == 1:
        return None
    outer = (*(size for size in space.batch if size != 1), space.count)
    fine = common(ranges, outer if inside == 1 else (*outer, inside))
    return fine if fine is not None and fine[: len(outer)] == outer else None


def _over_block(nest: LoopNest, space: RowSpace) -> LoopNest:
    """The nest, its loops over the batch and rows replaced by the block's place and a loop over its rows."""
    nest = _at_point(nest, space)
    moved = {symbol("i0"): space.first_row + symbol("i0")}
    return replace(_with(nest, moved), ranges=(space.rows_symbol, *nest.ranges[1:]))


def _at_point(nest: LoopNest, space: RowSpace) -> LoopNest:
    """The nest, its loops over the batch replaced by the block's point."""
    indices = [symbol(name) for name, size in space.named_batch if size != 1]
    depth = len(indices)
    moved = {symbol(f"i{k}"): index for k, index in enumerate(indices)}
    inside = nest.ranges[depth:]
    moved |= {symbol(f"i{depth + k}"): symbol(f"i{k}") for k in range(len(inside))}
    return replace(_with(nest, moved), ranges=inside)


def _with(nest: LoopNest, moved: Mapping[Any, Any]) -> LoopNest:
    """The nest, with other expressions for its variables."""

    def at(arg: Any) -> Any:
        return sympy.expand(arg.xreplace(moved)) if isinstance(arg, sympy.Basic) else arg

    body = tuple(instr.with_args(tuple(map(at, instr.args))) for instr in nest.body)
    return replace(nest, body=body)


def _by_rows(nests: list[LoopNest], name: str, width: Any | None, space: RowSpace) -> bool:
    """Whether each access to the buffer is in the row of its own point; never where it lies not row by row."""
    return width is not None and all(
        _inside_row(_in_row(i.args[1], width, space), nest, width)
        for nest in nests
        for i in nest.body
        if i.op in ("load", "store") and i.args[0] == name
    )


def _in_row(index: Any, width: Any, space: RowSpace) -> Any:
    """The index counted from where the point's row begins."""
    start = space.at(space.steps(width)) + (space.first_row + symbol("i0")) * width
    ones = {symbol(name): sympy.Integer(0) for name, size in space.named_batch if size == 1}
    return sympy.expand(index - start.xreplace(ones))


def _inside_row(place: Any, nest: LoopNest, width: Any) -> bool:
    """Whether `place` is one of a row's `width` for all steps of the loops inside."""
    loops = dict(zip(map(str, nest.loop_variables), nest.ranges, strict=True))
    loops |= dict(zip(map(str, nest.reduction_variables), nest.reduction_ranges, strict=True))
    loops.pop("i0")
    variables = {symbol(name): size for name, size in loops.items()}
    sizes = {s for size in (width, *variables.values()) for s in getattr(size, "free_symbols", ())}
    if place.has(FloorDiv, Mod) or not place.free_symbols <= {*variables, *sizes}:
        return False
    last = place
    for variable, size in variables.items():
        step = place.coeff(variable)
        if not never_below(step, 0) or variable in sympy.expand(place - step * variable).free_symbols:
            return False
        last = last.xreplace({variable: sympy.sympify(size) - 1})
    start = place.xreplace(dict.fromkeys(variables, sympy.Integer(0)))
    return never_below(start, 0) and never_below(sympy.sympify(width) - 1, sympy.expand(last))


def _moved(nest: LoopNest, name: str, width: Any, space: RowSpace) -> LoopNest:
    """The nest, its accesses to `name` counted from the block's first row."""
    body = tuple(
        replace(
            i, args=(name, sympy.expand(_in_row(i.args[1], width, space) + symbol("i0") * width), *i.args[2:])
        )
        if i.op in ("load", "store") and i.args[0] == name
        else i
        for i in nest.body
    )
    return replace(nest, body=body)
