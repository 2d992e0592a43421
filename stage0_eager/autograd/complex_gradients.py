"""Gradients of complex tensors: the derivative rules, which are written for real numbers, run on conjugates.

Input: a rule and the gradient of a complex result. As in torch, the gradient of a real L with respect to z = x + iy is
dL/dx + i dL/dy, so a holomorphic f sends g to g * conj(f'(z)). Every rule is linear in g and computes g * f'(z).
So conj(rule(conj(g))) is what is wanted, for products and inverses of matrices too, and no rule is written twice.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.registry import TABLE

# What is to run as it is: the rule gives the gradient of complex numbers itself, or it only moves, adds or scales by
# real numbers, so that both conjugations cancel.
FOR_COMPLEX = frozenset(
    """
    conj view_as_complex
    add sub neg sum cumsum where cast
    reshape permute expand slice diagonal unfold as_strided slice_scatter flip cat constant_pad gather scatter
    scatter_add copy_ clone contiguous to_device detach
    fft_r2c slogdet qr svd eigh eig cholesky linalg_pinv
    """.split()
)


def by_conjugates(rule: Any, g: Any, needed: tuple) -> Any:
    """What `rule` gives for the gradient of a complex result."""
    return _conjugate(rule(_conjugate(g), *needed))


def is_complex(g: Any) -> bool:
    """Whether the gradient of a result, or of the first of several, is complex."""
    first = g[0] if type(g) is tuple else g
    return first is not None and first.dtype.is_complex


def _conjugate(g: Any) -> Any:
    if type(g) in (tuple, list):
        return type(g)(map(_conjugate, g))
    if g is None or not g.dtype.is_complex:
        return g
    return TABLE["core.conj"](g)
