"""Tiny runtime: one file per seam, each the seam's idea on one screen.

Input: a Program from lowering. It flows through plan_memory, (emit,) build and launch; dispatch then chooses
among what was launched. What each leaves to the full version in `runtime/` is said at its top.
"""

from stage4_runtime.tiny.build import build
from stage4_runtime.tiny.dispatch import dispatch
from stage4_runtime.tiny.launch import launch
from stage4_runtime.tiny.plan_memory import plan_memory

__all__ = ["build", "dispatch", "launch", "plan_memory"]
