"""The delta of attention's gradient in float32: a row's sum of weights times their gradients, as the kernel has these.

Input: the gradients of scores as terms. With weights p and their gradients dp they are p * (dp - delta) times what no
delta is in, and delta = sum(p * dp) is given as sum(g * o) (attention_gradient.py). Both are right to a float32, but dp
and delta were rounded on different ways: where they nearly cancel, what is left has both errors, the same along a row.
So the kernel over queries adds up p * (dp - delta) and p. Their quotient is what this delta lacks, `shift`. The
gradients of scores are linear in delta: the kernel's result less shift times the same product with p in the place of
p * (dp - delta) is its result with the right delta, without a second loop.

Weights are computed again as powers of a score less one number of the row (attention_row_values.py), whose last bit is
an error of all weights of the row. One over their sum is a factor that makes them add up to 1 again: the kernel over
queries scales its result by it, the one over keys each weight. In a Program that factor is the constant 1. Where only
keys and values need gradients, the kernel over queries makes no product and runs for the two numbers of a row alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from stage3_lowering.lowering.terms import Stores, Term, rebuilt, stored_terms, walk
from stage_contracts import dtype as dt
from stage_contracts.index_expr import symbol
from stage_contracts.program import Program

COLUMN = symbol("r0")


@dataclass(frozen=True)
class Delta:
    """The load of a row's delta, weights * (gradients - delta), and the weights."""

    load: Term
    product: Term
    weights: Term


def row_sums(program: Program, of: Collection[str]) -> set[str]:
    """The buffers that are sums over rows of one of these buffers times another, as sum(g * o)."""
    kernels = (kernel for kernel in program.kernels.values() if not kernel.template)
    return {
        name
        for kernel in kernels
        for nest in kernel.nests
        if "reduction" in nest.ops
        for name in _sums_of(stored_terms([nest], keep_roundings=False), of)
    }


def _sums_of(stores: Stores, of: Collection[str]) -> list[str]:
    """The buffers where a nest stores such a sum; it may make the factor itself, and store it, too."""
    made = {term for (buffer, _), term in stores.items() if buffer in of}

    def is_factor(term: Term) -> bool:
        return term in made or (term.op == "load" and term.args[0] in of)

    sums = ((buffer, term.args[1]) for (buffer, _), term in stores.items() if _is_sum(term))
    return [buffer for buffer, inner in sums if inner.op == "mul" and any(map(is_factor, inner.operands))]


def _is_sum(term: Term) -> bool:
    return term.op == "reduction" and term.args[0] == "sum"


def delta_of(terms: Iterable[Term], sums: Collection[str]) -> Delta | None:
    """The delta, one of these sums, in a gradient of scores that is linear in it. None in half precision, where delta
    has the errors of a result that was rounded to a half."""
    for term in terms:
        for part in walk(term):
            for weights, difference in (part.operands, part.operands[::-1]) if part.op == "mul" else ():
                load = _subtracted(difference, sums)
                if load is not None and _is_power(weights) and _is_linear(term, part):
                    return Delta(load, part, weights)
    return None


def slope_of(term: Term, delta: Delta) -> Term:
    """How much less the term is for a delta that is larger by one."""

    def changed(part: Term, args: tuple[Any, ...]) -> Term:
        if part is delta.product:
            return delta.weights
        return (
            part if args == part.args else Term(part.op, args, part.dtype, f"{part.name}_slope", part.origins)
        )

    return rebuilt(term, changed)


def _subtracted(term: Term, sums: Collection[str]) -> Term | None:
    """The load of delta in dp - delta."""
    if term.op != "sub" or term.dtype is not dt.float32 or len(term.operands) != 2:
        return None
    below = term.operands[1]
    is_row = below.op == "load" and below.args[0] in sums and COLUMN not in below.args[1].free_symbols
    return below if is_row and below.dtype is dt.float32 else None


def _is_power(term: Term) -> bool:
    """Whether it is a weight of a softmax, or 0 by a mask."""
    if term.op == "where":
        _, yes, no = term.operands
        return any(_is_power(a) and b.number == 0 for a, b in ((yes, no), (no, yes)))
    return term.op == "exp2" or (term.op == "div" and term.operands[0].op == "exp")


def _is_linear(term: Term, part: Term) -> bool:
    """Whether the term is `part` times something, or 0 by a mask."""
    if term is part:
        return True
    holds = [any(one is part for one in walk(operand)) for operand in term.operands]
    if term.op == "where":
        _, yes, no = term.operands
        return not holds[0] and all(
            _is_linear(one, part) if has else one.number == 0
            for one, has in zip((yes, no), holds[1:], strict=True)
        )
    if term.op == "neg" or (term.op in ("mul", "div") and holds == [True, False]):
        return _is_linear(term.operands[0], part)
    return term.op == "mul" and holds == [False, True] and _is_linear(term.operands[1], part)
