"""`explain(fn)(*args)`: what compiling a call would do, as torch._dynamo.explain reports it. A view of the ledger.

Input: a function (or a compiled one) and one call's arguments. The function is compiled with a backend that only
counts, then run, so that the report is about what really happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutaway.compile import CompiledFunction, compile, compile_frame
from stage_contracts import events
from stage_contracts.breaks import GraphBreak
from stage_contracts.graph import Graph
from stage_contracts.guards import Guard


@dataclass(frozen=True)
class ExplainOutput:
    """The report. Field names as torch's; it prints as a page of text."""

    graphs: tuple[Graph, ...]
    graph_count: int
    graph_break_count: int
    break_reasons: tuple[GraphBreak, ...]
    op_count: int
    ops_per_graph: tuple[tuple[Any, ...], ...]
    out_guards: tuple[Guard, ...]
    compile_times: str

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, reason in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", *(f"    {line}" for line in str(reason).splitlines())]
        lines.append("Ops per Graph:")
        for number, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"  Ops {number}: {', '.join(op.qualname for op in ops)}")
        lines.append("Out Guards:")
        lines += [f"  {guard}" for guard in self.out_guards]
        lines += ["Compile Times:", *(f"  {line}" for line in self.compile_times.splitlines())]
        return "\n".join(lines)


def explain(fn: Callable) -> Callable[..., ExplainOutput]:
    """`explain(fn)(*args, **kwargs)` compiles and runs one call and reports graphs, breaks, operators, guards."""
    compiled = fn if isinstance(fn, CompiledFunction) else getattr(fn, "compiled", None)
    if compiled is None:
        twin = compile(fn)
        compiled = twin if isinstance(twin, CompiledFunction) else twin.compiled

    def report(*args: Any, **kwargs: Any) -> ExplainOutput:
        fresh = CompiledFunction(
            compiled._fn, compiled._backend, False, compiled._options, compiled._pipeline
        )
        if compiled._bound_self:
            args = compiled._bound_self + args
        elif fn is not compiled and not isinstance(fn, CompiledFunction) and hasattr(fn, "forward"):
            args = (fn, *args)
        mark = events.LEDGER.mark()
        entry = compile_frame(
            fresh._fn, args, kwargs, fresh._backend, False, fresh._pipeline, fresh.artifacts
        )
        entry.run(*args, **kwargs)
        return _report(fresh, entry, events.LEDGER.since(mark))

    return report


def _report(compiled: CompiledFunction, entry: Any, seen: list[events.Event]) -> ExplainOutput:
    graphs = tuple(a.captured for a in compiled.artifacts if a.captured is not None)
    breaks = tuple(e.details["graph_break"] for e in seen if e.kind == "graph_break")
    ops = tuple(tuple(n.target for n in graph.calls if hasattr(n.target, "qualname")) for graph in graphs)
    times = "\n".join(
        f"{e.name:<16}{e.duration_ns / 1e6:9.2f} ms" for e in seen if e.kind in ("pass", "compile")
    )
    return ExplainOutput(
        graphs, len(graphs), len(breaks), breaks, sum(map(len, ops)), ops, tuple(entry.guards), times
    )
