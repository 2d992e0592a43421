"""Functions that the tests of fusion, source and Triton share: what compilers are expected to fuse.

Input: `c` records core operators (graphs.py). Each function comes with its answer in NumPy, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def sin_cos(c: Any, x: Any) -> Any:
    return c.sin(c.cos(x))


def softmax(c: Any, x: Any) -> Any:
    e = c.exp(c.sub(x, c.amax(x, (1,), True)))
    return c.div(e, c.sum(e, (1,), True))


def layer_norm(c: Any, x: Any, weight: Any, bias: Any) -> Any:
    n = x.val.shape[1]
    centred = c.sub(x, c.div(c.sum(x, (1,), True), n))
    variance = c.div(c.sum(c.mul(centred, centred), (1,), True), n)
    return c.add(c.mul(c.mul(centred, c.rsqrt(c.add(variance, 1e-5))), weight), bias)


def log_softmax(c: Any, x: Any) -> Any:
    shifted = c.sub(x, c.amax(x, (1,), True))
    return c.sub(shifted, c.log(c.sum(c.exp(shifted), (1,), True)))


def gelu(c: Any, x: Any) -> Any:
    return c.mul(c.mul(x, 0.5), c.add(c.erf(c.mul(x, 0.7071067811865476)), 1.0))


def numpy_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def numpy_layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias


def numpy_log_softmax(x: Any) -> Any:
    return np.log(numpy_softmax(x))
