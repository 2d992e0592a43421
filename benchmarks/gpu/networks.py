"""Random convolutional networks for `make gpu-compiled`: values and gradients of compiled code against eager.

Input: a seed. It draws a dtype, sizes, and a few layers: convolutions of every kind, batch norms that train, pools,
shortcuts, channels last. compiled.py compares, with a float64 run of the same network as the judge of both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import cutaway.nn.functional as F
import numpy as np

import cutaway as ct
from stage0_eager.tensor import Tensor
from stage_contracts.memory_format import FORMATS

DTYPES = ("bfloat16", "bfloat16", "float16", "float32")  # halves have a layout and plans of their own
LAYERS = (
    "conv",
    "conv",
    "conv 1",
    "conv 1",
    "grouped",
    "dilated",
    "strided",
    "back",
    "norm",
    "norm",
    "relu",
    "pool",
)


def drawn(seed: int, draw: int = 0) -> tuple[str, list[np.ndarray], Callable[..., Any]]:
    """(dtype, arrays, function of tensors): the first array is the images, the others are parameters in order."""
    rng, values = random.Random(seed), np.random.default_rng([seed, draw] if draw else seed)
    channels, size = rng.choice([4, 8, 16, 24]), rng.choice([5, 8, 13, 16])
    arrays = [values.standard_normal((rng.choice([1, 2, 5]), channels, size, size))]
    last = rng.random() < 0.3
    steps: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []
    for _ in range(rng.randint(2, 6)):
        kind = rng.choice(LAYERS)
        outs = channels if rng.random() < 0.5 else rng.choice([4, 8, 16])
        shapes, words, size = layer(kind, channels, outs, size)
        if size < 2:
            break
        at = tuple(range(len(arrays), len(arrays) + len(shapes)))
        arrays += [values.standard_normal(s) / np.sqrt(np.prod(s[1:])) for s in shapes]
        steps.append((kind, at, words))
        channels = outs if shapes and len(shapes[0]) == 4 else channels

    def function(x: Any, *parameters: Any) -> Any:
        x = x.to(memory_format=FORMATS["channels_last"]) if last else x
        for kind, at, words in steps:
            given = [parameters[k - 1] for k in at]
            y = STEPS[kind](x, given, words)
            x = x + y if y.shape == x.shape and kind != "relu" else y
        return x, x.float().mean((2, 3))

    return rng.choice(DTYPES), arrays, function


def layer(
    kind: str, channels: int, outs: int, size: int
) -> tuple[list[tuple[int, ...]], dict[str, Any], int]:
    """(shapes of its parameters, its words, the size of its result)."""
    if kind == "conv 1":
        return [(outs, channels, 1, 1)], {}, size
    if kind in ("norm", "relu"):
        return [(channels,), (channels,)] if kind == "norm" else [], {}, size
    if kind == "pool":
        return [], {}, (size - 1) // 2 + 1
    if kind == "back":
        return [(channels, outs, 3, 3)], {"stride": 2, "padding": 1, "output_padding": 1}, 2 * size
    if kind == "grouped":
        return [(outs, channels // 4, 3, 3)], {"groups": 4, "padding": 1}, size
    if kind == "dilated":
        return [(outs, channels, 3, 3)], {"dilation": 2, "padding": 2}, size
    if kind == "strided":
        return [(outs, channels, 3, 3)], {"stride": 2, "padding": 1}, (size - 1) // 2 + 1
    return [(outs, channels, 3, 3)], {"padding": 1}, size


def _norm(x: Any, given: list[Any], words: dict[str, Any]) -> Any:
    return F.batch_norm(x, None, None, given[0] + 1, given[1], True)


STEPS: dict[str, Callable[[Any, list[Any], dict[str, Any]], Any]] = {
    **dict.fromkeys(
        ("conv", "conv 1", "grouped", "dilated", "strided"),
        lambda x, given, words: F.conv2d(x, given[0], **words),
    ),
    "back": lambda x, given, words: F.conv_transpose2d(x, given[0], **words),
    "norm": _norm,
    "relu": lambda x, given, words: F.relu(x),
    "pool": lambda x, given, words: F.max_pool2d(x, 3, 2, 1),
}


def call(run: Callable[..., Any], tensors: list[Any]) -> list[Any]:
    """The results and the gradients of every tensor."""
    return with_gradients(run, [t.detach().clone().requires_grad_() for t in tensors])


def with_gradients(run: Callable[..., Any], leaves: list[Any]) -> list[Any]:
    out, pooled = run(*leaves)
    grads = ct.autograd.grad((pooled * pooled).sum() + out.float().sum(), leaves, allow_unused=True)
    return [out, pooled, *(g for g in grads if g is not None)]


def given(seed: int, device: str, draw: int = 0) -> tuple[str, Callable[..., Any], list[Any]]:
    dtype, arrays, function = drawn(seed, draw)
    return dtype, function, [Tensor(a).to(device).to(getattr(ct, dtype)) for a in arrays]
