"""How far each access to memory moves when a loop makes one step, and what that costs: it decides the loops' order.

Input: a kernel. schedule_kernels.py asks for loops of C++, triton_blocks.py for the lanes of a GPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.loop_ir import WRITES
from stage_contracts.program import Kernel

SCATTERED = 8  # what an access costs that is not to the next element, in accesses that are


def access_steps(kernel: Kernel) -> list[dict[str, Any]]:
    """How far each access to memory in the innermost loops moves when a loop makes one step. None: anywhere."""
    found = []
    for nest in kernel.nests:
        names = [v.name for v in (*nest.loop_variables, *nest.reduction_variables)]
        for instr in nest.body[: nest.split]:
            if instr.op in ("load", *WRITES) and instr.args[0] not in kernel.internal:
                found.append({name: stride(instr.args[1], name) for name in names})
    return found


@lru_cache(maxsize=65536)
def stride(index: Any, variable: str) -> Any:
    """How far `index` moves when the variable makes one step; None where that is not one number."""
    v = symbol(variable)
    if v not in index.free_symbols:
        return 0
    step = index.coeff(v)
    rest = index - step * v
    return None if v in rest.expand().free_symbols or index.has(FloorDiv, Mod) else step


def innermost_cost(accesses: list[dict[str, Any]], loop: str) -> int:
    """What the accesses cost per element when `loop` is innermost."""
    return sum(
        0 if step == 0 else 1 if step == 1 else SCATTERED
        for step in (access.get(loop, 0) for access in accesses)
    )
