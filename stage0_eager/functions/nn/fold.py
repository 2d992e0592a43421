"""torch.nn.functional's unfold and fold: the blocks a kernel slides over as columns, and columns added back up.

Input: unfold takes (N, C, H, W) or (C, H, W), fold its columns. Each is the other's gradient. Also called im2col and
col2im; a tensor's own method unfold (one dimension, a view) is in strided_windows.py.
"""

from __future__ import annotations

import math

from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage_contracts import dtype as dt
from stage_contracts.convolution_metas import convolved_size
from stage_contracts.symbolic import SymInt


def _pair(name, value):
    value = (value, value) if isinstance(value, (int, SymInt)) else tuple(value)
    if len(value) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
    return value


def _geometry(sizes, kernel_size, dilation, padding, stride):
    """(kernel, stride, padding, dilation, how many blocks down and across). Raises RuntimeError where none fits."""
    kernel, dilation = _pair("kernel_size", kernel_size), _pair("dilation", dilation)
    padding, stride = _pair("padding", padding), _pair("stride", stride)
    for name, least, values in (("kernel_size", 1, kernel), ("dilation", 1, dilation), ("stride", 1, stride)):
        if min(values) < least:
            raise RuntimeError(f"{name} should be greater than zero, but got {values}")
    if min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {padding}")
    blocks = tuple(convolved_size(*w) for w in zip(sizes, kernel, stride, padding, dilation, strict=True))
    if any(n < 1 for n in blocks):
        raise RuntimeError(
            f"Given input with spatial size {tuple(sizes)}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, calculated shape of the array of sliding blocks as {blocks}, "
            "but its components must be at least one."
        )
    return kernel, stride, padding, dilation, blocks


def _places(kernel, stride, dilation, blocks):
    """For each place of the kernel, (start, stop) down and across of what it sees in the padded image."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            starts = (i * dilation[0], j * dilation[1])
            yield tuple((at, at + (n - 1) * s + 1) for at, n, s in zip(starts, blocks, stride, strict=True))


@operator
def sliding_blocks(input, kernel_size, dilation=1, padding=0, stride=1):
    """(N, C, H, W) to (N, C * KH * KW, blocks): torch.nn.functional.unfold."""
    if input.ndim not in (3, 4):
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size, but got: {list(input.shape)}"
        )
    if not input.dtype.is_differentiable and input.dtype is not dt.bool_:
        raise NotImplementedError(f'"im2col" not implemented for {input.dtype.name!r}')
    x = input if input.ndim == 4 else c.reshape(input, (1, *input.shape))
    kernel, stride, padding, dilation, blocks = _geometry(x.shape[2:], kernel_size, dilation, padding, stride)
    if any(padding):
        x = c.constant_pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), 0)
    columns = []
    for (top, bottom), (left, right) in _places(kernel, stride, dilation, blocks):
        seen = c.slice(c.slice(x, 2, top, bottom, stride[0]), 3, left, right, stride[1])
        columns.append(c.reshape(seen, (*x.shape[:2], 1, math.prod(blocks))))
    out = c.reshape(c.cat(columns, 2), (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(blocks)))
    return out if input.ndim == 4 else c.reshape(out, out.shape[1:])


@operator
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """(N, C * KH * KW, blocks) to (N, C, *output_size): each column added up where its block was."""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size, but got: {list(input.shape)}"
        )
    x = input if input.ndim == 3 else c.reshape(input, (1, *input.shape))
    size = _pair("output_size", output_size)
    kernel, stride, padding, dilation, blocks = _geometry(size, kernel_size, dilation, padding, stride)
    if x.shape[1] % math.prod(kernel) != 0:
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={kernel}."
        )
    if x.shape[2] != math.prod(blocks):
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, stride={stride}, "
            f"expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {blocks[0]} * {blocks[1]} = {math.prod(blocks)}, but got input.size(2)={x.shape[2]}"
        )
    channels = x.shape[1] // math.prod(kernel)
    columns = c.reshape(x, (x.shape[0], channels, math.prod(kernel), *blocks))
    full = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
    out = c.full((x.shape[0], channels, *full), 0, x.dtype, x.device)
    for k, ((top, bottom), (left, right)) in enumerate(_places(kernel, stride, dilation, blocks)):
        rows = c.slice(out, 2, top, bottom, stride[0])
        part = c.reshape(c.slice(columns, 2, k, k + 1, 1), (x.shape[0], channels, *blocks))
        sum_ = c.add(c.slice(rows, 3, left, right, stride[1]), part)
        rows = c.slice_scatter(rows, sum_, 3, left, right, stride[1])
        out = c.slice_scatter(out, rows, 2, top, bottom, stride[0])
    for dim, (p, n) in enumerate(zip(padding, size, strict=True), start=2):
        out = c.slice(out, dim, p, p + n, 1) if p else out
    out = c.contiguous(out) if any(padding) else out
    return out if input.ndim == 3 else c.reshape(out, out.shape[1:])
