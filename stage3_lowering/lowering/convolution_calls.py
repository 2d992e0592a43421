"""Convolutions on a GPU: a call of the runtime's library, with operands and result in one layout.

Input: a node, and its arguments with a Lazy for each tensor. The library takes tensors row by row, or with the channels
innermost; what lies otherwise is copied first.

Halves have their channels innermost: tensor cores multiply along the channels, and cuDNN turns what lies otherwise
around, there and back, at each call. (torch calls this its layout optimization.) Temporaries that are computed of
such a result alone follow it, so that a network turns its input once, and its kernels (the small tensors) once a step.
What leaves the graph lies as its meta says. A kernel of size 1 is then a product of two matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Lazy, is_half, strided
from stage_contracts import config
from stage_contracts.device import CPU
from stage_contracts.graph import Node
from stage_contracts.layouts import is_dense, packed_strides
from stage_contracts.loop_ir import BufferRef, ExternCall
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


def by_library(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """The call; None where a size is open, or an operand is not on the device: any layout goes to the eager kernel."""
    operands, meta = [a for a in args.values() if isinstance(a, Lazy)], state.meta(node)
    sizes = (n for m in (meta, *(o.meta for o in operands)) for n in m.shape)
    if any(map(is_open, sizes)) or any(o.meta.device == CPU for o in operands):
        return None
    last = _in_halves(meta) or any(map(_only_channels_last, operands))
    refs = [_lying(state, node, value, last) for value in operands]
    if last and _by_points(args):
        return _product(state, node, refs, meta, args)
    name = state.new_buffer(_laid(meta, last))
    given = iter(refs)
    words = tuple(next(given) if isinstance(a, Lazy) else a for a in args.values())
    state.nodes.append(ExternCall((name,), node.target.name, words, {}, node.origins))
    return strided(name, state.buffers[name], state.buffers[name].strides)


def _in_halves(meta: TensorMeta) -> bool:
    """Whether it gets its channels innermost however its operands lie."""
    return meta.ndim == 4 and is_half(meta.dtype) and config.current().lowering.layout_optimization


def _by_points(args: dict[str, Any]) -> bool:
    """Whether each point is multiplied alone: a kernel of size 1 that visits every point."""
    kernel = args["kernel_size"] if "kernel_size" in args else args["weight"].meta.shape[2:]
    alone = all(n == 1 for n in (*kernel, *args["stride"], args["groups"]))
    return alone and not any((*args["padding"], *args.get("output_padding", ())))


def _product(
    state: State, node: Node, refs: Sequence[BufferRef], meta: TensorMeta, args: dict[str, Any]
) -> Lazy:
    """The same as one product of matrices with a row for each point: BLAS prepares a call in less time than cuDNN."""
    a, b = (_matrix(state, ref) for ref in refs)
    if "kernel_size" in args:  # a is the input and b the gradient
        a, b = _turned(b), a
    elif not args["transposed"]:
        b = _turned(b)
    assert a.shape is not None and b.shape is not None
    name = state.new_buffer(TensorMeta((a.shape[0], b.shape[1]), meta.dtype, device=meta.device))
    operands = (state.shorten(a), state.shorten(b))
    state.nodes.append(ExternCall((name,), "matmul", operands, {}, node.origins))
    laid = _laid(meta, True)
    return strided(name, laid, laid.strides)


def _matrix(state: State, ref: BufferRef) -> BufferRef:
    """A tensor with its channels innermost as a matrix: a row for each point, a column for each channel."""
    shape = state.buffers[ref.name].shape if ref.shape is None else ref.shape
    points = shape[0] * math.prod(shape[2:])
    return BufferRef(ref.name, (points, shape[1]), (shape[1], 1), ref.offset)


def _turned(matrix: BufferRef) -> BufferRef:
    assert matrix.shape is not None and matrix.strides is not None
    return BufferRef(matrix.name, matrix.shape[::-1], matrix.strides[::-1], matrix.offset)


def following(node: Node, meta: TensorMeta, operands: Iterable[Any]) -> TensorMeta:
    """The layout of a pointwise result: with its channels innermost where all that it reads of its size lies so, or a
    convolution asks for it. (The call would copy what lies otherwise.)"""
    if meta.device == CPU or meta.ndim != 4:
        return meta
    read = [o for o in operands if isinstance(o, Lazy) and _decides(o, meta)]
    last = read and all(map(_channels_innermost, read))
    return _laid(meta, True) if last or _is_for_a_convolution(node, meta) else meta


def _is_for_a_convolution(node: Node, meta: TensorMeta) -> bool:
    asks = any(getattr(user.target, "name", "").startswith("convolution") for user in node.users)
    return asks and _in_halves(meta) and not any(map(is_open, meta.shape))


def following_moved(meta: TensorMeta, source: Lazy) -> TensorMeta:
    """The layout of a part of a tensor, of one with a border, or with its points repeated: pools are made of these."""
    if meta.device == CPU or meta.ndim != 4 or source.meta.ndim != 4 or not _channels_innermost(source):
        return meta
    return _laid(meta, True)


def _decides(value: Lazy, meta: TensorMeta) -> bool:
    """Whether it has a layout that matters: it is of full size, its elements are in memory, and it lies in one way."""
    strides, in_memory = _strides(value), value.ref is not None or bool(value.reads)
    if value.meta.shape != meta.shape or not in_memory:
        return False
    if not is_dense(meta.shape, strides):
        return _channels_innermost(
            value
        )  # a part: it has a layout to follow, but none that keeps others from theirs
    return not all(_is(meta.shape, strides, _laid(meta, way).strides) for way in (False, True))


def _strides(value: Lazy) -> Any:
    return value.ref.strides if value.ref is not None else value.meta.strides


def _only_channels_last(value: Lazy) -> bool:
    """Whether it lies that way and not row by row. (With one channel, or images of one pixel, it lies both ways.)"""
    shape, strides = value.meta.shape, _strides(value)
    by_rows, last = (_is(shape, strides, _laid(value.meta, way).strides) for way in (False, True))
    return last and not by_rows


def _channels_innermost(value: Lazy) -> bool:
    """The same also of a part of such a tensor, between whose elements others lie."""
    shape, strides = value.meta.shape, _strides(value)
    if value.meta.ndim != 4 or is_dense(shape, strides):
        return _only_channels_last(value)
    points = [s for n, s in zip(shape[2:], strides[2:], strict=True) if n != 1]
    return shape[1] != 1 and bool(points) and all(s > strides[1] > 0 for s in points)


def _is(shape: tuple, strides: Any, wanted: tuple) -> bool:
    """Whether strides are as wanted; no index uses that of a dimension of size 1."""
    return all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))


def _laid(meta: TensorMeta, last: bool) -> TensorMeta:
    """The same tensor, dense: with its channels innermost, or row by row."""
    strides = contiguous_strides(meta.shape)
    if last:
        order = (0, *range(2, meta.ndim), 1)
        rank = {d: meta.ndim - place for place, d in enumerate(order)}
        strides = packed_strides(meta.shape, [rank[d] for d in range(meta.ndim)])
    return meta.with_(strides=strides, shape=meta.shape)


def _lying(state: State, node: Node, value: Lazy, last: bool) -> BufferRef:
    """The operand in the call's layout: where it is, or a copy, which other calls read too."""
    wanted = _laid(value.meta, last)
    ref = value.ref
    if ref is not None and _is(value.meta.shape, ref.strides, wanted.strides):
        return state.shorten(ref)
    key = (ref, wanted.strides) if ref is not None else (id(value), wanted.strides)
    if key not in state.copies:
        state.copies[key] = state.copy(value, wanted, node.origins), value
    return state.copies[key][0]
