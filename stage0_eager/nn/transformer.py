"""Transformer: an encoder and a decoder, as in Vaswani et al., "Attention is all you need" (2017).

Input: source and target sequences (L, N, E), or (N, L, E) with batch_first.
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.functions import creation
from stage0_eager.functions.shape import triu
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.attention import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from stage0_eager.nn.linear import LayerNorm
from stage0_eager.nn.module import Module


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
