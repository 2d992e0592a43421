"""C++ that adds at places that the data decides: one element after the other, by one thread.

Input: a kernel with `atomic_add`. Two points may add to one element, and in floats their order counts: the loops stay
as they are. The last one has lanes where its steps are elements side by side, of rows that the data names.
"""

from __future__ import annotations

from dataclasses import replace

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.gathers import made_of
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.loop_ir import Instr, LoopNest
from stage_contracts.program import Kernel


def additions(nest: LoopNest) -> list[Instr]:
    return [instr for instr in nest.body if instr.op == "atomic_add"]


def with_additions_in_order(kernel: Kernel) -> Kernel:
    """The kernel, its schedule in order where it adds at places."""
    if not any(map(additions, kernel.nests)):
        return kernel
    (nest,) = kernel.nests
    order = tuple(map(str, nest.loop_variables))
    vector = order[-1] if order and has_lanes(nest, order[-1]) else ""
    return replace(kernel, schedule=KernelSchedule(order, vector=vector).verify(kernel))


def has_lanes(nest: LoopNest, loop: str) -> bool:
    """Whether no two steps of the loop add to one element. (A schedule may say what it likes: emit asks this, too.)"""
    added = additions(nest)
    by_loop = made_of(nest, loop) if added else {}
    return all(
        stride(i.args[1], loop) == 1 and not any(by_loop.get(s.name) for s in i.args[1].free_symbols)
        for i in added
    )
