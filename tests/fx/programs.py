"""Modules and functions that are traced by torch.fx here and there. Each takes the torch that it is written for.

Input: `torch` is either one. PROGRAMS: a name -> a function of torch that gives what is traced, and its inputs.
"""

import math

import numpy as np


def block(torch):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3, 4) / 2)
            self.linear = nn.Linear(4, 6)
            self.layers = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
            self.register_buffer("shift", torch.arange(6.0))
            self.plain = torch.ones(6)
            for parameter in self.linear.parameters():
                parameter.data.fill_(0.25)
            for parameter in self.layers.parameters():
                parameter.data.fill_(0.125)

        def forward(self, x: torch.Tensor, keep: int = 1) -> torch.Tensor:
            y = self.linear(x + self.scale).clamp(min=0.0, max=9.0)
            first, second = self.layers(y).split(3, dim=-1)
            y = (torch.cat([first, second], dim=-1) * self.shift + self.plain - torch.ones(6)) / keep
            z = torch.relu(y).sum(-1, keepdim=True)
            z += 1
            return F.relu(z) + F.dropout(z, p=0.5, training=False)

    return Block(), [(3, 4)]


def containers(torch):
    def f(x, y):
        top = torch.max(x, 0)
        return {
            "a": x[..., None, 1:],
            "b": (x.shape[0], -y, abs(y), 2 / y, y**2, torch.sum(y)),
            "c": [x < 1, ~(y > 1), top[0]],
        }

    return f, [(3, 4), (3, 4)]


def operators(torch):
    def f(x, y):
        total = (x + y - 1) * 2 / (y + 3) // 1 % 2
        return (
            x @ y.t() + (3 - x) @ y.transpose(0, 1),
            total**2,
            2**total,
            (x == y) | (x != y) & (x <= y),
            x.size(0),
            x.T.shape,
        )

    return f, [(3, 4), (3, 4)]


def methods(torch):
    def f(x):
        return (
            x.view(-1, 2)
            .float()
            .to(torch.float64)
            .unsqueeze(0)
            .expand(2, -1, -1)
            .reshape(-1)
            .sum(dim=0)
            .neg_()
        )

    return f, [(3, 4)]


def wrapped(torch):
    def f(x):
        return x * math.sqrt(x.numel()) + math.floor(2.5)

    return f, [(3, 4)]


def stars(torch):
    def f(x, *rest, **named):
        return x + rest[0]

    return f, [(3, 4), (3, 4)]


def functions(torch):
    F = torch.nn.functional

    def f(x):
        y = F.leaky_relu(x, 0.2) + F.silu(x) + torch.tanh(x) + F.elu(x)
        return (
            F.pad(y, (1, 1)),
            torch.stack([y, y]),
            torch.where(y > 0, y, 0.0),
            torch.zeros(2) + 1,
            F.batch_norm(y, None, None, training=True),
        )

    return f, [(3, 4)]


PROGRAMS = [block, containers, operators, methods, wrapped, stars, functions]


def inputs_of(torch, shapes):
    random = np.random.default_rng(0)
    return [torch.from_numpy(random.normal(size=shape).astype(np.float32)) for shape in shapes]
