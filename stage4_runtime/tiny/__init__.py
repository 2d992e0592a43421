"""Tiny runtime: one file per seam, with the idea of the seam on one screen.

Input: a Program from lowering. It passes through plan_memory, (emit,) build and launch; dispatch then chooses among the
launched programs. Each file says at its top what it leaves to the full version in `runtime/`.
"""

from stage4_runtime.tiny.build import build
from stage4_runtime.tiny.dispatch import dispatch
from stage4_runtime.tiny.launch import launch
from stage4_runtime.tiny.plan_memory import plan_memory

__all__ = ["build", "dispatch", "launch", "plan_memory"]
