"""Derivatives of convolution and of its weight gradient. Each uses only these two, so derivatives of any order exist.

Input: as in rules.py. conv(x, w) is linear in both: the gradient of x is the transposed convolution of g with w, that
of w is convolution_weight_gradient(x, g), and the adjoint of either is again one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage0_eager.table.core import core as c
from stage_contracts.convolution_metas import transposed_size
from stage_contracts.tensor_meta import TensorMeta


def _back_to(
    g: Any, weight: Any, meta: TensorMeta, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Any:
    """The adjoint of a convolution whose input was `meta`: transposed, to exactly that size."""
    windows = zip(g.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    extra = tuple(size - transposed_size(*w, 0) for size, w in zip(meta.shape[2:], windows, strict=True))
    return c.convolution(g, weight, stride, padding, dilation, True, extra, groups)


def _forth_to(
    x: Any, weight: Any, sizes: Sequence[Any], stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Any:
    """A convolution, cut to `sizes`: an output padding that exceeds the stride leaves windows that no one reads."""
    out = c.convolution(x, weight, stride, padding, dilation, False, (0,) * len(stride), groups)
    for dim, size in enumerate(sizes, start=2):
        if out.shape[dim] != size:
            out = c.slice(out, dim, 0, size, 1)
    return out


def _input_gradient(g, weight, input_meta, stride, padding, dilation, transposed, groups):
    if transposed:
        return _forth_to(g, weight, input_meta.shape[2:], stride, padding, dilation, groups)
    return _back_to(g, weight, input_meta, stride, padding, dilation, groups)


def _weight_gradient(g, input, weight_meta, stride, padding, dilation, transposed, groups):
    large, small = (g, input) if transposed else (input, g)
    kernel = weight_meta.shape[2:]
    return c.convolution_weight_gradient(large, small, kernel, stride, padding, dilation, groups)


c.convolution.derivative(input=_input_gradient, weight=_weight_gradient)
c.convolution_weight_gradient.derivative(
    input=lambda g, grad, input_meta, stride, padding, dilation, groups: _back_to(
        grad, g, input_meta, stride, padding, dilation, groups
    ),
    grad=lambda g, input, grad_meta, stride, padding, dilation, groups: _forth_to(
        input, g, grad_meta.shape[2:], stride, padding, dilation, groups
    ),
)
