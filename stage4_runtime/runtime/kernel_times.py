"""The configurations of a Triton kernel, measured on its device: what autotune.py chooses by.

Input: a unit that says what its kernel takes, and the kernel as it was built in each configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage4_runtime.runtime import measuring
from stage4_runtime.runtime.cuda import import_cupy, kernel_launcher
from stage4_runtime.runtime.triton_units import TritonKernel
from stage_contracts import events
from stage_contracts.device import Device
from stage_contracts.program import SourceUnit


def device_times(unit: SourceUnit, kernels: Sequence[TritonKernel | None]) -> Sequence[float | None]:
    """Milliseconds of each, in memory of the sizes that the kernel takes; None for one that does not run."""
    cp = import_cupy()
    with cp.cuda.Device(unit.target.device.index), measuring.scratch(cp) as array:
        try:
            taken = [n if dtype == "size" else array(dtype, n).data.ptr for dtype, n in unit.arguments]
        except cp.cuda.memory.OutOfMemoryError:
            events.record(
                "fallback", "autotune", unit=unit.name, reason="no memory to measure in; the rule decides"
            )
            return [0.0, *[None] * len(unit.alternatives)]

        def call(kernel: TritonKernel) -> Callable[[int], Any] | None:
            try:
                launch = kernel_launcher(cp.cuda.driver, kernel)
            except Exception:  # more shared memory than there is, say
                return None
            return lambda stream: launch(stream, *taken)

        calls = [None if kernel is None else call(kernel) for kernel in kernels]
        found = iter(measuring.milliseconds(cp, [c for c in calls if c is not None]))
        return [None if c is None else next(found) for c in calls]


def device_name(device: Device) -> str:
    """The GPU's name: two kinds of one architecture have other numbers of multiprocessors."""
    name: bytes = import_cupy().cuda.runtime.getDeviceProperties(device.index)["name"]
    return name.decode()
