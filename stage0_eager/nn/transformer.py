"""Transformer and its layers: an encoder and a decoder, as in Vaswani et al., "Attention is all you need" (2017).

Input: source and target sequences (L, N, E), or (N, L, E) with batch_first.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from stage0_eager.functions import creation
from stage0_eager.functions.shape import triu
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.attention import MultiheadAttention
from stage0_eager.nn.containers import ModuleList
from stage0_eager.nn.dropout import Dropout
from stage0_eager.nn.linear import Linear
from stage0_eager.nn.module import Module
from stage0_eager.nn.normalization import LayerNorm


class Transformer(Module):
    """num_encoder_layers over the source, then num_decoder_layers over the target, each with a norm at its end."""

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = F.relu, custom_encoder: Any = None,
        custom_decoder: Any = None, layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
    ):  # fmt: skip
        super().__init__()
        options = {"dropout": dropout, "activation": activation, "layer_norm_eps": layer_norm_eps,
                   "batch_first": batch_first, "norm_first": norm_first}  # fmt: skip
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(d_model, nhead, dim_feedforward, **options), num_encoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps),
        )  # fmt: skip
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(d_model, nhead, dim_feedforward, **options), num_decoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps),
        )  # fmt: skip
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
        tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
        memory_is_causal=False,
    ):  # fmt: skip
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, bool(src_is_causal))
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
            memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """(sz, sz): 0 on and below the diagonal, minus infinity above: no place sees a later one."""
        return triu(creation.full((sz, sz), -math.inf, dtype=dtype, device=device), 1)


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
