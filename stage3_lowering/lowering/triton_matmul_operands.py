"""Triton for an operand of the template `matmul`: its tile is loaded, or made of what a pointwise nest loads.

Input: the product's nest and, for an operand that the kernel makes, the nest that would have stored it. That nest is
written for the tile's points, so its result is rounded as its store would round it. Beyond the sum's end an operand is
0: a function of nothing need not be, and 0 times infinity is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage3_lowering.lowering.spaces import over_places
from stage3_lowering.lowering.triton_attention import pointer
from stage3_lowering.lowering.triton_blocks import Blocks
from stage3_lowering.lowering.triton_loops import section
from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Kernel


@dataclass(frozen=True)
class Side:
    """An operand's tile: `name`, its load in the product's nest, and along each axis (rows, then columns) its
    variable, size, block, the block's name and the mask. `inner`: the axis of the sum. `variables`: the template's
    variable for each of the product's nest."""

    name: str
    load: int
    axes: tuple[str, str]
    sizes: tuple[int, int]
    blocks: tuple[int, int]
    block_names: tuple[str, str]
    masks: tuple[str, str]
    inner: int
    variables: Mapping[str, str]

    @property
    def cut(self) -> tuple[bool, bool]:
        """Along which axes the last tile may be partly outside."""
        (rows, columns), (down, along) = self.sizes, self.blocks
        return rows % down != 0, columns % along != 0


def operand(product: LoopNest, side: Side, makers: Mapping[str, LoopNest]) -> list[str]:
    """The lines that give a tile of this operand. `makers`: by buffer, the nests of those that the kernel makes."""
    maker = makers.get(product.body[side.load].args[0])
    if maker is not None:
        return _made(product, side, maker)
    buffer, at, inside = pointer(product, side.load, side.variables)
    masks = [mask for mask, cut in zip(side.masks, side.cut, strict=True) if cut]
    masked = f", {' & '.join(masks)}, 0.0" if masks else ""
    return [f"{side.name} = tl.load({buffer} + ({at}) + {inside}{masked})"]


def _made(product: LoopNest, side: Side, maker: LoopNest) -> list[str]:
    nest = on_tile(product, side, maker)
    made, _, value = nest.body[-1].args
    writer = _OfOperand(Kernel(made, (nest,), nest.reads, (made,)), side, len(product.ranges) - 2)
    lines = section(nest, writer, (), loop=False)
    text = writer.block_text(value)
    if writer.varies[value] != "xr":
        text = f"tl.broadcast_to({text}, [{', '.join(side.block_names)}])"
    if side.cut[side.inner]:
        text = f"tl.where({side.masks[side.inner]}, {text}, 0.0)"
    return [*lines, f"{side.name} = {text}"]


def on_tile(product: LoopNest, side: Side, maker: LoopNest) -> LoopNest:
    """The maker's nest at the places that the product loads, in the template's variables. Its values are renamed, for
    the text of the other operand stands beside it."""
    moved = over_places(maker, product.body[side.load].args[1], product.ranges, product.reduction_ranges)
    batch = {f"i{k}": f"b{k}" for k in range(len(product.ranges) - 2)}
    renamed = {symbol(old): symbol(new) for old, new in {**batch, **side.variables}.items()}

    def word(arg: Any) -> Any:
        if isinstance(arg, Value):
            return Value(f"{side.name}_{arg}")
        return arg.xreplace(renamed) if isinstance(arg, sympy.Basic) else arg

    body = tuple(_renamed(instr, side.name).with_args(tuple(map(word, instr.args))) for instr in moved.body)
    return LoopNest(moved.name, side.sizes, (), body, moved.origins)


def _renamed(instr: Instr, prefix: str) -> Instr:
    return replace(instr, name=f"{prefix}_{instr.name}") if instr.name else instr


class _OfOperand(Statements):
    """Statements on an operand's tile: its axes and masks are the template's."""

    def __init__(self, kernel: Kernel, side: Side, batch: int) -> None:
        super().__init__(kernel, Blocks((0,), 1, *side.blocks, False, 4))
        self.axis = dict(zip(side.axes, "xr", strict=True))
        self.masks = dict(zip("xr", side.masks, strict=True))
        self.sizes = {f"b{k}" for k in range(batch)}  # all else that is no value is an axis

    def _mask(self, varies: str) -> str:
        return " & ".join(mask for axis, mask in self.masks.items() if axis in varies and self.partial[axis])


def bytes_on_the_way(nests: tuple[LoopNest, ...], product: LoopNest) -> tuple[int, int]:
    """How many bytes a tile's element of each operand has while it is loaded: more where it is made of wider ones."""
    makers = {nest.writes[0]: nest for nest in nests if nest.writes}

    def of(load: Instr) -> int:
        assert load.dtype is not None
        maker = makers.get(load.args[0])
        if maker is None:
            return load.dtype.itemsize
        size = load.dtype.itemsize  # as the product takes it
        wide = {
            i.args: i.dtype.itemsize
            for i in maker.body
            if i.op == "load" and i.dtype and _every_point(i, maker)
        }
        return max(size, sum(wide.values()))

    return of(product.body[0]), of(product.body[2])


def _every_point(load: Instr, nest: LoopNest) -> bool:
    return {*nest.loop_variables} <= load.args[1].free_symbols
