"""Rectifiers and their smooth and hard relatives: what torch.nn.functional has beyond activations.py.

Input: tensors. Kinks have torch's gradients; no gradient overflows in the branch that is not taken.
"""

from __future__ import annotations

from stage0_eager.functions.in_float32 import in_float32
from stage0_eager.functions.nn.activations import softplus
from stage0_eager.functions.numbers import known
from stage0_eager.functions.promotion import needs_floating
from stage0_eager.functions.reductions import softmax
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts.core_metas import wrap_dim


def _as_input(value, input):
    return value if value.dtype is input.dtype else c.cast(value, input.dtype)


@operator
def softsign(input):
    """x / (1 + |x|)."""
    return c.div(input, c.add(c.abs(input), 1))


@operator
@in_float32
def mish(input):
    """x * tanh(softplus(x))."""
    return c.mul(input, c.tanh(softplus(input)))


@operator
@in_float32
def hardsigmoid(input):
    """x / 6 + 1/2, moved into [0, 1]."""
    needs_floating("hardsigmoid", input)
    middle = c.div(c.add(input, 3), 6)
    return c.where(c.le(input, -3), 0.0, c.where(c.ge(input, 3), 1.0, middle))


hardsigmoid.derivative(
    input=lambda g, input: c.where(c.lt(c.abs(input), 3), c.div(g, 6), 0.0)  # 0 at NaN, as torch
)


@operator
@in_float32
def hardswish(input):
    """x * hardsigmoid(x)."""
    return c.mul(input, hardsigmoid(input))


def _hardswish_input(g, input):
    return _hardswish_slope(g, input)


@in_float32
def _hardswish_slope(g, input):
    middle = c.where(c.lt(input, 3), c.mul(g, c.add(c.div(input, 3), 0.5)), g)
    return c.where(c.le(input, -3), 0.0, middle)


hardswish.derivative(input=_hardswish_input)


@operator
def hardtanh(input, min_val=-1.0, max_val=1.0):
    """x moved into [min_val, max_val]; the gradient is 0 at both ends."""
    if known(min_val) and known(max_val) and min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    inside = c.where(c.ge(input, max_val), max_val, input)
    return _as_input(c.where(c.le(input, min_val), min_val, inside), input)


@operator
def relu6(input):
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0)


def _exponential_below(input, alpha, scale, input_scale):
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
    positive = c.logical_not(c.le(input, 0))  # NaN too: its gradient is that of the line, as in torch
    below = c.expm1(c.mul(c.where(positive, 0.0, input), input_scale))
    return c.where(positive, c.mul(input, scale), c.mul(below, alpha * scale))


@operator
@in_float32
def elu(input, alpha=1.0):
    """x above 0, alpha * (exp(x) - 1) below."""
    needs_floating("elu", input)
    return _exponential_below(input, alpha, 1, 1)


@operator
@in_float32
def selu(input):
    """elu with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    needs_floating("selu", input)
    return _exponential_below(input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)


@operator
@in_float32
def celu(input, alpha=1.0):
    """x above 0, alpha * (exp(x / alpha) - 1) below: elu with a continuous slope."""
    if known(alpha) and alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    needs_floating("celu", input)
    return _exponential_below(input, alpha, 1, 1 / alpha)


@operator
@in_float32
def glu(input, dim=-1):
    """The first half of `dim` times the sigmoid of the second half."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    needs_floating("glu", input)
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    half = size // 2
    gate = c.sigmoid(c.slice(input, dim, half, size, 1))
    return c.mul(c.slice(input, dim, 0, half, 1), gate)


@operator
@in_float32
def logsigmoid(input):
    """log(sigmoid(x)) without taking the log of a small number."""
    needs_floating("log_sigmoid", input)
    return c.sub(c.minimum(input, 0), c.log1p(c.exp(c.neg(c.abs(input)))))


@operator
def tanhshrink(input):
    """x - tanh(x)."""
    return c.sub(input, c.tanh(input))


@method
@operator
def hardshrink(input, lambd=0.5):
    """0 in [-lambd, lambd], x outside."""
    needs_floating("hardshrink", input)
    return c.where(c.le(c.abs(input), lambd), 0.0, input)


@operator
def softshrink(input, lambd=0.5):
    """0 in [-lambd, lambd], outside x moved towards 0 by lambd."""
    if known(lambd) and lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}")
    needs_floating("softshrink", input)
    below = c.where(c.lt(input, -lambd), c.add(input, lambd), c.mul(input, 0))
    return c.where(c.gt(input, lambd), c.sub(input, lambd), below)


softshrink.derivative(input=lambda g, input, lambd: c.where(c.le(c.abs(input), lambd), 0.0, g))


@operator
def threshold(input, threshold, value):
    """x above the threshold, else value."""
    return _as_input(c.where(c.le(input, threshold), value, input), input)


@method
@operator
def prelu(input, weight):
    """x above 0, weight * x below; weight has one element, or one per channel (dimension 1)."""
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input.dtype.name} and {weight.dtype.name}"
        )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.ndim == 1 and weight.shape[0] != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.shape[0] != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.shape[0]} and channel size = {channels}."
            )
        weight = c.reshape(weight, (channels, *([1] * (input.ndim - 2))))
    elif weight.ndim == 1:
        weight = c.reshape(weight, ())
    return c.where(c.gt(input, 0), input, c.mul(input, weight))


@operator
def softmin(input, dim=None, dtype=None):
    """softmax of -x."""
    return softmax(c.neg(input), dim, dtype)
