"""Which gradients travel together: buckets of parameters, in the order in which their gradients are expected.

Input: the parameters in order of registration; a backward pass makes the gradients in about the reverse order. One call
for many gradients costs one latency. A small first bucket starts the communication early (Li et al., "PyTorch
Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020). A small last one ends it early: nothing
is left to hide its time behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SMALL_BYTES = 1 << 20
BYTES = 25 << 20


def in_buckets(parameters: Sequence[Any], limit: int = BYTES, small: int = SMALL_BYTES) -> list[list[Any]]:
    """The parameters, last first, in lists of one dtype of at most `limit` bytes, the first and the last of `small`.

    A parameter that is larger than its limit has a bucket of its own, or, as the very last, stays in the last bucket.
    """
    buckets: list[list[Any]] = []
    filled = 0
    for parameter in reversed(parameters):
        size = nbytes(parameter)
        most = small if len(buckets) == 1 else limit
        if not buckets or filled + size > most or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += size
    return buckets[:-1] + ends_small(buckets[-1], small) if buckets else []


def ends_small(bucket: list[Any], small: int) -> list[list[Any]]:
    """The bucket, or its beginning and as many of its last parameters as fit in `small` bytes."""
    at, filled = len(bucket), 0
    while at and filled + nbytes(bucket[at - 1]) <= small:
        at -= 1
        filled += nbytes(bucket[at])
    return [part for part in (bucket[:at], bucket[at:]) if part]


def nbytes(parameter: Any) -> int:
    return parameter.numel() * parameter.element_size()
