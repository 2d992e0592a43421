"""Random attention for `make gpu-compiled`: results and gradients against eager, where terms cancel too.

Input: a seed. It draws a dtype, sizes, a function of the scores, and what the values are like: of any sign or of one,
far from 0, one tensor as queries, keys and values, scores so large that one weight is nearly 1; for some, weights that
are dropped, rows that see nothing, documents, fewer heads of keys than of queries, a width that is no power of two.
compiled.py compares; a float64 run of the same program is the judge of both.
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


def documents(x: Any) -> Any:
    """Rows see the columns of their own document; the last is short."""
    rows, columns = (ct.arange(n, device=x.device) // 7 for n in x.shape[-2:])
    return ct.where(rows[:, None] == columns[None, :], x, float("-inf"))


def _empty(x: Any) -> Any:
    return (ct.arange(x.shape[-2], device=x.device) % 5 == 1)[:, None]


def some_empty(x: Any) -> Any:
    """Causal, but some rows see nothing: their scores are 0, as in scaled_dot_product_attention."""
    rows, columns = (ct.arange(n, device=x.device) for n in x.shape[-2:])
    empty = _empty(x)
    seen = (rows[:, None] >= columns[None, :]) & ~empty
    return ct.where(seen | empty, ct.where(empty, 0.0, x), float("-inf"))


def without_empty(weights: Any) -> Any:
    return ct.where(_empty(weights), 0.0, weights)


def dropped(weights: Any) -> Any:
    """Three in ten are 0, and the others larger: a dropout that float64 and every device draw alike."""
    rows, columns = (ct.arange(n, device=weights.device) for n in weights.shape[-2:])
    kept = (rows[:, None] * 7 + columns[None, :] * 13 + rows[:, None] * columns[None, :]) % 10 >= 3
    return ct.where(kept, weights, 0.0) / 0.7


def shared(x: Any) -> Any:
    """Each head for two of the queries'."""
    heads, rows, width = x.shape
    return x[:, None].expand(heads, 2, rows, width).reshape(2 * heads, rows, width)


SCORES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "causal": causal,
    "window": window,
    "soft cap": lambda x: (x / 2.0).tanh() * 2.0,
}
MORE = ("", "", "", "dropped", "some empty", "documents", "shared", "width", "far and dropped")
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
    more = random.Random(f"more {seed}")
    also = more.choice(MORE)
    width = more.choice((24, 40, 80, 112)) if also == "width" else width
    if also in ("some empty", "documents"):
        change, columns = (some_empty if also == "some empty" else documents), rows
    like = VALUES["far from 0"] if also == "far and dropped" and not same else like
    after = dropped if "dropped" in also else without_empty if also == "some empty" else SCORES["plain"]
    groups = 2 if also == "shared" and not same else 1
    spread = shared if groups > 1 else SCORES["plain"]
    shapes = [(groups * heads, rows, width), *[(heads, columns, width)] * (0 if same else 2)]
    arrays = [values.standard_normal(shape) for shape in shapes]
    arrays[-1] = like(arrays[-1])

    def function(q: Any, k: Any = None, v: Any = None) -> Any:
        k, v = (q, q) if k is None else (spread(k), spread(v))
        return after(change((q @ k.transpose(-1, -2)) * scale).softmax(-1)) @ v

    return rng.choice(DTYPES), arrays, function


def call(run: Callable[..., Any], tensors: list[Any]) -> list[Any]:
    """The result and the gradients of every tensor, of its sum."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = run(*leaves)
    return [out, *ct.autograd.grad(out.float().sum(), leaves)]


def given(seed: int, device: str, draw: int = 0) -> tuple[str, Callable[..., Any], list[Any]]:
    dtype, arrays, function = drawn(seed, draw)
    return dtype, function, [Tensor(a).to(device).to(getattr(ct, dtype)) for a in arrays]
