"""Losses with margins between classes or labels, by torch.nn.functional's names.

Input: scores (N, C) or (C,), targets as each docstring says; reduction is "none", "sum" or "mean".
"""

from __future__ import annotations

from stage0_eager.functions.index_checks import NAMES, in_range, not_negative
from stage0_eager.functions.nn.losses import _reduce, pairwise_distance
from stage0_eager.functions.nn.rectifiers import logsigmoid
from stage0_eager.functions.promotion import needs_floating, same_dtype
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt


def _above(x):
    """max(x, 0) with slope 0 at 0."""
    return c.where(c.gt(x, 0), x, 0.0)


def _check_long(target):
    if target.dtype is not dt.int64:
        raise RuntimeError(f"expected scalar type Long but found {NAMES[target.dtype]}")


def _rows(x):
    return x if x.ndim == 2 else c.reshape(x, (1, *x.shape))


@operator
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, reduction="mean"):
    """sum of max(0, margin - x[y] + x[i]) ** p over the classes i that are not y, by C; target (N,) holds y."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    x = _rows(input)
    n, classes = x.shape
    if target.ndim > 1 or target.numel() != n:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{n}], but got {list(target.shape)}."
        )
    _check_long(target)
    needs_floating("multi_margin_loss", input)
    same_dtype("multi_margin_loss", input, weight)
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    y = c.reshape(not_negative(target, classes, RuntimeError, "target out of range"), (n, 1))
    part = _above(c.add(c.sub(x, c.gather(x, 1, y)), margin))
    part = c.mul(part, part) if p == 2 else part
    if weight is not None:
        part = c.mul(part, c.reshape(c.gather(weight, 0, c.reshape(y, (n,))), (n, 1)))
    others = c.ne(c.iota(classes, 0, 1, dt.int64, x.device), y)
    loss = c.div(c.sum(c.where(others, part, 0.0), (1,), False), classes)
    return _reduce(loss if input.ndim == 2 else c.reshape(loss, ()), reduction)


@operator
def multilabel_margin_loss(input, target, reduction="mean"):
    """sum of max(0, 1 - x[y] + x[i]) over labels y and classes i that are none, by C.

    target has input's shape and holds labels up to the first -1.
    """
    if input.shape != target.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    _check_long(target)
    x, labels = _rows(input), _rows(target)
    n, classes = x.shape
    # -1 ends a row; anything else outside of the classes is an error
    ends = c.eq(labels, -1)
    says = "argument #2 'target' is out of range"
    labels = c.where(ends, -1, in_range(c.where(ends, 0, labels), classes, RuntimeError, says))
    given = c.cast(c.cumprod(c.cast(c.ge(labels, 0), dt.int64), 1), dt.bool_)
    labels = c.where(given, labels, 0)
    marks = c.scatter_add(c.full((n, classes), 0, dt.int64, x.device), 1, labels, c.cast(given, dt.int64))
    scores = c.reshape(c.gather(x, 1, labels), (n, classes, 1))
    part = _above(c.add(c.sub(c.reshape(x, (n, 1, classes)), scores), 1))
    counted = c.logical_and(c.reshape(given, (n, classes, 1)), c.reshape(c.eq(marks, 0), (n, 1, classes)))
    loss = c.div(c.sum(c.where(counted, part, 0.0), (1, 2), False), classes)
    return _reduce(loss if input.ndim == 2 else c.reshape(loss, ()), reduction)


@operator
def multilabel_soft_margin_loss(input, target, weight=None, reduction="mean"):
    """-(t log s(x) + (1 - t) log s(-x)), s the sigmoid, averaged over the last dimension."""
    yes, no = logsigmoid(input), logsigmoid(c.neg(input))
    loss = c.neg(c.add(c.mul(target, yes), c.mul(c.sub(1, target), no)))
    loss = loss if weight is None else c.mul(loss, weight)
    return _reduce(c.div(c.sum(loss, (-1,), False), input.shape[-1]), reduction)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); with `swap` the nearer of anchor and positive."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = c.minimum(far, distance(positive, negative))
    return _reduce(c.maximum(c.add(c.sub(near, far), margin), 0), reduction)
