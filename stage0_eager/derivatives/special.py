"""Derivatives of the special functions and cumulative operations, by operators only.

Input: as rules.py's rules. The identities are those of the NIST Digital Library of Mathematical Functions
(dlmf.nist.gov, chapters 5, 7, 8, 10, 25).
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.derivatives.rules import fit, reverse_cumsum, zeros
from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.half_numbers import HALVES


def _polygamma(n: int, x: Any) -> Any:
    return c.digamma(x) if n == 0 else c.polygamma(x, n)


def _i1_input(g: Any, input: Any, out: Any) -> Any:
    zero = c.eq(input, 0)
    safe = c.where(zero, 1.0, input)
    return c.mul(g, c.where(zero, 0.5, c.sub(c.i0(safe), c.div(out, safe))))


def _i1e_input(g: Any, input: Any, out: Any) -> Any:
    zero = c.eq(input, 0)
    safe = c.where(zero, 1.0, input)
    slope = c.sub(c.i0e(safe), c.mul(out, c.add(c.sign(safe), c.reciprocal(safe))))
    return c.mul(g, c.where(zero, 0.5, slope))


c.lgamma.derivative(input=lambda g, input: c.mul(g, c.digamma(input)))
c.digamma.derivative(input=lambda g, input: c.mul(g, c.polygamma(input, 1)))
c.polygamma.derivative(input=lambda g, input, n: c.mul(g, c.polygamma(input, n + 1)))
c.erfinv.derivative(input=lambda g, out: c.mul(g, c.mul(c.exp(c.mul(out, out)), math.sqrt(math.pi) / 2)))
c.erfcx.derivative(
    input=lambda g, input, out: c.mul(g, c.sub(c.mul(c.mul(input, out), 2), 2 / math.sqrt(math.pi)))
)
c.ndtri.derivative(
    input=lambda g, out: c.mul(g, c.mul(c.exp(c.mul(c.mul(out, out), 0.5)), math.sqrt(2 * math.pi)))
)
c.i0.derivative(input=lambda g, input: c.mul(g, c.i1(input)))
c.i0e.derivative(input=lambda g, input, out: c.mul(g, c.sub(c.i1e(input), c.mul(c.sign(input), out))))
c.i1.derivative(input=_i1_input)
c.i1e.derivative(input=_i1e_input)


def _not_here(function: str, parameter: str) -> Any:
    def rule(g: Any) -> Any:
        raise NotImplementedError(f"the derivative for {parameter!r} of {function} is not implemented")

    return rule


def _gamma_density(g: Any, input: Any, other: Any) -> Any:
    """g * x ** (a - 1) * exp(-x) / gamma(a), in logarithms."""
    log = c.sub(c.sub(c.mul(c.sub(input, 1), c.log(other)), other), c.lgamma(input))
    return c.mul(g, c.exp(log))


c.zeta.derivative(
    input=_not_here("zeta", "self"),
    other=lambda g, input, other, other_meta: fit(
        c.neg(c.mul(c.mul(g, input), c.zeta(c.add(input, 1), other))), other_meta
    ),
)
c.gammainc.derivative(
    input=_not_here("igamma", "input"),
    other=lambda g, input, other, other_meta: fit(_gamma_density(g, input, other), other_meta),
)
c.gammaincc.derivative(
    input=_not_here("igammac", "input"),
    other=lambda g, input, other, other_meta: fit(c.neg(_gamma_density(g, input, other)), other_meta),
)
c.frexp.derivative(input=lambda g, out: c.mul(g[0], c.exp2(c.neg(c.cast(out[1], g[0].dtype)))))

# ---- cumulative ---------------------------------------------------------------------------------------------


def _cumprod_input(g: Any, input: Any, out: Any, dim: int, input_meta: Any) -> Any:
    # before the first zero: sum of g * out over what comes later, divided by x. At the first zero: the same of the
    # product without it. After it every product holds that zero, and nothing arrives.
    zero = c.eq(input, 0)
    seen = c.cumsum(zero, dim)
    first = c.logical_and(zero, c.eq(seen, 1))
    rest = c.where(first, 1.0, input)
    before = c.div(reverse_cumsum(c.mul(g, out), dim), c.where(zero, 1.0, input))
    at = reverse_cumsum(c.mul(g, c.cumprod(rest, dim)), dim)
    return fit(c.where(c.eq(seen, 0), before, c.where(first, at, 0.0)), input_meta)


def _logcumsumexp_input(g: Any, input: Any, out: Any, dim: int) -> Any:
    """sum over later j of g[j] * exp(x - out[j]), in logarithms, for positive and negative g apart.

    Halves are computed in float32, and rounded once.
    """
    half = input.dtype if input.dtype in HALVES else None
    if half is not None:
        g, input, out = (c.cast(x, dt.float32) for x in (g, input, out))

    def part(side: Any) -> Any:
        none = c.le(side, 0)  # minus infinity after the subtraction: out may be minus infinity too
        log = c.where(none, -math.inf, c.sub(c.log(c.where(none, 1.0, side)), out))
        late = c.flip(c.logcumsumexp(c.flip(log, (dim,)), dim), (dim,))
        return c.exp(c.add(late, input))

    total = c.sub(part(g), part(c.neg(g)))
    return total if half is None else c.cast(total, half)


c.cumprod.derivative(input=_cumprod_input)
c.logcumsumexp.derivative(input=_logcumsumexp_input)
for _op in (c.cummax, c.cummin):
    _op.derivative(input=lambda g, out, input_meta, dim: c.scatter_add(zeros(input_meta), dim, out[1], g[0]))
