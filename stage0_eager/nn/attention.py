"""MultiheadAttention and the transformer's layers, with torch's arguments, parameter names and initial values.

Input: sequences (L, N, E), or (N, L, E) with batch_first; masks that are boolean leave out what is True.
"""

from __future__ import annotations

import copy
from typing import Any

from stage0_eager.functions import creation
from stage0_eager.functions.nn.attention import as_float_mask, attention_heads, project_packed
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.dropout import Dropout
from stage0_eager.nn.linear import LayerNorm, Linear
from stage0_eager.nn.module import Module, Parameter
from stage0_eager.nn.numbered import ModuleList


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
        alone = query.ndim == 2
        if query.ndim not in (2, 3):
            raise AssertionError(
                f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D"
            )
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(
                f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}"
            )
        if alone:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        mask = self._mask(query, key, key_padding_mask, attn_mask)
        dropped = self.dropout if self.training else 0.0
        out, weights = attention_heads(*self._project(query, key, value), self.num_heads, mask, dropped)
        out = self.out_proj(out)
        weights = (weights.mean(1) if average_attn_weights else weights) if need_weights else None
        if alone:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

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


def activation_function(activation: Any) -> Any:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    if callable(activation):
        return activation
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


class _Layer(Module):
    """The feed-forward half that encoder and decoder layers share."""

    def _feed_forward(self, x):
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, self._last_dropout)(x)

    def _attend(self, attention, dropout, x, memory, mask, padding, causal):
        # need_weights stays False: nothing reads them
        out = attention(x, memory, memory, padding, False, mask, True, causal)[0]
        return dropout(out)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a layer norm."""

    _last_dropout = "dropout2"

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
        batch_first=False, norm_first=False, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = activation_function(activation)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """src (L, N, E), or (N, L, E) with batch_first; the same shape comes out."""
        x = src
        more = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            normed = self.norm1(x)
            x = x + self._attend(self.self_attn, self.dropout1, normed, normed, *more)
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + self._attend(self.self_attn, self.dropout1, x, x, *more))
        return self.norm2(x + self._feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory, and a feed-forward network."""

    _last_dropout = "dropout3"

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
        batch_first=False, norm_first=False, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **where
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = activation_function(activation)

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False,
    ):  # fmt: skip
        """tgt (L, N, E) and memory (S, N, E), or batch first; out like tgt."""
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            normed = self.norm1(x)
            x = x + self._attend(self.self_attn, self.dropout1, normed, normed, *own)
            x = x + self._attend(self.multihead_attn, self.dropout2, self.norm2(x), memory, *other)
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(x + self._attend(self.self_attn, self.dropout1, x, x, *own))
        x = self.norm2(x + self._attend(self.multihead_attn, self.dropout2, x, memory, *other))
        return self.norm3(x + self._feed_forward(x))


class TransformerEncoder(Module):
    """num_layers copies of a layer, one after another, and a norm at the end if given."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        x = src
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """num_layers copies of a decoder layer, one after another, and a norm at the end if given."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False,
    ):  # fmt: skip
        x = tgt
        for layer in self.layers:
            x = layer(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                      bool(tgt_is_causal), memory_is_causal)  # fmt: skip
        return x if self.norm is None else self.norm(x)
