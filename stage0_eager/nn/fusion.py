"""A batch norm in eval mode as part of the layer before it, by torch.nn.utils.fusion's names.

Input: a convolution or linear layer and the batch norm that follows it. Both are affine maps per channel when
the statistics are fixed, so one layer does both.
"""

from __future__ import annotations

import copy
from typing import Any

from stage0_eager.functions.creation import ones_like, zeros_like
from stage0_eager.nn.module import Parameter
from stage0_eager.tensor import Tensor

Pair = tuple[Parameter, Parameter]


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> Pair:  # fmt: skip
    """The weight and bias of one convolution that does both. `transpose`: the channels are dimension 1."""
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> Pair:  # fmt: skip
    """The weight and bias of one linear layer that does both."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of the convolution that does both. Raises AssertionError if one of them is in training mode."""
    return _layer(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of the linear layer that does both. Raises AssertionError if one of them is in training mode."""
    return _layer(linear, bn, fuse_linear_bn_weights)


def _layer(layer: Any, bn: Any, fuse: Any, *more: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, *more
    )
    return fused


def _fused(
    weight: Tensor, bias: Any, mean: Tensor, var: Tensor, eps: float, gain: Any, shift: Any, shape: Any
) -> Pair:
    bias = zeros_like(mean) if bias is None else bias
    gain = ones_like(mean) if gain is None else gain
    shift = zeros_like(mean) if shift is None else shift
    scale = gain * (var + eps).rsqrt()
    fused = (weight * scale.reshape(shape)).to(weight.dtype), (bias - mean) * scale + shift
    return Parameter(fused[0].detach(), weight.requires_grad), Parameter(
        fused[1].detach(), bias.requires_grad
    )


__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
