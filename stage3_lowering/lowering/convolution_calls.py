"""Convolutions on a GPU: a call of the runtime's library, with operands and result in one layout.

Input: a node, and its arguments with a Lazy for each tensor. The library takes tensors row by row, or with the channels
innermost; what lies otherwise is copied first.
"""

from __future__ import annotations

from typing import Any

from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Lazy, strided
from stage_contracts.device import CPU
from stage_contracts.graph import Node
from stage_contracts.layouts import packed_strides
from stage_contracts.loop_ir import BufferRef, ExternCall
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


def by_library(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """The call; None where a size is open, or an operand is not on the device: any layout goes to the eager kernel."""
    operands, meta = [a for a in args.values() if isinstance(a, Lazy)], state.meta(node)
    sizes = (n for m in (meta, *(o.meta for o in operands)) for n in m.shape)
    if any(map(is_open, sizes)) or any(o.meta.device == CPU for o in operands):
        return None
    last = any(_only_channels_last(value) for value in operands)
    refs = iter([_lying(state, node, value, last) for value in operands])
    name = state.new_buffer(_laid(meta, last))
    words = tuple(next(refs) if isinstance(a, Lazy) else a for a in args.values())
    state.nodes.append(ExternCall((name,), node.target.name, words, {}, node.origins))
    return strided(name, meta, state.buffers[name].strides)


def _only_channels_last(value: Lazy) -> bool:
    """Whether it lies that way and not row by row. (With one channel, or images of one pixel, it lies both ways.)"""
    strides = value.ref.strides if value.ref is not None else value.meta.strides
    by_rows, last = (_is(value.meta.shape, strides, _laid(value.meta, way).strides) for way in (False, True))
    return last and not by_rows


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
