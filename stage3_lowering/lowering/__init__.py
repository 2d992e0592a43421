"""The seams `lower`, `fuse`, `schedule` and `emit`: the program as loop nests, the rest as calls.

Input: a graph of core operators. Read lower.py (with values.py, state.py), then fuse.py (with spaces.py,
merge.py), schedule_kernels.py, then emit_cpp.py beside cpp_ops.py, and emit_triton.py beside triton_ops.py.
"""

from __future__ import annotations

from stage3_lowering.lowering.emit import EMITTERS, emit
from stage3_lowering.lowering.fuse import fuse, why_not_fused
from stage3_lowering.lowering.lower import lower
from stage3_lowering.lowering.schedule_kernels import schedule

__all__ = ["EMITTERS", "emit", "fuse", "lower", "schedule", "why_not_fused"]
