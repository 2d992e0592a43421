"""GPT-2 and ResNet-50 as published, for whoever is `torch` in this process: torch itself or Cutaway.

Input: sizes. Each gives a module, a batch of a rank, and a loss; distributed_worker.py trains them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        # uniform, as wide as a normal distribution of 0.02: drawn on the CPU in a tenth of the time
        self.words = nn.Parameter(0.035 * (2 * torch.rand(vocabulary, width) - 1))
        self.places = nn.Parameter(0.035 * (2 * torch.rand(length, width) - 1))
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
        x = F.embedding(tokens, self.words) + self.places[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.words)


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.short: Any = None
        if stride > 1 or inputs != 4 * width:
            self.short = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Any) -> Any:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.short is None else self.short(x)))


class ResNet50(nn.Module):
    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        stages: list[Any] = []
        inputs = width
        for stage, count in enumerate(blocks):
            for k in range(count):
                wide = width << stage
                stages.append(Bottleneck(inputs, wide, 2 if stage and not k else 1))
                inputs = 4 * wide
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Any) -> Any:
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def tokens(batch: int, length: int, vocabulary: int, device: str, dtype: Any) -> tuple[Any, Any]:
    given = torch.randint(0, vocabulary, (batch, length + 1)).to(device)
    return given[:, :-1].contiguous(), given[:, 1:].contiguous()


def images(batch: int, side: int, classes: int, device: str, dtype: Any) -> tuple[Any, Any]:
    return torch.randn(batch, 3, side, side).to(device).to(dtype), torch.randint(0, classes, (batch,)).to(
        device
    )


def loss_of(out: Any, wanted: Any) -> Any:
    return F.cross_entropy(out.reshape(-1, out.shape[-1]).float(), wanted.reshape(-1))


# name: (module, its sizes, a batch, its sizes)
MODELS: dict[str, tuple[Any, tuple, Any, tuple]] = {
    "gpt2": (Gpt2, (12, 768, 12, 50304, 1024), tokens, (8, 1024, 50304)),
    "gpt2 medium": (Gpt2, (24, 1024, 16, 50304, 1024), tokens, (8, 1024, 50304)),
    "resnet50": (ResNet50, (), images, (32, 224, 1000)),
    "tiny gpt2": (Gpt2, (2, 32, 2, 64, 16), tokens, (2, 16, 64)),
    "tiny resnet": (ResNet50, ((1, 1), 8, 10), images, (2, 32, 10)),
}
