"""The pass `matmul_templates`: a product and what is done to its elements become one kernel, where that is faster.

Input: a Program for a GPU whose target asks for `max_autotune`. A product of halves that one pointwise kernel alone
reads (a bias, an activation, a residual, casts) could be one Triton kernel with it, or one alone; the other way is the
library's product and the kernel after it. Only a measurement can tell, so the pass asks the function that
`stage_contracts.measured` was given; without one nothing changes. The product is rounded before what follows, as in
eager. triton_matmul.py writes the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sympy

from stage3_lowering.lowering.attention import free_name, product_nest, product_of, with_kernels
from stage3_lowering.lowering.share_kernels import nest_form
from stage3_lowering.lowering.step_uses import OUTSIDE, StepUses, step_uses
from stage_contracts.blas import Contraction
from stage_contracts.loop_ir import BufferRef, LoopNest
from stage_contracts.measured import fastest_of
from stage_contracts.program import Buffer, Kernel, Launch, Program, Return, Target
from stage_contracts.tensor_meta import contiguous_strides

TEMPLATE = "matmul"
HALVES = ("bfloat16", "float16")
SHORTEST = 16  # of the sizes that are added up and of the columns: what tensor cores take
_NEVER = ("reduction", "scan", "atomic_add", "indirect_index")  # operators of a kernel that is not pointwise


def matmul_templates(program: Program, target: Target) -> Program:
    """The program, each such product as it was measured to be faster."""
    ask = fastest_of()
    if target.name != "triton" or not target.options.get("max_autotune") or ask is None:
        return program
    uses, taken = step_uses(program), set[int]()
    faster: list[_Match] = []
    for match in _matches(uses, {*program.kernels}):
        if match.last in taken:  # the kernel after it is part of another product
            match = _alone(program, match.product, match.kernel.name)
        ways = (piece(program, match, fused=False), piece(program, match, fused=True))
        if ask(question(ways[1]), ways) == 1:
            faster.append(match)
            taken.add(match.last)
    return _replaced(program, faster) if faster else program


@dataclass(frozen=True)
class _Match:
    """A product's step, the last step (the kernel that reads it, or the same), and the kernel of the template."""

    product: int
    last: int
    kernel: Kernel


def _matches(uses: StepUses, names: set[str]) -> list[_Match]:
    """Each product that a template can compute, with the pointwise kernel that reads it where one can be fused."""
    program, found = uses.program, list[_Match]()
    for number, step in enumerate(program.steps):
        product = _product(step, program)
        if product is None:
            continue
        name = free_name(TEMPLATE, {*names, *(m.kernel.name for m in found)})
        found.append(_with_reader(uses, number, product, name) or _alone(program, number, name))
    # a kernel that reads two products becomes part of the later one: the other is there by then
    return sorted(found, key=lambda match: (match.last == match.product, -match.product))


def _product(step: Any, program: Program) -> Contraction | None:
    found = product_of(step, program.buffers)
    if found is None or program.buffers[found.c.buffer].meta.dtype.name not in HALVES:
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
    return _Match(number, number, Kernel(name, (nest,), _params((nest,), ()), template=TEMPLATE))


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
    return _Match(number, last, Kernel(name, nests, _params(nests, inner), inner, template=TEMPLATE))


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


def _params(nests: tuple[LoopNest, ...], inner: Collection[str]) -> tuple[str, ...]:
    read = [name for nest in nests for name in nest.reads]
    written = [name for nest in nests for name in nest.writes]
    return tuple(
        dict.fromkeys(n for n in (*(n for n in read if n not in written), *written) if n not in inner)
    )


# ---- what is measured --------------------------------------------------------------------------------------


def piece(program: Program, match: _Match, fused: bool) -> Program:
    """The steps of a match as a program of their own: the product and the kernel after it, or one kernel."""
    kernel = match.kernel
    last = program.steps[match.last]
    steps: tuple[Any, ...] = (Launch(kernel.name, kernel.params),)
    kernels = {kernel.name: kernel}
    if not fused:
        steps = tuple(program.steps[n] for n in dict.fromkeys((match.product, match.last)))
        kernels = {last.kernel: program.kernels[last.kernel]} if isinstance(last, Launch) else {}
    written = {name for nest in kernel.nests for name in nest.writes if name in kernel.params}
    given = tuple(name for name in kernel.params if name not in written)
    used = {*kernel.params, *(kernel.internal if not fused else ())} & {*program.buffers}
    roles = {**dict.fromkeys(given, "input"), **dict.fromkeys(written, "output")}
    buffers = {n: Buffer(n, program.buffers[n].meta, roles.get(n, "temporary")) for n in sorted(used)}
    values = tuple(BufferRef(name) for name in kernel.params if name in written)
    return Program("piece", program.device, given, buffers, kernels, (*steps, Return(values))).verify()


def question(fused: Program) -> str:
    """What decides the answer, without names: a model's layers ask the same again and again."""
    (kernel,) = fused.kernels.values()
    words = {name: f"p{k}" for k, name in enumerate((*kernel.params, *kernel.internal))}
    metas = [str(fused.buffers[name].meta) for name in kernel.params]
    return repr((metas, [nest_form(nest, words) for nest in kernel.nests]))


def _replaced(program: Program, faster: list[_Match]) -> Program:
    """The program with these kernels, each where the last of its steps was."""
    steps: list[Any] = [*program.steps]
    for match in faster:
        steps[match.product] = None
        steps[match.last] = Launch(match.kernel.name, match.kernel.params)
    return with_kernels(program, tuple(s for s in steps if s is not None), [match.kernel for match in faster])
