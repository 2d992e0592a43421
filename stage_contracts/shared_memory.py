"""Which calls' results may lie in the memory of what they are given: a view of it, or the very same array.

Input: an External step. Whoever plans memory, and whoever looks for races, treats such a result as its operands.
"""

from __future__ import annotations

from typing import Any

from stage_contracts.core_ops import CORE_OPS
from stage_contracts.program import External, Program, step_accesses

# Kinds of core operator whose eager kernel always makes a new array. Any other result may share memory with
# an operand, so the operand must live, and escape, as long as the result does.
FRESH_KINDS = ("contraction", "creation", "random", "scan")


def may_share(step: Any) -> bool:
    """Whether a step's results may share memory with its operands."""
    if not isinstance(step, External) or step.into:
        return False
    return step.target not in CORE_OPS or CORE_OPS[step.target].kind not in FRESH_KINDS


def memory_uses(program: Program) -> list[tuple[list[str], set[str]]]:
    """Of each step: the buffers whose memory it uses, and those of them that it writes. Whoever uses a view uses what
    it may be a view of."""
    found = []
    of: dict[str, set[str]] = {}  # a result -> the buffers whose memory it may lie in
    for step in program.steps:
        reads, writes = step_accesses(step, program.kernels)
        written = {name for w in writes for name in (w, *of.get(w, ()))}
        if may_share(step):  # to make a view writes nothing of what it is a view of
            for name in writes:
                of.setdefault(name, set()).update(reads, *(of.get(read, ()) for read in reads))
        used = dict.fromkeys(name for n in (*reads, *writes) for name in (n, *sorted(of.get(n, ()))))
        found.append(([*used], written))
    return found
