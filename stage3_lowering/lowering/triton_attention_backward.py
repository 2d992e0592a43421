"""Triton for the templates `attention_by_rows` and `attention_by_columns`: the gradients of attention.

Input: attention_backward.py's kernels: the nests of q @ k.T and g @ v.T, those between, those of what is made of them.
A program keeps a block of rows (or of columns) and goes through all columns (or rows): the blocks that move past it.
Both kernels are one text with the sides exchanged; by columns, the matrices are computed turned, so that the products
that follow take them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage3_lowering.lowering.affine_masks import Bounds, bounds_of, no_row_is_empty, turned
from stage3_lowering.lowering.attention import places
from stage3_lowering.lowering.attention_backward import BY_ROWS
from stage3_lowering.lowering.attention_delta import Delta, delta_of, slope_of
from stage3_lowering.lowering.row_values import moved_to
from stage3_lowering.lowering.terms import Term, assuming, narrowed, stored_terms, walk
from stage3_lowering.lowering.triton_attention import (
    INDENT,
    Layout,
    Part,
    Tiles,
    batch_lines,
    block_width,
    column_parts,
    comments,
    layout_of,
    pointer,
    pulled,
    row_lines,
    shared_of,
    valid_conditions,
)
from stage3_lowering.lowering.triton_blocks import is_far
from stage3_lowering.lowering.triton_ops import POINTERS, TRITON_TYPES
from stage3_lowering.lowering.triton_precision import allows_tf32, precision_of
from stage3_lowering.lowering.triton_terms import TermWriter, number
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import print_index, symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.program import Kernel, Target
from stage_contracts.tensor_meta import TensorMeta


def backward_tiles(width: int, arch: str, itemsize: int, by_rows: bool, cuts: bool) -> Tiles:
    """`rows` of these tiles stay, `columns` move past. `cuts`: a mask leaves parts of the matrix out.

    Measured on an H200 with heads of 64, 16 x 16 x 1024 x 64: by columns 0.282 ms with 128 that stay and 32 that move,
    0.290 with 64 and 32, 0.315 with 64 and 64; of a causal mask, which small blocks follow better, 0.188, 0.177, 0.188.
    """
    if itemsize > 2:
        return Tiles(64, 32, 4, 1) if width <= 64 else Tiles(32, 32, 4, 1)
    narrow = Tiles(64, 64, 4, 3) if by_rows else Tiles(64 if cuts else 128, 32, 4, 3)
    tiles = narrow if width <= 64 else Tiles(64, 64, 8, 2)
    # one more block of what moves past: where it is turned for a product, it is held twice
    while tiles.stages > 1 and 4 * width * (tiles.rows + tiles.columns * (tiles.stages + 1)) > shared_of(
        arch
    ):
        tiles = Tiles(tiles.rows, tiles.columns, tiles.warps, tiles.stages - 1)
    return tiles


def other_backward_tiles(itemsize: int) -> tuple[Tiles, ...]:
    """What a build measures beside them; what needs too much shared memory, it refuses."""
    wide = Tiles(32, 32, 4, 1), Tiles(32, 64, 4, 1)
    return wide if itemsize > 2 else (
        Tiles(64, 64, 4, 2), Tiles(128, 32, 4, 3), Tiles(64, 32, 4, 3), Tiles(128, 64, 8, 2), Tiles(64, 64, 8, 3),
    )  # fmt: skip


@dataclass(frozen=True)
class Made:
    """One product: of `term`, a matrix that is computed, and what lies at `operand` (buffer, batch, inside)."""

    nest: LoopNest
    term: Term
    scale: float
    width: int
    operand: tuple[str, str, str]
    result: tuple[str, str, str]


def attention_backward_source(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target, tiles: Tiles | None = None
) -> tuple[str, dict[str, Any]]:
    """The text of the kernel, and how to launch it; with the tiles of the rule where there are none."""
    dtype = metas[kernel.nests[0].reads[0]].dtype
    side = _Side(kernel, is_far(kernel, metas), target, dtype, tiles)
    blocks = -(-side.fixed_size // side.tiles.rows)
    parameters = [f"{p}_ptr" for p in kernel.params]
    head = (
        f"def {kernel.name}({', '.join(parameters)}, BLOCK_FIXED: tl.constexpr, BLOCK_MOVING: tl.constexpr):"
    )
    grid = {
        "grid": (blocks * side.layout.points, 1, 1),
        "num_warps": side.tiles.warps,
        "constants": {"BLOCK_FIXED": side.tiles.rows, "BLOCK_MOVING": side.tiles.columns},
        "signature": {f"{p}_ptr": POINTERS[metas[p].dtype.name] for p in kernel.params},
        "fp_fusion": True,
    }
    return "\n".join([head, *(INDENT + line for line in side.body(blocks))]) + "\n", grid


def other_attention_backward_sources(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same kernel with other tiles."""
    dtype = metas[kernel.nests[0].reads[0]].dtype
    rule = _Side(kernel, is_far(kernel, metas), target, dtype).tiles
    for tiles in other_backward_tiles(dtype.itemsize):
        if tiles != rule:
            text, grid = attention_backward_source(kernel, metas, target, tiles)
            yield text, {**grid, "num_stages": tiles.stages}


def _kinds(kernel: Kernel) -> tuple[list[LoopNest], list[LoopNest], list[LoopNest], list[LoopNest]]:
    """The nests after the first two products: values of rows, what is between, products of that, sums over rows."""
    rest, points = kernel.nests[2:], len(kernel.nests[0].ranges)
    reductions = [n for n in rest if "reduction" in n.ops]
    return (
        [n for n in rest if not n.reduction_ranges],
        [n for n in rest if n.reduction_ranges and n not in reductions],
        [n for n in reductions if len(n.ranges) == points],
        [n for n in reductions if len(n.ranges) != points],
    )


class _Side:
    """Writes one of the two kernels. `fixed` and `moving` are "row" and "column", or the other way round."""

    def __init__(
        self, kernel: Kernel, far: bool, target: Target, dtype: DType, tiles: Tiles | None = None
    ) -> None:
        self.far, self.rows, self.params = far, kernel.template == BY_ROWS, kernel.params
        self.dtype, self.precision = TRITON_TYPES[dtype.name], precision_of(dtype, allows_tf32(target))
        self.given, (values, between, after, self.sums) = kernel.nests[:2], _kinds(kernel)
        self.layout: Layout = layout_of(self.given[0], between[0])
        self.fixed, self.moving = ("row", "column") if self.rows else ("column", "row")
        sizes = {"row": self.layout.rows, "column": self.layout.columns}
        self.fixed_size, self.moving_size = sizes[self.fixed], sizes[self.moving]
        self.at, _ = places(between[0], self.layout.columns)
        self.stores = stored_terms([*between, *values], keep_roundings=False)
        self.values = {key: term for key, term in self.stores.items() if key[0] in {n.name for n in values}}
        self.made = [self._made(nest) for nest in after]
        self.terms = [m.term for m in self.made] or self._corrects()
        self.delta = self._delta() if self.rows and dtype is dt.float32 else None
        self.valid = self._valid()
        self.tiles = tiles or self._tiles_of(target.arch, dtype)
        self.cut = self.moving_size % self.tiles.columns != 0
        self.fixed_mask = f"{self.fixed}_mask" if self.fixed_size % self.tiles.rows else ""

    def _tiles_of(self, arch: str, dtype: DType) -> Tiles:
        """The tiles of the rule."""
        widest = max(*(n.reduction_ranges[0] for n in self.given), *(m.width for m in self.made))
        return backward_tiles(block_width(widest), arch, dtype.itemsize, self.rows, bool(self.valid))

    def _made(self, nest: LoopNest) -> Made:
        left, right = nest.body[0].args[0], nest.body[2].args[0]
        m = len(nest.ranges) - 2
        is_left = (left, self.at) in self.stores
        term, scale = pulled(narrowed(self.stores[(left if is_left else right), self.at]), 0.0)
        wide = f"i{m + 1}" if is_left else f"i{m}"
        width = nest.ranges[-1] if is_left else nest.ranges[-2]
        down = {"r0": f"{self.moving}_down", wide: f"w{width}"}
        out = {(f"i{m}" if is_left else f"i{m + 1}"): self.fixed, wide: f"w{width}"}
        scale *= next((i.args[0] for i in nest.body if i.op == "constant"), 1.0)  # attention_results.py's
        return Made(
            nest, term, scale, width, pointer(nest, 2 if is_left else 0, down), pointer(nest, -1, out)
        )

    def _corrects(self) -> list[Term]:
        """The gradient of scores of a kernel that makes no product of it and only corrects delta."""
        terms = [narrowed(t) for (_, place), t in self.stores.items() if place == self.at]
        found = [term for term in terms if delta_of([term], self._row_sums())]
        return (found or terms)[:1]

    def _row_sums(self) -> set[str]:
        """Where a delta may lie: a value that is no more than a load, or a sum of its own."""
        loads = {term.args[0] for term in self.values.values() if term.op == "load"}
        return loads | {n.name for n in self.sums}

    def _delta(self) -> Delta | None:
        """The row's delta that this kernel corrects."""
        return delta_of(self.terms, self._row_sums())

    def _valid(self) -> dict[Term, bool]:
        """The conditions without which every matrix is zero."""
        each = [valid_conditions(term, 0.0) for term in self.terms]
        return {c: holds for c, holds in each[0].items() if all(one.get(c) is holds for one in each)}

    # ---- text ----------------------------------------------------------------------------------------------

    def body(self, blocks: int) -> list[str]:
        layout = self.layout
        bounds, masks = self._bounds()
        lines, parts = column_parts(bounds, masks, self.moving_size, self.tiles)
        writer = self._terms()
        fixed = f"{self.fixed} = block * BLOCK_FIXED + tl.arange(0, BLOCK_FIXED)[:, None]"
        masked = [f"{self.fixed_mask} = {self.fixed} < {self.fixed_size}"] if self.fixed_mask else []
        return [
            *batch_lines(layout, blocks, any(a > 0 for a, _ in bounds.upper), self.far),
            fixed,
            *masked,
            *(row_lines(layout) if self.rows else [*batch_variables(layout), "r0 = column"]),
            *self._widths(),
            *(line for k in (0, 1) for line in self._fixed_block(k)),
            *self._starts(),
            *(line for nest in self.sums for line in self._sum(nest, writer)),
            *writer.before(self.terms),
            *self._values(writer),
            *lines,
            *(line for part in parts for line in self._loop(part, writer.copy())),
            *self._shift(writer),
            *(line for k, made in enumerate(self.made) for line in self._result(k, made)),
        ]

    def _widths(self) -> list[str]:
        """The places in a row of each operand and result, by their number."""
        inner = (n.reduction_ranges[0] for n in (*self.given, *self.sums))
        widths = dict.fromkeys((*inner, *(m.width for m in self.made)))
        return [f"w{w} = tl.arange(0, {block_width(w)})[None, :]" for w in widths]

    def _bounds(self) -> tuple[Bounds, bool]:
        """Which of what moves a block of what stays needs. All, if a row sees nothing: it is no number."""
        if not self.layout.row or not self.valid:
            return Bounds(exact=False), bool(self.valid)
        bounds = bounds_of(self.valid, self.layout.row, "r0")
        if not no_row_is_empty(bounds, self.layout.rows, self.layout.columns):
            return Bounds(exact=False), True
        return (bounds if self.rows else turned(bounds)), True

    def _terms(self) -> TermWriter:
        given: dict[Term, str] = {}
        for nest, name in zip(self.given, ("scores", "gradients"), strict=True):
            for term in self.terms:
                loads = [t for t in walk(term) if t.op == "load" and t.args[:2] == (nest.name, self.at)]
                wide = [t for t in walk(term)
                        if t.op == "cast" and t.args[0] in loads and t.dtype is dt.float32]  # fmt: skip
                given |= dict.fromkeys((*loads, *wide), name)
        rows = {self.layout.row} if self.layout.row else {f"i{k}" for k in range(len(self.layout.ranges))}
        fixed, moving = (rows, {"r0"}) if self.rows else ({"r0"}, rows)
        columns = f"{self.moving}_mask" * self.cut
        return TermWriter(given, moving, self.fixed_mask, columns, fixed, self.layout.largest)

    def _block(self, k: int, name: str, index: str) -> tuple[str, str, str]:
        """Where the operand of one of the first two products lies, that has the rows, or that has the columns."""
        nest, m = self.given[k], len(self.layout.batch)
        width = f"w{nest.reduction_ranges[0]}"
        if name == "row":
            return pointer(nest, 0, {f"i{m}": index, "r0": width})
        return pointer(nest, 2, {f"i{m + 1}": index, "r0": width})

    def _fixed_block(self, k: int) -> list[str]:
        place, width = self._block(k, self.fixed, self.fixed), self.given[k].reduction_ranges[0]
        load = _load(place, self.fixed_mask, width)
        return [*comments(self.given[k]), f"fixed_{k} = {load}"]

    def _starts(self) -> list[str]:
        names = ["made", *(["slope"] if self.delta else [])]
        lines = [
            f"{name}_{k} = tl.full([BLOCK_FIXED, {block_width(m.width)}], 0.0, tl.float32)"
            for name in names
            for k, m in enumerate(self.made)
        ]
        sums = ("lacking", "of_weights") if self.delta else ()
        return [*lines, *(f"{name} = tl.full([BLOCK_FIXED, 1], 0.0, tl.float32)" for name in sums)]

    def _sum(self, nest: LoopNest, writer: TermWriter) -> list[str]:
        """A sum over each row's elements, which the terms of `writer` load."""
        names = [*(f"b{k}" for k in range(len(self.layout.batch))), "row"]
        places = [sympy.Symbol(name) for name in names]
        if len(nest.ranges) == 1 != len(places):
            places = [sympy.Symbol("batch") * self.layout.rows + sympy.Symbol("row")]
        size = nest.reduction_ranges[0]
        inner, padded = f"w{size}", f"(w{size} < {size})" * (block_width(size) != size)
        moved = dict(zip((*nest.loop_variables, symbol("r0")), (*places, sympy.Symbol(inner)), strict=True))
        inside = replace(nest, body=tuple(moved_to(i, moved) for i in nest.body))
        (((buffer, place), term),) = stored_terms([inside], keep_roundings=False).items()
        own = TermWriter({}, (inner,), self.fixed_mask, padded, ("row",))
        lines = [*comments(nest), *own.write(term.args[1])]
        loads = (t for one in (*self.terms, *self.values.values()) for t in walk(one))
        name = f"{nest.name}_sum"  # by its buffer: the kernel that it comes from had names of its own
        writer.text |= {t: name for t in loads if t.op == "load" and t.args[0] == nest.name}
        lines.append(f"{name} = tl.sum({own.text[term.args[1]]}, 1)[:, None]")
        if buffer in self.params:  # the kernel over keys reads it
            lines.append(f"tl.store({buffer}_ptr + {print_index(place)}, {name}{self._row_mask()})")
        return lines

    def _values(self, writer: TermWriter, corrected: bool = False) -> list[str]:
        """The values of rows that the other kernel loads; `corrected`: delta (a load) and the factor (the constant 1),
        which the loops correct, so that they come after them."""
        lines: list[str] = []
        for (buffer, place), term in self.values.items():
            if corrected == (self.delta is not None and term.op in ("load", "constant")):
                lines += writer.write(term)
                text = writer.text[term]
                if corrected:
                    text = f"{text} + shift" if term.op == "load" else "factor"
                lines.append(f"tl.store({buffer}_ptr + {print_index(place)}, {text}{self._row_mask()})")
        return lines

    def _row_mask(self) -> str:
        return f", {self.fixed_mask}" * bool(self.fixed_mask)

    def _shift(self, writer: TermWriter) -> list[str]:
        """What delta lacks, the weights' factor, and results and values with both (attention_delta.py)."""
        if self.delta is None:
            return []
        return [
            "shift = tl.where(of_weights > 0.0, lacking / of_weights, 0.0)",
            "factor = tl.where(of_weights > 0.0, 1.0 / of_weights, 1.0)",
            *(f"made_{k} = (made_{k} - shift * slope_{k}) * factor" for k in range(len(self.made))),
            *self._values(writer, corrected=True),
        ]

    def _moving_places(self, mask: str) -> list[str]:
        """The numbers of the rows or columns of a block, and which of them there are, where it is cut."""
        return [
            f"{self.moving} = start + tl.arange(0, BLOCK_MOVING)[None, :]",
            f"{self.moving}_down = start + tl.arange(0, BLOCK_MOVING)[:, None]",
            *([f"{mask} = {self.moving} < {self.moving_size}"] if mask else []),
            *(["r0 = column"] if self.rows else moving_rows(self.layout)),
        ]

    def _loop(self, part: Part, writer: TermWriter) -> list[str]:
        mask = f"{self.moving}_mask" * (part.masked and self.cut)
        writer.masks = (writer.masks[0], mask)
        down, known = f"{self.moving}_down", dict[tuple[str, str, str], str]()
        whole: dict[int, Term] = {}
        inside = self._moving_places(mask)
        terms = [t if part.masked else assuming(t, self.valid, made=whole) for t in self.terms]
        # what a row or a column has, before the products: a load after them would wait until they are there
        inside += [line for term in terms for line in writer.loads_of_moving(term)]
        below = f"{down} < {self.moving_size}" if mask else ""
        for k, name in enumerate(("scores", "gradients")):
            place, width = self._block(k, self.moving, down), self.given[k].reduction_ranges[0]
            if place not in known:
                known[place] = f"moving_{k}"
                inside.append(f"moving_{k} = {_load(place, below, width)}")
            inside.append(f"{name} = tl.dot(fixed_{k}, tl.trans({known[place]}){self.precision})")
        if self.delta is not None and not self.made:
            inside += self._lacking(terms[0], mask, writer)
        for k, (made, term) in enumerate(zip(self.made, terms, strict=False)):
            inside += writer.write(term)
            text = _masked(writer.text[term], mask)
            if made.operand not in known:
                known[made.operand] = f"operand_{k}"
                inside.append(f"operand_{k} = {_load(made.operand, below, made.width)}")
            left = f"({text}).to({self.dtype})"
            inside.append(f"made_{k} = tl.dot({left}, {known[made.operand]}, made_{k}{self.precision})")
            if self.delta is not None:
                inside += self._corrected(k, term, known[made.operand], mask, writer)
        head = (
            f"for start in tl.range({part.start}, {part.end}, BLOCK_MOVING, num_stages={self.tiles.stages}):"
        )
        return [head, *(INDENT + line for line in inside)]

    def _lacking(self, term: Term, mask: str, writer: TermWriter) -> list[str]:
        """What delta lacks so far, and the weights that it lacks it of."""
        delta = self._delta_in(term)
        lines = [*writer.write(delta.product), *writer.write(delta.weights)]
        sums = {"lacking": delta.product, "of_weights": delta.weights}
        added = (
            f"{name} += tl.sum({_masked(writer.text[one], mask)}, 1)[:, None]" for name, one in sums.items()
        )
        return [*lines, *added]

    def _corrected(self, k: int, term: Term, operand: str, mask: str, writer: TermWriter) -> list[str]:
        """What the result changes by with delta: so little that one tf32 is enough."""
        slope = slope_of(term, self._delta_in(term))
        lines, text = writer.write(slope), _masked(writer.text[slope], mask)
        lines += self._lacking(term, mask, writer) if k == 0 else []
        return [*lines, f'slope_{k} = tl.dot({text}, {operand}, slope_{k}, input_precision="tf32")']

    def _delta_in(self, term: Term) -> Delta:
        delta = delta_of([term], [self.delta.load.args[0]]) if self.delta else None
        assert delta is not None
        return delta

    def _result(self, k: int, made: Made) -> list[str]:
        buffer, at, inner = made.result
        scaled = f"(made_{k} * {number(made.scale)})" if made.scale != 1.0 else f"made_{k}"
        masks = _masks(self.fixed_mask, made.width)
        return [
            *comments(made.nest),
            f"tl.store({buffer}_ptr + {at} + {inner}, {scaled}.to({self.dtype}){masks})",
        ]


def batch_variables(layout: Layout) -> list[str]:
    """The variables of the nests between that do not depend on the row."""
    return row_lines(layout)[:-1] if layout.row else []


def moving_rows(layout: Layout) -> list[str]:
    """Those that do."""
    return row_lines(layout)[-1:] if layout.row else row_lines(layout)


def _load(place: tuple[str, str, str], mask: str, width: int) -> str:
    buffer, at, inner = place
    masks = _masks(mask, width)
    return f"tl.load({buffer}_ptr + {at} + {inner}{masks}{', 0.0' if masks else ''})"


def _masked(text: str, mask: str) -> str:
    return f"tl.where({mask}, {text}, 0.0)" if mask else text


def _masks(mask: str, width: int) -> str:
    words = [f"(w{width} < {width})"] * (block_width(width) != width)
    words += [f"({mask})" if " " in mask else mask] * bool(mask)
    return f", {' & '.join(words)}" if words else ""
