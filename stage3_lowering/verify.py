"""Finds the pass that broke a loop program: interprets its input and its output and compares every bit.

Input: two artifacts of this stage or the next (a lowered graph, its nests in groups, a program) that should compute the
same. It makes up inputs and constants from the buffers' metas. Where sizes are open, or a program needs real data, it
reports nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo

from stage0_eager.core_comparison import NOT_FOR_MADE_UP_DATA, example, first_difference, made_by, same_bits
from stage0_eager.core_interpreter import interpreter
from stage3_lowering.interpret import interpret_lowered, interpret_program
from stage_contracts.device import CPU
from stage_contracts.graph import Graph, GraphError
from stage_contracts.loop_ir import LoweredGraph
from stage_contracts.program import Program

ROUNDS = (
    "attention",
    "attention_backward",
    "columns_with_rows",
    "split_reductions",
    "matrices_in_blocks",
    "row_blocks",
    "late_division",
    "register_products",
    "schedule",
)  # passes, and the step they are of, that add up in another order, or have BLAS do so


def verify_pass(name: str, before: Any, after: Any) -> None:
    """Raise GraphError naming the pass when the two differ in a bit of any result (two NaNs count as equal)."""
    old, new = _runnable(before), _runnable(after)
    if old.sizes or not set(_constants(old)) <= set(_metas(old)):  # a subgraph among the constants
        return
    for special in (True, False):
        given = made_up(old, special)
        try:
            wanted = run(old, *given)
        except NOT_FOR_MADE_UP_DATA:
            continue
        for i, (a, b) in enumerate(zip(wanted, made_by(f"pass {name}", run, new, *given), strict=True)):
            if not (_close if name in ROUNDS else _same)(a, b):
                raise GraphError(
                    f"pass {name} changed result {i}: {first_difference(a, b)}; it has to keep every bit. "
                    "The pass is wrong: fix it, or leave it out with config.patch(disabled_passes=...)"
                )


def verify_lowering(name: str, graph: Graph, lowered: LoweredGraph) -> None:
    """The same for a core graph and its loop nests, which may round otherwise: they add up sums in another order."""
    if lowered.sizes or lowered.constants:  # the graph has them as they are, tensors and subgraphs
        return
    for special in (True, False):
        inputs, _ = made_up(lowered, special)
        try:
            with np.errstate(all="ignore"):
                wanted = interpreter(graph)(*[a.copy(order="K") for a in inputs])
        except NOT_FOR_MADE_UP_DATA:
            continue
        for i, (a, b) in enumerate(
            zip(wanted, made_by(f"pass {name}", run, lowered, inputs, {}), strict=True)
        ):
            if not _close(a, b):
                raise GraphError(f"pass {name} changed result {i} ({graph.outputs[i]}): {_apart(a, b)}")


def made_up(artifact: LoweredGraph | Program, special: bool) -> tuple[list[Any], dict[str, Any]]:
    """Inputs in order and constants by name, as the buffers' metas say."""
    metas = _metas(artifact)
    arrays = {
        name: example(metas[name].with_(device=CPU), seed, special)
        for seed, name in enumerate((*artifact.inputs, *_constants(artifact)))
    }
    return [arrays.pop(name) for name in artifact.inputs], arrays


def run(artifact: LoweredGraph | Program, inputs: list[Any], constants: dict[str, Any]) -> tuple[Any, ...]:
    """The results as arrays of their own."""
    if isinstance(artifact, Program):
        found = interpret_program(artifact, inputs, constants=constants)
    else:
        found = interpret_lowered(artifact, inputs, constants=constants)
    return tuple(np.array(r) if isinstance(r, np.ndarray) else r for r in found)


def _runnable(artifact: Any) -> LoweredGraph | Program:
    return artifact.in_order() if hasattr(artifact, "in_order") else artifact


def _metas(artifact: LoweredGraph | Program) -> dict[str, Any]:
    if isinstance(artifact, Program):
        return {name: buffer.meta for name, buffer in artifact.buffers.items()}
    return dict(artifact.buffers)


def _constants(artifact: LoweredGraph | Program) -> list[str]:
    if isinstance(artifact, Program):
        return [name for name, buffer in artifact.buffers.items() if buffer.role == "constant"]
    return list(artifact.constants)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return same_bits(a, b)
    return type(a) is type(b) and a == b


def _close(a: Any, b: Any) -> bool:
    """One shape and dtype; floats within what the order of a sum may change, of the largest number there is."""
    if not isinstance(a, np.ndarray) or a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    wide, found = a.astype(np.float64), b.astype(np.float64)
    largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=1.0))
    loss = 256 * float(finfo(a.dtype).eps)
    return bool(np.allclose(found, wide, rtol=loss, atol=loss * largest, equal_nan=True))


def _apart(a: Any, b: Any) -> str:
    if getattr(a, "shape", None) != getattr(b, "shape", None):
        return f"{getattr(a, 'shape', a)} became {getattr(b, 'shape', b)}"
    return f"by {np.nanmax(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)), initial=0.0):.3g}"
