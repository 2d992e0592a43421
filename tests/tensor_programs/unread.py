"""What eager would show of a program that reads or writes outside, were nobody told: any value may have been there.

Input: an eager call. Under `Anything` an index that is out of bounds raises nothing; what it read is filled at random.
Where two such runs show the same, nobody used what was read, and compiled code may go on: it shows that too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from stage0_eager.functions import index_checks, indexing
from stage0_eager.table.evaluation import evaluate
from stage0_eager.tensor import Tensor
from stage_contracts.errors import OutOfRange


class Anything:
    """The interpreter that evaluates, and reads anything from outside."""

    origins: tuple = ()
    outer = None  # random numbers are drawn as without it

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def keeps(self, op: Any) -> bool:
        """Composites run as their steps."""
        return op.core is not None

    def concerns(self, op: Any, args: tuple) -> bool:
        return True

    def process(self, op: Any, args: tuple) -> Any:
        try:
            return evaluate(op, args)
        except OutOfRange:  # of gather, or of what is scattered, which is as large as what it is scattered to
            shape = args[2].shape if op.name == "gather" else args[0].shape
            return Tensor(self.rng.integers(-99, 99, shape).astype(args[0]._data.dtype))


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Without eager's own looks at the numbers: the kernels' checks are left, as in traced code."""
    with (
        mock.patch.object(indexing, "_check", lambda index, dim, size: None),
        mock.patch.object(index_checks, "_seen_in_range", lambda index, size, kind, says: False),
    ):
        yield
