"""Pointwise kernels that make an operand of a product and nothing else: the product's template can compute them itself.

Input: a Program's steps, and a product in it. An operand that others read too has to be written anyway, so only one
that this product alone reads counts. What follows another product is left to that one. Reading later what a maker reads
must give the same: no step up to the last one may write it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import sympy

from stage3_lowering.lowering.matmul_ways import Way, launches
from stage3_lowering.lowering.step_uses import OUTSIDE, StepUses
from stage_contracts.blas import Contraction
from stage_contracts.loop_ir import AT_PLACES, LoopNest
from stage_contracts.program import Kernel, Launch
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

# Operators of a kernel that is not pointwise
NOT_POINTWISE = ("reduction", "scan", "argsort", *AT_PLACES, "indirect_index")

Makers = Mapping[str, Kernel]  # by the buffer that each makes


def is_pointwise(kernel: Kernel, step: Launch) -> bool:
    if kernel.template or kernel.rows or kernel.sizes or step.buffers != kernel.params:
        return False
    return not any(nest.reduction_ranges or {*nest.ops} & {*NOT_POINTWISE} for nest in kernel.nests)


def makers_of(
    uses: StepUses, number: int, last: int, product: Contraction, others: Collection[int]
) -> dict[str, int]:
    """By operand, the step that makes it. `last`: the step after which all is done; `others`: steps that are not to
    be taken."""
    found = {}
    for buffer in dict.fromkeys((product.a.buffer, product.b.buffer)):
        makers = uses.users[buffer] - {number}
        if len(makers) != 1 or OUTSIDE in makers or makers & {*others}:
            continue
        (maker,) = makers
        if maker < number and _makes(uses, maker, buffer) and not _changed(uses, maker, last):
            found[buffer] = maker
    return found


def _makes(uses: StepUses, maker: int, buffer: str) -> bool:
    """Whether the step is one pointwise nest that stores all elements of the buffer, as they lie, and nothing else."""
    step = uses.program.steps[maker]
    if not isinstance(step, Launch) or not is_pointwise(kernel := uses.program.kernels[step.kernel], step):
        return False
    if len(kernel.nests) != 1 or kernel.internal or uses.writes(maker) != (buffer,):
        return False
    (nest,), meta = kernel.nests, uses.program.buffers[buffer].meta
    last = nest.body[-1]
    stores = [i for i in nest.body if i.op == "store"]
    types = {i.name: i.dtype for i in nest.body}
    return (
        stores == [last]
        and "random_bits" not in nest.ops
        and buffer not in nest.reads
        and math.prod(nest.ranges) == meta.numel == _elements(meta)
        and sympy.expand(last.args[1]) == in_order(nest)
        and types[last.args[2]] is meta.dtype
    )


def _elements(meta: TensorMeta) -> int:
    """How many elements of memory a tensor reaches over: as many as it has, in whatever order, if there are no gaps."""
    return 1 + sum((n - 1) * s for n, s in zip(meta.shape, meta.strides, strict=True))


def in_order(nest: LoopNest) -> sympy.Expr:
    """The number of a nest's point, which is where its element lies in a buffer of all its points."""
    strides = contiguous_strides(nest.ranges)
    return sympy.expand(
        sum((s * i for s, i in zip(strides, nest.loop_variables, strict=True)), sympy.Integer(0))
    )


def _changed(uses: StepUses, maker: int, last: int) -> bool:
    reads = {*uses.reads(maker)}
    return any(reads & {*uses.writes(n)} for n in range(maker + 1, last + 1))


def choices(product: Contraction, makers: Makers) -> Iterator[tuple[str, Makers]]:
    """Which operands a kernel makes, and how people call that: none, each alone, both."""
    sides = {product.b.buffer: "right", product.a.buffer: "left"}
    yield "", {}
    for count in range(1, len(makers) + 1):
        for some in itertools.combinations(makers, count):
            both = count == 2 or product.a.buffer == product.b.buffer
            yield f", {'both' if both else sides[some[0]]} made", {name: makers[name] for name in some}


def after_makers(way: Way, makers: Sequence[Kernel]) -> Way:
    """The way, and before it the kernels of the operands that it does not make."""
    if not makers:
        return way
    return Way(way.name, (*launches(makers), *way.steps), (*makers, *way.kernels), way.buffers)
