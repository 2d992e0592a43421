"""Initial values of parameters, by torch.nn.init's names; each writes in place, off the tape.

Input: a tensor to fill; draws come from the default generator.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stage0_eager.functions import creation
from stage0_eager.functions.gather_scatter import where
from stage0_eager.random.generator import Generator, randperm
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor
from stage_contracts.dtype import float64


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform on [a, b)."""
    if a > b:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    return tensor.copy_(_draw(creation.rand, tensor, generator) * (b - a) + a)


@no_grad()
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return tensor.copy_(_draw(creation.randn, tensor, generator) * std + mean)


def _draw(draw: Any, tensor: Tensor, generator: Generator | None) -> Tensor:
    return draw(tensor.shape, dtype=tensor.dtype, device=tensor.device, generator=generator)


@no_grad()
def constant_(tensor: Tensor, val: Any) -> Tensor:
    return tensor.fill_(val)


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


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot and Bengio 2010: uniform in +-gain * sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps a layer's output variance through the nonlinearity, as torch tabulates it."""
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _scale(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    if not tensor.numel():  # there is nothing to fill
        return 0.0
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode.lower() == "fan_out"])


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He et al. 2015: uniform in +-gain * sqrt(3 / fan)."""
    bound = math.sqrt(3) * _scale(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He et al. 2015: normal with deviation gain / sqrt(fan)."""
    return normal_(tensor, 0.0, _scale(tensor, a, mode, nonlinearity), generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot and Bengio 2010: normal with deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))), generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, with what falls outside [a, b] drawn again."""
    draw = _draw(creation.randn, tensor, generator) * std + mean
    for _ in range(100):
        outside = (draw < a) | (draw > b)
        if not outside.any().item():
            break
        draw = where(outside, _draw(creation.randn, tensor, generator) * std + mean, draw)
    return tensor.copy_(draw.clamp(a, b))


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Saxe et al. 2013: rows (or columns, the fewer) orthonormal, times gain; from the QR of a normal matrix."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    rows = tensor.shape[0]
    columns = math.prod(tensor.shape[1:])
    flat = creation.randn(max(rows, columns), min(rows, columns), dtype=float64, generator=generator).numpy()
    q, r = np.linalg.qr(flat)
    q = q * np.sign(np.diagonal(r))  # makes the factorisation unique, so that q is uniform
    q = q.T if rows < columns else q
    return tensor.copy_(Tensor(np.ascontiguousarray(q * gain).reshape(tensor.shape)))


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """The identity in a matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(creation.eye(*tensor.shape))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight (3-d to 5-d) that passes as many channels as it can, in each group."""
    if not 3 <= tensor.ndim <= 5:
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    out = np.zeros(tensor.shape)
    per_group = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            out[(group * per_group + channel, channel, *middle)] = 1
    return tensor.copy_(Tensor(out))


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Martens 2010: normal, with the fraction `sparsity` of each column set to 0."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    for column in range(columns):
        tensor[randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


def _older(name: str) -> Any:
    """torch's older spelling, without the underscore."""

    def function(*args: Any, **kwargs: Any) -> Tensor:
        return globals()[f"{name}_"](*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As {name}_."
    return function


_OLDER = (
    "uniform normal constant eye dirac sparse orthogonal "
    "xavier_uniform xavier_normal kaiming_uniform kaiming_normal"
)
globals().update({name: _older(name) for name in _OLDER.split()})
