"""Functions of torch.nn.functional that are a few lines over others: attention in heads, cross entropy of a projection.

Input: as torch's functions of these names take it. They are plain Python, so that capture follows them.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import creation, joining, shape
from stage0_eager.functions.linalg.products import linear
from stage0_eager.functions.nn.attention import as_float_mask, attention_heads, project_packed
from stage0_eager.functions.nn.losses import cross_entropy
from stage0_eager.tensor import Tensor


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """cross_entropy(linear(input, linear_weight, linear_bias), target); `options` are for torch's memory use."""
    return cross_entropy(
        linear(input, linear_weight, linear_bias), target, weight,
        ignore_index=-100 if ignore_index is None else ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups: of the pieces of a 2-d operand that end at offs, or of the matrices of a 3-d one."""
    if bias is not None:
        raise RuntimeError("grouped_mm: bias is not supported yet")
    if mat_a.ndim == mat_b.ndim == 3:
        out = mat_a @ mat_b
    else:
        ends = [0, *offs.tolist()]  # type: ignore[union-attr]
        pieces = [slice(start, end) for start, end in zip(ends, ends[1:])]
        if mat_a.ndim == 2 and mat_b.ndim == 3:
            out = joining.cat([mat_a[rows] @ mat_b[i] for i, rows in enumerate(pieces)])
        elif mat_b.ndim == 2 and mat_a.ndim == 3:
            out = joining.cat([mat_a[i] @ mat_b[:, columns] for i, columns in enumerate(pieces)], 1)
        else:
            out = shape.stack([mat_a[:, inner] @ mat_b[inner] for inner in pieces])
    return out if out_dtype is None else out.to(out_dtype)


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any,
    in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Any, training: bool = True, key_padding_mask: Any = None, need_weights: bool = True,
    attn_mask: Any = None, use_separate_proj_weight: bool = False, q_proj_weight: Any = None,
    k_proj_weight: Any = None, v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """(output (L, N, E), weights (N, L, S) or None) of sequences (L, N, E): MultiheadAttention, its weights given.

    bias_k and bias_v are a further key and value of every sequence, add_zero_attn adds one of zeros.
    """
    _check_heads(
        query, embed_dim_to_check, static_v if static_k is None else static_k, is_causal and attn_mask is None
    )
    alone = query.ndim == 2
    q, k, v = (x.unsqueeze(0) if alone else x.transpose(0, 1) for x in (query, key, value))
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected(q, k, v, weights, in_proj_bias)
    mask = _mask_of(q, k, num_heads, attn_mask, key_padding_mask)
    further = [(bias_k, bias_v)] if bias_k is not None else []
    for more in further + ([(0.0, 0.0)] if add_zero_attn else []):
        k, v = (_with_one(x, last) for x, last in zip((k, v), more, strict=True))
        mask = None if mask is None else _with_one(mask, 0.0, -1)
    out, scores = attention_heads(q, k, v, num_heads, mask, dropout_p if training else 0.0, need_weights)
    out = linear(out[0] if alone else out.transpose(0, 1), out_proj_weight, out_proj_bias)
    return out, _shown(scores, average_attn_weights, alone) if need_weights else None


def _shown(scores: Tensor, average: bool, alone: bool) -> Tensor:
    scores = scores.mean(1) if average else scores
    return scores.squeeze(0) if alone else scores


def _check_heads(query: Tensor, wanted: int, static: Any, causal_alone: bool) -> None:
    if static is not None:
        raise NotImplementedError("multi_head_attention_forward: static_k and static_v are not supported")
    if query.shape[-1] != wanted:
        raise AssertionError(f"was expecting embedding dimension of {wanted}, but got {query.shape[-1]}")
    if causal_alone:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")


def _projected(q: Tensor, k: Tensor, v: Tensor, weights: Any, bias: Any) -> tuple[Tensor, ...]:
    """The three projections, by three weights or by the thirds of one."""
    if not isinstance(weights, tuple):
        return project_packed(q, k, v, weights, bias)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True))


def _with_one(x: Tensor, last: Any, dim: int = 1) -> Tensor:
    """x with one more along `dim`: a tensor's values, or a number."""
    sizes = list(x.shape)
    sizes[dim] = 1
    if isinstance(last, Tensor):
        return joining.cat([x, last.reshape(1, 1, -1).expand(sizes)], dim)
    return joining.cat([x, creation.full(sizes, last, dtype=x.dtype, device=x.device)], dim)


def _mask_of(q: Tensor, k: Tensor, num_heads: int, attn_mask: Any, key_padding_mask: Any) -> Any:
    """Both masks as one to add, (N, heads, L, S) or broadcast to it; or None."""
    n, length, source = q.shape[0], q.shape[1], k.shape[1]
    mask = as_float_mask(attn_mask, q.dtype)
    if mask is not None:
        mask = mask.reshape(n, num_heads, length, source) if mask.ndim == 3 else mask
    padding = as_float_mask(key_padding_mask, q.dtype, "key_padding_mask")
    if padding is None:
        return mask
    padding = padding.reshape(n, 1, 1, source)
    return padding if mask is None else mask + padding
