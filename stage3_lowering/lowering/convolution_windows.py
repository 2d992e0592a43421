"""The windows of a convolution: where each lies in the input, and what it sees there; outside the input are zeros.

Input: sizes and numbers from convolution.py, which lays windows out as columns; convolution_direct.py adds them up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage3_lowering.lowering.masked import compare, may_pad, under
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Lazy, loop_sizes, strided
from stage_contracts.graph import Node
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


@dataclass(frozen=True)
class Windows:
    """Where the windows lie in an input (N, C, *space): there are `sizes` of them, each of the kernel's size."""

    source: Lazy
    kernel: tuple[int, ...]
    sizes: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def depth(self) -> int:
        return self.source.meta.shape[1] // self.groups * math.prod(self.kernel)

    @property
    def count(self) -> int:
        return math.prod(self.sizes)

    @property
    def is_input(self) -> bool:
        """Whether the columns are the input itself."""
        plain = all(s == 1 and p == 0 for s, p in zip(self.stride, self.padding, strict=True))
        return plain and all(k == 1 for k in self.kernel) and self.sizes == self.source.meta.shape[2:]


def laid_out(state: State, node: Node, windows: Windows, together: bool, tiles: int = 1) -> Lazy:
    """A buffer of what each window sees: (N, C, *kernel, *sizes), or (C, *kernel, N, *sizes).

    Or (N, tiles, C, *kernel, *sizes of a tile), where `tiles` divide the first of the sizes.
    """
    n, channels = windows.source.meta.shape[:2]
    places, (first, *others) = (channels, *windows.kernel), windows.sizes
    long = first // tiles
    ranges = (*places, n, *windows.sizes) if together else (n, tiles, *places, long, *others)
    body = Body(state.fresh, loop_sizes(ranges))
    index = [symbol(f"i{k}") if size != 1 else sympy.Integer(0) for k, size in enumerate(ranges)]
    depth = len(places)
    if together:
        (channel, *place), image, window = index[:depth], index[depth], index[depth + 1 :]
    else:
        (image, tile), (channel, *place), (at, *rest) = index[:2], index[2 : 2 + depth], index[2 + depth :]
        window = [tile * long + at, *rest]
    element = seen(body, node, windows, (image, channel), place, window)
    meta = TensorMeta(ranges, windows.source.meta.dtype, device=windows.source.meta.device)
    return state.nest(node, meta, body, ranges, (), tuple(index), element)


def padded(state: State, node: Node, windows: Windows) -> Lazy:
    """The input with zeros around it, as far as the windows reach."""
    source, ones = windows.source, (1,) * len(windows.kernel)
    reach = zip(windows.sizes, windows.stride, windows.kernel, windows.dilation, strict=True)
    sizes = tuple((size - 1) * s + (k - 1) * d + 1 for size, s, k, d in reach)
    inside = not any(windows.padding) and all(map(operator.le, sizes, source.meta.shape[2:]))
    if inside and source.ref is not None and source.ref.strides is not None and source.ref.strides[-1] == 1:
        return source
    made = laid_out(
        state, node, replace(windows, kernel=ones, sizes=sizes, stride=ones, dilation=ones), False
    )
    assert made.ref is not None
    meta = TensorMeta((*source.meta.shape[:2], *sizes), source.meta.dtype, device=source.meta.device)
    return strided(made.ref.name, meta, contiguous_strides(meta.shape))


def seen(
    body: Body, node: Node, windows: Windows, of: tuple[Any, Any], places: Sequence[Any], out: Sequence[Any]
) -> Value:
    """What the window `out` of an image and channel sees at a place of the kernel."""
    x, inside, at = windows.source, [], []
    body.origins = node.origins
    for d, (place, window) in enumerate(zip(places, out, strict=True)):
        along = window * windows.stride[d] + place * windows.dilation[d] - windows.padding[d]
        size = x.meta.shape[2 + d]
        last = (windows.sizes[d] - 1) * windows.stride[d] + (windows.kernel[d] - 1) * windows.dilation[d]
        if may_pad(windows.padding[d]):
            inside.append(compare(body, "ge", along, sympy.Integer(0), size))
        if last - windows.padding[d] >= size:
            inside.append(compare(body, "lt", along, sympy.Integer(size), size))
        at.append(along)
    with under(body, inside) as mask:
        element = x.fetch(body, (*of, *at))
    body.origins = node.origins
    if mask is None:
        return element
    zero = body.emit("constant", (0.0,), x.meta.dtype)
    return body.emit("where", (mask, element, zero), x.meta.dtype, node.name)
