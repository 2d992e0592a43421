"""Triton for the template `sort`: rows are sorted in registers, by one whole number for each element.

Input: sort_rows.py's kernel: the nest that orders each row, then one for each result. The number, the key, has the
element's rank in its upper half and its position in the lower one, so equal elements keep their order, and the sorted
keys say where each element was. The values are read again from there: a rank has no sign of a zero, and no NaN's bits.
`tl.topk` gives the largest keys, the largest first; of a row's length, it is a sort.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stage3_lowering.lowering.triton_blocks import SECTOR, is_far, power_of_2
from stage3_lowering.lowering.triton_loops import INDENT, axis_points
from stage3_lowering.lowering.triton_ops import POINTERS
from stage_contracts.dtype import DType
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import origin_comments
from stage_contracts.program import Kernel, Target
from stage_contracts.tensor_meta import TensorMeta

# Elements that a program sorts: where there are many short rows, as many rows as make ELEMENTS; where there are too few
# to fill the device with PROGRAMS such programs (four for each multiprocessor), fewer, but FEWEST.
ELEMENTS, FEWEST, PROGRAMS = 1024, 128, 528
MOST = 8192  # where rows lie side by side in memory: a sector has an element of each of SECTOR rows
PER_LANE = 16  # elements: a key takes two registers of a lane's 255, and a step of the sort as many again
OTHERS = (8, 32)  # for a build that measures
MOST_WARPS = 16
# dtype -> its bits as a whole number, the bits without the sign, and those of infinity
FLOATS = {
    "float32": ("value.to(tl.int32, bitcast=True)", 0x7FFFFFFF, 0x7F800000),
    "float16": ("value.to(tl.int16, bitcast=True).to(tl.int32)", 0x7FFF, 0x7C00),
    "bfloat16": ("value.to(tl.int16, bitcast=True).to(tl.int32)", 0x7FFF, 0x7F80),
}


@dataclass(frozen=True)
class SortBlocks:
    """The rows of a program, their length and how much of it is kept, both rounded up to powers of 2, and its warps."""

    rows: int
    length: int
    kept: int
    warps: int


def sort_source(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target, per_lane: int = PER_LANE
) -> tuple[str, dict[str, Any]]:
    """The text of the kernel, and how to launch it."""
    blocks = blocks_of(kernel, per_lane)
    order, *results = kernel.nests
    rows, (row,) = math.prod(order.ranges), order.reduction_ranges
    partial = bool(rows % blocks.rows)
    far = is_far(kernel, metas)
    program = "tl.program_id(0).to(tl.int64)" if far else "tl.program_id(0)"
    points = f"{program} * XBLOCK + tl.arange(0, XBLOCK)[:, None]"
    names = [f"i{k}" for k in range(len(order.ranges))]
    body = [
        *axis_points(names, list(order.ranges), points, "xindex", "xmask" * partial),
        *origin_comments(order.origins),
        *_sorted(order, blocks, partial, metas[order.body[0].args[0]].dtype, far),
        *(line for nest in results for line in _stored(nest, blocks, row, partial)),
    ]
    constants = {"XBLOCK": blocks.rows, "RBLOCK": blocks.length, "KEPT": blocks.kept}
    params = [*kernel.params, *(f"{name}: tl.constexpr" for name in constants)]
    head = [f"def {kernel.name}(", *(f"{INDENT}{p}," for p in params), "):"]
    grid = {
        "grid": (-(-rows // blocks.rows), 1, 1),
        "num_warps": blocks.warps,
        "constants": constants,
        "signature": {p: POINTERS[metas[p].dtype.name] for p in kernel.params},
    }
    return "\n".join([*head, *(INDENT + line for line in body)]) + "\n", grid


def other_sort_sources(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same kernel with more or fewer warps."""
    warps = {blocks_of(kernel, PER_LANE).warps}
    for per_lane in OTHERS:
        if (other := blocks_of(kernel, per_lane).warps) not in warps:
            warps.add(other)
            yield sort_source(kernel, metas, target, per_lane)


def blocks_of(kernel: Kernel, per_lane: int) -> SortBlocks:
    """Several short rows, or rows side by side in memory, share a program."""
    order, *results = kernel.nests
    length = max(2, power_of_2(order.reduction_ranges[0]))  # Triton 3.6 keeps no fewer than two
    kept = max(2, *(power_of_2(nest.reduction_ranges[0]) for nest in results))
    load = order.body[0].args[1]
    (along,) = order.reduction_variables
    every = math.prod(order.ranges)
    rows = max(1, min(ELEMENTS // length, max(FEWEST // length, power_of_2(every // PROGRAMS))))
    if load.coeff(along) != 1:
        rows = max(rows, min(SECTOR, MOST // length))
    rows = min(rows, power_of_2(every))
    return SortBlocks(rows, length, kept, max(1, min(MOST_WARPS, rows * length // (32 * per_lane))))


def _sorted(nest: LoopNest, blocks: SortBlocks, partial: bool, dtype: DType, far: bool) -> list[str]:
    """The positions of the elements that come first, as `position`. Halves and less need keys of 32 bits only."""
    load, order, _ = nest.body
    (row,) = nest.reduction_ranges
    mask = " & ".join(["xmask"] * partial + ["rmask"] * (row != blocks.length))
    far_along = ".to(tl.int64)" * far
    lines = [f"r0 = tl.arange(0, RBLOCK)[None, :]{far_along}"]
    lines += [f"rmask = r0 < {row}"] * (row != blocks.length)
    lines.append(f"value = tl.load({load.args[0]} + {print_index(load.args[1])}{_masked(mask, ', 0')})")
    lines += _rank(dtype)
    if order.args[0] == "ascending":
        lines.append("rank = ~rank  # the largest key comes first")
    wide = dtype.itemsize == 4 or far
    bits = 32 if wide else 16
    if row != blocks.length:
        lines.append(f"rank = tl.where(rmask, rank, {-(1 << bits - 1)})  # beyond the row: behind all of it")
    return [
        *lines,
        f"key = (rank{'.to(tl.int64)' * wide} << {bits}) + (RBLOCK - 1 - r0)  # of equal ones the first is the largest",
        "key = tl.topk(key, KEPT, 1)",
        f"position = RBLOCK - 1 - (key{'.to(tl.int32)' * (wide and not far)} & (RBLOCK - 1))",
        f"r0 = tl.arange(0, KEPT)[None, :]{far_along}",
    ]  # fmt: skip


def _rank(dtype: DType) -> list[str]:
    """Whole numbers in the order of the values, as `rank`. A float's bits are a sign and how far it is from zero."""
    if dtype.name not in FLOATS:
        return ["rank = value.to(tl.int32)"]
    bits, unsigned, infinity = FLOATS[dtype.name]
    return [
        f"bits = {bits}",
        f"size = bits & {unsigned:#x}",
        f"rank = tl.where(size > {infinity:#x}, {infinity + 1:#x}, tl.where(bits < 0, -size, size))  # NaN: largest",
    ]


def _stored(nest: LoopNest, blocks: SortBlocks, row: int, partial: bool) -> list[str]:
    """What a result's nest stores: the values at the positions, or these."""
    (count,) = nest.reduction_ranges
    *rest, store = nest.body
    mask = " & ".join(["xmask"] * partial + [f"(r0 < {count})"] * (count != blocks.kept))
    value, lines = "position.to(tl.int64)", list[str]()
    loads = [i for i in rest if i.op == "load" and i.name == store.args[2]]
    if loads[0] is not rest[0]:
        buffer, place = loads[0].args
        value = "value"
        lines.append(f"value = tl.load({buffer} + {print_index(place)}{_masked(mask, ', 0')})")
    return [*lines, f"tl.store({store.args[0]} + {print_index(store.args[1])}, {value}{_masked(mask)})"]


def _masked(mask: str, other: str = "") -> str:
    return f", {mask}{other}" if mask else ""
