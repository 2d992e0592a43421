"""The seams `lower`, `fuse`, `schedule` and `emit`: the program as loop nests, the rest as calls.

Input: a graph of core operators. Read lower.py (with values.py, state.py), then fuse.py (with spaces.py,
merge.py), schedule_kernels.py, then emit_cpp.py beside cpp_ops.py, and emit_triton.py beside triton_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable

from stage3_lowering.lowering.emit_cpp import emit_cpp
from stage3_lowering.lowering.emit_cpp_run import with_run
from stage3_lowering.lowering.emit_triton import emit_triton
from stage3_lowering.lowering.fuse import fuse, why_not_fused
from stage3_lowering.lowering.lower import lower
from stage3_lowering.lowering.schedule_kernels import schedule
from stage3_lowering.lowering.share_kernels import share_kernels
from stage_contracts.kernel_tables import rows_apart
from stage_contracts.program import Program, Target

EMITTERS: dict[str, Callable[[Program, Target], Program]] = {
    "cpp": lambda program, target: with_run(emit_cpp(share_kernels(program), target)),
    "triton": lambda program, target: emit_triton(rows_apart(program), target),
}


def emit(program: Program, target: Target) -> Program:
    """Write source for the kernels: one unit per graph (cpp), one module per kernel (triton)."""
    return EMITTERS[target.name](program, target)


__all__ = ["EMITTERS", "emit", "fuse", "lower", "schedule", "why_not_fused"]
