"""torch.profiler and what published code imports around it: cutaway.profiler under torch's paths.

Input: the public names of cutaway.profiler.
"""

from __future__ import annotations

from typing import Any

from cutaway import profiler
from cutaway.profiler import nvtx


def _init_for_cuda_graphs() -> None:
    """torch starts its profiler once before a CUDA graph is captured. Here nothing has to be started."""


PROFILER_PATHS: dict[str, dict[str, Any]] = {
    "torch.profiler": {name: getattr(profiler, name) for name in profiler.__all__},
    "torch.profiler.profiler": {name: getattr(profiler, name) for name in profiler.__all__},
    "torch.profiler._utils": {"_init_for_cuda_graphs": _init_for_cuda_graphs},
    "torch.autograd.profiler": {
        "record_function": profiler.record_function,
        "emit_nvtx": profiler.emit_nvtx,
    },
    "torch.cuda.nvtx": {name: getattr(nvtx, name) for name in ("range_push", "range_pop", "range", "mark")},
}
