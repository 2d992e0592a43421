"""cat on a GPU in one launch: a bucket of gradients, or any tensors that lie one behind the other in the result.

Input: a `cat` step whose sizes are known. CuPy's own concatenate reaches a seventh of the memory's bandwidth for many
parts, because each element looks for its part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from stage0_eager.kernels.copies import copy_table, table_of
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import External, Program
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

MOST_TABLES = 16  # kept for the addresses seen last


def cat_call(step: External, program: Program, cp: Any) -> Callable[..., Any] | None:
    """`call(stream, *parts, out)`, all but the stream addresses; None where the operator's eager kernel has to."""
    parts = parts_of(step, program)
    if parts is None:
        return None
    tables: dict[tuple[int, ...], tuple[Any, int, int]] = {}

    def call(*key: int) -> None:  # a table is written in the order of its stream
        found = tables.get(key)
        if found is None:
            if len(tables) >= MOST_TABLES:
                tables.clear()
            found = tables[key] = _table(key[1:], parts, cp)
        copy_table(*found)

    return call


def parts_of(step: External, program: Program) -> list[tuple[int, int]] | None:
    """(where it begins in its buffer, its length) of each part, in bytes; None where it is no copy of whole pieces."""
    out = program.buffers[step.outputs[0]].meta
    refs, dim = step.args[0], step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    if not all(isinstance(ref, BufferRef) for ref in refs) or any(map(is_open, out.shape)) or not out.numel:
        return None
    if not out.is_contiguous or math.prod(out.shape[: dim % out.ndim]) != 1:
        return None
    found = []
    for ref in refs:
        if (piece := _piece(ref, program, out)) is None:
            return None
        found.append(piece)
    return found


def _piece(ref: BufferRef, program: Program, out: TensorMeta) -> tuple[int, int] | None:
    """The same of one part."""
    meta = program.buffers[ref.name].meta
    shape, strides = (meta.shape, meta.strides) if ref.shape is None else (ref.shape, ref.strides or ())
    if any(map(is_open, (*shape, *strides, ref.offset))) or meta.dtype is not out.dtype:
        return None
    if not all(n == 1 or a == b for n, a, b in zip(shape, strides, contiguous_strides(shape), strict=True)):
        return None
    return int(ref.offset) * out.dtype.itemsize, math.prod(shape) * out.dtype.itemsize


def _table(places: tuple[int, ...], parts: list[tuple[int, int]], cp: Any) -> tuple[Any, int, int]:
    """The arguments of copy_table: the table on the GPU, its blocks and its pairs."""
    *sources, to = places
    pairs = []
    for source, (start, nbytes) in zip(sources, parts, strict=True):
        if nbytes:
            pairs.append((to, source + start, nbytes))
        to += nbytes
    table, blocks = table_of(pairs)
    return cp.asarray(table), blocks, len(pairs)
