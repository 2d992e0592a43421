"""The pass `matmul_templates`: a product and what is done around it become kernels of our own, where that is faster.

Input: a Program for a GPU whose target asks for `max_autotune`. A product that tensor cores compute (halves, float32
where the program allows tf32) and one pointwise kernel that alone reads it (a bias, an activation, a residual, casts)
could be one Triton kernel, or two that divide a long sum (matmul_split.py); so could the product alone. The first way
is the library's product and the kernel after it. Only a measurement can tell, so the pass asks the function that
`stage_contracts.measured` was given; without one nothing changes. The product is rounded before what follows, as in
eager. triton_matmul.py writes the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy

from stage3_lowering.lowering.attention import free_name, product_nest, product_of
from stage3_lowering.lowering.matmul_split import split_way
from stage3_lowering.lowering.matmul_ways import (
    Way,
    as_they_are,
    launches,
    params_of,
    piece,
    question,
    replaced,
)
from stage3_lowering.lowering.step_uses import OUTSIDE, StepUses, step_uses
from stage3_lowering.lowering.triton_matmul import TEMPLATE
from stage3_lowering.lowering.triton_precision import allows_tf32
from stage_contracts.blas import Contraction
from stage_contracts.loop_ir import LoopNest
from stage_contracts.measured import fastest_of
from stage_contracts.program import Kernel, Launch, Program, Target
from stage_contracts.tensor_meta import contiguous_strides

# dtype -> whether tensor cores multiply it on this target
MULTIPLIED = {"bfloat16": lambda target: True, "float16": lambda target: True, "float32": allows_tf32}
SHORTEST = 16  # of the sizes that are added up and of the columns: what tensor cores take
_NEVER = ("reduction", "scan", "atomic_add", "indirect_index")  # operators of a kernel that is not pointwise


def matmul_templates(program: Program, target: Target) -> Program:
    """The program, each such product as it was measured to be the fastest."""
    ask = fastest_of()
    if target.name != "triton" or not target.options.get("max_autotune") or ask is None:
        return program
    uses, taken = step_uses(program), set[int]()
    chosen: list[tuple[tuple[int, ...], Way]] = []
    for match in _matches(uses, {*program.kernels}, target):
        if match.last in taken:  # the kernel after it is part of another product
            match = _alone(program, match.product, match.kernel.name)
        numbers = tuple(dict.fromkeys((match.product, match.last)))
        ways = [*_ways(program, match, numbers, target)]
        programs = tuple(piece(uses, numbers, way) for way in ways)
        if (number := ask(question(programs), programs)) != 0:
            chosen.append((numbers, ways[number]))
            taken.add(match.last)
    return replaced(uses, chosen) if chosen else program


@dataclass(frozen=True)
class _Match:
    """A product's step, the last step (the kernel that reads it, or the same), and the kernel of the template."""

    product: int
    last: int
    kernel: Kernel


def _ways(program: Program, match: _Match, numbers: tuple[int, ...], target: Target) -> Iterator[Way]:
    """The library's first."""
    yield as_they_are(program, numbers)
    yield Way(TEMPLATE_WAY, launches((match.kernel,)), (match.kernel,))
    product = product_of(program.steps[match.product], program.buffers)
    assert product is not None
    last = program.steps[match.last]
    reader = program.kernels[last.kernel] if isinstance(last, Launch) else None
    split = split_way(program, product, reader, match.kernel.name, target)
    if split is not None:
        yield split


TEMPLATE_WAY = "template"


def _matches(uses: StepUses, names: set[str], target: Target) -> list[_Match]:
    """Each product that a template can compute, with the pointwise kernel that reads it where one can be fused."""
    program, found = uses.program, list[_Match]()
    for number, step in enumerate(program.steps):
        product = _product(step, program, target)
        if product is None:
            continue
        name = free_name(TEMPLATE, {*names, *(m.kernel.name for m in found)})
        found.append(_with_reader(uses, number, product, name) or _alone(program, number, name))
    # a kernel that reads two products becomes part of the later one: the other is there by then
    return sorted(found, key=lambda match: (match.last == match.product, -match.product))


def _product(step: Any, program: Program, target: Target) -> Contraction | None:
    found = product_of(step, program.buffers)
    if found is None:
        return None
    multiplied = MULTIPLIED.get(program.buffers[found.c.buffer].meta.dtype.name)
    if multiplied is None or not multiplied(target):
        return None
    fixed = all(
        isinstance(x, int)
        for matrix in (found.a, found.b)
        for x in (matrix.offset, matrix.row, *matrix.batch)
    )
    return found if fixed and found.k >= SHORTEST and found.n >= SHORTEST else None


def _alone(program: Program, number: int, name: str) -> _Match:
    product = product_of(program.steps[number], program.buffers)
    assert product is not None
    dtype = program.buffers[product.c.buffer].meta.dtype
    nest = product_nest(product, dtype, program)
    return _Match(number, number, Kernel(name, (nest,), params_of((nest,)), template=TEMPLATE))


def _with_reader(uses: StepUses, number: int, product: Contraction, name: str) -> _Match | None:
    """With the one step that reads the product, if that is a pointwise kernel over the same points."""
    program, made = uses.program, product.c.buffer
    readers = uses.users[made] - {number}
    if len(readers) != 1 or OUTSIDE in readers:
        return None
    (last,) = readers
    step = program.steps[last]
    if not isinstance(step, Launch) or not _pointwise(program.kernels[step.kernel], step):
        return None
    kernel = program.kernels[step.kernel]
    points = math.prod((*product.batch, product.m, product.n))
    if any(math.prod(nest.ranges) != points or not _in_place(nest, made) for nest in kernel.nests):
        return None
    if any({product.a.buffer, product.b.buffer} & {*uses.writes(n)} for n in range(number + 1, last + 1)):
        return None
    nests = (product_nest(product, program.buffers[made].meta.dtype, program), *kernel.nests)
    inner = (made, *kernel.internal)
    return _Match(number, last, Kernel(name, nests, params_of(nests, inner), inner, template=TEMPLATE))


def _pointwise(kernel: Kernel, step: Launch) -> bool:
    if kernel.template or kernel.rows or kernel.sizes or step.buffers != kernel.params:
        return False
    return not any(nest.reduction_ranges or {*nest.ops} & {*_NEVER} for nest in kernel.nests)


def _in_place(nest: LoopNest, made: str) -> bool:
    """Whether the nest reads the product only at its own point: the product's elements in order."""
    strides = contiguous_strides(nest.ranges)
    point = sympy.expand(
        sum((s * i for s, i in zip(strides, nest.loop_variables, strict=True)), sympy.Integer(0))
    )
    loads = [i.args[1:] for i in nest.body if i.op == "load" and i.args[0] == made]
    return all(len(args) == 1 and sympy.expand(args[0]) == point for args in loads)
