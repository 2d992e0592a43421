"""Convolutions whose groups are too narrow for a product, as depthwise ones are: each place of the kernel in turn.

Input: convolution.py's windows, and a kernel. The input is laid out once with its padding around it, so that the loop
over the results has no masks, and, of a stride, by the remainder of each place, so that what neighbouring windows see
at a place of the kernel lies side by side. What follows the convolution is computed in the same loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import sympy

from stage3_lowering.lowering.convolution_windows import Windows, laid_out
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, loop_sizes, strided
from stage_contracts.graph import Node
from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta

MOST = 64  # places of a window, each an addition that is written out
SUMS = 16  # places whose sums one loop adds up: as many as there are registers for


def direct(state: State, node: Node, windows: Windows, w: Lazy, outs: int) -> Lazy:
    """The convolution of the windows with a kernel (outs, C / groups, *places)."""
    given, inner = windows.source.meta, w.meta.shape[1]
    taps = [*product(range(inner), *map(range, windows.kernel))]
    source = _laid_out(state, node, windows)

    def fetch(body: Body, index: Index) -> Value:
        body.origins = node.origins
        image, out, *window = index
        first = _group(out, outs // windows.groups) * inner if windows.groups > 1 else sympy.Integer(0)
        total = None
        for channel, *places in taps:
            x = source.fetch(body, (image, first + channel, *_place(windows, places, window)))
            y = w.fetch(body, (out, *map(sympy.Integer, (channel, *places))))
            body.origins = node.origins
            added = body.emit("mul", (x, y), given.dtype, node.name)
            total = added if total is None else body.emit("add", (total, added), given.dtype, node.name)
        assert total is not None
        return total

    shape = (given.shape[0], outs, *windows.sizes)
    made = Lazy(TensorMeta(shape, given.dtype, device=given.device), fetch)
    return state.realize(node, made, "direct_convolution")


def direct_weight_gradient(state: State, node: Node, windows: Windows, g: Lazy, meta: TensorMeta) -> Lazy:
    """For each place of the kernel, the sum of the gradients times what it saw. Places side by side share a loop."""
    inner, reduced = meta.shape[1], (windows.source.meta.shape[0], *windows.sizes)
    source = _laid_out(state, node, windows)
    together = next(d for d in range(2, meta.ndim + 1) if math.prod(meta.shape[d:]) <= SUMS)
    body = Body(state.fresh, loop_sizes(meta.shape[:together], reduced))
    out, channel, *places = _variables("i", meta.shape[:together])
    image, *window = _variables("r", reduced)
    first = _group(out, meta.shape[0] // windows.groups) * inner if windows.groups > 1 else 0
    body.origins = node.origins
    y = g.fetch(body, (image, out, *window))
    sums = []
    for more in product(*map(range, meta.shape[together:])):
        at = (*places, *map(sympy.Integer, more))
        x = source.fetch(body, (image, first + channel, *_place(windows, at, window)))
        body.origins = node.origins
        added = body.emit("mul", (x, y), meta.dtype, node.name)
        sums.append(((out, channel, *at), body.emit("reduction", ("sum", added), meta.dtype, node.name)))
    return state.nest_of(node, meta, body, meta.shape[:together], reduced, sums)


def _variables(name: str, sizes: Sequence[int]) -> list[Any]:
    return [symbol(f"{name}{k}") if size != 1 else sympy.Integer(0) for k, size in enumerate(sizes)]


def _group(out: Any, outer: int) -> Any:
    return out if outer == 1 else FloorDiv(out, sympy.Integer(outer))


def _laid_out(state: State, node: Node, windows: Windows) -> Lazy:
    """The input with its padding: (N, C, *remainders, *multiples) of the places, by the stride along each dimension."""
    whole = all(p == 0 for p in windows.padding) and all(s == 1 for s in windows.stride)
    if whole and windows.source.ref is not None:
        ones = (1,) * len(windows.stride)
        shape, steps = windows.source.meta.shape, windows.source.ref.strides
        meta = windows.source.meta.with_(shape=(*shape[:2], *ones, *shape[2:]))
        return strided(
            windows.source.ref.name, meta, (*steps[:2], *ones, *steps[2:]), windows.source.ref.offset
        )
    reach = zip(windows.sizes, windows.kernel, windows.dilation, windows.stride, strict=True)
    spread = replace(
        windows,
        kernel=windows.stride,
        sizes=tuple(size + (k - 1) * d // s for size, k, d, s in reach),
        dilation=(1,) * len(windows.stride),
    )
    return laid_out(state, node, spread, False)


def _place(windows: Windows, places: Sequence[Any], window: Sequence[Any]) -> tuple[Any, ...]:
    """Where it is there what a window sees at a place of the kernel."""
    apart = [sympy.sympify(k) * d for k, d in zip(places, windows.dilation, strict=True)]
    by = [*map(sympy.Integer, windows.stride)]
    remainders = (Mod(a, s) for a, s in zip(apart, by, strict=True))
    multiples = (w + FloorDiv(a, s) for a, s, w in zip(apart, by, window, strict=True))
    return *remainders, *multiples
