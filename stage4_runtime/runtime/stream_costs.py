"""How long a step takes on a GPU and how much of it it fills: the written rule of which branches run side by side.

Input: a step of a Program for a GPU, before it has source. What is asked is only which of two steps is long, and
whether both fit on the device at once, so the numbers are round ones.
"""

# `python -m benchmarks.gpu.streams` measures each of them on the device and prints it beside what stands here.

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage4_runtime.runtime.layout import span
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import External, Kernel, Launch, Program, step_accesses
from stage_contracts.symbolic import hinted

MULTIPROCESSORS = 132  # of an H100 and an H200; the rule is written, so that a cached program has it, too
STREAMS = 4  # the caller's, and at most so many beside it: each has a workspace for its products
KERNEL = 1.0  # microseconds of a kernel in a graph that does nothing, up to the begin of the next
EVENT = 0.5  # microseconds by which a step begins later that waits for another stream
# what one multiprocessor does in a microsecond
BYTES = 60_000
FLOPS = {"float16": 4_000_000, "bfloat16": 4_000_000, "float32": 350_000, "float64": 250_000}
# Microseconds and the part of the program's time that must be gained. All events are paid for, hidden or not.
LEAST, LEAST_PART = 3.0, 0.03
# what one block makes: elements of a loop nest, and a tile of a product
POINTS, ROWS, COLUMNS, TEMPLATE = 1024, 128, 64, 4096
WHOLE_ROWS = ("", "sort")  # templates whose blocks have rows, as those of loops


@dataclass(frozen=True)
class Cost:
    """Microseconds, and the part of the device: 1.0 leaves no room for another."""

    time: float
    share: float


def cost_of(step: Any, program: Program) -> Cost | None:
    """None for a step that stays on the caller's stream: what is not prepared, or allocates memory as it runs."""
    if isinstance(step, Launch):
        kernel = program.kernels[step.kernel]
        return None if kernel.rows else _of(_blocks(kernel), _bytes(step, program))
    if isinstance(step, External) and step.target in WORK:
        blocks, flops = WORK[step.target](step, program)
        return _of(blocks, _bytes(step, program), flops / FLOPS.get(_dtype(step, program), 1_000))
    return None


def staying(step: Any, program: Program) -> Cost:
    """The cost of such a step, roughly. It has the device for itself."""
    return Cost(KERNEL + _bytes(step, program) / (BYTES * MULTIPROCESSORS), 1.0)


def _of(blocks: int, nbytes: int, units: float = 0.0) -> Cost:
    """`units`: the microseconds that one multiprocessor would compute."""
    at_once = max(1, min(blocks, MULTIPROCESSORS))
    return Cost(KERNEL + max(nbytes / BYTES, units) / at_once, at_once / MULTIPROCESSORS)


def _blocks(kernel: Kernel) -> int:
    """About as many as the emitter will take: a block has one long row, or as many short ones as POINTS hold."""
    nest = max(kernel.nests, key=lambda n: hinted(math.prod(n.ranges)))
    points, row = hinted(math.prod(nest.ranges)), 1
    for each in kernel.nests:
        row = max(row, hinted(math.prod(each.reduction_ranges)))
    block = TEMPLATE if kernel.template not in WHOLE_ROWS else max(1, POINTS // row)
    return -(-points // block)


def _bytes(step: Any, program: Program) -> int:
    names = {name for names in step_accesses(step, program.kernels) for name in names}
    return sum(int(hinted(span(program.buffers[name].meta))) for name in names)


def _dtype(step: External, program: Program) -> str:
    return program.buffers[step.outputs[0]].meta.dtype.name


def _shape(value: Any, program: Program) -> list[int]:
    assert isinstance(value, BufferRef)
    shape = program.buffers[value.name].meta.shape if value.shape is None else value.shape
    return [int(hinted(size)) for size in shape]


def _tiles(rows: int, columns: int, batch: int = 1) -> int:
    return batch * -(-rows // ROWS) * -(-columns // COLUMNS)


# ---- (blocks, floating-point operations) of what a prepared routine does --------------------------------------------


def _product(step: External, program: Program) -> tuple[int, int]:
    out = _shape(BufferRef(step.outputs[0]), program)
    inner = _shape(step.args[0], program)[-1]
    *batch, rows, columns = [1, 1, *out]
    return _tiles(rows, columns, math.prod(batch)), 2 * math.prod(out) * inner


def _convolution(step: External, program: Program) -> tuple[int, int]:
    out, weight = _shape(BufferRef(step.outputs[0]), program), _shape(step.args[1], program)
    images, channels, *places = out
    return _tiles(images * math.prod(places), channels), 2 * math.prod(out) * math.prod(weight[1:])


def _weight_gradient(step: External, program: Program) -> tuple[int, int]:
    out, other = _shape(BufferRef(step.outputs[0]), program), _shape(step.args[1], program)
    places = math.prod(other) // max(other[1], 1)
    return _tiles(out[0], math.prod(out[1:])), 2 * math.prod(out) * places


# The routines that run on any stream, each with a workspace for it. Others ask CuPy for memory, or for its stream.
WORK: dict[str, Callable[[External, Program], tuple[int, int]]] = {
    "matmul": _product,
    "matmul_add_row": _product,
    "convolution": _convolution,
    "convolution_weight_gradient": _weight_gradient,
}
