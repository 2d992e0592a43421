"""The pass `matmul_templates`: a product and what is done around it become kernels of our own, where that is faster.

Input: a Program for a GPU whose target asks for `max_autotune`. A product that tensor cores compute (halves, float32
where the program allows tf32) and the kernel that alone reads it, pointwise (a bias, an activation, a residual, casts)
or a reduction of its short rows, could be one Triton kernel, or two that divide a long sum (matmul_split.py); so could
the product alone. Pointwise kernels that make its operands can be part of either (matmul_makers.py). The first way is
the library's product and the kernels around it. Only a measurement can tell, so the pass asks the function that
`stage_contracts.measured` was given; without one nothing changes. The product is rounded before what follows, as in
eager. triton_matmul.py writes the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from stage3_lowering.lowering.attention import free_name, product_nest, product_of
from stage3_lowering.lowering.matmul_makers import (
    NOT_POINTWISE,
    Makers,
    after_makers,
    choices,
    is_pointwise,
    makers_of,
)
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
from stage3_lowering.lowering.triton_matmul import LONGEST_ROW, TEMPLATE
from stage3_lowering.lowering.triton_precision import allows_tf32
from stage_contracts.blas import Contraction
from stage_contracts.loop_ir import LoopNest
from stage_contracts.measured import fastest_of
from stage_contracts.program import Kernel, Launch, Program, Target
from stage_contracts.tensor_meta import contiguous_strides

# dtype -> whether tensor cores multiply it on this target
MULTIPLIED = {"bfloat16": lambda target: True, "float16": lambda target: True, "float32": allows_tf32}
SHORTEST = 16  # of the sizes that are added up and of the columns: what tensor cores take
ROW_KINDS = ("sum", "amax", "amin")  # reductions of a row that a tile holds


def matmul_templates(program: Program, target: Target) -> Program:
    """The program, each such product as it was measured to be the fastest."""
    ask = fastest_of()
    if target.name != "triton" or not target.options.get("max_autotune") or ask is None:
        return program
    uses, taken = step_uses(program), set[int]()
    chosen: list[tuple[tuple[int, ...], Way]] = []
    for match in _matches(uses, {*program.kernels}, target):
        if match.last in taken:  # the kernel after it is part of another product
            match = replace(_alone(program, match.product, match.kernel.name), makers=match.makers)
        numbers = (*sorted({*match.makers.values(), match.product, match.last}),)
        ways = [*_ways(program, match, numbers, target)]
        programs = tuple(piece(uses, numbers, way) for way in ways)
        if (number := ask(question(programs), programs)) != 0:
            chosen.append((numbers, ways[number]))
            taken.add(match.last)
    return replaced(uses, chosen) if chosen else program


@dataclass(frozen=True)
class _Match:
    """A product's step, the last step (the kernel that reads it, or the same), the kernel of the template, and, by
    operand, the steps that make one and nothing else."""

    product: int
    last: int
    kernel: Kernel
    makers: Mapping[str, int] = field(default_factory=dict)


def _ways(program: Program, match: _Match, numbers: tuple[int, ...], target: Target) -> Iterator[Way]:
    """The library's first."""
    yield as_they_are(program, numbers)
    product = product_of(program.steps[match.product], program.buffers)
    assert product is not None
    last = program.steps[match.last]
    reader = program.kernels[last.kernel] if isinstance(last, Launch) else None
    kernels = {name: program.kernels[_launched(program, n)] for name, n in match.makers.items()}
    for words, made in choices(product, kernels):
        before = [kernel for name, kernel in kernels.items() if name not in made]
        kernel = with_makers(match.kernel, made)
        yield after_makers(Way(TEMPLATE_WAY + words, launches((kernel,)), (kernel,)), before)
        split = split_way(program, product, reader, match.kernel.name, target, made)
        if split is not None:
            yield after_makers(replace(split, name=split.name + words), before)


def _launched(program: Program, number: int) -> str:
    step = program.steps[number]
    assert isinstance(step, Launch)
    return step.kernel


def with_makers(kernel: Kernel, makers: Makers) -> Kernel:
    """The kernel of the template, which makes these operands itself."""
    if not makers:
        return kernel
    nests = (*(nest for maker in makers.values() for nest in maker.nests), *kernel.nests)
    inner = (*makers, *kernel.internal)
    return replace(kernel, nests=nests, params=params_of(nests, inner), internal=inner)


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
    lasts = {match.last for match in found if match.last != match.product}
    found = [_with_makers_of(uses, match, lasts) for match in found]
    # a kernel that reads two products becomes part of the later one: the other is there by then
    return sorted(found, key=lambda match: (match.last == match.product, -match.product))


def _with_makers_of(uses: StepUses, match: _Match, others: Collection[int]) -> _Match:
    product = product_of(uses.program.steps[match.product], uses.program.buffers)
    assert product is not None
    return replace(match, makers=makers_of(uses, match.product, match.last, product, others))


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
    if not isinstance(step, Launch):
        return None
    kernel = program.kernels[step.kernel]
    if not (_over_points(kernel, step, product, made) or _over_rows(kernel, step, product, made)):
        return None
    if any({product.a.buffer, product.b.buffer} & {*uses.writes(n)} for n in range(number + 1, last + 1)):
        return None
    nests = (product_nest(product, program.buffers[made].meta.dtype, program), *kernel.nests)
    inner = (made, *kernel.internal)
    return _Match(number, last, Kernel(name, nests, params_of(nests, inner), inner, template=TEMPLATE))


def _over_points(kernel: Kernel, step: Launch, product: Contraction, made: str) -> bool:
    """Whether the kernel is pointwise, over the points of the product."""
    points = math.prod((*product.batch, product.m, product.n))
    return is_pointwise(kernel, step) and all(
        math.prod(nest.ranges) == points and _in_place(nest, made) for nest in kernel.nests
    )


def _over_rows(kernel: Kernel, step: Launch, product: Contraction, made: str) -> bool:
    """Whether the kernel reduces rows of the product that a tile can hold whole, and what it does beside is pointwise
    over the points, or over the rows."""
    if kernel.template or kernel.rows or kernel.sizes or step.buffers != kernel.params:
        return False
    kinds = {i.args[0] for nest in kernel.nests for i in nest.body if i.op == "reduction"}
    ops = {op for nest in kernel.nests for op in nest.ops} - {"reduction"}
    return (
        product.n <= LONGEST_ROW
        and kinds <= {*ROW_KINDS}
        and not ops & {*NOT_POINTWISE, "random_bits"}
        and all(_of_rows(nest, product) and _in_place(nest, made) for nest in kernel.nests)
    )


def _of_rows(nest: LoopNest, product: Contraction) -> bool:
    """Whether the nest's loops are over the product's rows, and its inner ones over their columns."""
    rows, inner = math.prod((*product.batch, product.m)), nest.reduction_ranges
    return math.prod(nest.ranges) == rows and (not inner or math.prod(inner) == product.n)


def _in_place(nest: LoopNest, made: str) -> bool:
    """Whether the nest reads the product only at its own point: the product's elements in order."""
    sizes, variables = (
        (*nest.ranges, *nest.reduction_ranges),
        (*nest.loop_variables, *nest.reduction_variables),
    )
    point = sum((s * i for s, i in zip(contiguous_strides(sizes), variables, strict=True)), sympy.Integer(0))
    loads = [i.args[1:] for i in nest.body if i.op == "load" and i.args[0] == made]
    return all(len(args) == 1 and sympy.expand(args[0] - point) == 0 for args in loads)
