"""What users of torch write for a mask or a bias in attention: flex_attention, without the blocks that a mask empties.

Input: torch on a GPU. Each maker takes (torch, the row's tensors) and gives a function for torch.compile; the blocks
are found before that, once, as its guide does. Ours is plain code: rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Index = Any
MaskMod = Callable[[Index, Index, Index, Index], Any]


def flex(mask: MaskMod, score: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """A maker for a mask of (batch, head, row, column) and a `score_mod`, which `score` makes of torch."""

    def make(m: Any, given: list[Any]) -> Callable[..., Any]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        length = given[0].shape[-2]
        blocks = create_block_mask(mask, None, None, length, length, device="cuda")
        score_mod = score(m) if score else None
        return lambda q, k, v: flex_attention(q, k, v, score_mod=score_mod, block_mask=blocks)

    return make


def seen(b: Index, h: Index, row: Index, column: Index) -> Any:
    return row >= column


def near(b: Index, h: Index, row: Index, column: Index) -> Any:
    return (row >= column) & (row - column < 256)


def slopes(m: Any) -> Callable[..., Any]:
    return lambda score, b, h, row, column: score + m.exp2(-0.5 * (h + 1)) * (column - row)


causal, window, alibi = flex(seen), flex(near), flex(seen, slopes)
