"""Writes a body as lines of C++ or of Triton: the part that the two emitters share.

Input: a fused LoopNest, and how the language writes the loop ops that are not in the table of spellings.
"""

from __future__ import annotations

from collections.abc import Callable

from stage3_lowering.tiny.spellings import CPP, SPELLINGS, TYPES
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.loop_ir import Instr, LoopNest

INDENT = "    "


def statements(nest: LoopNest, language: int, special: dict[str, Callable[..., str]]) -> list[str]:
    """The right-hand side of each instruction: by `special` for the loop ops, else as the table spells it."""
    types = {i.name: i.dtype for i in nest.body}
    lines = []
    for instr in nest.body:
        if instr.op in special:
            lines.append(special[instr.op](instr, *instr.args))
            continue
        of = types[instr.args[-1]]
        assert of is not None and instr.dtype is not None
        right = SPELLINGS[of.category][instr.op][language].format(*instr.args)
        lines.append(assign(language, instr, right))
    return lines


def assign(language: int, instr: Instr, right: str) -> str:
    assert instr.dtype is not None
    return (
        f"{TYPES[instr.dtype.name][CPP]} {instr.name} = {right};"
        if language == CPP
        else f"{instr.name} = {right}"
    )


def limit(dtype: DType | None, highest: bool, infinity: str) -> str:
    """Where a minimum (highest) or a maximum starts."""
    if dtype is not dt.int64:
        return infinity if highest else f"-{infinity}"
    return str(2**63 - 1) if highest else f"-{2**63 - 1} - 1"
