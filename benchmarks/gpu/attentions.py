"""Random attention for `make gpu-compiled`: results and gradients against eager, where terms cancel too.

Input: a seed. It draws a dtype, sizes, a function of the scores, and what the values are like: of any sign or of one,
far from 0, one tensor as queries, keys and values, scores so large that one weight is nearly 1. compiled.py compares;
a float64 run of the same program is the judge of both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import cutaway as ct
from stage0_eager.tensor import Tensor

DTYPES = ("float32", "float32", "bfloat16", "float16")
WIDTHS = (8, 16, 32, 64, 64, 96, 128, 130, 256)


def causal(x: Any) -> Any:
    rows, columns = x.shape[-2:]
    seen = ct.arange(rows, device=x.device)[:, None] >= ct.arange(columns, device=x.device)[None, :]
    return ct.where(seen, x, float("-inf"))


def window(x: Any) -> Any:
    rows, columns = x.shape[-2:]
    apart = ct.arange(rows, device=x.device)[:, None] - ct.arange(columns, device=x.device)[None, :]
    return x.masked_fill((apart < 0) | (apart >= 20), float("-inf"))


SCORES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "causal": causal,
    "window": window,
    "soft cap": lambda x: (x / 2.0).tanh() * 2.0,
}
VALUES: dict[str, Callable[[Any], Any]] = {
    "any": lambda x: x,
    "one sign": np.abs,
    "far from 0": lambda x: x + 5,
}


def drawn(seed: int, draw: int = 0) -> tuple[str, list[np.ndarray], Callable[..., Any]]:
    """(dtype, arrays, function of tensors): queries, keys, values; of "the same" one array."""
    rng, values = random.Random(seed), np.random.default_rng([seed, draw] if draw else seed)
    heads, rows, width = rng.choice([1, 2, 3]), rng.choice([16, 33, 64, 100, 200]), rng.choice(WIDTHS)
    columns = rows if rng.random() < 0.6 else rng.choice([20, 64, 150])
    same = rng.random() < 0.3
    change, like = SCORES[rng.choice([*SCORES])], VALUES[rng.choice([*VALUES][: 2 if same else 3])]
    scale = (
        rng.choice([1.0, 1.0, 1.0 if same else 3.0]) / width**0.5
    )  # scores of hundreds lose digits in any way
    if change is not SCORES["plain"]:
        columns = rows
    shapes = [(heads, rows, width)] if same else [(heads, n, width) for n in (rows, columns, columns)]
    arrays = [values.standard_normal(shape) for shape in shapes]
    arrays[-1] = like(arrays[-1])

    def function(q: Any, k: Any = None, v: Any = None) -> Any:
        k, v = (q, q) if k is None else (k, v)
        return change((q @ k.transpose(-1, -2)) * scale).softmax(-1) @ v

    return rng.choice(DTYPES), arrays, function


def call(run: Callable[..., Any], tensors: list[Any]) -> list[Any]:
    """The result and the gradients of every tensor, of its sum."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = run(*leaves)
    return [out, *ct.autograd.grad(out.float().sum(), leaves)]


def given(seed: int, device: str, draw: int = 0) -> tuple[str, Callable[..., Any], list[Any]]:
    dtype, arrays, function = drawn(seed, draw)
    return dtype, function, [Tensor(a).to(device).to(getattr(ct, dtype)) for a in arrays]
