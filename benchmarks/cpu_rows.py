"""The programs that `make cpu-speed` measures, as data: name, inputs, function, what ours may cost beside each peer.

Input: none. A function takes (m, f, *arrays): m and f are `torch` and `torch.nn.functional`, `cutaway` and its own,
or the same names in jax (cpu_peers.py), so that all run one text. For a NumPy program m is numpy, or jax.numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import cpu_models as models

SEED = 0


@dataclass(frozen=True)
class Row:
    name: str
    function: Callable[..., Any]  # (m, f, *inputs); of a model or a growth row: what makes the program
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    torch: float = 1.0  # ours over torch.compile: at most
    jax: float = 1.0  # ours over jax.jit: at most
    eager: float = 1.05  # ours over our own eager, or over NumPy: at most
    group: str = "kernel"  # or: half (bfloat16), numpy, model, growth
    gradients: int = 0  # so many inputs want a gradient; the backward is part of the call
    in_jax: bool = True
    in_mean: bool = True  # counts in the geometric means
    same: bool = True  # every framework gives the same numbers: false where it draws at random
    quick: bool = False
    moves: int = 0  # bytes read and written by what is little more than a copy
    reads: bool = False  # of `moves`: they are only read, so the loop beside it only reads
    copy: float = 1.25  # ours over an OpenMP copy of as many bytes: at most
    products: bool = False  # bound by matrix products: the share of BLAS is printed
    weight: float = 1.0  # how long a row takes to measure, about: the longest begin first


def floats(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.standard_normal(shape, np.float32)


def doubles(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.standard_normal(shape)


def integers(high: int, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.integers(0, high, shape)


def of(*makers: Callable[[np.random.Generator], np.ndarray]) -> Callable[[np.random.Generator], list]:
    return lambda rng: [make(rng) for make in makers]


# ---- kernels --------------------------------------------------------------------------------------------------------


def sin_cos(m: Any, f: Any, x: Any) -> Any:
    return m.sin(m.cos(x))


def chain(m: Any, f: Any, x: Any) -> Any:
    return m.tanh(m.exp(-x * x) + 0.5) * 2.0 - x


def softmax(m: Any, f: Any, x: Any) -> Any:
    return m.softmax(x, -1)


def log_softmax(m: Any, f: Any, x: Any) -> Any:
    return m.log_softmax(x, -1)


def layer_norm(m: Any, f: Any, x: Any, w: Any, b: Any) -> Any:
    return f.layer_norm(x, (x.shape[-1],), w, b)


def rms_norm(m: Any, f: Any, x: Any, w: Any) -> Any:
    return x * m.rsqrt(m.mean(x * x, -1, keepdim=True) + 1e-6) * w


def cross_entropy(m: Any, f: Any, x: Any, target: Any) -> Any:
    return f.cross_entropy(x, target)


def gelu(m: Any, f: Any, x: Any) -> Any:
    return f.gelu(x) * 0.5


def gelu_mlp(m: Any, f: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return m.matmul(f.gelu(m.matmul(x, w1) + b1), w2) + b2


def attention(m: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
    return m.matmul(m.softmax(m.matmul(q, m.swapaxes(k, -1, -2)) * 0.125, -1), v)


def outer_sum(m: Any, f: Any, x: Any, y: Any) -> Any:
    return m.sum(x[:, None] * y[None, :], 1)


def sum_rows(m: Any, f: Any, x: Any) -> Any:
    return m.sum(x, 1)


def sum_columns(m: Any, f: Any, x: Any) -> Any:
    return m.sum(x, 0)


def transposed_add(m: Any, f: Any, x: Any, y: Any) -> Any:
    return m.swapaxes(x, 0, 1) + y


def cumsum(m: Any, f: Any, x: Any) -> Any:
    return m.cumsum(x, 1)


def embedding(m: Any, f: Any, rows: Any, table: Any) -> Any:
    return f.embedding(rows, table) * 2.0 + 1.0


def gather(m: Any, f: Any, x: Any, places: Any) -> Any:
    return m.gather(x, 1, places) * 2.0 + 1.0


def dropout(m: Any, f: Any, x: Any) -> Any:
    return f.dropout(x, 0.5, True)


def batch_norm(m: Any, f: Any, x: Any, w: Any, b: Any) -> Any:
    return f.batch_norm(x, None, None, w, b, True)


def integer_chain(m: Any, f: Any, x: Any) -> Any:
    return ((x * 3 + 7) ^ (x & 255)) | 1


def tiny(m: Any, f: Any, x: Any) -> Any:
    return x * 2.0 + 1.0


# ---- NumPy programs --------------------------------------------------------------------------------------------------


def numpy_outer_sum(np: Any, f: Any, x: Any, y: Any) -> Any:
    return np.sum(x[:, None] * y[None, :], axis=1)


def numpy_k_means(np: Any, f: Any, x: Any, means: Any) -> Any:
    labels = np.argmin(np.sum((x[:, None, :] - means[None, :, :]) ** 2, axis=2), axis=1)
    inside = labels[:, None] == np.arange(means.shape[0])[None, :]
    total = np.sum(np.where(inside[:, :, None], x[:, None, :], 0.0), axis=0)
    return total / np.maximum(np.sum(inside, axis=0), 1)[:, None]


def numpy_polynomial(np: Any, f: Any, x: Any) -> Any:
    y = ((0.5 * x + 1.0) * x - 2.0) * x + 3.0
    return np.where(x > 0.0, np.sin(y) * np.exp(-x), y)


def numpy_normalise(np: Any, f: Any, x: Any) -> Any:
    return (x - np.mean(x, axis=0)) / (np.std(x, axis=0) + 1e-8)


def numpy_distances(np: Any, f: Any, x: Any) -> Any:
    return np.sqrt(np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2))


def growth(name: str, function: Callable[[], Any], inputs: Any, **more: Any) -> Row:
    return Row(name, function, inputs, torch=0.25, group="growth", in_jax=False, **more)


NORM_BYTES = 4 * 4096 * 1024
NORM = of(floats(4096, 1024), floats(1024), floats(1024))
TOKENS = of(integers(256, 4, 128), integers(256, 4, 128))
IMAGES = of(floats(4, 3, 128, 128), integers(1000, 4))
HALF = {"group": "half"}
MODEL = {"group": "model", "in_jax": False, "products": True, "weight": 60.0}
NUMPY = {"group": "numpy", "eager": 1.0}

ROWS = (
    Row("sin cos 10k", sin_cos, of(floats(10_000)), torch=0.7),
    Row("sin cos 1M", sin_cos, of(floats(1_000_000)), torch=0.9),
    Row("sin cos 10M", sin_cos, of(floats(10_000_000)), torch=0.9),
    Row("chain of five 1M", chain, of(floats(1_000_000)), torch=0.6, jax=1.05, quick=True),
    Row("softmax 4096x4096", softmax, of(floats(4096, 4096)), torch=0.9),
    Row("log_softmax 4096x4096", log_softmax, of(floats(4096, 4096)), torch=0.9),
    Row("layer norm 4096x1024", layer_norm, NORM, torch=0.95, moves=2 * NORM_BYTES),
    Row("layer norm fwd+bwd", layer_norm, NORM, torch=0.6, gradients=3, quick=True),
    Row(
        "rms norm 4096x1024",
        rms_norm,
        of(floats(4096, 1024), floats(1024)),
        torch=0.9,
        moves=2 * NORM_BYTES,
    ),
    Row("cross entropy 4096x8192", cross_entropy, of(floats(4096, 8192), integers(8192, 4096)), torch=0.6),
    Row(
        "cross entropy fwd+bwd",
        cross_entropy,
        of(floats(4096, 8192), integers(8192, 4096)),
        torch=0.4,
        gradients=1,
    ),
    Row(
        "sum over rows 4096x4096", sum_rows, of(floats(4096, 4096)), torch=0.4, moves=4 * 4096**2, reads=True
    ),
    Row(
        "sum over columns 4096x4096",
        sum_columns,
        of(floats(4096, 4096)),
        torch=0.4,
        moves=4 * 4096**2,
        reads=True,
    ),
    Row(
        "transposed add 4096x4096",
        transposed_add,
        of(floats(4096, 4096), floats(4096, 4096)),
        torch=0.9,
        moves=3 * 4 * 4096 * 4096,
    ),
    Row("attention 8x8x512x64", attention, of(*[floats(8, 8, 512, 64)] * 3), torch=0.6, products=True),
    Row(
        "embedding 32000x512, 8192 rows",
        embedding,
        of(integers(32000, 8192), floats(32000, 512)),
        torch=0.95,
        moves=2 * 4 * 8192 * 512,
    ),
    Row("gather 4096x1024", gather, of(floats(4096, 1024), integers(1024, 4096, 1024)), torch=0.95),
    Row("sum of outer product 1024x64", outer_sum, of(floats(1024), floats(64))),
    Row("cumsum 4096x4096", cumsum, of(floats(4096, 4096))),
    Row("dropout 1M", dropout, of(floats(1_000_000)), in_jax=False, same=False),
    Row("batch norm 32x64x56x56", batch_norm, of(floats(32, 64, 56, 56), floats(64), floats(64))),
    Row("gelu chain fwd+bwd 1M", gelu, of(floats(1_000_000)), torch=0.9, gradients=1),
    Row(
        "gelu MLP 512x512x2048",
        gelu_mlp,
        of(floats(512, 512), floats(512, 2048), floats(2048), floats(2048, 512), floats(512)),
        jax=1.05,
        products=True,
    ),
    Row(
        "integer chain 1M",
        integer_chain,
        of(integers(1 << 30, 1_000_000)),
        torch=0.1,
        in_mean=False,
        moves=2 * 8 * 1_000_000,
    ),
    Row("tiny, 4 elements", tiny, of(floats(4)), torch=0.3, in_mean=False, quick=True),
    Row("rms norm bfloat16", rms_norm, of(floats(4096, 1024), floats(1024)), **HALF),
    Row("gelu bfloat16 1M", gelu, of(floats(1_000_000)), **HALF),
    Row("softmax bfloat16 4096x1024", softmax, of(floats(4096, 1024)), **HALF),
    Row("np: sum of outer product", numpy_outer_sum, of(doubles(1024), doubles(64)), **NUMPY),
    Row("np: k-means step 200,000", numpy_k_means, of(doubles(200_000, 2), doubles(3, 2)), **NUMPY),
    Row("np: polynomial 1M", numpy_polynomial, of(doubles(1_000_000)), quick=True, **NUMPY),
    Row("np: normalise 4096x512", numpy_normalise, of(doubles(4096, 512)), **NUMPY),
    Row("np: pairwise distances 1,000", numpy_distances, of(doubles(1000, 3)), **NUMPY),
    Row("language model, inference", models.language_model_inference, TOKENS, **MODEL),
    Row("language model, training", models.language_model_training, TOKENS, **MODEL),
    Row("ResNet-50, inference", models.resnet_inference, IMAGES, **MODEL),
    Row("ResNet-50, training", models.resnet_training, IMAGES, torch=1.1, **MODEL),
    Row("vision transformer, inference", models.vit_inference, IMAGES, **MODEL),
    *(
        growth(f"{count} operators", partial(models.pointwise, count), of(floats(1000)), quick=count == 50)
        for count in (50, 200, 800, 3200)
    ),
    *(
        growth(
            f"{count} layers", partial(models.layers, count), of(floats(16, 64), floats(64, 64)), gradients=2
        )
        for count in (4, 16, 64)
    ),
    *(
        growth(f"{count} lines", partial(models.branches, count), of(floats(1000)))
        for count in (100, 400, 1600)
    ),
)


def prime(m: Any, f: Any, x: Any) -> Any:
    return m.softmax(f.gelu(x) * 0.5, -1)


# What every first compile on a machine pays once (precompiled headers, modules imported late) is paid by this one. Rows
# and columns: sympy imports a large module at its first sum of symbols.
PRIME = Row("prime", prime, of(floats(8, 24)), gradients=1)
