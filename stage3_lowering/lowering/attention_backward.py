"""The pass `attention_backward`: the gradients of attention become one kernel over queries and one over keys.

Input: a Program with kernels and calls. Between the products q @ k.T and g @ v.T and those that make gradients of them,
a kernel computes the weights and the scores' gradients; none of the three is written to memory. The two kernels are
those of FlashAttention-2 (Dao, 2023); triton_attention_backward.py writes them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stage3_lowering.lowering.attention import (
    Products,
    free_name,
    places,
    product_nest,
    products_of,
    with_kernels,
)
from stage3_lowering.lowering.attention_delta import row_sums
from stage3_lowering.lowering.attention_row_values import RowValues, row_values_of
from stage3_lowering.lowering.row_values import moved_to
from stage3_lowering.lowering.step_uses import StepUses, step_uses
from stage3_lowering.lowering.terms import Stores, Term, narrowed, stored_terms, walk
from stage3_lowering.lowering.triton_ops import TRITON_OPS
from stage_contracts import dtype as dt
from stage_contracts.attention import FEWEST_ROWS, largest_width
from stage_contracts.blas import Contraction, Matrix
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.program import Buffer, Kernel, Launch, Program, Target
from stage_contracts.tensor_meta import contiguous_strides

BY_ROWS, BY_COLUMNS = "attention_by_rows", "attention_by_columns"


def attention_backward(program: Program, target: Target) -> Program:
    """The program, the gradients of each attention in two kernels."""
    if target.name != "triton":
        return program
    uses, products = step_uses(program), products_of(program)
    found: list[_Match] = []
    for number in (n for n, step in enumerate(program.steps) if isinstance(step, Launch)):
        taken = {
            *program.kernels,
            *(k.name for m in found for k in m.kernels),
            *(b for m in found for b in m.buffers),
        }
        match = _match(uses, products, number, taken)
        if match is not None and not any(match.gone & other.gone for other in found):
            found.append(match)
    return _replaced(program, found) if found else program


@dataclass(frozen=True)
class _Match:
    gone: frozenset[int]  # the steps that the kernels do instead
    at: int  # where the kernels come
    kernels: tuple[Kernel, ...]
    buffers: Mapping[str, Buffer]  # between the two


def _match(uses: StepUses, products: Products, number: int, taken: Collection[str]) -> _Match | None:
    program, step = uses.program, uses.program.steps[number]
    kernel = program.kernels[step.kernel]
    if kernel.template or kernel.rows or kernel.sizes or step.buffers != kernel.params:
        return None
    given, made = _around(uses, number, products)
    if len(given) != 2 or not _alike(program, [*given.values()]) or _written_between(uses, [*made], products):
        return None
    first = next(iter(given.values()))
    nests = by_columns(kernel.nests, first)
    scores, written = [p.c.buffer for p in given.values()], uses.writes(number)
    if nests is None or gradients_of(nests, scores, written, first.n) is None:
        return None
    kernels, buffers = _kernels(program, nests, [*given.values()], [*made.values()], taken)
    return _Match(frozenset({*given, number, *made}), min(made), kernels, buffers) if kernels else None


def _around(uses: StepUses, number: int, products: Products) -> tuple[Products, Products]:
    """The products whose results only this step reads, and those that alone read what it writes; none, if others do."""
    reads, writes = uses.accesses[number]
    given = {n: products[n] for name in reads for n in uses.users[name] if n in products and n < number
             and products[n].c.buffer == name and uses.users[name] == {n, number}}  # fmt: skip
    readers = {n for name in writes for n in uses.users[name]}
    made = {n: products[n] for n in sorted(readers) if n in products and n > number}
    return (given, made) if made and readers == {number, *made} else ({}, {})


def _alike(program: Program, products: list[Contraction]) -> bool:
    one, other = products
    sizes = (one.batch, one.m, one.n) == (other.batch, other.m, other.n)
    widest = largest_width(program.buffers[one.c.buffer].meta.dtype)
    return sizes and min(one.m, one.n) >= FEWEST_ROWS and max(one.k, other.k) <= widest


def _written_between(uses: StepUses, made: list[int], products: Products) -> bool:
    """Whether a step after the first of these products writes what a later one reads."""
    read = {name for n in made for name in (products[n].a.buffer, products[n].b.buffer)}
    between = (n for n in range(min(made), max(made)) if n not in made)
    return any(read & {*uses.writes(n)} for n in between)


def by_columns(nests: tuple[LoopNest, ...], product: Contraction) -> tuple[LoopNest, ...] | None:
    """Pointwise nests over rows and columns as nests over rows, with the columns as their inner loop."""
    ranges = nests[0].ranges
    points = math.prod((*product.batch, product.m))
    if any(n.reduction_ranges or n.ranges != ranges for n in nests) or len(ranges) < 1:
        return None
    if ranges[-1] != product.n or math.prod(ranges[:-1]) != points:
        return None
    moved = {symbol(f"i{len(ranges) - 1}"): symbol("r0")}
    return tuple(
        replace(n, ranges=ranges[:-1], reduction_ranges=(product.n,),
                body=tuple(moved_to(i, moved) for i in n.body))
        for n in nests
    )  # fmt: skip


def gradients_of(
    nests: tuple[LoopNest, ...], given: Collection[str], written: Collection[str], columns: int
) -> Stores | None:
    """What is stored, by place, if all of it is pointwise in the given matrices and lies as they do."""
    stores = stored_terms(nests, keep_roundings=False)
    at, _ = places(nests[0], columns)
    outside = {key: narrowed(term) for key, term in stores.items() if key[0] in written}
    if set(outside) != {(name, at) for name in written}:
        return None
    return outside if all(_is_pointwise(term, given, at) for term in outside.values()) else None


def _is_pointwise(term: Term, given: Collection[str], at: Any) -> bool:
    for part in walk(term):
        if part.op == "load":
            if len(part.args) != 2 or (part.args[0] in given and part.args[1] != at):
                return False
        elif part.op not in ("constant", "index_expr", "cast"):
            of = part.operands[-1].dtype if part.operands else None
            if of is None or part.op not in TRITON_OPS[of.category]:
                return False
    return True


# ---- the kernels --------------------------------------------------------------------------------------------


def by_rows(product: Contraction, written: Collection[str], columns: int) -> bool | None:
    """Whether a product adds up over the columns of a written matrix x: x @ b. False: over its rows, x.T @ b or
    a.T @ x. None: it is none of these."""
    left, right = product.a.buffer in written, product.b.buffer in written
    x = product.a if left else product.b
    if left is right or not _is_whole(x, product, columns):
        return None
    if left:
        return not x.transposed
    return False if product.a.transposed and not x.transposed else None


def _is_whole(x: Matrix, product: Contraction, columns: int) -> bool:
    """Whether it is the matrix of each batch point as it lies in memory."""
    rows = product.k if x is product.b or x.transposed else product.m
    steps = contiguous_strides((*product.batch, rows, columns))[:-2]
    natural = all(a == b or n == 1 for a, b, n in zip(x.batch, steps, product.batch, strict=True))
    return natural and x.offset == 0 and x.row == columns


def width_of(product: Contraction, written: Collection[str]) -> int:
    """The columns of what a product makes, or its rows where it makes it turned."""
    return int(product.n if product.a.buffer in written else product.m)


def _kernels(
    program: Program,
    nests: tuple[LoopNest, ...],
    given: list[Contraction],
    made: list[Contraction],
    names: Collection[str],
) -> tuple[tuple[Kernel, ...], Mapping[str, Buffer]]:
    """One kernel for the products by rows and one for those by columns, and the buffers of what the first computes for
    the second; none if a product is neither. Where queries need no gradient and delta is corrected, the first makes the
    values of rows alone."""
    writes = {name for n in nests for name in n.writes}
    sides = [by_rows(p, writes, given[0].n) for p in made]
    if None in sides or not _fit(program, made, given[0], writes):
        return (), {}
    own = {side: [p for p, one in zip(made, sides, strict=True) if one is side] for side in (True, False)}
    rows = _row_values(program, nests, given, own, names)
    kernels: list[Kernel] = []
    for template, side, between in ((BY_ROWS, True, rows.by_rows), (BY_COLUMNS, False, rows.by_columns)):
        if own[side] or (side and rows.corrected):
            taken = {*names, *(k.name for k in kernels)}
            kernels.append(_kernel(program, template, between, given, own[side], taken))
    if rows.values:
        kernels[0] = _with_values(kernels[0], rows.values)
    return tuple(kernels), rows.buffers


def _row_values(
    program: Program,
    nests: tuple[LoopNest, ...],
    given: list[Contraction],
    own: Mapping[bool, list[Contraction]],
    names: Collection[str],
) -> RowValues:
    """What each kernel computes, with the values of rows that the one by rows computes for the one by columns."""
    plain = RowValues(nests, nests, (), {})
    is_float32 = program.buffers[given[0].c.buffer].meta.dtype is dt.float32
    sums = row_sums(program, [p.a.buffer for p in given]) if is_float32 else set()
    if not own[False] or not (own[True] or sums):
        return plain
    rows = row_values_of(nests, given[0].n, {*names, *program.buffers}, program.device, sums)
    return rows if own[True] or rows.corrected else plain


def _fit(program: Program, made: list[Contraction], given: Contraction, written: Collection[str]) -> bool:
    """Whether they are of the given product's batch, and no wider than a kernel takes."""
    widest = largest_width(program.buffers[given.c.buffer].meta.dtype)
    return all(p.batch == given.batch and width_of(p, written) <= widest for p in made)


def _with_values(kernel: Kernel, values: tuple[LoopNest, ...]) -> Kernel:
    """The kernel, which also writes these values of rows."""
    read = [name for nest in values for name in nest.reads if name not in kernel.params]
    written = [nest.name for nest in values]
    params = tuple(dict.fromkeys((*read, *kernel.params, *written)))
    return replace(kernel, nests=(*kernel.nests, *values), params=params)


def _kernel(
    program: Program,
    template: str,
    nests: tuple[LoopNest, ...],
    given: list[Contraction],
    own: list[Contraction],
    taken: Collection[str],
) -> Kernel:
    """The kernel of one template: the given products, what is between, its own products."""
    dtype = program.buffers[given[0].c.buffer].meta.dtype
    before = tuple(product_nest(p, dtype, program) for p in given)
    after = tuple(product_nest(p, dtype, program) for p in own)
    stored = {name for n in nests for name in n.writes}
    between = _needed(nests, {name for p in own for name in (p.a.buffer, p.b.buffer)} if own else stored)
    inside = {name for n in (*before, *between) for name in n.writes}
    reads = [name for n in (*before, *between, *after) for name in n.reads if name not in inside]
    params = tuple(dict.fromkeys((*reads, *(p.c.buffer for p in own))))
    return Kernel(
        free_name(template, taken),
        (*before, *between, *after),
        params,
        tuple(sorted(inside)),
        template=template,
    )


def _needed(nests: tuple[LoopNest, ...], wanted: Collection[str]) -> tuple[LoopNest, ...]:
    """The nests, without stores of what no one reads."""
    read = {name for nest in nests for name in nest.reads}
    kept = {*wanted, *read}
    return tuple(
        replace(n, body=tuple(i for i in n.body if i.op != "store" or i.args[0] in kept)) for n in nests
    )


def _replaced(program: Program, found: list[_Match]) -> Program:
    gone, matches = {n for match in found for n in match.gone}, {match.at: match for match in found}
    steps: list[Any] = []
    for n, step in enumerate(program.steps):
        if n in matches:
            steps += [Launch(kernel.name, kernel.params) for kernel in matches[n].kernels]
        if n not in gone:
            steps.append(step)
    buffers = {name: buffer for match in found for name, buffer in match.buffers.items()}
    program = program.with_(buffers={**program.buffers, **buffers})
    return with_kernels(program, tuple(steps), [k for match in found for k in match.kernels])
