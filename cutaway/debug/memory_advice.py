"""What to do when a compiled call runs out of memory: its largest buffers, their lines, and what needs less.

Input: the MemoryError (or CuPy's) of a call, the graph that ran with its operands, which tell the open sizes, and the
program of that half. The text is a note of the error, below its message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stage_contracts.graph import Graph
from stage_contracts.program import Launch, Program, step_accesses
from stage_contracts.symbol_bindings import expression, size_reader, symbol_bindings

if TYPE_CHECKING:
    from cutaway.artifacts import Artifacts

SHOWN = 3  # buffers
TRAINING = (
    "keep less for the backward: torch._functorch.config.activation_memory_budget = 0.5, or 0 (as a variable: "
    "CUTAWAY_AUTOGRAD_ACTIVATION_MEMORY_BUDGET)",
    "without a backward, call it under torch.no_grad(), which keeps nothing",
)
GPU = (
    "switch CUDA graphs off, whose memory stays: torch._inductor.config.triton.cudagraphs = False, and no mode",
)
ALWAYS = (
    "give it smaller inputs, for example half of the batch",
    "see what holds memory: profile(profile_memory=True), then export_memory_timeline('memory.svg')",
)


def advise(
    error: BaseException, half: str, artifacts: Artifacts, graph: Graph, operands: Sequence[Any]
) -> None:
    """Add the advice to the error. `half`: "forward" or "backward"; `graph` has the inputs of the call."""
    lines = [f"cutaway: out of memory in the compiled {half} of {artifacts.function_name}."]
    program = getattr(getattr(artifacts, half), "planned", None)
    if program is not None:
        buffers = largest(program, _sizes(graph, operands))
        lines[0] += f" It computes {_shown(sum(size for size, _ in buffers))} in all. The largest buffers:"
        lines += [f"  {_shown(size):>9}  {text}" for size, text in buffers[:SHOWN]]
    lines.append("To need less:")
    trains, on_gpu = artifacts.joint is not None, type(error).__name__ == "OutOfMemoryError"
    lines += [f"  - {text}" for text in (*TRAINING * trains, *GPU * on_gpu, *ALWAYS)]
    error.add_note("\n".join(lines))


def largest(program: Program, sizes: dict[Any, int]) -> list[tuple[int, str]]:
    """(bytes, name and type and lines) of each buffer that the program makes, the largest first."""
    found = []
    made_by = lines_by_buffer(program)
    for buffer in program.buffers.values():
        if buffer.role != "input":
            shape = [_value(size, sizes) for size in buffer.meta.shape]
            nbytes = buffer.meta.dtype.itemsize
            for size in shape:
                nbytes *= size
            what = f"{buffer.name}  {buffer.meta.dtype.name}[{', '.join(map(str, shape))}]"
            found.append((nbytes, f"{what}  {', '.join(made_by.get(buffer.name, ()))}".rstrip()))
    return sorted(found, reverse=True)


def lines_by_buffer(program: Program) -> dict[str, list[str]]:
    """The lines of the user's program that each buffer holds the result of."""
    made_by: dict[str, list[str]] = {}
    for step in program.steps:
        origins: Any = getattr(step, "origins", ())
        if isinstance(step, Launch):
            origins = program.kernels[step.kernel].origins
        for name in step_accesses(step, program.kernels)[1]:
            made_by.setdefault(name, [origin.describe() for origin in origins])
    return made_by


def _sizes(graph: Graph, operands: Sequence[Any]) -> dict[Any, int]:
    return size_reader(symbol_bindings([node.val for node in graph.placeholders]))(operands)


def _value(size: Any, sizes: dict[Any, int]) -> int:
    whole = expression(size)
    return int(whole.subs(sizes) if hasattr(whole, "subs") else whole)


def _shown(nbytes: int) -> str:
    for unit, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {word}"
    return f"{nbytes} bytes"
