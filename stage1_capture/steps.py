"""The steps of capture as a table: what each does, in which order and why, and what it leaves in the finished frame.

Input: capture.py times its steps by these names; `artifacts[-1].passes` shows what a frame holds of each. Here a
row's `run` reads that out of the frame, as a call cannot be captured again: its program has changed its arguments.
"""

from __future__ import annotations

import types
from collections.abc import Iterator

from stage1_capture.frame.bytecode import Instruction, instructions
from stage_contracts.capture import CapturedFrame
from stage_contracts.passes import Pass, PassResult, PassTable


def results(frame: CapturedFrame) -> Iterator[PassResult]:
    """What each step made of this frame. A frame without a graph, or without a break, lacks some."""
    for step in CAPTURE.passes:
        made = step.run(frame)
        if made is not None:
            yield PassResult(f"{CAPTURE.stage}.{step.name}", step.summary, made)


def _listing(code: types.CodeType) -> str:
    """One instruction a line, jumps by number, the user's line where a new one begins."""
    lines, last = [f"# {code.co_qualname}, {code.co_filename}"], None
    for index, i in enumerate(instructions(code)):
        line = i.positions.lineno if i.positions else None
        if line is not None and line != last:
            lines.append(f"# line {line}")
            last = line
        lines.append(f"{index:4} {i.opname:28} {_argument(i)}".rstrip())
    return "\n".join(lines)


def _argument(instruction: Instruction) -> str:
    if instruction.target >= 0:
        return f"to {instruction.target}"
    value = instruction.argval
    if isinstance(value, types.CodeType):
        return f"code of {value.co_qualname}"
    return instruction.symbol or str(instruction.arg or "")


CAPTURE = PassTable(
    "capture",
    (
        Pass(
            "instructions",
            lambda frame: _listing(frame.code),
            "the bytecode, and the call's arguments as abstract values",
            needed=True,
        ),
        Pass(
            "interpret",
            lambda frame: frame.graph,
            "every instruction on abstract values: the graph",
            needed=True,
        ),
        Pass(
            "resume",
            lambda frame: "\n\n".join(_listing(r.function.__code__) for r in frame.resumes) or None,
            "functions for what comes behind a break",
            needed=True,
        ),
        Pass("residual", lambda frame: frame.residual_source or None, "the code that remains", needed=True),
        Pass(
            "guards",
            lambda frame: "\n".join(map(str, frame.guards)) or None,
            "for which calls all this holds",
            needed=True,
        ),
    ),
    (
        ("instructions", "interpret", "it runs them"),
        ("interpret", "resume", "they take the stack and the names that the break left"),
        ("resume", "residual", "it ends in a call of them"),
        ("residual", "guards", "how results are made again may rely on more; sizes are asked until then"),
    ),
)
