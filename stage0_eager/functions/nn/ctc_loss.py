"""Connectionist temporal classification: the loss of a label sequence whose alignment is not known.

Input: log-probabilities (T, N, C), labels, and the lengths of both. Graves et al., "Connectionist temporal
classification" (2006): the forward recursion, in logarithms; the gradient is the tape's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt


def _log_sum(parts: list) -> Any:
    """log of the sum of exponentials, minus infinity where all are; its gradient is 0 there, not NaN."""
    top = parts[0]
    for part in parts[1:]:
        top = c.maximum(top, part)
    top = c.detach(c.where(c.eq(top, -math.inf), 0.0, top))
    total = c.exp(c.sub(parts[0], top))
    for part in parts[1:]:
        total = c.add(total, c.exp(c.sub(part, top)))
    nothing = c.eq(total, 0)
    return c.where(nothing, -math.inf, c.add(c.log(c.where(nothing, 1.0, total)), top))


def _shifted(alpha, by):
    """alpha[s - by], minus infinity before the first."""
    width = alpha.shape[1]
    return c.constant_pad(
        c.slice(alpha, 1, 0, max(width - by, 0), 1), ((0, 0), (min(by, width), 0)), -math.inf
    )


@operator
def unaligned(loss, log_probs, input_lengths):
    """The losses as they are. Where one is infinite no alignment is possible, and the gradient is NaN, as torch's is:
    that of log_probs in the frames of the input, which nothing else reaches."""
    return c.clone(loss)


def _nan_where_impossible(g, loss, log_probs_meta, input_lengths):
    steps, n, classes = log_probs_meta.shape
    frames = c.reshape(c.iota(steps, 0, 1, dt.int64, g.device), (steps, 1))
    seen = c.logical_and(c.lt(frames, input_lengths), c.eq(loss, math.inf))
    nan = c.cast(c.where(seen, math.nan, 0.0), log_probs_meta.dtype)
    return c.expand(c.reshape(nan, (steps, n, 1)), (steps, n, classes))


unaligned.derivative(loss=lambda g: g, log_probs=_nan_where_impossible)


@operator
def ctc_of_rows(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    """The loss of each sequence: targets (N, S) padded to one length, lengths (N,) as tensors."""
    steps, n, classes = log_probs.shape
    labels = targets.shape[1]
    width = 2 * labels + 1
    blanks = c.full((n, labels, 1), blank, dt.int64, log_probs.device)
    paired = c.reshape(c.cat([blanks, c.reshape(targets, (n, labels, 1))], 2), (n, 2 * labels))
    # blank, l1, blank, l2, ..., blank
    path = c.cat([paired, c.full((n, 1), blank, dt.int64, log_probs.device)], 1)
    before = c.constant_pad(c.slice(path, 1, 0, max(width - 2, 0), 1), ((0, 0), (min(2, width), 0)), blank)
    may_skip = c.logical_and(c.ne(path, blank), c.ne(path, before))
    places = c.iota(width, 0, 1, dt.int64, log_probs.device)
    alpha = None
    for t in range(steps):
        row = c.reshape(c.slice(log_probs, 0, t, t + 1, 1), (n, classes))
        emitted = c.gather(row, 1, path)
        if alpha is None:
            alpha = c.where(c.lt(places, 2), emitted, -math.inf)
            continue
        skipped = c.where(may_skip, _shifted(alpha, 2), -math.inf)
        step = c.add(_log_sum([alpha, _shifted(alpha, 1), skipped]), emitted)
        alpha = c.where(c.reshape(c.gt(input_lengths, t), (n, 1)), step, alpha)
    last = c.reshape(c.mul(target_lengths, 2), (n, 1))
    ends = [c.gather(alpha, 1, last), c.gather(alpha, 1, c.maximum(c.sub(last, 1), 0))]
    ends[1] = c.where(c.eq(last, 0), -math.inf, ends[1])
    loss = c.reshape(c.neg(_log_sum(ends)), (n,))
    of_nothing = c.where(c.eq(target_lengths, 0), 0.0, math.inf)
    loss = c.where(c.eq(input_lengths, 0), of_nothing, loss)
    return (
        c.where(c.eq(loss, math.inf), 0.0, loss)
        if zero_infinity
        else unaligned(loss, log_probs, input_lengths)
    )


def _lengths(name: str, values: Any, like: Tensor) -> tuple[list[int], Tensor]:
    if isinstance(values, Tensor) and values.is_floating_point():
        raise RuntimeError(f"{name} must be integral")
    numbers = [int(v) for v in (values.tolist() if isinstance(values, Tensor) else values)]
    if min(numbers, default=0) < 0:
        raise RuntimeError(f"Expected {name} to have value at least 0, but got value {min(numbers)}")
    return numbers, Tensor(arrays.move(np.array(numbers, np.int64), like.device))


def _listed(lengths, single):
    """Lengths with a dimension; of a single example a tensor may have none."""
    return lengths.reshape(1) if single and not isinstance(lengths, (tuple, list)) else lengths


def _rows(targets, counts, blank):
    """Labels that stand after one another as a row for each target, filled up with blanks."""
    rows, at, longest = [], 0, max(counts, default=0)
    for count in counts:
        part = c.slice(targets, 0, at, at + count, 1)
        rows.append(c.reshape(c.constant_pad(part, ((0, longest - count),), blank), (1, longest)))
        at += count
    return c.cat(rows, 0)


def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False
):
    """-log of the probability of all alignments of `targets` (N, S), or all labels after one another in one dimension.

    log_probs is (T, N, C) or (T, C). "mean" divides each loss by its target's length first. Raises RuntimeError for
    lengths that do not fit.
    """
    single = log_probs.ndim == 2
    log_probs = c.reshape(log_probs, (log_probs.shape[0], 1, log_probs.shape[1])) if single else log_probs
    steps, n, classes = log_probs.shape
    frames, frames_tensor = _lengths("input_lengths", _listed(input_lengths, single), log_probs)
    counts, counts_tensor = _lengths("target_lengths", _listed(target_lengths, single), log_probs)
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if len(frames) != n or len(counts) != n:
        raise RuntimeError(f"ctc_loss: expected {n} lengths, got {len(frames)} and {len(counts)}")
    if max(frames, default=0) > steps:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {max(frames)}"
        )
    if targets.ndim == 1 and single and targets.shape[0] == counts[0]:
        targets = c.reshape(targets, (1, targets.shape[0]))
    elif targets.ndim == 1:
        targets = _rows(targets, counts, blank)
    if max(counts, default=0) > targets.shape[1]:
        raise RuntimeError(
            f"Expected targets to have size at least {max(counts)} at dimension 1, but got size {targets.shape[1]}"
        )
    targets = targets if targets.dtype is dt.int64 else c.cast(targets, dt.int64)
    loss = ctc_of_rows(log_probs, targets, frames_tensor, counts_tensor, blank, bool(zero_infinity))
    loss = _reduced(loss, reduction, counts_tensor)
    return c.reshape(loss, ()) if single else loss


def _reduced(loss, reduction, counts):
    if reduction == "mean":
        loss = c.div(loss, c.cast(c.maximum(counts, 1), loss.dtype))
        return c.div(c.sum(loss, (0,), False), loss.shape[0])
    if reduction == "sum":
        return c.sum(loss, (0,), False)
    if reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss
