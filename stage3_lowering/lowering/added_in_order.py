"""The schedule of a C++ kernel that adds at places that the data decides: one element after the other, by one thread.

Input: a scheduled kernel with `atomic_add`. Two points may add to one element, and in floats their order counts: the
loops stay as they are. The last one has lanes where its steps are elements side by side of rows that the data names.
"""

from __future__ import annotations

from dataclasses import replace

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.gathers import made_of
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.program import Kernel


def with_additions_in_order(kernel: Kernel) -> Kernel:
    """The kernel, its schedule in order where it adds at places."""
    added = [i for nest in kernel.nests for i in nest.body if i.op == "atomic_add"]
    if not added:
        return kernel
    (nest,) = kernel.nests
    order = tuple(map(str, nest.loop_variables))
    last = order[-1] if order else ""
    by_last = made_of(nest, last)
    rows = all(
        stride(i.args[1], last) == 1 and not any(by_last.get(s.name) for s in i.args[1].free_symbols)
        for i in added
    )
    return replace(kernel, schedule=KernelSchedule(order, vector=last if rows else "").verify(kernel))
