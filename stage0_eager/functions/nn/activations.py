"""Activations, normalisation, dropout and losses: what torch.nn.functional offers, as bodies over core operators.

Input: tensors. A function has a derivative of its own only where the one of its body would be unsound or wasteful.
"""

from __future__ import annotations

import math

import numpy as np

from stage0_eager.functions.index_checks import (
    NAMES,
    check_classes,
    in_range,
    long_index,
    not_negative,
    warn_of_broadcast,
)
from stage0_eager.functions.pointwise_composed import narrowed, widened
from stage0_eager.functions.reductions import log_softmax, sum_of_squares
from stage0_eager.random.generator import uniform
from stage0_eager.table.core import core as c
from stage0_eager.table.evaluation import on_array
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.errors import OutOfRange


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
    return c.where(c.gt(input, 0), input, c.mul(input, negative_slope))


@operator
def gelu(input, approximate="none"):
    """x * Phi(x), with Phi the normal distribution function; 'tanh' uses Hendrycks and Gimpel's approximation."""
    if approximate == "none":
        return c.mul(c.mul(input, 0.5), c.add(c.erf(c.mul(input, math.sqrt(0.5))), 1))
    if approximate == "tanh":
        cube = c.mul(c.mul(input, input), input)
        inner = c.mul(c.add(input, c.mul(cube, 0.044715)), math.sqrt(2 / math.pi))
        return c.mul(c.mul(input, 0.5), c.add(c.tanh(inner), 1))
    raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")


@operator
def silu(input):
    """x * sigmoid(x)."""
    return c.mul(input, c.sigmoid(input))


@operator
def softplus(input, beta=1, threshold=20):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""
    scaled = c.mul(input, beta)
    soft = c.div(c.log1p(c.exp(c.minimum(scaled, threshold))), beta)
    return c.where(c.gt(scaled, threshold), input, soft)


@operator
def dropout(input, p=0.5, training=True):
    """Each element zeroed with probability p and the rest scaled by 1 / (1 - p); input itself when not training."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return c.mul(input, 0)
    kept = c.ge(uniform(input.shape, device=input.device), p)
    return c.where(kept, c.mul(input, 1 / (1 - p)), 0)


@operator
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) over the last len(normalized_shape) dimensions, then * weight + bias."""
    shape = tuple(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size {list(input.shape)}"
        )
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    n = 1
    for size in shape:
        n = n * size
    input, narrow = widened(input, weight, bias)
    centred = c.sub(input, c.div(c.sum(input, dims, True), n))
    variance = c.div(sum_of_squares(centred, dims), n)
    out = c.mul(centred, c.rsqrt(c.add(variance, eps)))
    out = out if weight is None else c.mul(out, weight)
    return narrowed(out if bias is None else c.add(out, bias), narrow)


@operator
def one_hot(input, num_classes=-1):
    """int64: 1 at the class of each element, 0 elsewhere, in a new last dimension. -1: as many classes as occur."""
    if input.dtype is not dt.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type int64, got {input.dtype.name}"
        )
    if not input.numel() and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if num_classes == -1:
        num_classes = max(c.amax(c.reshape(input, (input.numel(),)), (0,)).item(), -1) + 1
    if num_classes < 1:
        raise RuntimeError("Class values must be smaller than num_classes.")
    too_large = "Class values must be smaller than num_classes."
    input = in_range(input, num_classes, RuntimeError, too_large)
    classes = c.iota(num_classes, 0, 1, dt.int64, input.device)
    return c.cast(c.eq(c.reshape(input, (*input.shape, 1)), classes), dt.int64)


@operator
def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """-input[target] per element; input holds log-probabilities (N, C, ...), target classes (N, ...)."""
    return _nll(input, target, weight, ignore_index, reduction, 0.0)


def _nll(logp, target, weight, ignore_index, reduction, smoothing):
    """The loss against (1 - smoothing) * the target's class + smoothing * all classes evenly."""
    check_classes(logp, target, weight)
    dim = 0 if logp.ndim == 1 else 1
    classes = logp.shape[dim]
    ids_shape = tuple(classes if i == dim else 1 for i in range(logp.ndim))
    ids = c.reshape(c.iota(classes, 0, 1, dt.int64, logp.device), ids_shape)
    expanded = (*logp.shape[:dim], 1, *logp.shape[dim + 1 :])
    # a comparison with the class numbers instead of a gather: one fused kernel, and a gradient without scatter
    kept = c.ne(target, ignore_index)
    target = in_range(c.where(kept, target, 0), classes, IndexError, "Target {bad} is out of bounds.")
    hit = c.eq(c.reshape(target, expanded), ids)
    if weight is not None:
        weight = c.reshape(weight, ids_shape)
        logp = c.mul(logp, weight)
    loss = c.neg(c.sum(c.where(hit, logp, 0), (dim,), False))
    if smoothing:
        even = c.div(c.neg(c.sum(logp, (dim,), False)), classes)
        loss = c.add(c.mul(loss, 1 - smoothing), c.mul(even, smoothing))
    loss = c.where(kept, loss, 0)
    if reduction != "mean":
        return _reduce(loss, reduction)
    if weight is None:
        share = c.cast(c.sum(kept, tuple(range(kept.ndim)), False), logp.dtype)
    else:
        chosen = c.sum(c.where(hit, weight, 0), (dim,), False)
        share = c.sum(c.where(kept, chosen, 0), tuple(range(kept.ndim)), False)
    return c.div(c.sum(loss, tuple(range(loss.ndim)), False), share)


@operator
def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Cross entropy of logits (N, C, ...) with class indices (N, ...) or, if floating, class probabilities."""
    if input.ndim != target.ndim or tuple(input.shape) != tuple(target.shape):
        check_classes(input, target, weight)
    elif not target.is_floating_point():
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {NAMES[target.dtype]}"
        )
    elif ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    dim = 0 if input.ndim == 1 else 1
    logp = log_softmax(input, dim)
    if not target.is_floating_point():
        return _nll(logp, target, weight, ignore_index, reduction, label_smoothing)
    if weight is not None:
        logp = c.mul(logp, c.reshape(weight, tuple(-1 if i == dim else 1 for i in range(logp.ndim))))
    if label_smoothing:
        target = c.add(c.mul(target, 1 - label_smoothing), label_smoothing / input.shape[dim])
    loss = c.neg(c.sum(c.mul(logp, target), (dim,), False))
    if reduction != "mean":
        return _reduce(loss, reduction)
    return c.div(c.sum(loss, tuple(range(loss.ndim)), False), max(loss.numel(), 1))


@operator
def mse_loss(input, target, reduction="mean"):
    """(input - target) ** 2, reduced."""
    warn_of_broadcast(input, target)
    difference = c.sub(input, target)
    return _reduce(c.mul(difference, difference), reduction)


@operator
def l1_loss(input, target, reduction="mean"):
    """|input - target|, reduced."""
    warn_of_broadcast(input, target)
    return _reduce(c.abs(c.sub(input, target)), reduction)


def _reduce(loss, reduction):
    if reduction == "none":
        return loss
    total = c.sum(loss, tuple(range(loss.ndim)), False)
    if reduction == "sum":
        return total
    if reduction == "mean":
        return c.div(total, loss.numel())
    raise ValueError(f"{reduction} is not a valid value for reduction")


@operator
def embedding(input, weight, padding_idx=None):
    """Rows of weight (num_embeddings, dim) chosen by input: (*input.shape, dim). Row padding_idx gets no gradient."""
    if input.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{NAMES[input.dtype]} instead"
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    input = not_negative(
        long_index("embedding", input), weight.shape[0], OutOfRange, "index out of range in self"
    )
    width = weight.shape[1]
    flat = c.reshape(input, (input.numel(), 1))
    rows = c.gather(weight, 0, c.expand(flat, (input.numel(), width)))
    if padding_idx is not None:
        wrapped = wrap_dim(padding_idx, weight.shape[0])
        rows = c.where(c.eq(flat, wrapped), c.detach(rows), rows)
    return c.reshape(rows, (*input.shape, width))
