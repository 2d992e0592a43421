"""Batch, group, instance and RMS normalisation, and normalize: centre and scale over chosen dimensions.

Input: tensors (N, C, ...). All but batch_norm and instance_norm are operators; those two also write running
statistics in place, so they are plain functions around operators, which capture inlines.
"""

from __future__ import annotations

import numpy as np

from stage0_eager.functions import inplace
from stage0_eager.functions.in_float32 import narrowed, widened
from stage0_eager.functions.promotion import needs_floating
from stage0_eager.functions.reductions import count, in_rows, sum_of_squares
from stage0_eager.functions.shape import in_format_of
from stage0_eager.functions.statistics import vector_norm
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.half_numbers import HALVES

_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def _moments(x, dims):
    """(mean, variance without correction, x - mean), with the reduced dimensions kept at size 1."""
    n = count(x, dims)
    mean = c.div(c.sum(x, dims, True), n)
    centred = c.sub(x, mean)
    return mean, c.div(sum_of_squares(centred, dims), n), centred


def check_dtypes(name, input, *parameters):
    """Raises for dtypes that torch refuses: all are the input's, or all float32 beside an input of halves."""
    needs_floating(name, input)
    given = [x.dtype for x in parameters if x is not None]
    wanted = dt.float32 if input.dtype in HALVES and dt.float32 in given else input.dtype
    for dtype in given:
        if dtype is not wanted:
            raise RuntimeError(
                f"{name}: mixed dtype: expected weights and statistics of {wanted.name} beside an input of "
                f"{input.dtype.name}, but got {dtype.name}"
            )


def _per_channel(x, ndim):
    """(C,) as (1, C, 1, ...)."""
    return c.reshape(x, (1, x.shape[0], *([1] * (ndim - 2))))


def _scaled(centred, variance, weight, bias, eps):
    """centred / sqrt(variance + eps) * weight + bias; root and weight are joined first, being one number a channel."""
    scale = c.rsqrt(c.add(variance, eps))
    scale = scale if weight is None else c.mul(scale, _per_channel(weight, centred.ndim))
    out = c.mul(centred, scale)
    return out if bias is None else c.add(out, _per_channel(bias, centred.ndim))


@operator
def normalize_by_moments(input, mean, variance, weight=None, bias=None, eps=1e-5):
    """(input - mean) / sqrt(variance + eps), then per channel * weight + bias; input is (N, C, ...)."""
    input, narrow = widened(input)
    mean, variance, weight, bias = (x if x is None else _wide(x) for x in (mean, variance, weight, bias))
    return narrowed(_scaled(c.sub(input, mean), variance, weight, bias, eps), narrow)


@operator
def normalize_batch(input, dims, weight=None, bias=None, eps=1e-5):
    """(normalized, mean, variance): as normalize_by_moments, with the moments of `input` itself over `dims`.

    Halves are computed in float32, and rounded once.
    """
    half = input.dtype in HALVES
    mean, variance = _moments_at_once(input, dims) if half else _moments(input, dims)[:2]
    return normalize_by_own_moments(input, mean, variance, dims, weight, bias, eps), mean, variance


def _moments_at_once(input, dims):
    """Mean and variance of halves, in float32. The elements are read once, as distances from the first of a channel."""
    x, n = c.cast(input, dt.float32), count(input, dims)
    first = x
    for dim in dims:
        first = c.slice(first, dim, 0, 1, 1)
    away = c.sub(x, first)
    mean, square = c.div(c.sum(away, dims, True), n), c.div(sum_of_squares(away, dims), n)
    return c.add(first, mean), c.maximum(c.sub(square, c.mul(mean, mean)), 0.0)


@operator
def normalize_by_own_moments(input, mean, variance, dims, weight=None, bias=None, eps=1e-5):
    """(input - mean) / sqrt(variance + eps), then per channel * weight + bias.

    mean and variance are those of input over `dims`: the gradient of input has what flows through them, so they get
    none. (Its own derivative goes through them as any other.)
    """
    half = input.dtype in HALVES
    wide = [x if x is None or not half else c.cast(x, dt.float32) for x in (input, weight, bias)]
    out = _scaled(c.sub(wide[0], mean), variance, wide[1], wide[2], eps)
    return c.cast(out, input.dtype) if half else out


def _wide(x):
    return c.cast(x, dt.float32) if x.dtype in HALVES else x


def _sums(g, input, mean, variance, dims, eps):
    """(g, normalized input, root, sum of g, sum of g * normalized): what all three gradients are made of."""
    g, scale = _wide(g), c.rsqrt(c.add(variance, eps))
    unit = c.mul(c.sub(_wide(input), mean), scale)
    return g, unit, scale, c.sum(g, dims, True), c.sum(c.mul(g, unit), dims, True)


def _own_input(g, input, mean, variance, dims, weight, eps):
    g, unit, scale, plain, along = _sums(g, input, mean, variance, dims, eps)
    n = count(input, dims)
    scale = scale if weight is None else c.mul(scale, _per_channel(_wide(weight), input.ndim))
    rest = c.add(c.div(plain, n), c.mul(unit, c.div(along, n)))
    return c.cast(c.mul(scale, c.sub(g, rest)), input.dtype)


def _of_channels(total, dims, like):
    """Sums over `dims`, (N or 1, C, 1, ...), as the gradient of a tensor (C,)."""
    total = total if 0 in dims else c.sum(total, (0,), True)
    return c.cast(c.reshape(total, like.shape), like.dtype)


normalize_by_own_moments.derivative(
    input=_own_input,
    weight=lambda g, input, mean, variance, dims, weight, eps: _of_channels(
        _sums(g, input, mean, variance, dims, eps)[4], dims, weight
    ),
    bias=lambda g, dims, bias: _of_channels(c.sum(_wide(g), dims, True), dims, bias),
)


@operator
def moved_averages(mean, variance, running_mean, running_var, count, momentum):
    """The running statistics, each (C,), moved by `momentum` towards those of a batch.

    mean and variance are normalize_batch's, over `count` elements each; the running variance is the unbiased one.
    """
    variance = c.mul(variance, count / (count - 1))
    if mean.shape[0] != 1:  # statistics per instance: their average over the batch
        mean, variance = (c.div(c.sum(s, (0,), True), s.shape[0]) for s in (mean, variance))
    moved = []
    for old, new in ((running_mean, mean), (running_var, variance)):
        fresh = c.mul(c.cast(c.reshape(new, old.shape), old.dtype), momentum)
        moved.append(
            c.add(c.mul(old, 1 - momentum if isinstance(momentum, float) else c.sub(1, momentum)), fresh)
        )
    return tuple(moved)


def _of_itself(input, running_mean, running_var, dims, weight, bias, momentum, eps):
    """input normalised by its own moments over dims; running statistics, where there are any, are moved."""
    out, mean, variance = normalize_batch(input, dims, weight, bias, eps)
    if running_mean is not None:
        momentum = float(momentum) if isinstance(momentum, (int, np.number)) else momentum
        # detached here too, so that metas alone say that a buffer gets no history: capture asks them
        mean, variance = c.detach(mean), c.detach(variance)
        moved = moved_averages(mean, variance, running_mean, running_var, count(input, dims), momentum)
        inplace.copy_(running_mean, moved[0])
        inplace.copy_(running_var, moved[1])
    return out


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """Normalise each channel of input (N, C, ...) over the batch and the positions.

    Training uses the batch's mean and variance and moves the running ones, (C,), towards them by `momentum` (a
    number or a 0-d tensor); otherwise the running ones are used. Raises ValueError in training for one value
    per channel.
    """
    check_dtypes("batch_norm", input, running_mean, running_var, weight, bias)
    dims = (0, *range(2, input.ndim))
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
        ndim = input.ndim
        mean, variance = channels(running_mean, ndim), channels(running_var, ndim)
        return normalize_by_moments(input, mean, variance, weight, bias, eps)
    if count(input, dims) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(input.shape)}"
        )
    return _of_itself(input, running_mean, running_var, dims, weight, bias, momentum, eps)


@operator
def channels(input, ndim):
    """A vector (C,) as (1, C, 1, ...) of `ndim` dimensions."""
    return _per_channel(input, ndim)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
    eps=1e-5,
):  # fmt: skip
    """Normalise each channel of each instance of input (N, C, ...) over its positions."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    check_dtypes("instance_norm", input, weight, bias)
    dims = tuple(range(2, input.ndim))
    if count(input, dims) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {list(input.shape)}"
        )
    rows = input if input.is_contiguous() else input.contiguous()
    return _of_itself(rows, running_mean, running_var, dims, weight, bias, momentum, eps)


@operator
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalise input (N, C, ...) over each of num_groups groups of channels and all positions."""
    if input.ndim < 2:
        raise RuntimeError("Expected at least 2 dimensions for input tensor but received 1")
    check_dtypes("group_norm", input, weight, bias)
    channels_ = input.shape[1]
    if num_groups <= 0 or channels_ % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and tuple(x.shape) != (channels_,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(x.shape)} and input of shape {list(input.shape)}"
            )
    if count(input, (0, *range(2, input.ndim))) * (channels_ // num_groups) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(input.shape)}"
        )
    if input.numel() == 0:
        return input
    given, (input, narrow) = input, widened(input)
    grouped = c.reshape(input, (input.shape[0], num_groups, -1))
    _, variance, centred = _moments(grouped, (2,))
    out = c.reshape(c.mul(centred, c.rsqrt(c.add(variance, eps))), input.shape)
    out = out if weight is None else c.mul(out, _per_channel(weight, out.ndim))
    out = narrowed(out if bias is None else c.add(out, _per_channel(bias, out.ndim)), narrow)
    return in_format_of(out, given)


def _sizes_of_rows(normalized_shape):
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    return shape


@operator
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x**2) + eps) over the last len(normalized_shape) dimensions, then * weight.

    eps None is the dtype's machine epsilon. Half-precision inputs are squared in float32. The result has the input's
    dtype, whatever the weight's is.
    """
    if not input.dtype.is_differentiable:
        needs_floating("rms_norm", input)
    shape = _sizes_of_rows(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size {list(input.shape)}"
        )
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    half = input.dtype in HALVES
    x = c.cast(input, dt.float32) if half else input
    square = c.div(sum_of_squares(x, dims), count(x, dims))
    out = c.mul(x, c.rsqrt(c.add(square, _EPS[dt.real_of(x.dtype).name] if eps is None else eps)))
    out = out if weight is None else c.mul(out, weight)
    return c.cast(out, input.dtype) if out.dtype is not input.dtype else out


@operator
def normalize(input, p=2.0, dim=1, eps=1e-12):
    """input / max(its p-norm along dim, eps)."""
    return c.div(input, c.maximum(vector_norm(input, p, dim, True), eps))


@operator
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) over the last len(normalized_shape) dimensions, then * weight + bias."""
    check_dtypes("layer_norm", input, weight, bias)
    shape = _sizes_of_rows(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size {list(input.shape)}"
        )
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    n = 1
    for size in shape:
        n = n * size
    input, narrow = widened(in_rows(input))
    centred = c.sub(input, c.div(c.sum(input, dims, True), n))
    variance = c.div(sum_of_squares(centred, dims), n)
    out = c.mul(centred, c.rsqrt(c.add(variance, eps)))
    out = out if weight is None else c.mul(out, weight)
    return narrowed(out if bias is None else c.add(out, bias), narrow)


@operator
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of squares of `size` neighbouring channels) ** beta. Krizhevsky et al. 2012."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    pads = tuple((size // 2, (size - 1) // 2) if d == 1 else (0, 0) for d in range(input.ndim))
    squares = c.constant_pad(c.mul(input, input), pads, 0.0)
    channels, total = input.shape[1], None
    for i in range(size):
        part = c.slice(squares, 1, i, i + channels, 1)
        total = part if total is None else c.add(total, part)
    return c.div(input, c.pow(c.add(c.mul(total, alpha / size), k), beta))
