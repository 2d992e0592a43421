"""What a step of a program has to do: the bytes that it reads and writes in memory, and its arithmetic operations.

Input: a step, its program, and the numbers that open sizes had in that call. Every array counts once, at the elements
that the loops touch; what lives inside a kernel counts nothing. An exponential is one operation, as an addition is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cutaway.profiler.events import ProfilerEvent
from stage4_runtime.runtime.layout import span
from stage_contracts.blas import contraction
from stage_contracts.loop_ir import WRITES, BufferRef, LoopNest, buffer_refs
from stage_contracts.program import External, Kernel, Launch, Product, Program, RowBlocks, step_accesses
from stage_contracts.size_values import value_at

Sizes = Mapping[str, int]
# What is no arithmetic: memory, indices, and another name for the same number.
NO_ARITHMETIC = {"load", "store", "store_last", "constant", "index_expr", "indirect_index", "cast", "bitcast"}
# What an op does to an element, if it is not as its name says.
TOUCHES = {"atomic_add": ("load", "store"), "store_last": ("store",)}


@dataclass(frozen=True)
class Cost:
    """`flops` is None where nobody knows them: an eager kernel's."""

    nbytes: int
    flops: int | None

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return (self.flops or 0) / max(self.nbytes, 1)


def cost(program: Program, step: Any, sizes: Sizes | None = None) -> Cost | None:
    """The cost of one run of the step; None where a size is open and `sizes` does not have it."""
    sizes = sizes or {}
    try:
        if isinstance(step, Launch):
            return _launch(program.kernels[step.kernel], step.buffers, program, sizes)
        if isinstance(step, RowBlocks):
            return _row_blocks(step, program, sizes)
        if isinstance(step, External):
            return _external(step, program, sizes)
    except KeyError:
        return None
    return None


def count_operations(events: Iterable[ProfilerEvent]) -> None:
    """Each kernel and routine of which it is known says its floating-point operations, as torch's with_flops."""
    for event in events:
        if event.source is not None and event.category in ("kernel", "library"):
            program, step = event.source
            found = cost(program, step, event.sizes)
            if found is not None and found.flops is not None:
                event.args = {**event.args, "flops": found.flops}


def number(size: Any, sizes: Sizes) -> int:
    """A size as a number. Raises KeyError for one that is open and not in `sizes`."""
    if isinstance(size, int):
        return size
    return int(value_at(size, {s: sizes[str(s)] for s in size.free_symbols}))


def _points(ranges: Iterable[Any], sizes: Sizes) -> int:
    return math.prod(max(number(n, sizes), 0) for n in ranges)


def _buffer_bytes(name: str, program: Program, sizes: Sizes) -> int:
    meta = program.buffers[name].meta
    return _points(meta.shape, sizes) * meta.dtype.itemsize


def _launch(kernel: Kernel, buffers: tuple[str, ...], program: Program, sizes: Sizes) -> Cost:
    nbytes, flops, shared = 0, 0, set()
    for row, bound in enumerate(kernel.bindings(buffers)):
        here = {**sizes, **{name: number(numbers[row], sizes) for name, numbers in kernel.row_sizes.items()}}
        flops += sum(_flops(nest, here) for nest in kernel.nests)
        for (kind, param), touched in _touched(kernel, here).items():
            if (kind, bound[param]) not in shared:  # an array that every row reads is read once
                shared.add((kind, bound[param]))
                itemsize = program.buffers[bound[param]].meta.dtype.itemsize
                nbytes += min(touched * itemsize, span_bytes(bound[param], program, here))
    return Cost(nbytes, flops)


def span_bytes(name: str, program: Program, sizes: Sizes) -> int:
    """The memory that a buffer takes: an upper bound of what is read of it."""
    meta = program.buffers[name].meta
    if all(isinstance(n, int) for n in (*meta.shape, *meta.strides)):
        return int(span(meta))
    return _buffer_bytes(name, program, sizes)


def _touched(kernel: Kernel, sizes: Sizes) -> dict[tuple[str, str], int]:
    """("load" or "store", a parameter) -> how many elements the loops touch, each index counted once."""
    found: dict[tuple[str, str], dict[Any, int]] = {}
    for nest in kernel.nests:
        loops = dict(zip(map(str, nest.loop_variables), nest.ranges, strict=True))
        loops |= dict(zip(map(str, nest.reduction_variables), nest.reduction_ranges, strict=True))
        for instr in nest.body:
            if instr.op not in ("load", *WRITES) or instr.args[0] not in kernel.params:
                continue
            used = {str(s) for s in getattr(instr.args[1], "free_symbols", ())}
            known = used <= {*loops, *sizes}
            ranges = [n for name, n in loops.items() if name in used or not known]
            for kind in TOUCHES.get(instr.op, (instr.op,)):
                found.setdefault((kind, instr.args[0]), {})[instr.args[1]] = _points(ranges, sizes)
    return {what: sum(indices.values()) for what, indices in found.items()}


def _flops(nest: LoopNest, sizes: Sizes) -> int:
    outer, whole = _points(nest.ranges, sizes), _points((*nest.ranges, *nest.reduction_ranges), sizes)
    return sum(
        whole if not nest.split or place < nest.split else outer
        for place, instr in enumerate(nest.body)
        if instr.op not in NO_ARITHMETIC
    )


def _row_blocks(step: RowBlocks, program: Program, sizes: Sizes) -> Cost:
    """As if one block had all rows: what its steps pass on stays in the cache, and the rest counts once."""
    inside = {
        **sizes,
        step.first: 0,
        step.rows: number(step.count, sizes),
        **{name: 0 for name, _ in step.batch},
    }
    batches = _points((n for _, n in step.batch), sizes)
    flops = 0
    for inner in step.steps:
        if isinstance(inner, Product):
            assert inner.a.shape and inner.out.shape
            flops += 2 * _points((*inner.out.shape, inner.a.shape[1]), inside)
        else:
            kernel = program.kernels[inner.kernel]
            flops += sum(_flops(nest, inside) for nest in kernel.nests)
    names = {name for accesses in step_accesses(step, program.kernels) for name in accesses} - {*step.local}
    return Cost(sum(_buffer_bytes(name, program, sizes) for name in names), flops * batches)


def _external(step: External, program: Program, sizes: Sizes) -> Cost:
    moved = sum(_view_bytes(ref, program, sizes) for ref in buffer_refs((step.args, dict(step.kwargs))))
    moved += sum(_buffer_bytes(name, program, sizes) for name in step.outputs)
    found = contraction(step, program.buffers)
    return Cost(moved, 2 * _points((*found.batch, found.m, found.n, found.k), sizes) if found else None)


def _view_bytes(ref: BufferRef, program: Program, sizes: Sizes) -> int:
    meta = program.buffers[ref.name].meta
    shape = meta.shape if ref.shape is None else ref.shape
    strides = meta.strides if ref.strides is None else ref.strides
    real = (n for n, stride in zip(shape, strides, strict=True) if stride != 0)
    return _points(real, sizes) * meta.dtype.itemsize
