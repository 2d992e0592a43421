"""MultiheadAttention, with torch's arguments, parameter names and initial values.

Input: sequences (L, N, E), or (N, L, E) with batch_first; masks that are boolean leave out what is True.
"""

from __future__ import annotations

from stage0_eager.functions import creation
from stage0_eager.functions.nn.attention import as_float_mask, attention_heads, project_packed
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.linear import Linear
from stage0_eager.nn.module import Module, Parameter


class MultiheadAttention(Module):
    """Attention of num_heads heads over embed_dim features, with projections in and out."""

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
        vdim=None, batch_first=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError("add_bias_kv and add_zero_attn are not supported")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = (
            embed_dim,
            num_heads,
            dropout,
            batch_first,
        )
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.head_dim = embed_dim // num_heads
        self._packed = self.kdim == embed_dim and self.vdim == embed_dim

        def parameter(*shape: int) -> Parameter:
            return Parameter(creation.zeros(*shape, device=device, dtype=dtype))

        self.in_proj_weight = parameter(3 * embed_dim, embed_dim) if self._packed else None
        self.q_proj_weight = None if self._packed else parameter(embed_dim, embed_dim)
        self.k_proj_weight = None if self._packed else parameter(embed_dim, self.kdim)
        self.v_proj_weight = None if self._packed else parameter(embed_dim, self.vdim)
        self.in_proj_bias = parameter(3 * embed_dim) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            if self.out_proj.bias is not None:
                init.zeros_(self.out_proj.bias)

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
        average_attn_weights=True, is_causal=False,
    ):  # fmt: skip
        """(output like query, weights (N, L, S), or (N, heads, L, S) when not averaged, or None).

        key_padding_mask is (N, S); attn_mask (L, S) or (N * heads, L, S). Without a batch the N goes away.
        """
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        self._check(query)
        alone = query.ndim == 2
        if alone:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        mask = self._mask(query, key, key_padding_mask, attn_mask)
        dropped = self.dropout if self.training else 0.0
        projected = self._project(query, key, value)
        out, weights = attention_heads(*projected, self.num_heads, mask, dropped, need_weights)
        # as in torch, the result is row-major in the order that the caller sees
        out = self.out_proj(out if alone or self.batch_first else out.transpose(0, 1))
        weights = (weights.mean(1) if average_attn_weights else weights) if need_weights else None
        if alone:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out, weights

    def _check(self, query) -> None:
        if query.ndim not in (2, 3):
            raise AssertionError(
                f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D"
            )
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(
                f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}"
            )

    def _project(self, query, key, value):
        if self._packed:
            return project_packed(query, key, value, self.in_proj_weight, self.in_proj_bias)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return (
            F.linear(query, self.q_proj_weight, biases[0]),
            F.linear(key, self.k_proj_weight, biases[1]),
            F.linear(value, self.v_proj_weight, biases[2]),
        )

    def _mask(self, query, key, key_padding_mask, attn_mask):
        """Both masks as one to add, broadcast to (N, heads, L, S); or None."""
        n, length, source = query.shape[0], query.shape[1], key.shape[1]
        mask = as_float_mask(attn_mask, query.dtype)
        if mask is not None:
            shapes = ((length, source), (n * self.num_heads, length, source))
            if tuple(mask.shape) not in shapes:
                raise RuntimeError(
                    f"The shape of the attn_mask is {tuple(mask.shape)}, but should be one of {shapes[0]}, {shapes[1]}."
                )
            mask = mask.reshape(n, self.num_heads, length, source) if mask.ndim == 3 else mask
        padding = as_float_mask(key_padding_mask, query.dtype, "key_padding_mask")
        if padding is not None:
            padding = padding.reshape(n, 1, 1, source)
            mask = padding if mask is None else mask + padding
        return mask
