"""Scaled dot-product attention and the multi-head form, as bodies over matmul and softmax.

Input: queries (..., L, E), keys (..., S, E), values (..., S, Ev); masks are boolean (True takes part) for
scaled_dot_product_attention, and (True is left out) for the multi-head form, each as in torch.
"""

from __future__ import annotations

import math

from stage0_eager.derivatives.rules import transpose_last
from stage0_eager.functions.in_float32 import is_half_on_cpu, narrowed, widened
from stage0_eager.functions.linalg.products import linear
from stage0_eager.functions.nn.dropout import dropout
from stage0_eager.functions.promotion import same_dtype
from stage0_eager.functions.reductions import softmax
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt

MINUS = float("-inf")


@operator
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """softmax(query @ key.T * scale + mask) @ value: (..., L, Ev).

    scale None is 1/sqrt(E). A row whose mask leaves nothing is 0. enable_gqa: heads, at dim -3, of key and value are
    fewer and each serves a group of query heads. Halves on the CPU are computed in float32 and rounded once, as a GPU's
    kernel does, which is made of the products of halves.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    same_dtype("scaled_dot_product_attention", query, key, value)
    if attn_mask is not None and attn_mask.dtype not in (dt.bool_, dt.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype.name} and query.dtype: {query.dtype.name} instead."
        )
    if enable_gqa:
        key, value = _serve(key, query.shape[-3]), _serve(value, query.shape[-3])
    narrow = None
    if is_half_on_cpu(query) and query.dtype is key.dtype is value.dtype:
        narrow = query.dtype
        query, key, value = (c.cast(x, dt.float32) for x in (query, key, value))
        attn_mask = attn_mask if attn_mask is None else widened(attn_mask)[0]
    scores, empty = _scores(query, key, attn_mask, is_causal, scale)
    weights = softmax(scores, -1)
    if empty is not None:
        weights = c.where(empty, 0.0, weights)
    if dropout_p:
        weights = dropout(weights, dropout_p, True)
    return narrowed(c.matmul(weights, value), narrow)


def _scores(query, key, mask, is_causal, scale, find_empty=True):
    """(scores, rows that see nothing or None); such rows' scores are 0, so that softmax is finite."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = c.matmul(c.mul(query, scale), transpose_last(key))
    if is_causal:
        rows, columns = scores.shape[-2:]
        i = c.reshape(c.iota(rows, 0, 1, dt.int64, scores.device), (rows, 1))
        mask = c.ge(i, c.iota(columns, 0, 1, dt.int64, scores.device))
        return c.where(mask, scores, MINUS), None  # each row sees the first key
    if mask is None:
        return scores, None
    along = (mask.ndim - 1,)
    if mask.dtype is dt.bool_:
        empty = c.logical_not(c.any(mask, along, True))
        return c.where(c.logical_or(mask, empty), c.where(empty, 0.0, scores), MINUS), empty
    scores = c.add(scores, mask)
    if not find_empty:
        return scores, None
    empty = c.eq(c.amax(mask, along, True), MINUS)
    return c.where(empty, 0.0, scores), empty


def _serve(x, heads):
    """Each head of x, at dim -3, repeated so that there are `heads`."""
    have = x.shape[-3]
    if heads % have:
        raise RuntimeError(
            f"scaled_dot_product_attention: number of heads in query ({heads}) must be divisible by that in key and "
            f"value ({have})"
        )
    lead, tail = tuple(x.shape[:-2]), tuple(x.shape[-2:])
    spread = c.expand(c.reshape(x, (*lead, 1, *tail)), (*lead, heads // have, *tail))
    return c.reshape(spread, (*lead[:-1], heads, *tail))


def as_float_mask(mask, dtype, name="attn_mask"):
    """A mask to add: -inf where a boolean one is True. Raises for integers."""
    if mask is None:
        return None
    if mask.dtype is dt.bool_:
        return c.where(mask, c.full((), MINUS, dtype, mask.device), c.full((), 0.0, dtype, mask.device))
    if not mask.is_floating_point():
        raise RuntimeError(f"only bool and floating types of {name} are supported")
    return mask


@operator
def attention_heads(query, key, value, num_heads, mask=None, dropout_p=0.0, need_weights=True):
    """Attention in heads over batch-first (N, L, E), (N, S, E): (out (N, L, E), weights (N, heads, L, S)).

    mask is added to the scores and broadcasts to (N, heads, L, S). A row of it that leaves nothing gives NaN, as in
    torch; only where nobody needs the weights it gives 0, as scaled_dot_product_attention does.
    """
    batch, length, width = query.shape
    head = width // num_heads

    def heads(x):
        return c.permute(c.reshape(x, (batch, x.shape[1], num_heads, head)), (0, 2, 1, 3))

    scores, empty = _scores(heads(query), heads(key), mask, False, None, not need_weights)
    weights = softmax(scores, -1)
    if empty is not None:
        weights = c.where(empty, 0.0, weights)
    if dropout_p:
        weights = dropout(weights, dropout_p, True)
    out = c.matmul(weights, heads(value))
    return c.reshape(c.permute(out, (0, 2, 1, 3)), (batch, length, width)), weights


@operator
def project_packed(query, key, value, weight, bias=None):
    """The three projections by one weight (3E, E): thirds of it for query, key and value."""
    width = query.shape[-1]
    parts = []
    for i, x in enumerate((query, key, value)):
        w = c.slice(weight, 0, i * width, (i + 1) * width, 1)
        b = None if bias is None else c.slice(bias, 0, i * width, (i + 1) * width, 1)
        parts.append(linear(x, w, b))
    return tuple(parts)
