"""`explain(fn)(*args)`: reports what happens when a call is compiled, like torch._dynamo.explain.

Input: a function (compiled or not) and the arguments of one call. A fresh copy is compiled and run, so the report shows
what really happened, as the event log recorded it, including the functions that the call compiled on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cutaway.backends import find_backend
from cutaway.compiled_function import CompiledFunction
from cutaway.compiled_module import call_of
from cutaway.debug.breaks_once import breaks_once
from cutaway.debug.fragments import warning
from cutaway.pipelines import default_pipeline
from stage0_eager.nn.module import Module
from stage_contracts import events
from stage_contracts.breaks import GraphBreak
from stage_contracts.capture import CapturedFrame
from stage_contracts.graph import Graph
from stage_contracts.guards import Guard
from stage_contracts.messages import checks_options


@dataclass(frozen=True, repr=False)
class ExplainOutput:
    """The report. Its fields have torch's names. `print` shows it as a page of text."""

    graphs: tuple[Graph, ...]
    graph_count: int
    graph_break_count: int
    break_reasons: tuple[GraphBreak, ...]  # each with the user's line and what to do
    op_count: int
    ops_per_graph: tuple[tuple[Any, ...], ...]
    out_guards: tuple[Guard, ...]
    compile_times: str
    internal_errors: tuple[events.Event, ...] = ()  # bugs in the compiler; these frames ran eagerly

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        times = Counter(
            map(str, self.break_reasons)
        )  # a break in a callee is reported for the caller's frame, too
        for number, (reason, count) in enumerate(times.items(), 1):
            frames = f" (in {count} frames)" if count > 1 else ""
            lines += [f"  Break Reason {number}{frames}:", *(f"    {line}" for line in reason.splitlines())]
        if not times:
            lines.append("  none")
        said = warning([len(graph.calls) for graph in self.graphs], self.graph_break_count)
        lines += [f"Fragments: {said}"] * bool(said)
        for event in self.internal_errors:
            lines += ["Internal Error:", *(f"  {line}" for line in event.details["report"].splitlines())]
        lines.append("Ops per Graph:")
        for number, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"  Ops {number}: {', '.join(op.qualname for op in ops)}")
        lines.append("Out Guards:")
        lines += [f"  {guard}" for guard in dict.fromkeys(map(str, self.out_guards))]
        lines += ["Compile Times:", *(f"  {line}" for line in self.compile_times.splitlines())]
        return "\n".join(lines)

    def __iter__(self) -> Iterator[Any]:
        """The six values that explain returned in torch 2.0: explanation, out_guards, graphs, ops_per_graph,
        break_reasons, and the explanation with all details."""
        said = f"Dynamo produced {self.graph_count} graphs with {self.graph_break_count} graph break"
        said += f"{'s' * (self.graph_break_count != 1)} and {self.op_count} ops"
        return iter((said, self.out_guards, self.graphs, self.ops_per_graph, self.break_reasons, str(self)))

    def __repr__(self) -> str:
        counts = f"{self.graph_count} graphs, {self.graph_break_count} breaks, {self.op_count} operators"
        return f"<ExplainOutput: {counts}; print it for the report>"


@checks_options
def explain(fn: Callable, *arguments: Any) -> Any:
    """`explain(fn)(*args, **kwargs)` compiles and runs one call. It returns an ExplainOutput, which reports the graphs,
    graph breaks, operators and guards. `explain(fn, *args)` is the older form of the same.

    A plain function is compiled with the backend "eager", which runs graphs as captured. A compiled function is
    compiled with its own backend and options.
    """
    if not callable(fn):
        raise TypeError(
            f"explain expects a function or a module, but got {type(fn).__name__}; write explain(fn)(*args)"
        )
    known = fn if isinstance(fn, CompiledFunction) else getattr(fn, "compiled", None)
    before: tuple = ()
    if isinstance(known, CompiledFunction):
        before = () if known is fn else (fn,)
    elif isinstance(fn, Module):
        before = (fn,)

    def report(*args: Any, **kwargs: Any) -> ExplainOutput:
        if isinstance(known, CompiledFunction):
            fresh = CompiledFunction(
                known._torchdynamo_orig_callable,
                known._backend,
                False,
                known._options,
                known._pipeline,
                known.dynamic,
            )
        else:
            function = call_of(fn) if before else fn
            fresh = CompiledFunction(function, find_backend("eager"), False, {}, default_pipeline())
        mark = events.EVENT_LOG.mark()
        fresh(*before, *args, **kwargs)
        return _report(events.EVENT_LOG.since(mark))

    return report(*arguments) if arguments else report


def _report(seen: list[events.Event]) -> ExplainOutput:
    compiles = [e for e in seen if e.kind == "compile" and "frame" in e.details]
    frames: list[CapturedFrame] = [f for e in compiles if (f := e.details["frame"]()) is not None]
    graphs = tuple(f.graph for f in frames if f.graph is not None)
    breaks = tuple(e.details["graph_break"] for e in breaks_once(seen))
    ops = tuple(tuple(n.target for n in graph.calls if hasattr(n.target, "qualname")) for graph in graphs)
    guards = tuple(guard for frame in frames for guard in frame.guards)
    times = _times([e for e in seen if e.kind in ("pass", "build", "compile")])
    faults = tuple(e for e in seen if e.kind == "internal_error")
    return ExplainOutput(
        graphs, len(graphs), len(breaks), breaks, sum(map(len, ops)), ops, guards, times, faults
    )


def _times(timed: list[events.Event]) -> str:
    """The compiles and their passes, one per line. An event that ran inside another is indented below it."""
    rows: list[tuple[str, int]] = []
    open_until: list[int] = []
    for event in sorted(timed, key=lambda e: (e.start_ns, -e.duration_ns)):
        while open_until and open_until[-1] <= event.start_ns:
            open_until.pop()
        rows.append(("  " * len(open_until) + event.name, event.duration_ns))
        open_until.append(event.start_ns + event.duration_ns)
    rows.append(("total", sum(e.duration_ns for e in timed if e.kind == "compile")))
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name:<{width}}{duration / 1e6:9.2f} ms" for name, duration in rows)
