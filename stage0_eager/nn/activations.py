"""Activation modules: each calls the function of its name with the options it was made with.

Input: tensors of any shape, unless the function says otherwise. Options and their names are torch's.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import creation
from stage0_eager.nn import functional as F
from stage0_eager.nn.module import Module, Parameter


class _Activation(Module):
    """Options are attributes; `shown` names those that are printed."""

    shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        options = [f"{name}={getattr(self, name)!r}" for name in self.shown]
        return ", ".join([*options, *(["inplace=True"] if self.__dict__.get("inplace") else [])])


class _InPlace(_Activation):
    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class ReLU(_InPlace):
    def forward(self, input):
        return F.relu(input, self.inplace)


class ReLU6(_InPlace):
    def forward(self, input):
        return F.relu6(input, self.inplace)


class SELU(_InPlace):
    def forward(self, input):
        return F.selu(input, self.inplace)


class SiLU(_InPlace):
    def forward(self, input):
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    def forward(self, input):
        return F.mish(input, self.inplace)


class Hardswish(_InPlace):
    def forward(self, input):
        return F.hardswish(input, self.inplace)


class Hardsigmoid(_InPlace):
    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)


class LeakyReLU(_Activation):
    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class _Exponential(_Activation):
    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace


class ELU(_Exponential):
    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Exponential):
    def forward(self, input):
        return F.celu(input, self.alpha, self.inplace)


class Hardtanh(_Activation):
    shown = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__()
        if min_val >= max_val:
            raise AssertionError(f"max_val must be greater than min_val, got {min_val} and {max_val}")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Threshold(_Activation):
    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)


class GELU(_Activation):
    shown = ("approximate",)

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, self.approximate)


class Softplus(_Activation):
    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)


class PReLU(_Activation):
    """leaky_relu with learned slopes: one, or one per channel."""

    shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(creation.full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input):
        return F.prelu(input, self.weight)


class _Shrink(_Activation):
    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return repr(self.lambd)


class Hardshrink(_Shrink):
    def forward(self, input):
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    def forward(self, input):
        return F.softshrink(input, self.lambd)


# ---- without options ---------------------------------------------------------------------------------------------


class Sigmoid(Module):
    def forward(self, input):
        return F.sigmoid(input)


class Tanh(Module):
    def forward(self, input):
        return F.tanh(input)


class LogSigmoid(Module):
    def forward(self, input):
        return F.logsigmoid(input)


class Softsign(Module):
    def forward(self, input):
        return F.softsign(input)


class Tanhshrink(Module):
    def forward(self, input):
        return F.tanhshrink(input)


# ---- along a dimension -------------------------------------------------------------------------------------------


class _Along(_Activation):
    shown = ("dim",)

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim


class Softmax(_Along):
    def forward(self, input):
        return F.softmax(input, self.dim)


class LogSoftmax(_Along):
    def forward(self, input):
        return F.log_softmax(input, self.dim)


class Softmin(_Along):
    def forward(self, input):
        return F.softmin(input, self.dim)


class GLU(_Along):
    """The first half along dim times the sigmoid of the second."""

    def __init__(self, dim: int = -1):
        super().__init__(dim)

    def forward(self, input):
        return F.glu(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class RReLU(Module):
    """x above 0; below it x times a slope, drawn from [lower, upper] while training."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{', inplace=True' if self.inplace else ''}"
