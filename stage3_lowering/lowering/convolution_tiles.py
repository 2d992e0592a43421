"""Convolutions by tiles of windows: the columns of a tile stay in a core's cache until its product is done.

Input: Windows, of which all columns together would go through memory. Each tile's columns are made right before its
product by the pass matrices_in_blocks.py. A tile is some rows of windows of one image.
"""

from __future__ import annotations

import math
from dataclasses import replace

import sympy

from stage3_lowering.lowering.convolution_products import divided, like, matrix, permuted, product
from stage3_lowering.lowering.convolution_windows import Windows, laid_out, padded
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, loop_sizes, strided, view
from stage_contracts.graph import Node
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef, Value
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

# Bytes of a tile's columns at most, and how many at least. BLAS lays out the kernel for each: its bytes.
TILE, NARROWEST, WEIGHTS = 3 << 18, 192, 1 << 18
DEEP = 2  # places of a window for each result: with fewer, results take as long to move as columns
WASTED = 16  # at most this part of the windows may be of no use, where the last tile is too long
FEWEST_TILES = 4  # of all images, for the gradient of a kernel


def tiles_of(windows: Windows, outs: int) -> int:
    """Into how many parts the first dimension is cut: 1 where nothing is gained."""
    size, itemsize = windows.sizes[0], windows.source.meta.dtype.itemsize
    each = windows.count // size  # windows for each place along the first dimension
    most = TILE // (windows.depth * each * itemsize)
    heavy = outs // windows.groups * windows.depth * itemsize > WEIGHTS
    shallow = windows.depth < DEEP * outs // windows.groups
    if heavy or shallow or windows.is_input or most >= size or most == 0:
        return 1
    cuts = ((t, math.ceil(size / t)) for t in range(math.ceil(size / most), size + 1))
    fits = (t for t, long in cuts if long * each >= NARROWEST and t * long - size <= size // WASTED)
    return next(fits, 1)


def in_tiles(state: State, node: Node, windows: Windows, w: Lazy, outs: int, tiles: int) -> Lazy:
    """The convolution, the first dimension of its windows in tiles: a product for each, its columns in the cache."""
    n, groups, depth, sizes = windows.source.meta.shape[0], windows.groups, windows.depth, windows.sizes
    long, rest = math.ceil(sizes[0] / tiles), sizes[1:]
    windows = replace(windows, sizes=(tiles * long, *rest))  # the last may be too long
    count = long * math.prod(rest)
    kernel = matrix(state, node, w, (groups, outs // groups, depth))
    inside = replace(windows, source=padded(state, node, windows), padding=(0,) * len(sizes))
    laid = laid_out(state, node, inside, False, tiles)
    assert laid.ref is not None
    shape = (n, tiles, groups, depth, count)
    columns = BufferRef(laid.ref.name, shape, contiguous_strides(shape), 0)
    tiled = like(windows.source.meta, (n, tiles, outs, long, *rest))
    name = product(state, node, kernel, columns, (n, tiles, groups, outs // groups, count), tiled)
    made = strided(name, tiled, contiguous_strides(tiled.shape))

    def fetch(body: Body, index: Index) -> Value:
        image, out, first, *others = index
        return made.fetch(body, (image, divided(first, long)[0], out, divided(first, long)[1], *others))

    whole = Lazy(like(windows.source.meta, (n, outs, *sizes)), fetch)
    return state.realize(node, whole, "convolution_tiles")


def gradient_tiles(windows: Windows, meta: TensorMeta) -> int:
    """Into how many parts an image is cut for the gradient of the kernel; 0 where nothing is gained."""
    size, depth, images = windows.sizes[0], windows.depth, windows.source.meta.shape[0]
    fits = (
        tiles
        for tiles in range(1, size + 1)
        if size % tiles == 0 and windows.count // tiles * depth * meta.dtype.itemsize <= TILE
    )
    tiles = next(fits, 0)
    if windows.is_input or not tiles or windows.count // tiles < NARROWEST or images * tiles < FEWEST_TILES:
        return 0
    results, columns = tiles * meta.numel, windows.groups * depth * windows.count  # of an image
    return tiles if 2 * results <= columns else 0


def weight_gradient_in_tiles(state: State, node: Node, windows: Windows, g: Lazy, tiles: int) -> Lazy:
    """A product for each tile of windows, whose columns the cache holds; then their sum.

    (depth, count) times (count, outs): BLAS takes half as long again where its long side is not the first.
    """
    meta, n, groups, depth = state.meta(node), g.meta.shape[0], windows.groups, windows.depth
    outs, count = meta.shape[0] // groups, windows.count // tiles
    seen = matrix(state, node, g, (n, groups, outs, tiles, count))
    seen = permuted(seen, (0, 3, 1, 4, 2))
    inside = replace(windows, source=padded(state, node, windows), padding=(0,) * len(windows.sizes))
    laid = laid_out(state, node, inside, False, tiles)
    assert laid.ref is not None
    shape = (n, tiles, groups, depth, count)
    columns = BufferRef(laid.ref.name, shape, contiguous_strides(shape), 0)
    parts = like(meta, (n, tiles, groups, depth, outs))
    name = product(state, node, columns, seen, parts.shape, parts)
    every = strided(name, parts, contiguous_strides(parts.shape))
    ranges, reduced = (groups, depth, outs), (n, tiles)
    body = Body(state.fresh, loop_sizes(ranges, reduced))
    at = [symbol(f"i{k}") if size != 1 else sympy.Integer(0) for k, size in enumerate(ranges)]
    part = [symbol(f"r{k}") if size != 1 else sympy.Integer(0) for k, size in enumerate(reduced)]
    total = body.emit("reduction", ("sum", every.fetch(body, (*part, *at))), meta.dtype, node.name)
    summed = state.nest(node, like(meta, ranges), body, ranges, reduced, tuple(at), total)
    turned = view("permute", summed, like(meta, (groups, outs, depth)), {"dims": (0, 2, 1)})
    return view("reshape", turned, meta, {})
