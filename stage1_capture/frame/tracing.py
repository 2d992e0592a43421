"""Where capture is: an event for each line of user code and for each instruction, while a log asks for them.

Input: the frame under way, before its instruction runs. `trace_source` and `trace_bytecode` show these events.
"""

from __future__ import annotations

import linecache
from typing import Any

from stage1_capture.state.graph_builder import is_users
from stage_contracts import events


def trace(frame: Any) -> None:
    """Record the instruction that comes next, and its line where that is another one than before. The library's own
    code, which is inlined as any other, is left out."""
    if not is_users(frame.function.globals):
        return
    instruction = frame.current
    function, origin = frame.function, instruction.origin
    line = (origin.file, origin.line)
    if line != frame.traced_line:
        frame.traced_line = line
        source = linecache.getline(*line).rstrip() or f"    {origin.text}"
        depth = len(frame.output.frames) - 1
        inlined = f" (inlined, depth {depth})" if depth else ""
        text = f"TRACE starts_line {line[0]}:{line[1]} in {function.name}{inlined}\n{source}"
        events.record("trace", "source", origin=origin, text=text)
    value = instruction.symbol or (str(instruction.arg) if instruction.arg else "")
    stack = ", ".join(type(slot).__name__ for slot in frame.stack)
    words = " ".join(filter(None, ("TRACE", instruction.opname, value, f"[{stack}]")))
    events.record("trace", "bytecode", origin=origin, text=words)
