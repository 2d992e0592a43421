"""Triton for the template `matmul`: a product, tile by tile, and what is done to each element while a tile is held.

Input: matmul_templates.py's kernel: nests that make operands, the nest of the product, then pointwise nests over its
points, or sections over its rows. A program takes one tile of the result, of whole rows where these are reduced;
groups of tiles that share operands run at the same time, so that the cache has these. Tensor cores multiply halves, or
what tf32 keeps of float32; the sum in float32 is rounded once, before what follows. triton_matmul_operands.py writes
operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage3_lowering.lowering.spaces import over_matrix, over_rows
from stage3_lowering.lowering.triton_attention import block_width, pointer, shared_of
from stage3_lowering.lowering.triton_blocks import Blocks, is_far
from stage3_lowering.lowering.triton_loops import INDENT, section
from stage3_lowering.lowering.triton_matmul_operands import Side, bytes_on_the_way, operand
from stage3_lowering.lowering.triton_ops import POINTERS, TRITON_TYPES
from stage3_lowering.lowering.triton_precision import allows_tf32, precision_of
from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import origin_comments
from stage_contracts.program import Kernel, Target
from stage_contracts.tensor_meta import TensorMeta

TEMPLATE = "matmul"
GROUP = 8  # rows of tiles that run at the same time


@dataclass(frozen=True)
class MatmulTiles:
    """Rows and columns of the result that a program makes, how much it adds up at once, warps, blocks on the way."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


# The first that fits is the rule's; a build measures the others beside it. On Hopper, warps in fours share one wgmma.
LARGE = (
    MatmulTiles(128, 128, 64, 8, 3), MatmulTiles(128, 256, 64, 8, 3), MatmulTiles(128, 128, 64, 4, 4),
    MatmulTiles(256, 128, 64, 8, 3), MatmulTiles(64, 128, 64, 4, 4), MatmulTiles(128, 64, 64, 4, 4),
    MatmulTiles(64, 256, 64, 4, 3), MatmulTiles(64, 64, 64, 4, 4),
)  # fmt: skip
FEW_ROWS = (
    MatmulTiles(16, 64, 128, 4, 4), MatmulTiles(16, 32, 128, 2, 5), MatmulTiles(16, 128, 128, 4, 3),
    MatmulTiles(16, 32, 256, 4, 4), MatmulTiles(16, 16, 256, 2, 4), MatmulTiles(16, 64, 64, 4, 6),
    MatmulTiles(16, 16, 128, 1, 4),
)  # fmt: skip
FEW_COLUMNS = (
    MatmulTiles(64, 32, 128, 4, 4), MatmulTiles(128, 32, 64, 4, 4), MatmulTiles(64, 16, 128, 4, 4),
    MatmulTiles(128, 16, 64, 4, 4), MatmulTiles(32, 16, 128, 2, 4),
)  # fmt: skip
SOME_ROWS = (
    MatmulTiles(64, 64, 64, 4, 4), MatmulTiles(64, 32, 128, 4, 4), MatmulTiles(32, 64, 128, 4, 4),
    MatmulTiles(64, 128, 64, 4, 4), MatmulTiles(32, 32, 128, 4, 5), MatmulTiles(64, 16, 128, 4, 5),
)  # fmt: skip


# Whose columns are as many as a row has: (rows, sum, warps, blocks on the way)
WHOLE_ROWS = ((64, 64, 4, 3), (128, 64, 8, 3), (64, 64, 8, 3), (32, 64, 4, 4), (64, 32, 4, 4), (16, 64, 4, 3))
LONGEST_ROW = 256  # that a tile holds


def tiles_for(
    m: int,
    n: int,
    k: int,
    itemsize: int,
    arch: str,
    loaded: tuple[int, int] | None = None,
    rows: bool = False,
) -> list[MatmulTiles]:
    """The tiles to try for a product of m by k and k by n, the rule's first. `loaded`: bytes of an element of each
    operand on its way; `rows`: whether a tile is to have whole rows."""
    tried: tuple[MatmulTiles, ...] = (
        FEW_ROWS if m <= 16 else FEW_COLUMNS if n <= 32 else SOME_ROWS if m <= 64 else LARGE
    )
    left, right = loaded or (itemsize, itemsize)
    if rows:
        width = block_width(n)
        tried = tuple(MatmulTiles(high, width, deep, warps, stages) for high, deep, warps, stages in WHOLE_ROWS
                      if high <= block_width(m))  # fmt: skip
    if itemsize > 2:  # as many bytes at once
        tried = tuple(replace(t, k=t.k // 2) for t in tried)
    fit = [
        t for t in tried
        if t.k * (left * t.m + right * t.n) * t.stages <= shared_of(arch) and t.n <= block_width(n)
    ]  # fmt: skip
    return fit or [MatmulTiles(16, block_width(n) if rows else 16, 64 if not rows else 16, 4, 2)]


def product_in(kernel: Kernel) -> int:
    """Which of the kernel's nests is the product: the first that adds up."""
    return next(k for k, nest in enumerate(kernel.nests) if nest.reduction_ranges)


def matmul_source(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target, tiles: MatmulTiles | None = None
) -> tuple[str, dict[str, Any]]:
    """The text of the kernel, and how to launch it; with the tiles of the rule where there are none."""
    writer = _Writer(kernel, metas, target, tiles)
    tiles = writer.tiles
    constants = {"BLOCK_M": tiles.m, "BLOCK_N": tiles.n, "BLOCK_K": tiles.k}
    params = [*(writer.names[p] for p in kernel.params), *(f"{name}: tl.constexpr" for name in constants)]
    head = [f"def {kernel.name}(", *(f"{INDENT}{p}," for p in params), "):"]
    grid = {
        "grid": (writer.programs, 1, 1),
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
        "constants": constants,
        "signature": {writer.names[p]: POINTERS[metas[p].dtype.name] for p in kernel.params},
    }
    return "\n".join([*head, *(INDENT + line for line in writer.body())]) + "\n", grid


def other_matmul_sources(
    kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same kernel with the other tiles."""
    for tiles in tiles_of(kernel, target.arch)[1:]:
        yield matmul_source(kernel, metas, target, tiles)


def tiles_of(kernel: Kernel, arch: str) -> list[MatmulTiles]:
    """The tiles to try for a kernel, the rule's first."""
    number = product_in(kernel)
    product, after = kernel.nests[number], kernel.nests[number + 1 :]
    *_, m, n = product.ranges
    (k,), dtype = product.reduction_ranges, product.body[0].dtype
    assert dtype is not None
    rows = any(nest.reduction_ranges for nest in after)
    loaded = bytes_on_the_way(kernel.nests[:number], product)
    return tiles_for(m, n, k, dtype.itemsize, arch, loaded, rows)


class _Writer:
    """Writes the body of one kernel."""

    def __init__(
        self, kernel: Kernel, metas: Mapping[str, TensorMeta], target: Target, tiles: MatmulTiles | None
    ) -> None:
        self.names = {name: f"{name}_ptr" for name in (*kernel.params, *kernel.internal)}
        number, nests = product_in(kernel), [_renamed(nest, self.names) for nest in kernel.nests]
        self.kernel, self.product, self.after = kernel, nests[number], nests[number + 1 :]
        self.makers = {nest.writes[0]: nest for nest in nests[:number]}
        self.of_rows = any(nest.reduction_ranges for nest in self.after)
        *self.batch, self.m, self.n = self.product.ranges
        (self.k,) = self.product.reduction_ranges
        dtype, rounded = self.product.body[0].dtype, self.product.body[-2].dtype
        assert dtype is not None and rounded is not None
        self.dtype, self.rounded = dtype, rounded  # of the operands, and of the result
        self.precision = precision_of(dtype, allows_tf32(target))
        self.tiles = tiles or tiles_of(kernel, target.arch)[0]
        self.far = is_far(kernel, metas) or _reaches_far(self.product)
        self.down, self.along = -(-self.m // self.tiles.m), -(-self.n // self.tiles.n)
        self.programs = self.down * self.along * math.prod(self.batch)

    def body(self) -> list[str]:
        return [*self._places(), *origin_comments(self.product.origins), *self._product(), *self._rest()]

    def _places(self) -> list[str]:
        """Which tile of which batch point a program makes."""
        program = "tl.program_id(0).to(tl.int64)" if self.far else "tl.program_id(0)"
        lines = [f"program = {program}"]
        if self.batch:
            count = self.down * self.along
            lines += [f"batch = program // {count}", f"program = program % {count}"]
            for k, size in enumerate(self.batch):
                step = math.prod(self.batch[k + 1 :])
                lines.append(f"b{k} = batch // {step} % {size}" if k else f"b{k} = batch // {step}")
        if self.down == 1:
            lines += ["tile_m = 0", "tile_n = program"]
        else:
            group = min(GROUP, self.down)
            lines += [
                f"group = program // {group * self.along}  # tiles that share operands run together",
                f"height = tl.minimum({self.down} - group * {group}, {group})",
                f"tile_m = group * {group} + program % {group * self.along} % height",
                f"tile_n = program % {group * self.along} // height",
            ]
        return [
            *lines,
            f"i0 = {self._wide('tile_m * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]')}",
            f"i1 = {self._wide('tile_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]')}",
            *[f"xmask = i0 < {self.m}"] * bool(self.m % self.tiles.m),
            *[f"rmask = i1 < {self.n}"] * bool(self.n % self.tiles.n),
            *["mask = xmask & rmask"] * bool(self.m % self.tiles.m and self.n % self.tiles.n),
        ]

    def _wide(self, places: str) -> str:
        """Places as numbers that can be multiplied by any stride."""
        return f"({places}).to(tl.int64)" if self.far else places

    def _product(self) -> list[str]:
        row, column, tiles = f"i{len(self.batch)}", f"i{len(self.batch) + 1}", self.tiles
        left = Side(
            "left", 0, ("i0", "k_along"), (self.m, self.k), (tiles.m, tiles.k), ("BLOCK_M", "BLOCK_K"),
            ("xmask", f"(k_along < {self.k})"), 1, {row: "i0", "r0": "k_along"},
        )  # fmt: skip
        right = Side(
            "right", 2, ("k_down", "i1"), (self.k, self.n), (tiles.k, tiles.n), ("BLOCK_K", "BLOCK_N"),
            (f"(k_down < {self.k})", "rmask"), 0, {column: "i1", "r0": "k_down"},
        )  # fmt: skip
        inside = [
            f"k_along = {self._wide('start + tl.arange(0, BLOCK_K)[None, :]')}",
            f"k_down = {self._wide('start + tl.arange(0, BLOCK_K)[:, None]')}",
            *(line for side in (left, right) for line in operand(self.product, side, self.makers)),
            f"total = tl.dot(left, right, total{self.precision})",
        ]
        return [
            "total = tl.full([BLOCK_M, BLOCK_N], 0.0, tl.float32)",
            f"for start in tl.range(0, {self.k}, BLOCK_K, num_stages={self.tiles.stages}):",
            *(INDENT + line for line in inside),
            f"product = total.to({TRITON_TYPES[self.rounded.name]})",
        ]

    def _rest(self) -> list[str]:
        """What is done to the product, and the stores."""
        if not self.after:
            return [self._store()]
        nests = [self._as_rows(nest) if self.of_rows else self._as_matrix(nest) for nest in self.after]
        blocks = Blocks(
            (0,), None if self.of_rows else 1, self.tiles.m, self.tiles.n, self.of_rows, self.tiles.warps
        )
        params, held = (tuple(self.names[n] for n in of) for of in (self.kernel.params, self.kernel.internal))
        tile = Kernel(self.kernel.name, tuple(nests), params, held)
        writer = Statements(tile, blocks)
        writer.sizes |= {"batch"}
        made = self.product.body[-1].args[0]
        for instr in (i for nest in nests for i in nest.body if i.op == "load" and i.args[0] == made):
            writer.held[made, instr.args[1]] = "product"
        lines = [line for nest in nests for line in section(nest, writer, (), loop=False)]
        return ["r0 = i1  # a tile has whole rows", *map(_of_tiles, lines)] if self.of_rows else lines

    def _store(self) -> str:
        """The store of the product as it is."""
        first = len(self.batch)
        out, at, inner = pointer(self.product, -1, {f"i{first}": "i0", f"i{first + 1}": "i1"})
        masks = [name for name, size, tile in (("xmask", self.m, self.tiles.m), ("rmask", self.n, self.tiles.n))
                 if size % tile]  # fmt: skip
        mask = {0: "", 1: f", {''.join(masks[:1])}", 2: ", mask"}[len(masks)]
        return f"tl.store({out} + ({at}) + {inner}, product{mask})"

    def _as_rows(self, nest: LoopNest) -> LoopNest:
        """The nest with a loop over the rows of one batch point's matrix, and one over the columns inside."""
        moved = over_rows(nest, math.prod(self.batch) * self.m, self.n)
        row = symbol("batch") * self.m + symbol("i0") if self.batch else symbol("i0")
        body = tuple(_with_row(instr, row) for instr in moved.body)
        return LoopNest(moved.name, (self.m,), moved.reduction_ranges, body, moved.origins)

    def _as_matrix(self, nest: LoopNest) -> LoopNest:
        """The nest with loops over rows and columns of one batch point's matrix."""
        rows = math.prod(self.batch) * self.m
        moved = over_matrix(nest, rows, self.n)
        if not self.batch:
            return moved
        row = symbol("batch") * self.m + symbol("i0")
        body = tuple(_with_row(instr, row) for instr in moved.body)
        return LoopNest(moved.name, (self.m, self.n), (), body, moved.origins)


def _of_tiles(line: str) -> str:
    """A line of a reduction over rows, with the tile's names of blocks."""
    return line.replace("[XBLOCK, RBLOCK]", "[BLOCK_M, BLOCK_N]").replace("[XBLOCK, 1]", "[BLOCK_M, 1]")


def _renamed(nest: LoopNest, names: Mapping[str, str]) -> LoopNest:
    """The nest with the kernel's pointers for buffers: a user's name might be one of the template's."""
    memory = ("load", "store")
    body = tuple(replace(i, args=(names[i.args[0]], *i.args[1:])) if i.op in memory else i for i in nest.body)
    return replace(nest, body=body)


def _with_row(instr: Any, row: Any) -> Any:
    args = tuple(a.xreplace({symbol("i0"): row}) if isinstance(a, sympy.Basic) else a for a in instr.args)
    return replace(instr, args=args)


def _reaches_far(product: LoopNest) -> bool:
    """Whether the product loads or stores a place beyond what 32 bits can address."""
    loops = (*product.loop_variables, *product.reduction_variables)
    last = {v: n - 1 for v, n in zip(loops, (*product.ranges, *product.reduction_ranges), strict=True)}
    places = (sympy.sympify(i.args[1]).subs(last) for i in product.body if i.op in ("load", "store"))
    return any(place + 1 >= 1 << 31 for place in places)
