"""Losses, by torch.nn.functional's names: an elementwise distance and a reduction.

Input: predictions and targets of one shape unless said otherwise; reduction is "none", "sum" or "mean".
Logarithms are kept from overflowing where torch keeps them; each formula is in its docstring.
"""

from __future__ import annotations

import math
import warnings

from stage0_eager.functions.in_float32 import in_float32
from stage0_eager.functions.index_checks import (
    NAMES,
    check_classes,
    in_range,
    numbers_are_seen,
    warn_of_broadcast,
    within,
)
from stage0_eager.functions.numbers import known
from stage0_eager.functions.promotion import in_dtype, needs_floating
from stage0_eager.functions.reductions import log_softmax, mean
from stage0_eager.functions.statistics import vector_norm
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.breaks import Unsupported
from stage_contracts.core_metas import broadcast_shapes, promoted_dtype, wrap_dim
from stage_contracts.half_numbers import HALVES
from stage_contracts.messages import say


def _relu(x):
    """max(x, 0) with slope 1 at 0, as torch's clamp has it."""
    return c.where(c.lt(x, 0), 0.0, x)


def _softplus(x):
    """log(1 + exp(x)) without overflow."""
    return c.add(c.maximum(x, 0), c.log1p(c.exp(c.neg(c.abs(x)))))


def _weighted(loss, weight):
    return loss if weight is None else c.mul(loss, weight)


def _as_common_float(name, input, target):
    """Both in the dtype they promote to: a bool target beside float predictions counts as 0 and 1."""
    common = promoted_dtype((input.meta, target.meta))
    if not common.is_floating_point:
        raise NotImplementedError(f'"{name}_cpu" not implemented for {NAMES[common]!r}')
    return [x if x.dtype is common else c.cast(x, common) for x in (input, target)]


def _same_size(name, input, target):
    if input.shape != target.shape:
        raise ValueError(
            say("target_size", function=name, target=tuple(target.shape), input=tuple(input.shape))
        )


@operator
def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """-(t log p + (1 - t) log(1 - p)) of probabilities p, logarithms no less than -100.

    Eager code looks at the numbers and refuses what is no probability. Traced code cannot: it gives NaN for such a p.
    """
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({tuple(target.shape)}) that is different to the input size "
            f"({tuple(input.shape)}) is deprecated. Please ensure they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {NAMES[target.dtype]} but expected {NAMES[input.dtype]}")
    for name, numbers in (("input", input), ("target", target)):
        if not within(numbers, 0, 1):
            raise RuntimeError(say("probability_expected", name=name))
    return _reduce(_of_probabilities(input, target, weight), reduction)


@operator
def log_loss(input, target):
    """-(t log p + (1 - t) log(1 - p)), element by element. Its gradient has a formula of its own, torch's, which is
    finite where p is 0 or 1."""
    yes = c.maximum(c.log(input), -100.0)
    no = c.maximum(c.log1p(c.neg(input)), -100.0)
    return c.sub(c.mul(c.sub(target, 1), no), c.mul(target, yes))


log_loss.derivative(
    input=lambda g, input, target: c.div(
        c.mul(g, c.sub(input, target)), c.maximum(c.mul(c.sub(1, input), input), 1e-12)
    ),
    target=lambda g, input: c.mul(g, c.sub(c.log1p(c.neg(input)), c.log(input))),
)


@in_float32
def _of_probabilities(input, target, weight):
    return _weighted(log_loss(input, target), weight)


@operator
def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """-(w t log s(x) + (1 - t) log(1 - s(x))) of logits x; w, pos_weight, is broadcast against them."""
    _same_size("binary_cross_entropy_with_logits", input, target)
    needs_floating("binary_cross_entropy_with_logits", input)
    if not target.is_floating_point():
        raise RuntimeError(
            f"result type {NAMES[input.dtype]} can't be cast to the desired output type {NAMES[target.dtype]}"
        )
    return _reduce(_of_logits(input, target, weight, pos_weight), reduction)


@operator
def log_loss_of_logits(input, target, pos_weight=None):
    """-(w t log s(x) + (1 - t) log(1 - s(x))), where log s(x) = -softplus(-x) and log(1 - s(x)) = -softplus(-x) - x;
    w, pos_weight, has their shape."""
    tail = _softplus(c.neg(input))
    factor = 1 if pos_weight is None else c.add(c.mul(c.sub(pos_weight, 1), target), 1)
    return c.add(c.mul(c.sub(1, target), input), c.mul(tail, factor))


def _logits_input(g, input, target, pos_weight):
    """(w t + 1 - t) s(x) - w t: no product of 0 and an infinite weight on the way."""
    yes = target if pos_weight is None else c.mul(pos_weight, target)
    part = c.sigmoid(input)
    part = part if pos_weight is None else c.mul(c.sub(c.add(yes, 1), target), part)
    return c.mul(g, c.sub(part, yes))


def _logits_target(g, input, pos_weight):
    if pos_weight is None:
        return c.neg(c.mul(g, input))
    return c.mul(g, c.sub(c.mul(pos_weight, _softplus(c.neg(input))), _softplus(input)))


log_loss_of_logits.derivative(
    input=_logits_input,
    target=_logits_target,
    pos_weight=lambda g, input, target: c.mul(g, c.mul(target, _softplus(c.neg(input)))),
)


@in_float32
def _of_logits(input, target, weight, pos_weight):
    wide = None if pos_weight is None else c.expand(pos_weight, input.shape)
    return _weighted(log_loss_of_logits(input, target, wide), weight)


@operator
def kl_div(input, target, reduction="mean", log_target=False):
    """target * (log target - input), with input log-probabilities; "batchmean" divides the sum by the batch size."""
    if not (input.is_floating_point() and target.is_floating_point()):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' "
            "divides only by the batch size, and aligns with the KL div math definition.",
            stacklevel=3,
        )
    if log_target:
        loss = c.mul(c.exp(target), c.sub(target, input))
    else:
        positive = c.gt(target, 0)
        entropy = c.where(positive, c.mul(target, c.log(c.where(positive, target, 1.0))), 0.0)
        loss = c.sub(entropy, c.mul(target, input))
    if reduction == "batchmean":
        total = _reduce(loss, "sum")
        return c.div(total, input.shape[0]) if input.ndim else total
    return _reduce(loss, reduction)


@operator
def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """0.5 d**2 / beta where d = |input - target| < beta, else d - 0.5 beta."""
    if known(beta) and beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    warn_of_broadcast(input, target)
    return _reduce(_smooth(*_as_common_float("smooth_l1", input, target), beta), reduction)


@in_float32
def _smooth(input, target, beta):
    distance = c.abs(c.sub(input, target))
    if known(beta) and beta == 0:
        return distance
    near = c.logical_not(c.ge(distance, beta))  # also NaN, whose gradient then is NaN
    square = c.mul(_square(distance, near), 0.5 / beta)
    return c.where(near, square, c.sub(distance, 0.5 * beta))


def _square(distance, near):
    """Of what is near: the square of an infinite distance would give 0 * inf to the gradient."""
    distance = c.where(near, distance, 0.0)
    return c.mul(distance, distance)


@operator
def huber_loss(input, target, reduction="mean", delta=1.0):
    """0.5 d**2 where d = |input - target| <= delta, else delta * (d - 0.5 delta)."""
    if known(delta) and delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    warn_of_broadcast(input, target)
    common = promoted_dtype((input.meta, target.meta))
    if common.category > input.dtype.category:
        raise RuntimeError(
            f"result type {NAMES[common]} can't be cast to the desired output type {NAMES[input.dtype]}"
        )
    loss = _squared_near(*_as_common_float("huber", input, target), delta)
    return _reduce(loss if common is input.dtype else c.cast(loss, input.dtype), reduction)


@in_float32
def _squared_near(input, target, delta):
    distance = c.abs(c.sub(input, target))
    near = c.logical_not(c.gt(distance, delta))
    far = c.mul(c.sub(distance, 0.5 * delta), delta)
    return c.where(near, c.mul(_square(distance, near), 0.5), far)


@operator
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along dim; shapes broadcast."""
    wide = dt.promote(x1.dtype, x2.dtype)  # a tensor without dimensions counts as any other
    wide = wide if wide.is_differentiable else dt.DEFAULT_DTYPE.dtype
    x1, x2 = in_dtype(x1, wide), in_dtype(x2, wide)
    shape = broadcast_shapes(x1.shape, x2.shape)  # first: the norm of what is repeated counts it as often
    x1, x2, d = c.expand(x1, shape), c.expand(x2, shape), wrap_dim(dim, len(shape))
    one = c.div(x1, c.maximum(vector_norm(x1, 2, d, True), eps))
    two = c.div(x2, c.maximum(vector_norm(x2, 2, d, True), eps))
    return c.sum(c.mul(one, two), (d,), False)


@operator
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; inputs (N, D) or (D,)."""
    if input1.shape != input2.shape or input1.ndim not in (1, 2) or target.ndim != input1.ndim - 1:
        raise RuntimeError(
            f"cosine_embedding_loss expects inputs (N, D) with target (N,), or (D,) with (), got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    eps = 1e-12
    dots = (c.sum(c.mul(a, b), (-1 % a.ndim,), False) for a, b in
            ((input1, input2), (input1, input1), (input2, input2)))  # fmt: skip
    dot, one, two = dots
    cos = c.div(dot, c.sqrt(c.mul(c.add(one, eps), c.add(two, eps))))
    alike = c.where(c.eq(target, 1), c.sub(1, cos), 0.0)
    unlike = c.where(c.eq(target, -1), _relu(c.sub(cos, margin)), 0.0)
    return _reduce(c.add(alike, unlike), reduction)


@operator
def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1."""
    apart = c.where(c.ne(target, 1), _relu(c.sub(margin, input)), 0.0)
    return _reduce(c.add(apart, c.where(c.ne(target, -1), input, 0.0)), reduction)


@operator
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """max(0, -target * (input1 - input2) + margin)."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{tuple(input1.shape)}, input2: {tuple(input2.shape)}, target: {tuple(target.shape)} "
        )
    return _reduce(_relu(c.add(c.mul(c.neg(target), c.sub(input1, input2)), margin)), reduction)


@operator
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps over the last dimension."""
    return vector_norm(c.add(c.sub(x1, x2), eps), p, -1, keepdim)


@operator
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction="mean"):
    """max(0, |anchor - positive| - |anchor - negative| + margin); swap takes the nearer of the two to negative."""
    if known(margin) and margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = c.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce(_relu(c.add(c.sub(near, far), margin)), reduction)


@operator
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """0.5 * (log v + (input - target)**2 / v) with v = max(var, eps), whose gradient ignores the bound.

    A negative variance is refused; capture leaves the call to Python, as torch's does, which sees the numbers.
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError(say("variance_negative"))
        var = c.full(input.shape, float(var), input.dtype, input.device)
    if var.shape != input.shape:
        if tuple(var.shape) == tuple(input.shape[:-1]):
            var = c.reshape(var, (*var.shape, 1))
        elif tuple(var.shape) != (*input.shape[:-1], 1):
            raise ValueError("var is of incorrect size")
    needs_floating("gaussian_nll_loss", var)
    if not numbers_are_seen(var):
        raise Unsupported("gaussian_nll_loss looks for a negative variance", code="GB0003")
    if not within(var, 0, math.inf, nan=True):
        raise ValueError(say("variance_negative"))
    bounded = c.maximum(var, eps)
    bounded = c.add(var, c.detach(c.sub(bounded, var)))
    difference = c.sub(input, target)
    loss = c.mul(c.add(c.log(bounded), c.div(c.mul(difference, difference), bounded)), 0.5)
    return _reduce(c.add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


@operator
def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """exp(input) - target * input, or input - target * log(input + eps); full adds Stirling's term for target > 1."""
    if log_input:
        loss = c.sub(c.exp(input), c.mul(target, input))
    else:
        loss = c.sub(input, c.mul(target, c.log(c.add(input, eps))))
    if full:
        large = c.gt(target, 1)
        t = c.where(large, target, 1.0)
        stirling = c.add(c.sub(c.mul(t, c.log(t)), t), c.mul(c.log(c.mul(t, 2 * math.pi)), 0.5))
        loss = c.add(loss, c.where(large, stirling, 0.0))
    return _reduce(loss, reduction)


@operator
def soft_margin_loss(input, target, reduction="mean"):
    """log(1 + exp(-target * input)), target 1 or -1."""
    if broadcast_shapes(tuple(input.shape), tuple(target.shape)) != tuple(input.shape):
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape with {list(target.shape)}"
        )
    needs_floating("soft_margin_loss", input)
    return _reduce(_softplus(c.neg(c.mul(target, input))), reduction)


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
    target = in_range(c.where(kept, target, 0), classes, IndexError, say("class_out_of_range", bad="{bad}"))
    hit = c.eq(c.reshape(target, expanded), ids)
    if weight is not None:
        weight = c.reshape(weight, ids_shape)
        logp = c.mul(logp, weight)
    loss = c.neg(c.sum(c.where(hit, logp, 0), (dim,), False))
    if not known(smoothing) or smoothing:
        even = c.div(c.neg(c.sum(logp, (dim,), False)), classes)
        loss = c.add(c.mul(loss, 1 - smoothing), c.mul(even, smoothing))
    loss = c.where(kept, loss, 0)
    if reduction != "mean":
        return _reduce(loss, reduction)
    narrow = loss.dtype
    if narrow in HALVES:  # a sum, or a count, may be larger than any half
        loss = c.cast(loss, dt.float32)
    if weight is None:
        share = c.cast(c.sum(kept, tuple(range(kept.ndim)), False), loss.dtype)
    else:
        weight = c.cast(weight, loss.dtype) if weight.dtype in HALVES else weight
        chosen = c.sum(c.where(hit, weight, 0), (dim,), False)
        share = c.sum(c.where(kept, chosen, 0), tuple(range(kept.ndim)), False)
    out = c.div(c.sum(loss, tuple(range(loss.ndim)), False), share)
    return c.cast(out, narrow) if out.dtype is not narrow else out


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
    if known(label_smoothing) and label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    dim = 0 if input.ndim == 1 else 1
    logp = log_softmax(input, dim)
    if not target.is_floating_point():
        return _nll(logp, target, weight, ignore_index, reduction, label_smoothing)
    if weight is not None:
        logp = c.mul(logp, c.reshape(weight, tuple(-1 if i == dim else 1 for i in range(logp.ndim))))
    if not known(label_smoothing) or label_smoothing:
        target = c.add(c.mul(target, 1 - label_smoothing), label_smoothing / input.shape[dim])
    loss = c.neg(c.sum(c.mul(logp, target), (dim,), False))
    if reduction != "mean":
        return _reduce(loss, reduction)
    return c.div(c.sum(loss, tuple(range(loss.ndim)), False), max(loss.numel(), 1))


@operator
def mse_loss(input, target, reduction="mean"):
    """(input - target) ** 2, reduced."""
    warn_of_broadcast(input, target)
    difference = c.sub(*_as_common_float("mse", input, target))
    return _reduce(c.mul(difference, difference), reduction)


@operator
def l1_loss(input, target, reduction="mean"):
    """|input - target|, reduced."""
    warn_of_broadcast(input, target)
    return _reduce(c.abs(c.sub(input, target)), reduction)


def _reduce(loss, reduction):
    if reduction == "none":
        return loss
    if reduction == "sum":
        return c.sum(loss, tuple(range(loss.ndim)), False)
    if reduction == "mean":
        if not loss.is_floating_point():
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                f"Got: {NAMES[loss.dtype]}"
            )
        return mean(loss)
    raise ValueError(f"{reduction} is not a valid value for reduction")
