"""The products that convolutions are made of: operands as stacks of matrices, and a call of BLAS for each stack.

Input: Lazies, and the shapes of the stacks; convolution.py and convolution_tiles.py say which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy

from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Lazy, strided, view
from stage_contracts.graph import Node
from stage_contracts.index_expr import FloorDiv, Mod
from stage_contracts.loop_ir import BufferRef, ExternCall
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


def like(meta: TensorMeta, shape: tuple[int, ...]) -> TensorMeta:
    return TensorMeta(shape, meta.dtype, device=meta.device)


def matrix(state: State, node: Node, value: Lazy, shape: tuple[int, ...]) -> BufferRef:
    """The value's elements as a stack of matrices: a view of it, or of a copy."""
    made = view("reshape", value, like(value.meta, shape), {})
    if made.ref is None:
        copied = state.copy(value, like(value.meta, value.meta.shape), node.origins)
        made = strided(copied.name, made.meta, contiguous_strides(shape))
    assert made.ref is not None
    return made.ref


def product(
    state: State, node: Node, a: BufferRef, b: BufferRef, shape: tuple[int, ...], meta: TensorMeta
) -> str:
    """A call of BLAS: its result (a stack of matrices, without the dimensions of one) in a new buffer."""
    kept = [k for k, size in enumerate(shape) if size != 1 or k >= len(shape) - 2]
    name = state.new_buffer(like(meta, tuple(shape[k] for k in kept)))
    refs = []
    for ref in (a, b):
        assert ref.shape is not None and ref.strides is not None
        skip = len(shape) - len(ref.shape)
        own = [k - skip for k in kept if k >= skip]
        refs.append(state.shorten(BufferRef(
            ref.name, tuple(ref.shape[k] for k in own), tuple(ref.strides[k] for k in own), ref.offset
        )))  # fmt: skip
    state.nodes.append(ExternCall((name,), "matmul", tuple(refs), {}, node.origins))
    return name


def permuted(ref: BufferRef, order: tuple[int, ...]) -> BufferRef:
    assert ref.shape is not None and ref.strides is not None
    shape, strides = (tuple(of[k] for k in order) for of in (ref.shape, ref.strides))
    return replace(ref, shape=shape, strides=strides)


def divided(index: Any, by: int) -> tuple[Any, Any]:
    return FloorDiv(index, sympy.Integer(by)), Mod(index, sympy.Integer(by))
