"""memory.txt of the debug folder: what a call of a program holds, by pool and buffer, with the lines that made it.

Input: a planned program and its core graph, whose sizes are the compiled call's. Largest first.
"""

from __future__ import annotations

from cutaway.debug.memory_advice import lines_by_buffer
from stage4_runtime.runtime.memory import predicted_peak
from stage_contracts.graph import Graph
from stage_contracts.program import Program
from stage_contracts.symbol_bindings import open_sizes_in


def memory_text(program: Program, core: Graph) -> str:
    """Predicted peak, pools, and every buffer with its role, its size and the lines that compute it."""
    is_open = next(open_sizes_in([node.val for node in core.nodes]), None) is not None
    known = "bytes are not known: sizes are left open"
    lines = [known if is_open else f"peak of a call: {predicted_peak(program)} bytes"]
    lines += [f"pool {i}: {size} bytes" for i, size in enumerate(program.pools)]
    made_by = lines_by_buffer(program)
    rows = []
    for buffer in program.buffers.values():
        slot = f"pool {buffer.slot.pool} at {buffer.slot.offset}" if buffer.slot else "memory of its own"
        lines_of = ", ".join(made_by.get(buffer.name, ()))
        nbytes = -1 if is_open else buffer.meta.numel * buffer.meta.dtype.itemsize
        rows.append((nbytes, buffer.name, str(buffer.meta), buffer.role, slot, lines_of))
    for nbytes, name, meta, role, slot, made in sorted(rows, key=lambda row: (-row[0], row[1])):
        size = "" if is_open else f"{nbytes:>12}  "
        lines.append(f"{size}{name:<12}  {meta:<28}  {role:<10}  {slot:<22}  {made}".rstrip())
    return "\n".join(lines) + "\n"
