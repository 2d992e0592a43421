"""Lowering of convolutions: windows laid out as columns by a loop nest, then one product; 1x1 kernels need no columns.

Input: a node, and its arguments with a Lazy for each tensor. The adjoint of a convolution of stride 1 is one again, of
the turned kernel; of a larger stride, see convolution_phases.py. What has no rule here stays a call of the eager
kernel; EXTERNAL has the reasons. On a GPU: see convolution_calls.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy

from stage3_lowering.lowering.convolution_calls import by_library
from stage3_lowering.lowering.convolution_direct import MOST as MOST_PLACES
from stage3_lowering.lowering.convolution_direct import direct, direct_weight_gradient
from stage3_lowering.lowering.convolution_halves import rounded_once
from stage3_lowering.lowering.convolution_phases import MOST, interleaved, phases, seen_of
from stage3_lowering.lowering.convolution_products import divided, like, matrix, product
from stage3_lowering.lowering.convolution_tiles import (
    gradient_tiles,
    in_tiles,
    tiles_of,
    weight_gradient_in_tiles,
)
from stage3_lowering.lowering.convolution_windows import Windows, laid_out, padded
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, is_half, strided, view
from stage_contracts.device import CPU
from stage_contracts.events import record
from stage_contracts.graph import Node
from stage_contracts.loop_ir import BufferRef
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

# Windows per image below which the images of a batch share one product: BLAS is poor at narrow matrices.
NARROW = 256
LARGEST = 1 << 26  # bytes of columns; of more the eager kernel lays out some images at a time
FEWEST = 8  # rows of a group's product: for fewer BLAS costs more than a loop over all places

EXTERNAL = {
    "open_size": "a size is open: how many columns there are is decided at each call",
    "integers": "BLAS has no integers",
    "empty": "a size is zero: there is no window",
    "narrow_groups": f"a group has fewer than {FEWEST} channels, and windows of more than {MOST_PLACES} places",
    "large": f"the columns would take more than {LARGEST >> 20} MiB",
    "many_phases": f"the adjoint of a convolution with such strides takes more than {MOST} products",
}


def convolution(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    x, w, groups, turned = args["input"], args["weight"], args["groups"], args["transposed"]
    meta, stride, padding, dilation = state.meta(node), args["stride"], args["padding"], args["dilation"]
    if meta.device != CPU:
        return by_library(state, node, args)
    if is_half(meta.dtype):
        return rounded_once(convolution, state, node, args)
    narrow = _is_narrow(meta.shape[1], groups)
    reason = _why_external((x.meta, w.meta, meta), narrow)
    if reason is None and narrow and x.meta.shape[1] // groups * math.prod(w.meta.shape[2:]) > MOST_PLACES:
        reason = "narrow_groups"
    if reason is None and turned and math.prod(stride) > MOST:
        reason = "many_phases"
    if reason is not None:
        return _external(node, reason)
    if narrow and w.ref is None:  # each of its elements is read in a loop
        copied = state.copy(w, like(w.meta, w.meta.shape), node.origins)
        args["weight"] = w = strided(
            copied.name, like(w.meta, w.meta.shape), contiguous_strides(w.meta.shape)
        )
    if turned:
        return _transposed(state, node, args)
    windows = Windows(x, w.meta.shape[2:], meta.shape[2:], stride, padding, dilation, groups)
    if not narrow and _is_large(windows):
        return _external(node, "large")
    return _convolved(state, node, windows, w, meta.shape[1])


def _transposed(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """One plain convolution for each phase, of the kernel's places that it sees, turned."""
    x, w, groups, stride = args["input"], args["weight"], args["groups"], args["stride"]
    meta = state.meta(node)
    found = phases(meta.shape[2:], w.meta.shape[2:], stride, args["padding"], args["dilation"])
    ones = (1,) * len(stride)
    seen = [
        Windows(x, tuple(count for _, _, count in of.seen), of.sizes, ones, of.padding, of.dilation, groups)
        for of in found
    ]
    if not _is_narrow(meta.shape[1], groups) and any(_is_large(windows) for windows in seen):
        return _external(node, "large")
    made = [
        None if of.is_zero
        else _convolved(state, node, windows, _turned(seen_of(w, of), groups), meta.shape[1])
        for of, windows in zip(found, seen, strict=True)
    ]  # fmt: skip
    return interleaved(state, node, [*zip(found, made, strict=True)], stride)


def _convolved(state: State, node: Node, windows: Windows, w: Lazy, outs: int) -> Lazy:
    """The convolution of the windows with a kernel."""
    if _is_narrow(outs, windows.groups):
        return direct(state, node, windows, w, outs)
    n, groups, depth, count = windows.source.meta.shape[0], windows.groups, windows.depth, windows.count
    meta = like(windows.source.meta, (n, outs, *windows.sizes))
    together = n > 1 and count < NARROW
    if not together and (tiles := tiles_of(windows, outs)) > 1:
        return in_tiles(state, node, windows, w, outs, tiles)
    kernel = matrix(state, node, w, (groups, outs // groups, depth))
    columns = _columns(state, node, windows, together)
    if together:  # (groups, outs, N, count)
        made = product(state, node, kernel, columns, (groups, outs // groups, n * count), meta)
        steps = (count, n * count, *contiguous_strides(windows.sizes))
    else:
        made = product(state, node, kernel, columns, (n, groups, outs // groups, count), meta)
        steps = contiguous_strides(meta.shape)
    return strided(made, meta, steps)


def convolution_weight_gradient(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    x, g, groups, meta = args["input"], args["grad"], args["groups"], state.meta(node)
    if meta.device != CPU:
        return by_library(state, node, args)
    if is_half(meta.dtype):
        return rounded_once(convolution_weight_gradient, state, node, args)
    narrow = _is_narrow(meta.shape[0], groups)
    reason = _why_external((x.meta, g.meta, meta), narrow)
    if reason is not None:
        return _external(node, reason)
    how = (args["stride"], args["padding"], args["dilation"])
    windows = Windows(x, tuple(args["kernel_size"]), g.meta.shape[2:], *how, groups)
    if narrow:
        return direct_weight_gradient(state, node, windows, g, meta)
    if _is_large(windows):
        return _external(node, "large")
    if tiles := gradient_tiles(windows, meta):
        return weight_gradient_in_tiles(state, node, windows, g, tiles)
    n, outs, depth, count = x.meta.shape[0], g.meta.shape[1], windows.depth, windows.count
    by_channel = view(
        "permute", g, like(g.meta, (outs, n, *windows.sizes)), {"dims": (1, 0, *range(2, g.meta.ndim))}
    )
    seen = matrix(state, node, by_channel, (groups, outs // groups, n * count))
    columns = _columns(state, node, windows, True)
    assert columns.shape is not None and columns.strides is not None
    turned = [(*t[:-2], t[-1], t[-2]) for t in (columns.shape, columns.strides)]
    columns = replace(columns, shape=turned[0], strides=turned[1])
    made = product(state, node, seen, columns, (groups, outs // groups, depth), meta)
    return strided(made, meta, contiguous_strides(meta.shape))


def _why_external(metas: Sequence[TensorMeta], narrow: bool) -> str | None:
    fixed = int(narrow)  # how many images there are matters to the columns alone
    if not all(isinstance(size, int) for meta in metas for size in (*meta.shape[fixed:], *meta.strides)):
        return "open_size"
    if any(not meta.dtype.is_floating_point for meta in metas):
        return "integers"
    return "empty" if any(0 in meta.shape for meta in metas) else None


def _is_narrow(outs: Any, groups: int) -> bool:
    """Whether its places are added up one by one: a product for each group is too small for BLAS."""
    return groups > 1 and isinstance(outs, int) and outs // groups < FEWEST


def _external(node: Node, reason: str) -> Lazy | None:
    record("fallback", "convolution", node=node.name, reason=reason)
    return None


def _is_large(windows: Windows) -> bool:
    meta = windows.source.meta
    nbytes = meta.shape[0] * windows.groups * windows.depth * windows.count * meta.dtype.itemsize
    return not windows.is_input and nbytes > LARGEST


def _turned(w: Lazy, groups: int) -> Lazy:
    """The kernel (C, O / groups, *places) of a transposed convolution as that of the plain one that it is."""
    first, outer, places = w.meta.shape[0], w.meta.shape[1], w.meta.shape[2:]
    inner = first // groups

    def fetch(body: Body, index: Index) -> Any:
        group, out = (sympy.Integer(0), index[0]) if groups == 1 else divided(index[0], outer)
        back = (size - 1 - k for size, k in zip(places, index[2:], strict=True))
        return w.fetch(body, (group * inner + index[1], out, *back))

    shape = (groups * outer, inner, *places)
    meta = like(w.meta, shape)
    alone = groups == 1 and all(k == 1 for k in places)
    if alone and w.ref is not None and w.ref.strides and 1 in w.ref.strides[:2]:  # as BLAS takes it
        steps = (w.ref.strides[1], w.ref.strides[0], *w.ref.strides[2:])
        return strided(w.ref.name, meta, steps, w.ref.offset)
    return Lazy(meta, fetch)


def _columns(state: State, node: Node, windows: Windows, together: bool) -> BufferRef:
    """(N, groups, depth, count), or (groups, depth, N * count) where the images share one product."""
    x, groups, n = windows.source, windows.groups, windows.source.meta.shape[0]
    depth, count = windows.depth, windows.count
    shape = (groups, depth, n * count) if together else (n, groups, depth, count)
    if windows.is_input and (n == 1 or not together):
        return matrix(state, node, x, shape)
    if any(s > 1 for s in windows.stride):  # under masks such loads take several times as long
        windows = replace(windows, source=padded(state, node, windows), padding=(0,) * len(windows.sizes))
    stored = laid_out(state, node, windows, together)
    assert stored.ref is not None
    return BufferRef(stored.ref.name, shape, contiguous_strides(shape), 0)
