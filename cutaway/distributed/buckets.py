"""Which gradients travel together: buckets of parameters, in the order in which their gradients are expected.

Input: the parameters in order of registration; a backward pass makes the gradients in about the reverse order. One call
for many gradients costs one latency; a small first bucket starts the communication early. (Li et al., "PyTorch
Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FIRST_BYTES = 1 << 20
BYTES = 25 << 20


def in_buckets(
    parameters: Sequence[Any], limit: int = BYTES, first_limit: int = FIRST_BYTES
) -> list[list[Any]]:
    """The parameters, last first, in lists of one dtype of at most `limit` bytes each, `first_limit` for the first.

    A parameter that is larger than the limit has a bucket of its own.
    """
    buckets: list[list[Any]] = []
    filled = 0
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        most = first_limit if len(buckets) == 1 else limit
        if not buckets or filled + size > most or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += size
    return buckets
