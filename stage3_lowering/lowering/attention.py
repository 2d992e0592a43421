"""The pass `attention`: softmax(f(q @ k.T)) @ v, written in any words, becomes one kernel on a GPU.

Input: a Program with kernels and calls. f is any pointwise function of a score, its place and what can be loaded there:
a scale, a mask, a bias, a soft cap. The scores are never written to memory, and stay float32 between the two products.
The idea is FlashAttention's (Dao et al., NeurIPS 2022); triton_attention.py writes the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage3_lowering.lowering.step_uses import StepUses, step_uses
from stage3_lowering.lowering.terms import Stores, Term, narrowed, stored_terms, walk
from stage3_lowering.lowering.triton_ops import TRITON_OPS
from stage_contracts import dtype as dt
from stage_contracts.attention import FEWEST_ROWS, largest_width
from stage_contracts.blas import Contraction, Matrix, contraction
from stage_contracts.dtype import DType
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Buffer, External, Kernel, Launch, Program, Target
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import contiguous_strides

# What tensor cores multiply: halves without loss of bits, float32 as three products of its two halves (tf32x3)
LETTERS = {"bfloat16": "b", "float16": "h", "float32": "s"}
TEMPLATE = "attention"


def attention(program: Program, target: Target) -> Program:
    """The program, each attention in it one kernel."""
    if target.name != "triton":
        return program
    uses, products = step_uses(program), products_of(program)
    found: list[_Match] = []
    for number in (n for n, step in enumerate(program.steps) if isinstance(step, Launch)):
        name = free_name(TEMPLATE, {*program.kernels, *(m.kernel.name for m in found)})
        if (match := _match(uses, products, number, name)) is not None:
            found.append(match)
    return _replaced(program, found) if found else program


@dataclass(frozen=True)
class _Match:
    first: int  # the step that computes the scores
    rows: int  # the kernel that makes weights of them
    last: int  # the step that multiplies by the values
    kernel: Kernel


@dataclass(frozen=True)
class Softmax:
    """exp(x - top) / total over a row, where top is the row's largest x and total the sum, as terms."""

    x: Term
    top: Term
    total: Term
    kept: Stores  # by place, what is stored for others, besides the weights


def product_of(step: Any, buffers: Mapping[str, Buffer]) -> Contraction | None:
    """A step that is a product of a dtype in LETTERS, its sizes known and its result row-major."""
    if not isinstance(step, External) or step.target != "matmul" or len(step.outputs) != 1:
        return None
    if not buffers[step.outputs[0]].meta.is_contiguous:
        return None
    found = contraction(replace(step, into=True), buffers, LETTERS)
    return None if found is None or any(map(is_open, (*found.batch, found.m, found.n, found.k))) else found


Products = Mapping[int, Contraction]  # by the number of the step


def products_of(program: Program) -> Products:
    found = ((n, product_of(step, program.buffers)) for n, step in enumerate(program.steps))
    return {n: product for n, product in found if product is not None}


def free_name(template: str, taken: Collection[str]) -> str:
    """The first name of a template's kernel that is not taken."""
    return next(n for n in (f"fused_{template}_{k}" for k in range(len(taken) + 1)) if n not in taken)


def _match(uses: StepUses, products: Products, number: int, name: str) -> _Match | None:
    program, step = uses.program, uses.program.steps[number]
    kernel = program.kernels[step.kernel]
    if kernel.template or kernel.rows or step.buffers != kernel.params or kernel.sizes:
        return None
    private = {param for param in kernel.params if uses.users[param] == {number}}
    for first, last in _pairs(uses, number, products):
        whole = _kernel(program, kernel, products[first], products[last], private, name)
        if whole is not None and not _read_between(uses, number, last):
            return _Match(first, number, last, whole)
    return None


def _pairs(uses: StepUses, number: int, products: Products) -> list[tuple[int, int]]:
    """The products whose result only this step reads, each with those that alone read what this step writes."""
    reads, writes = uses.accesses[number]
    firsts = [n for name in reads for n in uses.users[name] if n in products and n < number
              and products[n].c.buffer == name and uses.users[name] == {n, number}]  # fmt: skip
    lasts = [n for name in writes for n in uses.users[name] if n in products and n > number
             and products[n].a.buffer == name and uses.users[name] == {n, number}]  # fmt: skip
    return [(first, last) for first in sorted(firsts) for last in sorted(lasts)]


def _read_between(uses: StepUses, number: int, last: int) -> bool:
    """Whether a step between these two reads what the first one writes."""
    writes = {*uses.writes(number)}
    return any(writes & {*uses.reads(n)} for n in range(number + 1, last))


def _kernel(
    program: Program, rows: Kernel, first: Contraction, last: Contraction, private: set[str], name: str
) -> Kernel | None:
    """The three steps as one kernel, if they are attention. `private`: what only the kernel between them uses."""
    if (
        first.batch != last.batch
        or (first.m, first.n) != (last.m, last.k)
        or first.m < FEWEST_ROWS
        or first.n < FEWEST_ROWS
        or max(first.k, last.n) > largest_width(program.buffers[first.c.buffer].meta.dtype)
        or last.a.transposed
        or last.a.offset
    ):
        return None
    dtype = program.buffers[first.c.buffer].meta.dtype
    nests = (
        product_nest(first, dtype, program),
        *rows.nests,
        product_nest(last, dtype, program),
    )
    inner = {first.c.buffer, last.a.buffer, *rows.internal, *private}
    points = math.prod((*first.batch, first.m))
    if softmax_of(rows.nests, first.c.buffer, last.a.buffer, points, first.n, inner) is None:
        return None
    inputs = [first.a.buffer, first.b.buffer, last.b.buffer, *(p for p in rows.params if p not in inner)]
    params = tuple(dict.fromkeys((*inputs, last.c.buffer)))
    return Kernel(name, nests, params, tuple(sorted(inner)), template=TEMPLATE)


def product_nest(product: Contraction, dtype: DType, program: Program) -> LoopNest:
    """A contraction as a loop nest: over the batch, the rows and the columns, the sum of products."""
    ranges = (*product.batch, product.m, product.n)
    batch = [symbol(f"i{k}") for k in range(len(product.batch))]
    row, column, inside = symbol(f"i{len(batch)}"), symbol(f"i{len(batch) + 1}"), symbol("r0")

    def place(matrix: Matrix, down: Any, along: Any) -> Any:
        at = sum((step * i for step, i in zip(matrix.batch, batch, strict=True)), sympy.Integer(0))
        along, down = (down, along) if matrix.transposed else (along, down)
        return sympy.Integer(matrix.offset) + at + matrix.row * down + along

    wide, half = dt.float32, f"product_{dtype.name}"
    left, right = Value("left"), Value("right")
    body = (
        Instr(left, "load", (product.a.buffer, place(product.a, row, inside)), dtype),
        Instr(Value("left_float32"), "cast", (left, wide), wide),
        Instr(right, "load", (product.b.buffer, place(product.b, inside, column)), dtype),
        Instr(Value("right_float32"), "cast", (right, wide), wide),
        Instr(Value("term"), "mul", (Value("left_float32"), Value("right_float32")), wide),
        Instr(Value("product"), "reduction", ("sum", Value("term")), wide),
        Instr(Value(half), "cast", (Value("product"), dtype), dtype),
        Instr("", "store", (product.c.buffer, place(product.c, row, column), Value(half)), None),
    )
    origins = next(
        s.origins for s in program.steps if isinstance(s, External) and s.outputs == (product.c.buffer,)
    )
    return LoopNest(product.c.buffer, ranges, (product.k,), body, origins)


# ---- what the kernel between the products computes --------------------------------------------------------


def softmax_of(
    nests: tuple[LoopNest, ...], scores: str, weights: str, rows: int, columns: int, inner: Collection[str]
) -> Softmax | None:
    """The softmax that the nests compute of the scores, if that, its row values and nothing else is what they store."""
    if math.prod(nests[0].ranges) != rows or {n.reduction_ranges for n in nests} - {(columns,), ()}:
        return None
    stores = stored_terms(nests, keep_roundings=False)
    at, row = places(nests[0], columns)
    made = [term for (buffer, _), term in stores.items() if buffer == weights]
    if len(made) != 1 or (weights, at) not in stores:
        return None
    found = _softmax(narrowed(made[0]))
    if found is None or not _is_pointwise(found.x, scores, at):
        return None
    outside = {key: narrowed(term) for key, term in stores.items() if key[0] not in inner}
    if any(index != row or term not in (found.top, found.total) for (_, index), term in outside.items()):
        return None
    return replace(found, kept=outside)


def places(nest: LoopNest, columns: int) -> tuple[Any, Any]:
    """Where in the score matrix a nest's point lies, and where in a column with one element for each row."""
    strides = contiguous_strides(nest.ranges)
    row = sum((s * i for s, i in zip(strides, nest.loop_variables, strict=True)), sympy.Integer(0))
    return sympy.expand(columns * row + symbol("r0")), sympy.expand(row)


def _softmax(weights: Term) -> Softmax | None:
    if weights.op != "div":
        return None
    over, total = weights.operands
    if over.op != "exp" or _reduced(total, "sum") is not over:
        return None
    shifted = over.args[0]
    if shifted.op != "sub":
        return None
    x, top = shifted.operands if len(shifted.operands) == 2 else shifted.operands * 2
    largest = _reduced(top, "amax") is x
    return Softmax(x, top, total, {}) if largest else None


def _reduced(term: Term, kind: str) -> Term | None:
    """What a term is the reduction of."""
    return term.args[1] if term.op == "reduction" and term.args[0] == kind else None


def _is_pointwise(x: Term, scores: str, at: Any) -> bool:
    """Whether it is computed of the score at this place and of loads, by operators that a template can write."""
    reads = False
    for part in walk(x):
        if part.op == "load":
            reads |= part.args[0] == scores
            if len(part.args) != 2 or (part.args[0] == scores and part.args[1] != at):
                return False
        elif part.op not in ("constant", "index_expr", "cast"):
            of = part.operands[-1].dtype if part.operands else None
            if of is None or part.op not in TRITON_OPS[of.category]:
                return False
    return reads and x.dtype is dt.float32


# ---- the program with it ----------------------------------------------------------------------------------


def _replaced(program: Program, found: list[_Match]) -> Program:
    """One launch in the place of each three steps. It comes last: what it reads is there by then."""
    gone = {n for match in found for n in (match.first, match.rows)}
    launches = {m.last: Launch(m.kernel.name, m.kernel.params) for m in found}
    steps = tuple(launches.get(n, step) for n, step in enumerate(program.steps) if n not in gone)
    return with_kernels(program, steps, [match.kernel for match in found])


def with_kernels(program: Program, steps: tuple[Any, ...], made: Sequence[Kernel]) -> Program:
    """These steps, the new kernels and those that are still launched, and the buffers that are still in memory."""
    used = {step.kernel for step in steps if isinstance(step, Launch)}
    kernels = {n: k for n, k in program.kernels.items() if n in used} | {k.name: k for k in made}
    inner = {name for kernel in made for name in kernel.internal}
    buffers = {n: b for n, b in program.buffers.items() if n not in inner}
    return program.with_(kernels=kernels, steps=steps, buffers=buffers)
