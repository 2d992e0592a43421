"""SparseAdam, which needs what is not here: gradients that hold some rows of a tensor.

Input: what a program passes to torch's class of that name.
"""

from __future__ import annotations

from typing import Any, NoReturn

from stage0_eager.optim.optimizer import Optimizer


class SparseAdam(Optimizer):
    """Raises NotImplementedError when it is made: an embedding's gradient is dense here, as are all tensors."""

    def __init__(self, params: Any, lr: Any = 1e-3, **options: Any) -> NoReturn:
        raise NotImplementedError(
            "SparseAdam updates only the rows that a sparse gradient holds, and gradients here are dense "
            "(nn.Embedding(sparse=True) too); use Adam, which also moves the rows without a gradient, or SGD without "
            "momentum, which does not"
        )
