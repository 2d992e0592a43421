"""Initial values of parameters, by torch.nn.init's names; each writes in place, off the tape.

Input: a tensor to fill; draws come from the default generator.
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.functions import creation
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform on [a, b)."""
    return tensor.copy_(creation.rand_like(tensor) * (b - a) + a)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return tensor.copy_(creation.randn_like(tensor) * std + mean)


@no_grad()
def constant_(tensor: Tensor, value: Any) -> Tensor:
    return tensor.fill_(value)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1)


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight of shape (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def kaiming_uniform_(tensor: Tensor, a: float = 0.0) -> Tensor:
    """He et al. 2015: uniform in +-sqrt(6 / ((1 + a**2) * fan_in))."""
    bound = math.sqrt(6 / ((1 + a * a) * fans(tensor)[0]))
    return uniform_(tensor, -bound, bound)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Glorot and Bengio 2010: uniform in +-gain * sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)
