"""The runtime: the seams plan_memory, build, launch and dispatch, each in the file of its name.

Input: Programs from lowering. CuPy and Triton are imported only when a program for a GPU needs them.
"""

from stage4_runtime.runtime.autotune import measure_with
from stage4_runtime.runtime.build import build
from stage4_runtime.runtime.cuda import gpu_architecture
from stage4_runtime.runtime.dispatch import dispatch, explain_miss, explain_misses
from stage4_runtime.runtime.kernel_times import device_name, device_times
from stage4_runtime.runtime.launch import launch
from stage4_runtime.runtime.numpy_fallback import launch_on_numpy
from stage4_runtime.runtime.plan_memory import lifetimes, plan_memory
from stage_contracts.report import report_once

measure_with(device_times, device_name)

__all__ = [
    "build", "dispatch", "explain_miss", "explain_misses", "gpu_architecture", "launch", "launch_on_numpy", "lifetimes",
    "plan_memory", "report_once",
]  # fmt: skip
