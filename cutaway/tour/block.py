"""The function that the page takes apart: one block of the classifier, small enough to follow.

Input: images float32 [batch, 64]; the block's weight [width, 64], bias, scale and shift [width]. The mean at its end
acts as the loss, so that there is a backward.
"""

from __future__ import annotations

from cutaway import nn

F = nn.functional


def block(x, weight, bias, scale, shift):
    h = F.linear(x, weight, bias)
    h = F.layer_norm(h, (128,), scale, shift)
    return F.gelu(h).mean()
