"""The digit classifier of the tour: two blocks of Linear, LayerNorm, GELU and Dropout, then ten logits.

Input: images of digits, float32 [batch, 64], pixels 0 to 1. It is written like published torch code on purpose: nothing
in it mentions the compiler.
"""

from __future__ import annotations

from cutaway import nn

F = nn.functional


class Block(nn.Module):
    """One layer: Linear, LayerNorm, GELU and Dropout."""

    def __init__(self, inputs: int, outputs: int, dropout: float):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.norm = nn.LayerNorm(outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(self.linear(x))
        return self.dropout(F.gelu(x))


class DigitClassifier(nn.Module):
    """64 pixels -> width -> width -> 10 logits."""

    def __init__(self, width: int = 128, dropout: float = 0.2):
        super().__init__()
        self.first = Block(64, width, dropout)
        self.second = Block(width, width, dropout)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.second(self.first(x)))
