"""A transformer as a function of its parameters, one text for torch and for Cutaway: GPT-2's layers, or BERT's.

Input: none. `parameters` gives the shapes, in order; `transformer` takes tensors of them, tokens and what comes next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

LAYER = 12  # parameters of one


def parameters(layers: int, width: int, vocabulary: int, length: int) -> list[tuple[int, ...]]:
    """The shapes of the parameters: embeddings, the layers', the last norm's."""
    layer: list[tuple[int, ...]] = [
        (width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,),
        (width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,),
    ]  # fmt: skip
    return [(vocabulary, width), (length, width), *itertools.chain(*[layer] * layers), (width,), (width,)]


def transformer(layers: int, heads: int, causal: bool, loss: bool) -> Callable[..., Any]:
    """A function of (m, f, *parameters, tokens, targets): the loss, or without it the logits."""

    def run(m: Any, f: Any, *given: Any) -> Any:
        *weights, tokens, targets = given
        words, places, *rest = weights
        x = f.embedding(tokens, words) + places
        for k in range(layers):
            x = layer(f, x, heads, causal, *rest[LAYER * k : LAYER * (k + 1)])
        x = f.layer_norm(x, x.shape[-1:], 1 + rest[-2], rest[-1])
        logits = x @ words.t()
        if not loss:
            return logits
        return f.cross_entropy(logits.reshape(-1, words.shape[0]).float(), targets.reshape(-1))

    return run


def layer(
    f: Any, x: Any, heads: int, causal: bool, g1: Any, b1: Any, qkv_w: Any, qkv_b: Any, out_w: Any, out_b: Any,
    g2: Any, b2: Any, up_w: Any, up_b: Any, down_w: Any, down_b: Any,
) -> Any:  # fmt: skip
    batch, length, width = x.shape
    normed = f.layer_norm(x, (width,), 1 + g1, b1)
    parts = (
        f.linear(normed, qkv_w, qkv_b).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    )
    seen = f.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=causal)
    x = x + f.linear(seen.transpose(1, 2).reshape(batch, length, width), out_w, out_b)
    normed = f.layer_norm(x, (width,), 1 + g2, b2)
    return x + f.linear(f.gelu(f.linear(normed, up_w, up_b)), down_w, down_b)
