"""The stations of the machine, in the order a program passes them: what each shows, and how it is drawn.

Input: a View (one entry's artifacts and their origins). STAGES and STATIONS are tables; a station whose
artifact was not made (no backward, no residual code) draws nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cutaway.artifacts import Artifacts, HalfArtifacts
from cutaway.page import drawings
from cutaway.page.lines import (
    buffer_names,
    bytecode,
    bytecode_lines,
    commented_lines,
    first_backward_line,
    graph_lines,
    program_names,
)
from cutaway.page.markup import Html, bytes_text, el, milliseconds, text
from cutaway.page.origins import Ids, Origins
from cutaway.page.panes import code, facts, pane, tabs
from stage_contracts.graph import Graph


@dataclass(frozen=True)
class View:
    """One compiled entry, ready to be drawn. `name` keeps the ids of HTML elements apart."""

    name: str
    artifacts: Artifacts
    origins: Origins

    @property
    def halves(self) -> list[tuple[str, HalfArtifacts]]:
        both = [("forward", self.artifacts.forward), ("backward", self.artifacts.backward)]
        return [(name, half) for name, half in both if half is not None]

    def tabs(self, station: str, panes: list[tuple[str, str, Html]]) -> Html:
        return tabs(f"{self.name}-{station}", panes)


@dataclass(frozen=True)
class Station:
    """`draw` gives (facts, body), or None where there is nothing to show."""

    key: str
    stage: str
    label: str  # in the drawing of the machine
    title: str
    draw: Callable[[View], tuple[Html, Html] | None]
    words: str


STAGES = {
    "stage1": ("1", "Capture", "Python bytecode becomes a graph"),
    "stage2": ("2", "Autograd", "the graph gets its backward, ahead of time"),
    "stage3": ("3", "Lowering", "operators become loops, loops become kernels"),
    "stage4": ("4", "Runtime", "kernels get memory and run"),
}

# ---- stage 1 -----------------------------------------------------------------------------------


def _bytecode(view: View) -> tuple[Html, Html]:
    ids = bytecode_lines(view.artifacts.frame.code, view.origins)
    body = code(bytecode(view.artifacts.frame.code), ids, view.origins, "bytecode")
    return facts((sum(map(bool, ids)), "instructions inside captured expressions")), pane("dis", body)


def _guards(view: View) -> tuple[Html, Html] | None:
    guards = view.artifacts.frame.guards
    if not guards:
        return None
    source = "".join(f"{' '.join(str(g).split())}\n" for g in guards)
    ids = [view.origins.around(g.origin) if g.origin else () for g in guards]
    under = sum(g.under_epoch for g in guards)
    counted = [(len(guards), "facts")]
    counted += [(under, "of them checked only after a module changed")] if under else []
    return facts(*counted), pane("guards", code(source, ids, view.origins))


def _captured(view: View) -> tuple[Html, Html] | None:
    graph = view.artifacts.captured
    return _graph(view, graph, "captured graph", "public operators") if graph is not None else None


def _breaks(view: View) -> tuple[Html, Html] | None:
    found = view.artifacts.frame.breaks
    if not found:
        return None
    lines, ids = list[str](), list[Ids]()
    for graph_break in found:
        said = str(graph_break).splitlines()
        lines += [*said, ""]
        around = view.origins.around(graph_break.origin) if graph_break.origin else ()
        ids += [around] * len(said) + [()]
    counted = facts((len(found), "break" if len(found) == 1 else "breaks"))
    return counted, pane("graph breaks", code("\n".join(lines[:-1]) + "\n", ids[:-1], view.origins))


def _residual(view: View) -> tuple[Html, Html] | None:
    source = view.artifacts.frame.residual_source
    if not source:
        return None
    lines = source.splitlines()
    return text(""), pane("residual code", code(source, [()] * len(lines), view.origins))


def _graph(view: View, graph: Graph, title: str, kind: str) -> tuple[Html, Html]:
    counted = facts((len(graph.calls), kind), (len(graph.placeholders), "inputs"))
    source = str(graph)
    turn = first_backward_line(graph, source)
    return counted, pane(title, code(source, graph_lines(graph, view.origins), view.origins, turn=turn))


# ---- stage 2 -----------------------------------------------------------------------------------


def _functional(view: View) -> tuple[Html, Html] | None:
    functional = view.artifacts.functional
    return _graph(view, functional.graph, "functional graph", "operators") if functional is not None else None


def _joint(view: View) -> tuple[Html, Html] | None:
    joint = view.artifacts.joint
    return _graph(view, joint.graph, "joint graph", "operators, forward and backward") if joint else None


def _core(view: View) -> tuple[Html, Html] | None:
    joint = view.artifacts.decomposed
    if joint is not None:
        return _graph(view, joint.graph, "joint graph in core operators", "core operators")
    half = view.artifacts.forward
    return _graph(view, half.core, "graph in core operators", "core operators") if half is not None else None


def _partition(view: View) -> tuple[Html, Html] | None:
    cut = view.artifacts.partition
    if cut is None:
        return None
    panes = [
        (
            graph_name,
            f"{len(graph.calls)} operators",
            code(str(graph), graph_lines(graph, view.origins), view.origins),
        )
        for graph_name, graph in (("forward graph", cut.forward), ("backward graph", cut.backward))
    ]
    counted = facts(
        (len(cut.saved), "values saved"), (bytes_text(cut.saved_bytes), "kept between the halves")
    )
    drawing = pane("the cut", drawings.cut_drawing(cut, view.origins))
    table = pane("saved for the backward", drawings.saved_table(cut, view.origins))
    return counted, text([drawing, table, view.tabs("partition", panes)])


# ---- stage 3 -----------------------------------------------------------------------------------


def _loops(view: View) -> tuple[Html, Html] | None:
    panes, nests = [], 0
    for name, half in view.halves:
        source = str(half.lowered)
        ids = commented_lines(source, view.origins, buffer_names(half.lowered, view.origins))
        nests += len(half.lowered.nodes)
        panes.append((name, f"{len(half.lowered.nodes)} nests and calls", code(source, ids, view.origins)))
    return (facts((nests, "loop nests and calls")), view.tabs("loops", panes)) if panes else None


def _fusion(view: View) -> tuple[Html, Html] | None:
    panes, before, after = [], 0, 0
    for name, half in view.halves:
        groups = drawings.fusion_groups(half)
        before, after = before + sum(len(nests) for _, nests in groups), after + len(groups)
        body = [drawings.kernel_cards(half, view.origins), drawings.decision_list(half, view.origins)]
        panes.append(
            (name, f"{len(groups)} kernel{'s' * (len(groups) != 1)}", el("div", *body, class_="fusion"))
        )
    became = text([el("b", before), " loop nests became ", el("b", after), " kernels"])
    return (became, view.tabs("fusion", panes)) if panes else None


def _source(view: View, target: str, language: str) -> tuple[Html, Html] | None:
    panes, lines = [], 0
    for name, half in view.halves:
        program = half.emitted.get(target)
        if program is None:
            continue
        source = "\n".join(
            unit.text if unit.text.endswith("\n") else unit.text + "\n" for unit in program.units
        )
        ids = commented_lines(source, view.origins, program_names(program, half.lowered, view.origins))
        lines += len(ids)
        panes.append((name, f"{len(ids)} lines", code(source, ids, view.origins, language)))
    return (facts((lines, "lines of source")), view.tabs(target, panes)) if panes else None


def _cpp(view: View) -> tuple[Html, Html] | None:
    return _source(view, "cpp", "cpp")


def _triton(view: View) -> tuple[Html, Html] | None:
    return _source(view, "triton", "python")


# ---- stage 4 -----------------------------------------------------------------------------------


def _memory(view: View) -> tuple[Html, Html] | None:
    panes, pool = [], 0
    for name, half in view.halves:
        pool += sum(half.planned.pools)
        panes.append((name, bytes_text(sum(half.planned.pools)), drawings.memory_drawing(half, view.origins)))
    return (facts((bytes_text(pool), "of pool")), view.tabs("memory", panes)) if panes else None


def _program(view: View) -> tuple[Html, Html] | None:
    panes, steps = [], 0
    for name, half in view.halves:
        source = str(half.planned)
        ids = commented_lines(source, view.origins, program_names(half.planned, half.lowered, view.origins))
        steps += len(half.planned.steps)
        panes.append((name, f"{len(half.planned.steps)} steps", code(source, ids, view.origins)))
    return (facts((steps, "steps")), view.tabs("program", panes)) if panes else None


def _launch(view: View) -> tuple[Html, Html] | None:
    panes: list[tuple[str, str, Html]] = []
    for name, half in view.halves:
        source = getattr(half.run, "source_text", "")
        if source:
            names: dict[str, Ids] = program_names(half.planned, half.lowered, view.origins)
            ids = commented_lines(source, view.origins, names)
            panes.append((name, f"{len(ids)} lines", code(source, ids, view.origins)))
    return (text(""), view.tabs("launch", panes)) if panes else None


def _events(view: View) -> tuple[Html, Html] | None:
    events = view.artifacts.events
    if not events:
        return None
    total = max((e.duration_ns for e in events if e.kind == "compile"), default=0)
    caches = [e.name for e in events if e.kind == "cache"]
    counted: list[tuple[object, str]] = [(milliseconds(total), "to compile")]
    for word, several in (("hit", "hits"), ("miss", "misses")):
        count = caches.count(word)
        counted += [(count, f"cache {word if count == 1 else several}")] if count else []
    return facts(*counted), pane("the event log of this compile", drawings.waterfall(events))


STATIONS = (
    Station(
        "bytecode", "stage1", "bytecode", "Bytecode", _bytecode,
        "What Python itself runs. Capture interprets these instructions on tensors that have a "
        "shape and a type but no data.",
    ),
    Station(
        "guards", "stage1", "guards", "Guards", _guards,
        "Every fact that capture relied on, as the expression that checks it. The compiled code "
        "is used only while all of them hold; the first that fails is the reason of a recompile.",
    ),
    Station(
        "graph", "stage1", "graph", "Captured graph", _captured,
        "The operators that were called, in order, and nothing else: no Python is left. It is a "
        "program, and it runs.",
    ),
    Station(
        "breaks", "stage1", "breaks", "Graph breaks", _breaks,
        "Where capture had to stop, why, and what you can change. What comes after a break is a frame of its own, "
        "with its own tab above.",
    ),
    Station(
        "residual", "stage1", "residual", "Residual code", _residual,
        "The Python that remains: gather the graph's inputs from the arguments, call it, give "
        "back what the function gave back.",
    ),
    Station(
        "functional", "stage2", "functional", "Functional graph", _functional,
        "Writes into tensors and hidden random state are gone; each value is computed once and "
        "never changed.",
    ),
    Station(
        "joint", "stage2", "joint", "Joint graph", _joint,
        "The tape was run over the graph and written down, so the backward is now part of the "
        "same program.",
    ),
    Station(
        "core", "stage2", "core", "Core operators", _core,
        "Every operator replaced by its body, until only the small set that lowering understands "
        "is left.",
    ),
    Station(
        "cut", "stage2", "the cut", "Partition", _partition,
        "One program becomes two. Each arc leads from a value to a reader; those that cross the "
        "cut must be kept in memory from the forward to the backward.",
    ),
    Station(
        "loops", "stage3", "loops", "Loop nests", _loops,
        "Each buffer is a loop over its elements around a body. Views have become arithmetic on "
        "indices; matrix products stay calls of a library.",
    ),
    Station(
        "fusion", "stage3", "fusion", "Fusion", _fusion,
        "Nests that can share their loops become one kernel, so that what passes between them "
        "never reaches memory. Each answer has its reason.",
    ),
    Station(
        "cpp", "stage3", "C++", "C++ source", _cpp,
        "What runs on this machine, under the lines of yours it came from.",
    ),
    Station(
        "triton", "stage3", "Triton", "Triton source", _triton,
        "The same kernels for a GPU, written from the same loop nests.",
    ),
    Station(
        "memory", "stage4", "memory", "Memory plan", _memory,
        "Temporaries that are never alive together share bytes of one pool.",
    ),
    Station(
        "program", "stage4", "program", "Program", _program,
        "All that the runtime is given: buffers, kernels, and steps in order. Data only; it "
        "prints, and reads back.",
    ),
    Station(
        "launch", "stage4", "launch", "Launcher", _launch,
        "The program's steps as one Python function: one call per graph.",
    ),
    Station(
        "events", "stage4", "event log", "Where the time went", _events,
        "Every event of this compile, from the one event log that logs, counters and explain() read "
        "too.",
    ),
)  # fmt: skip
