"""Convolutions whose groups are too narrow for a product, as depthwise ones are: each place of the kernel in turn.

Input: convolution.py's windows, and a kernel. The input is copied once with its padding around it, so that the loop
over the results has no masks. What follows the convolution is computed in the same loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any

import sympy

from stage3_lowering.lowering.convolution_windows import Windows, padded
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, loop_sizes, view
from stage_contracts.graph import Node
from stage_contracts.index_expr import FloorDiv, symbol
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta

MOST = 64  # places of a window, each an addition that is written out
# From so many places on, rows of results are whole vectors of so many bytes, some elements of no use: what is left of a
# row would be computed one by one, and take as long as all the rest.
MANY, VECTOR = 9, 32
SUMS = 16  # places whose sums one loop adds up: as many as there are registers for


def direct(state: State, node: Node, windows: Windows, w: Lazy, outs: int) -> Lazy:
    """The convolution of the windows with a kernel (outs, C / groups, *places)."""
    given, inner = windows.source.meta, w.meta.shape[1]
    rows = [*product(range(inner), *map(range, windows.kernel[:-1]))]
    size = windows.sizes[-1]
    if inner * math.prod(windows.kernel) >= MANY:
        windows = replace(windows, sizes=(*windows.sizes[:-1], _whole_vectors(size, given.dtype.itemsize)))
    source = padded(state, node, windows)

    def fetch(body: Body, index: Index) -> Value:
        """The places of a row one after the other, then the rows: sums that do not wait for one another."""
        image, out, *window = index
        first = _group(out, outs // windows.groups) * inner if windows.groups > 1 else sympy.Integer(0)

        def term(channel: int, *places: int) -> Value:
            x = source.fetch(body, (image, first + channel, *_place(windows, places, window)))
            y = w.fetch(body, (out, *map(sympy.Integer, (channel, *places))))
            body.origins = node.origins
            return body.emit("mul", (x, y), given.dtype, node.name)

        def add(a: Value, b: Value) -> Value:
            return body.emit("add", (a, b), given.dtype, node.name)

        return reduce(add, [reduce(add, (term(*row, k) for k in range(windows.kernel[-1]))) for row in rows])

    shape = (given.shape[0], outs, *windows.sizes)
    made = Lazy(TensorMeta(shape, given.dtype, device=given.device), fetch)
    made = state.realize(node, made, "direct_convolution")
    return (
        made
        if size == shape[-1]
        else view(
            "slice", made, made.meta.with_(shape=(*shape[:-1], size)), {"dim": -1, "start": 0, "step": 1}
        )
    )


def _whole_vectors(size: int, itemsize: int) -> int:
    lanes = VECTOR // itemsize
    return (size + lanes - 1) // lanes * lanes


def direct_weight_gradient(state: State, node: Node, windows: Windows, g: Lazy, meta: TensorMeta) -> Lazy:
    """For each place of the kernel, the sum of the gradients times what it saw. Places side by side share a loop."""
    inner, reduced = meta.shape[1], (windows.source.meta.shape[0], *windows.sizes)
    source = padded(state, node, windows)
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


def _place(windows: Windows, places: Sequence[Any], window: Sequence[Any]) -> Index:
    """Where it is there what a window sees at a place of the kernel."""
    each = zip(window, windows.stride, places, windows.dilation, strict=True)
    return tuple(w * s + sympy.sympify(k) * d for w, s, k, d in each)
