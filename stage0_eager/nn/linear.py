"""Linear layers: Linear, Bilinear, Identity, with torch's constructor arguments and initial values.

Input: tensors whose last dimension is the features.
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager.functions import creation
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.module import Module, Parameter


class Linear(Module):
    """x @ weight.T + bias, weight of shape (out_features, in_features), uniform in +-1/sqrt(in_features)."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(creation.empty(out_features, in_features, device=device, dtype=dtype))
        self.bias = Parameter(creation.empty(out_features, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """Its input; whatever arguments it is made with are ignored, as in torch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input):
        return input


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k]; weight is (out_features, in1_features, in2_features)."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        where = {"device": device, "dtype": dtype}
        self.weight = Parameter(creation.empty(out_features, in1_features, in2_features, **where))
        self.bias = Parameter(creation.empty(out_features, **where)) if bias else None
        bound = 1 / math.sqrt(in1_features)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
