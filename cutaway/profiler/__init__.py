"""The profiler, under the names of torch.profiler: what ran, when, and for how long, as a table and as a trace.

Input: the calls made inside `with profile() as prof:`. While none records, nothing here is in the way of a call:
regions.py and kernels.py put their timers in when recording begins, and take them out when it ends.
"""

from cutaway.profiler.nvtx import emit_nvtx
from cutaway.profiler.profile import (
    ProfilerActivity,
    profile,
    supported_activities,
    tensorboard_trace_handler,
)
from cutaway.profiler.ranges import record_function
from cutaway.profiler.schedule import ProfilerAction, schedule

__all__ = [
    "ProfilerAction", "ProfilerActivity", "emit_nvtx", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip
