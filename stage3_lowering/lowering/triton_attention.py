"""Triton for a kernel of the template `attention`: one program goes through all keys for a block of queries.

Input: attention.py's kernel: the nest of the scores, those of the rows between, the nest of the result. The softmax is
the online one (Milakov and Gimelshein, 2018): when a larger score comes, what was added up so far is scaled down.
Blocks that a mask empties are skipped, and only those that it cuts are masked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from stage3_lowering.lowering.affine_masks import Bounds, bounds_of, conditions_of
from stage3_lowering.lowering.attention import Softmax, places, softmax_of
from stage3_lowering.lowering.terms import Term, assuming, walk
from stage3_lowering.lowering.triton_blocks import is_far, power_of_2
from stage3_lowering.lowering.triton_ops import POINTERS, TRITON_TYPES
from stage3_lowering.lowering.triton_precision import allows_tf32, precision_of
from stage3_lowering.lowering.triton_terms import TermWriter, number
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import print_index, symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import origin_comments
from stage_contracts.program import Kernel, Target
from stage_contracts.tensor_meta import TensorMeta

INDENT = "    "
LOG2_E = 1.4426950408889634
# Bytes of shared memory that a block may have, by architecture; of one that is not here, the least.
SHARED = {80: 166_912, 87: 166_912, 90: 232_448, 100: 232_448, 103: 232_448}
LEAST_SHARED = 101_376


@dataclass(frozen=True)
class Tiles:
    """How many rows and columns of the scores a program holds at once, and how."""

    rows: int
    columns: int
    warps: int
    stages: int  # blocks of keys and values that are on their way at once


# For float32, the best first. Products of three parts copy a block once more where its rows are not aligned.
WIDE = (Tiles(64, 32, 4, 2), Tiles(64, 32, 4, 1), Tiles(32, 32, 4, 1), Tiles(32, 16, 4, 1))


OTHER_TILES = (
    Tiles(128, 64, 8, 3), Tiles(128, 64, 4, 2), Tiles(128, 128, 8, 2), Tiles(64, 64, 4, 2), Tiles(64, 32, 4, 4),
)  # fmt: skip


def tiles_of(width: int, arch: str, itemsize: int) -> Tiles:
    """Measured on an H200 with heads of 64: 0.171 ms for 16 x 16 x 1024 x 64, against 0.177 with 128 rows, 0.19 with
    the next product begun before this softmax, and 0.163 of cuDNN's kernel."""
    if itemsize > 2:
        return next(
            (t for t in WIDE if 8 * width * (t.rows + 2 * t.columns * t.stages) <= shared_of(arch)), WIDE[-1]
        )
    tiles = Tiles(64, 64, 4, 3) if width <= 64 else Tiles(128, 64, 8, 3)
    while tiles.stages > 1 and 2 * width * (tiles.rows + 2 * tiles.columns * tiles.stages) > shared_of(arch):
        tiles = Tiles(tiles.rows, tiles.columns, tiles.warps, tiles.stages - 1)
    return tiles


def other_tiles(width: int, arch: str, itemsize: int) -> list[Tiles]:
    """What a build measures beside `tiles_of`."""
    tried = WIDE if itemsize > 2 else OTHER_TILES
    held = 8 if itemsize > 2 else 2
    fit = [t for t in tried if held * width * (t.rows + 2 * t.columns * t.stages) <= shared_of(arch)]
    return [t for t in fit if t != tiles_of(width, arch, itemsize)]


def shared_of(arch: str) -> int:
    """Bytes of shared memory that a block may have."""
    digits = arch.removeprefix("sm_")
    return SHARED.get(int(digits), LEAST_SHARED) if digits.isdigit() else LEAST_SHARED


def block_width(size: int) -> int:
    """How wide a block is that holds so many elements: products take no fewer than 16."""
    return max(16, power_of_2(size))


@dataclass(frozen=True)
class Layout:
    """What a template says of the places of a score matrix: sizes, and the texts that give the rows' variables."""

    batch: tuple[int, ...]
    rows: int
    columns: int
    row: str  # the variable of the nests between the products that is the row, "" where they have none
    ranges: tuple[int, ...]  # of those nests

    @property
    def points(self) -> int:
        return math.prod(self.batch)

    @property
    def largest(self) -> int:
        """Of the numbers that a row or a column may have."""
        return max(self.rows, self.columns, *self.ranges)


def layout_of(scores: LoopNest, between: LoopNest) -> Layout:
    *batch, rows, columns = scores.ranges
    ranges = between.ranges
    row = f"i{len(ranges) - 1}" if ranges and ranges[-1] == rows else ""
    return Layout(tuple(batch), rows, columns, row, ranges)


def batch_lines(layout: Layout, blocks: int, reverse: bool, far: bool) -> list[str]:
    """Which block of which batch point a program takes; long rows come first where a mask cuts rows short."""
    program = "tl.program_id(0).to(tl.int64)" if far else "tl.program_id(0)"
    block = f"{program} % {blocks}"
    lines = [
        f"block = {blocks - 1} - {block}" if reverse else f"block = {block}",
        f"batch = {program} // {blocks}",
    ]
    return lines + digits([f"b{k}" for k in range(len(layout.batch))], "batch", layout.batch)


def row_lines(layout: Layout) -> list[str]:
    """The variables of the nests between the products, from `batch` and `row`."""
    names = [f"i{k}" for k in range(len(layout.ranges))]
    if layout.row:
        return [*digits(names[:-1], "batch", layout.ranges[:-1]), f"{names[-1]} = row"]
    return [f"point = batch * {layout.rows} + row", *digits(names, "point", layout.ranges)]


def digits(names: list[str], flat: str, sizes: tuple[int, ...]) -> list[str]:
    lines, rest = [], list(zip(names, sizes, strict=True))
    for k, (name, size) in enumerate(rest):
        step = math.prod(sizes[k + 1 :])
        text = flat if step == 1 else f"{flat} // {step}"
        lines.append(f"{name} = {text}" + f" % {size}" * (k > 0))
    return lines


def pointer(nest: LoopNest, instr: int, names: Mapping[str, str]) -> tuple[str, str, str]:
    """(buffer, place of the batch point, place inside it) of a load or store of a product's nest. `names`: the
    template's variable for each variable of the nest; those of the batch are b0, b1, ..."""
    buffer, index = nest.body[instr].args[:2]
    batch = {f"i{k}": f"b{k}" for k in range(len(nest.ranges) - 2)}
    renamed = {symbol(old): sympy.Symbol(new) for old, new in {**batch, **names}.items()}
    index = sympy.expand(index).xreplace(renamed)
    inner = [sympy.Symbol(name) for name in names.values()]
    outer, rest = index.as_independent(*inner, as_Add=True)
    return buffer, print_index(outer), print_index(rest)


def pulled(x: Term, empty: float = -math.inf) -> tuple[Term, float]:
    """(y, c) with x == c * y and c > 0, so that c is multiplied once, later. `empty`: a value that stays itself."""
    if x.op == "mul":
        for one, other in (x.operands, x.operands[::-1]):
            if isinstance(one.number, float) and 0 < one.number < math.inf:
                inner, c = pulled(other, empty)
                return inner, c * one.number
    if x.op == "div" and isinstance(x.operands[1].number, float) and 0 < x.operands[1].number < math.inf:
        inner, c = pulled(x.operands[0], empty)
        return inner, c / x.operands[1].number
    if x.op == "where":
        condition, yes, no = x.operands
        if yes.number == empty:
            inner, c = pulled(no, empty)
            return Term("where", (condition, yes, inner), x.dtype, x.name, x.origins), c
        if no.number == empty:
            inner, c = pulled(yes, empty)
            return Term("where", (condition, inner, no), x.dtype, x.name, x.origins), c
    return x, 1.0


def valid_conditions(x: Term, empty: float) -> dict[Term, bool]:
    """The conditions without which x is `empty`, and what each has to be."""
    found: dict[Term, bool] = {}
    for condition in conditions_of(x):
        for needed in (True, False):
            if assuming(x, {condition: not needed}, numbers=True).number == empty:
                found[condition] = needed
    return found


# ---- which columns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A loop over blocks of columns: from where to where, as text, and whether the mask cuts blocks there."""

    start: str
    end: str
    masked: bool


def column_parts(bounds: Bounds, masks: bool, columns: int, tiles: Tiles) -> tuple[list[str], list[Part]]:
    """Lines that say where the columns of a block of rows begin and end, and the loops over them."""
    step, rows = tiles.columns, tiles.rows
    remainder = columns % step != 0
    if not masks:
        whole = columns - columns % step
        parts = [Part("0", str(whole), False)] * (whole > 0)
        return [], parts + [Part(str(whole), str(columns), True)] * remainder
    lines = [f"first = block * {rows}"] * bool(bounds.lower or bounds.upper)
    lowest = [_at(a, c, rows, last=a < 0) for a, c in bounds.lower]
    highest = [_at(a, c + 1, rows, last=a > 0) for a, c in bounds.upper]
    begin, end = "0", str(columns)
    if lowest:
        lines.append(f"begin = {_folded('tl.maximum', ['0', *lowest])} // {step} * {step}")
        begin = "begin"
    if highest:
        lines.append(f"end = {_folded('tl.minimum', [str(columns), *highest])}")
        end = "end"
    if not bounds.exact or not (lowest or highest):
        return lines, [Part(begin, end, True)]
    whole_begin = begin
    if lowest:
        after = _folded("tl.maximum", ["0", *(_at(a, c, rows, last=a > 0) for a, c in bounds.lower)])
        lines.append(f"whole_begin = ({after} + {step - 1}) // {step} * {step}")
        whole_begin = "whole_begin"
    until = _folded("tl.minimum", [str(columns), *(_at(a, c + 1, rows, last=a < 0) for a, c in bounds.upper)])
    lines.append(f"whole_end = tl.maximum({whole_begin}, {until} // {step} * {step})")
    parts = [Part(begin, f"tl.minimum({whole_begin}, {end})", True)] if lowest else []
    parts.append(Part(whole_begin, "whole_end", False))
    return lines, parts + [Part("whole_end", end, True)] * bool(highest or remainder)


def _at(a: int, c: int, rows: int, last: bool) -> str:
    """a * row + c at the first or the last row of the block."""
    if a == 0:
        return str(c)
    c += a * (rows - 1) * last
    text = "first" if a == 1 else "-first"
    return text if c == 0 else f"{text} {'+' if c > 0 else '-'} {abs(c)}"


def _folded(function: str, words: list[str]) -> str:
    text = words[0]
    for word in words[1:]:
        text = f"{function}({text}, {word})"
    return text


# ---- the kernel ----------------------------------------------------------------------------------------------


def attention_source(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target, tiles: Tiles | None = None
) -> tuple[str, dict[str, Any]]:
    """The text of the kernel, and how to launch it; with the tiles of the rule where there are none."""
    scores, *between, product = kernel.nests
    layout = layout_of(scores, between[0])
    inner = set(kernel.internal)
    found = softmax_of(
        tuple(between),
        scores.name,
        product.body[0].args[0],
        layout.points * layout.rows,
        layout.columns,
        inner,
    )
    assert found is not None
    depth, width = scores.reduction_ranges[0], product.ranges[-1]
    dtype = metas[kernel.params[0]].dtype
    tiles = tiles or tiles_of(max(block_width(depth), block_width(width)), target.arch, dtype.itemsize)
    precision = precision_of(dtype, allows_tf32(target))
    writer = _Writer(kernel, layout, found, tiles, is_far(kernel, metas), precision)
    blocks = -(-layout.rows // tiles.rows)
    body = writer.body(blocks, dtype)
    parameters = [f"{p}_ptr" for p in kernel.params]
    head = f"def {kernel.name}({', '.join(parameters)}, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):"
    grid = {
        "grid": (blocks * layout.points, 1, 1),
        "num_warps": tiles.warps,
        "constants": {"BLOCK_M": tiles.rows, "BLOCK_N": tiles.columns},
        "signature": {f"{p}_ptr": POINTERS[metas[p].dtype.name] for p in kernel.params},
        "fp_fusion": True,
    }
    return "\n".join([head, *(INDENT + line for line in body)]) + "\n", grid


def other_attention_sources(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same kernel with other tiles."""
    scores, product = kernel.nests[0], kernel.nests[-1]
    width = max(block_width(scores.reduction_ranges[0]), block_width(product.ranges[-1]))
    for tiles in other_tiles(width, target.arch, metas[kernel.params[0]].dtype.itemsize):
        text, grid = attention_source(kernel, metas, target, tiles)
        yield text, {**grid, "num_stages": tiles.stages}


class _Writer:
    """Writes the body of one kernel."""

    def __init__(
        self, kernel: Kernel, layout: Layout, found: Softmax, tiles: Tiles, far: bool, precision: str
    ) -> None:
        self.precision = precision
        self.kernel, self.layout, self.tiles, self.far = kernel, layout, tiles, far
        self.scores, *self.between, self.product = kernel.nests
        self.found = found
        self.y, self.scale = pulled(found.x)
        self.valid = valid_conditions(self.y, -math.inf)
        self.depth, self.width = self.scores.reduction_ranges[0], self.product.ranges[-1]
        self.row_mask = "row_mask" if layout.rows % tiles.rows else ""

    def body(self, blocks: int, dtype: DType) -> list[str]:
        layout, tiles, m = self.layout, self.tiles, len(self.layout.batch)
        bounds = bounds_of(self.valid, layout.row, "r0") if layout.row else Bounds(exact=False)
        lines, parts = column_parts(bounds, bool(self.valid), layout.columns, tiles)
        q, q_at, q_in = pointer(self.scores, 0, {f"i{m}": "row", "r0": "depth"})
        queries = self._load(
            f"{q}_ptr + q_at + {q_in}", self.row_mask, "depth < " + str(self.depth), self.depth
        )
        _, self.k_at, _ = pointer(self.scores, 2, {f"i{m + 1}": "column", "r0": "depth_down"})
        _, self.v_at, _ = pointer(self.product, 2, {"r0": "column_down", f"i{m + 1}": "width"})
        writer = self._terms()
        return [
            *batch_lines(layout, blocks, any(a > 0 for a, _ in bounds.upper), self.far),
            "row = block * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]",
            *([f"row_mask = row < {layout.rows}"] if self.row_mask else []),
            *row_lines(layout),
            f"depth = tl.arange(0, {block_width(self.depth)})[None, :]",
            f"depth_down = tl.arange(0, {block_width(self.depth)})[:, None]",
            f"width = tl.arange(0, {block_width(self.width)})[None, :]",
            f"q_at, k_at, v_at = {q_at}, {self.k_at}, {self.v_at}",
            *comments(self.scores),
            f"queries = {queries}",
            "top = tl.full([BLOCK_M, 1], float('-inf'), tl.float32)",
            "total = tl.full([BLOCK_M, 1], 0.0, tl.float32)",
            f"result = tl.full([BLOCK_M, {block_width(self.width)}], 0.0, tl.float32)",
            *writer.before([self.y]),
            *lines,
            *(line for part in parts for line in self._loop(part, writer.copy(), dtype)),
            *comments(self.product),
            *self._results(dtype),
        ]

    def _terms(self) -> TermWriter:
        at, _ = places(self.between[0], self.layout.columns)
        loads = [t for t in walk(self.y) if t.op == "load" and t.args[:2] == (self.scores.name, at)]
        widened = [t for t in walk(self.y) if t.op == "cast" and t.args[0] in loads and t.dtype is dt.float32]
        given = dict.fromkeys((*loads, *widened), "scores")
        columns = "column_mask" if self.layout.columns % self.tiles.columns else ""
        rows = {self.layout.row} if self.layout.row else {f"i{k}" for k in range(len(self.layout.ranges))}
        return TermWriter(given, {"r0"}, self.row_mask, columns, rows, self.layout.largest)

    def _loop(self, part: Part, writer: TermWriter, dtype: DType) -> list[str]:
        m = len(self.layout.batch)
        k, _, k_in = pointer(self.scores, 2, {f"i{m + 1}": "column", "r0": "depth_down"})
        v, _, v_in = pointer(self.product, 2, {"r0": "column_down", f"i{m + 1}": "width"})
        cut = part.masked and self.layout.columns % self.tiles.columns != 0
        writer.masks = (writer.masks[0], writer.masks[1] if cut else "")
        y = self.y if part.masked else assuming(self.y, self.valid)
        down, mask = ("column_down < " + str(self.layout.columns), "column_mask") if cut else ("", "")
        values = self._load(f"{v}_ptr + v_at + {v_in}", down, f"width < {self.width}", self.width)
        keys = self._load(f"{k}_ptr + k_at + {k_in}", mask, f"depth_down < {self.depth}", self.depth)
        inside = [
            "column = start + tl.arange(0, BLOCK_N)[None, :]",
            "r0 = column",
            *([f"column_mask = column < {self.layout.columns}"] if cut else []),
            f"keys = {keys}",
            f"scores = tl.dot(queries, keys{self.precision})",
            *writer.write(y),
            *self._softmax_lines(writer.text[y], part.masked or not _finite(y), cut),
            "column_down = start + tl.arange(0, BLOCK_N)[:, None]",
            f"values = {values}",
            f"result = tl.dot(weights.to({TRITON_TYPES[dtype.name]}), values, result * decay{self.precision})",
            "top = larger",
        ]
        head = f"for start in tl.range({part.start}, {part.end}, BLOCK_N, num_stages={self.tiles.stages}):"
        return [head, *(INDENT + line for line in inside)]

    def _softmax_lines(self, x: str, may_be_empty: bool, cut: bool) -> list[str]:
        """The weights of this block, and what was added up so far scaled to the largest score by now."""
        scale = number(self.scale * LOG2_E)
        lines = [f"masked = tl.where(column_mask, {x}, float('-inf'))"] if cut else []
        x = "masked" if cut else x
        lines.append(f"larger = tl.maximum(top, tl.max({x}, 1)[:, None])")
        if may_be_empty:  # a row may have no column so far: -inf less -inf is no number
            lines.append("shift = tl.where(larger == float('-inf'), 0.0, larger)")
        shift = "shift" if may_be_empty else "larger"
        return [
            *lines,
            f"weights = tl.exp2({x} * {scale} - {shift} * {scale})",
            f"decay = tl.exp2((top - {shift}) * {scale})",
            "total = total * decay + tl.sum(weights, 1)[:, None]",
        ]

    def _results(self, dtype: DType) -> list[str]:
        """The rows of the result, and the rows' largest elements and sums where the backward wants them."""
        m = len(self.layout.batch)
        out, at, inner = pointer(self.product, -1, {f"i{m}": "row", f"i{m + 1}": "width"})
        mask = self._mask(self.row_mask, f"width < {self.width}", self.width)
        lines = [
            f"tl.store({out}_ptr + {at} + {inner}, (result / total).to({TRITON_TYPES[dtype.name]}){mask})"
        ]
        kept = self.found.kept
        tops = [key for key, term in kept.items() if term is self.found.top]
        totals = [key for key, term in kept.items() if term is self.found.total]
        lines += [f"largest = top * {number(self.scale)}"] if tops or totals else []
        for buffer, index in tops:  # the sum is relative to the largest element as it is stored
            kind = f"{buffer}_ptr.dtype.element_ty"
            lines += [
                f"rounded = largest.to({kind}).to(tl.float32)",
                f"tl.store({buffer}_ptr + {print_index(index)}, rounded.to({kind}){self._mask(self.row_mask)})",
            ]
        for buffer, index in totals:
            relative = f"total * tl.exp2((largest - rounded) * {LOG2_E})" if tops else "total"
            kind = f"{buffer}_ptr.dtype.element_ty"
            lines.append(
                f"tl.store({buffer}_ptr + {print_index(index)}, ({relative}).to({kind}){self._mask(self.row_mask)})"
            )
        return lines

    def _load(self, place: str, mask: str, padded: str, size: int) -> str:
        words = self._mask(mask, padded, size)
        return f"tl.load({place}{words}{', 0.0' if words else ''})"

    def _mask(self, mask: str, padded: str = "", size: int = 1) -> str:
        words = [f"({padded})"] * bool(padded and block_width(size) != size) + [
            f"({mask})" if " " in mask else mask
        ] * bool(mask)
        return f", {' & '.join(words)}" if words else ""


def _finite(y: Term) -> bool:
    """Whether x is a score, scaled: then it is -inf only where a query or a key is infinite."""
    return all(part.op in ("load", "cast") for part in walk(y))


def comments(nest: LoopNest) -> list[str]:
    """The user's lines that a product comes from."""
    return origin_comments(nest.origins)
