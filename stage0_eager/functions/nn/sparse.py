"""Embeddings: one_hot, embedding, embedding_bag.

Input: integer tensors and a table of vectors.
"""

from __future__ import annotations

import math

import numpy as np

from stage0_eager.functions.index_checks import (
    NAMES,
    in_range,
    long_index,
    not_negative,
)
from stage0_eager.functions.promotion import same_dtype
from stage0_eager.functions.sorting import searchsorted
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.errors import OutOfRange


def _check_offsets(input, offsets):
    """Raises RuntimeError for what is no place where a bag begins, where the numbers are seen."""
    long_index("embedding_bag", offsets)
    starts, size = offsets._data, input.shape[0]
    if type(starts) is np.ndarray and starts.size:
        if starts[0]:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first bag begins at place 0. Got {starts[0]}"
            )
        if starts[-1] > size:
            raise RuntimeError(f"offsets[-1] can not be greater than input's length {size}, got {starts[-1]}")


@operator
def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """The sum, mean or max of the vectors of each bag: a row of a 2-d input, or input[offsets[i]:offsets[i + 1]].

    An empty bag gives zeros; `padding_idx` counts as absent. Gradients are dense, whatever `sparse` says.
    """
    if max_norm is not None or scale_grad_by_freq:
        raise NotImplementedError("embedding_bag: max_norm and scale_grad_by_freq are not supported")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum or mean")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None, but mode is {mode!r}, not 'sum'"
        )
    same_dtype("embedding_bag", weight, per_sample_weights)
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch"
            )
        bags, size = input.shape
        flat = c.reshape(input, (bags * size,))
        owner = c.floor_divide(c.iota(bags * size, 0, 1, dt.int64, input.device), size or 1)
    elif input.ndim == 1 and offsets is not None:
        _check_offsets(input, offsets)
        flat, bags = input, offsets.shape[0] - bool(include_last_offset)
        starts = c.slice(offsets, 0, 0, bags, 1)
        owner = c.sub(
            searchsorted(starts, c.iota(flat.shape[0], 0, 1, starts.dtype, input.device), right=True), 1
        )
    else:
        raise ValueError("embedding_bag: input has to be 2D, or 1D with offsets")
    kept = (
        c.full(flat.shape, True, dt.bool_, input.device)
        if padding_idx is None
        else c.ne(flat, _padding_row(padding_idx, weight))
    )
    rows, width = embedding(flat, weight), weight.shape[1]
    if per_sample_weights is not None:
        rows = c.mul(rows, c.reshape(per_sample_weights, (flat.shape[0], 1)))
    column = c.reshape(kept, (flat.shape[0], 1))
    places = c.expand(c.reshape(owner, (flat.shape[0], 1)), (flat.shape[0], width))
    count = c.scatter_add(c.full((bags,), 0, dt.int64, input.device), 0, owner, c.cast(kept, dt.int64))
    count = c.reshape(count, (bags, 1))
    if mode == "max":
        lowest = c.full((bags, width), -math.inf, weight.dtype, input.device)
        top = c.scatter_reduce(lowest, 0, places, c.where(column, rows, -math.inf), "amax")
        return c.where(c.eq(count, 0), 0.0, top)
    zeros = c.full((bags, width), 0.0, weight.dtype, input.device)
    total = c.scatter_add(zeros, 0, places, c.where(column, rows, 0.0))
    return total if mode == "sum" else c.div(total, c.cast(c.maximum(count, 1), weight.dtype))


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
def embedding(input, weight, padding_idx=None):
    """Rows of weight (num_embeddings, dim) chosen by input: (*input.shape, dim). Row padding_idx gets no gradient."""
    if input.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{NAMES[input.dtype]} instead"
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    input = not_negative(
        long_index("embedding", input), weight.shape[0], OutOfRange, "index out of range in self"
    )
    width = weight.shape[1]
    flat = c.reshape(input, (input.numel(), 1))
    rows = c.gather(weight, 0, c.expand(flat, (input.numel(), width)))
    if padding_idx is not None:
        rows = c.where(c.eq(flat, _padding_row(padding_idx, weight)), c.detach(rows), rows)
    return c.reshape(rows, (*input.shape, width))


def _padding_row(padding_idx, weight):
    """padding_idx, which may count from the end, as a row of weight."""
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return wrap_dim(padding_idx, rows)
