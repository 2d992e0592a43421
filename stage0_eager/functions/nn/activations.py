"""Activations: relu, leaky_relu, gelu, silu, softplus; the others are in rectifiers.py.

Input: tensors; bodies over core operators.
"""

from __future__ import annotations

import math

import numpy as np

from stage0_eager.functions.in_float32 import in_float32
from stage0_eager.functions.promotion import needs_floating
from stage0_eager.table.core import core as c
from stage0_eager.table.evaluation import on_array
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method


@method
@operator
def relu(input):
    """max(x, 0); NaN stays NaN, the gradient at 0 is 0."""
    return c.maximum(input, 0)


relu.derivative(input=lambda g, out: c.where(c.le(out, 0), 0, g))
relu.quickly(on_array(relu, lambda x: np.maximum(x, 0)))


@operator
def leaky_relu(input, negative_slope=0.01):
    """x where positive, else negative_slope * x."""
    needs_floating("leaky_relu", input)
    return c.where(c.gt(input, 0), input, c.mul(input, negative_slope))


@operator
@in_float32
def gelu(input, approximate="none"):
    """x * Phi(x), with Phi the normal distribution function; 'tanh' uses Hendrycks and Gimpel's approximation."""
    needs_floating("gelu", input)
    if approximate == "none":
        return c.mul(c.mul(input, 0.5), c.add(c.erf(c.mul(input, math.sqrt(0.5))), 1))
    if approximate == "tanh":
        return _gelu_by_tanh(input)
    raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")


def _gelu_by_tanh(input):
    cube = c.mul(c.mul(input, input), input)
    inner = c.mul(c.add(input, c.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    return c.mul(c.mul(input, 0.5), c.add(c.tanh(inner), 1))


@operator
@in_float32
def silu(input):
    """x * sigmoid(x)."""
    if not input.dtype.is_differentiable:
        needs_floating("silu", input)
    return c.mul(input, c.sigmoid(input))


@operator
@in_float32
def softplus(input, beta=1, threshold=20):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""
    needs_floating("softplus", input)
    scaled = c.mul(input, beta)
    soft = c.div(c.log1p(c.exp(c.minimum(scaled, threshold))), beta)
    return c.where(c.gt(scaled, threshold), input, soft)
