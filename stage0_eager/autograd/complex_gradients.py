"""Gradients of complex tensors: the derivative rules, which are written for real numbers, run on conjugates.

Input: a node of the tape with a complex result. As in torch, the gradient of a real loss L with respect to z = x + iy
is dL/dx + i dL/dy, so a holomorphic f sends g to g * conj(f'(z)). Every rule is linear in g and computes g * f'(z).
So conj(rule(conj(g))) is what is wanted, for products and inverses of matrices too, and no rule is written twice.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.registry import TABLE

# What is to run as it is: the rule gives the gradient of complex numbers itself, or it only moves, adds or scales by
# real numbers, so that both conjugations cancel.
FOR_COMPLEX = frozenset(
    """
    conj view_as_complex complex polar
    add sub neg sum cumsum where cast
    reshape permute expand slice diagonal unfold as_strided slice_scatter flip cat constant_pad gather scatter
    scatter_add copy_ clone contiguous to_device detach
    qr svd eigh cholesky
    """.split()
)


def conjugated(node: Any, g: Any, saved: dict[str, Any]) -> list:
    """One gradient per edge, as TapeNode.apply gives, by the conjugates."""
    results = []
    for edge in node.edges:
        rule = node.op.derivatives[edge.param]
        result = rule.rule(_conjugate(g), *(saved[name] for name in rule.needs))
        results.append(_conjugate(result if edge.position is None else result[edge.position]))
    return results


def _conjugate(g: Any) -> Any:
    if type(g) in (tuple, list):
        return type(g)(map(_conjugate, g))
    if g is None or not g.dtype.is_complex:
        return g
    return TABLE["core.conj"](g)
