"""The drawings: the cut between forward and backward, kernels and what fused into them, the pool, the
time spent.

Input: a Partition, a Program with its LoweredGraph, the events of one compile. Boxes are HTML placed in
per cent, so that their labels stay readable on a phone; only the arcs are SVG.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cutaway.artifacts import HalfArtifacts
from cutaway.page.lines import buffer_names, program_names, reader_ids, step_ids
from cutaway.page.markup import Html, bytes_text, el, milliseconds, number
from cutaway.page.origins import Ids, Origins
from cutaway.page.panes import hue_class, marked
from stage_contracts.events import Event
from stage_contracts.graph import Node
from stage_contracts.joint import Partition
from stage_contracts.loop_ir import WRITES, LoopNest, LoweredGraph
from stage_contracts.program import Allocate, Free, Kernel, Program

# ---- the cut -----------------------------------------------------------------------------------

_WIDTH, _BASE = 1000, 190  # of the arc drawing; the base line is the program, left to right


def cut_drawing(partition: Partition, origins: Origins) -> Html:
    """Every node on one line, forward then backward; an arc from each value to each of its readers."""
    forward = [n for n in partition.forward.nodes if n.op != "output"]
    backward = [n for n in partition.backward.nodes if n.op == "call_function"]
    step = _WIDTH / (len(forward) + len(backward) + 3)
    place = {("f", n.name): (k + 1) * step for k, n in enumerate(forward)}
    place |= {("b", n.name): (k + 3 + len(forward)) * step for k, n in enumerate(backward)}
    middle = (len(forward) + 1.5) * step
    saved = {s.name for s in partition.saved}
    inside = [*_forward_arcs(forward, place), *_backward_arcs(partition, place)]
    crossing = list(_crossing_arcs(partition, forward, place))
    arcs = [_arc(*ends, origins, crosses=False) for ends in inside]
    arcs += [_arc(*ends, origins, crosses=True) for ends in crossing]
    dots = [
        el("circle", el("title", n.name), cx=f"{place[side, n.name]:.1f}", cy=_BASE,
           r=4 if side == "f" and n.name in saved else 2.6,
           class_=f"node {_hue(n, origins)}", data_origins=" ".join(_ids(n, origins)))
        for side, nodes in (("f", forward), ("b", backward)) for n in nodes
    ]  # fmt: skip
    knife = el("line", x1=f"{middle:.1f}", x2=f"{middle:.1f}", y1=4, y2=_BASE + 14, class_="knife")
    svg = el(
        "svg", *arcs, knife, *dots, viewBox=f"0 0 {_WIDTH} {_BASE + 18}", role="img",
        aria_label="arcs from each value to its readers; those that cross the cut are saved", class_="arcs",
    )  # fmt: skip
    left, right = sum(n.op == "call_function" for n in forward), len(backward)
    words = el(
        "div",
        el("span", "forward: ", el("b", left), " operators"),
        el(
            "span",
            el("b", len(partition.saved)),
            " values cross, ",
            el("b", bytes_text(partition.saved_bytes)),
        ),
        el("span", "backward: ", el("b", right), " operators"),
        class_="cut-words",
    )
    return el("div", svg, words, class_="drawing")


Places = dict[tuple[str, str], float]  # (half, node's name) -> where on the line
Arc = tuple[float, float, Node]  # from where to where, and the value


def _forward_arcs(forward: list[Node], place: Places) -> Iterator[Arc]:
    for node in forward:
        for user in node.users:
            if ("f", user.name) in place and user.op != "output":
                yield place["f", node.name], place["f", user.name], node


def _backward_arcs(partition: Partition, place: Places) -> Iterator[Arc]:
    for node in partition.backward.nodes:
        for user in node.users:
            if user.op == "call_function" and ("b", node.name) in place:
                yield place["b", node.name], place["b", user.name], node


def _crossing_arcs(partition: Partition, forward: list[Node], place: Places) -> Iterator[Arc]:
    """From each value that is saved to those that read it in the backward."""
    sources = {node.name: node for node in forward}
    saved = {s.name for s in partition.saved} & sources.keys()
    for node in partition.backward.nodes:
        if node.name in saved and ("b", node.name) not in place:
            for user in node.users:
                if user.op == "call_function":
                    yield place["f", node.name], place["b", user.name], sources[node.name]


def _arc(start: float, end: float, node: Node, origins: Origins, crosses: bool) -> Html:
    radius = (end - start) / 2
    height = min(radius * 0.75, _BASE - 14)
    path = f"M{start:.1f} {_BASE}A{radius:.1f} {height:.1f} 0 0 1 {end:.1f} {_BASE}"
    words = f"arc {'saved' if crosses else ''} {_hue(node, origins)}"
    return el("path", d=path, class_=words, data_origins=" ".join(_ids(node, origins)))


def _ids(node: Node, origins: Origins) -> Ids:
    return origins.ids(node.origins) or reader_ids(node, origins)


def _hue(node: Node, origins: Origins) -> str:
    ids = _ids(node, origins)
    return hue_class(ids, origins)


def saved_table(partition: Partition, origins: Origins) -> Html:
    """One row per value kept for the backward: what it is, its size, whose it is, why it was kept."""
    sources = {n.name: n for n in partition.forward.nodes}
    rows = []
    for saved in partition.saved:
        node = sources.get(saved.name)
        ids = origins.ids(saved.origins) or (reader_ids(node, origins) if node else ())
        line = next((str(o) for o in saved.origins), "an input")
        cells = [
            el("td", el("code", saved.name)),
            el("td", el("code", saved.meta)),
            el("td", bytes_text(saved.meta.nbytes), class_="num"),
            el("td", line),
            el("td", saved.reason),
        ]
        rows.append(marked("tr", *cells, ids=ids, origins=origins, class_="row"))
    head = el("tr", *(el("th", word) for word in ("saved", "type", "bytes", "from", "why it was kept")))
    table = el("table", el("thead", head), el("tbody", *rows))
    return el("div", table, class_="scroll", tabindex="0", role="group", aria_label="values that are saved")


# ---- fusion ------------------------------------------------------------------------------------


def fusion_groups(half: HalfArtifacts) -> list[tuple[Kernel, list[LoopNest]]]:
    """Each kernel with the loop nests that became it, from the decisions that were taken."""
    nests = {n.name: n for n in half.lowered.nodes if isinstance(n, LoopNest)}
    group = {name: {name} for name in nests}
    for decision in half.fused.decisions:
        members = {*_members(decision.first, nests), *_members(decision.second, nests)}
        if decision.fused and members:
            joined = set().union(*(group[m] for m in members))
            group.update(dict.fromkeys(joined, joined))
    found = []
    for kernel in half.fused.kernels.values():
        written = [w for nest in kernel.nests for w in nest.writes if w in group]
        names = set().union(*(group[w] for w in written)) if written else set()
        found.append((kernel, [nest for name, nest in nests.items() if name in names]))
    return found


def spoken_names(lowered: LoweredGraph) -> dict[str, str]:
    """Buffer -> what a reader knows it by: the value that is stored there, or the routine that fills it."""
    found: dict[str, str] = {}
    for node in lowered.nodes:
        if isinstance(node, LoopNest):
            found |= {i.args[0]: re.sub(r"_val(_\d+)?$", "", i.args[2]) for i in node.body if i.op in WRITES}
        else:
            found |= dict.fromkeys(node.writes, str(getattr(node, "target", node.name)))
    times = Counter(found.values())
    inputs = {*lowered.inputs, *lowered.constants}
    return {b: f"{name} ({b})" if times[name] > 1 or name in inputs else name for b, name in found.items()}


def _members(name: str, nests: Mapping[str, object]) -> list[str]:
    """The nests that a group's name, theirs joined by underscores, is made of."""
    if not nests:
        return []
    pattern = "|".join(re.escape(n) for n in sorted(nests, key=len, reverse=True))
    return re.findall(rf"(?:{pattern})(?=_|$)", name)


def kernel_cards(half: HalfArtifacts, origins: Origins) -> Html:
    """One card per kernel: in its casing the nests it is made of, below what it reads, writes, keeps."""
    cards = []
    spoken = spoken_names(half.lowered)
    for kernel, nests in fusion_groups(half):
        chips = [
            marked(
                "li",
                el("code", spoken.get(n.name, n.name)),
                el("span", _loops(n)),
                ids=origins.ids(n.origins),
                origins=origins,
                title=n.name,
            )
            for n in nests
        ]
        written = {w for nest in kernel.nests for w in nest.writes}
        rows = [
            ("reads", [p for p in kernel.params if p not in written]),
            ("writes", [p for p in kernel.params if p in written]),
            ("keeps inside", list(kernel.internal)),
            ("never stored", [n.name for n in nests if n.name not in {*kernel.params, *kernel.internal}]),
        ]
        facts = [
            el("div", el("dt", word), el("dd", el("code", ", ".join(spoken.get(n, n) for n in names))))
            for word, names in rows
            if names
        ]
        head = el("header", el("code", kernel.name), el("span", f"{len(nests)} nests" * (len(nests) != 1)))
        ids = origins.ids(kernel.origins)
        cards.append(
            marked(
                "article", head, el("ul", *chips), el("dl", *facts), ids=ids, origins=origins, class_="kernel"
            )
        )
    return el("div", *cards, class_="cards")


def _loops(nest: LoopNest) -> str:
    outer = " × ".join(map(str, nest.ranges)) or "1"
    inner = " × ".join(map(str, nest.reduction_ranges))
    return f"{outer}, reduces {inner}" if inner else outer


def decision_list(half: HalfArtifacts, origins: Origins) -> Html:
    """Every pair that was considered, and the answer with its reason."""
    written = {name: origins.ids(n.origins) for n in half.lowered.nodes for name in n.writes}
    spoken = spoken_names(half.lowered)
    names = "|".join(map(re.escape, sorted(spoken, key=len, reverse=True))) or "(?!)"
    pattern = re.compile(rf"(?<![^\W_])(?:{names})(?![^\W_])")  # a group's name joins them by underscores

    def known(group: str) -> str:
        members = [spoken[name] for name in _members(group, spoken)] or [group]
        return " ".join(members) if len(members) < 4 else f"{members[0]} \u2026 {members[-1]}"

    rows = []
    for d in half.fused.decisions:
        words = [w for w in _members(d.second, written) if w in written]
        ids = written[words[-1]] if words else ()
        rows.append(
            marked(
                "li", el("b", "fused" if d.fused else "apart"), " ",
                el("code", f"{known(d.first)} + {known(d.second)}"), " ",
                el("span", pattern.sub(lambda buffer: spoken[buffer[0]], d.reason)),
                ids=ids, origins=origins, class_="yes" if d.fused else "no", title=str(d),
            )
        )  # fmt: skip
    return el("ol", *rows, class_="decisions", tabindex="0")


# ---- memory ------------------------------------------------------------------------------------


DRAWN_SIZE = 64  # what stands for an open size in a drawing


def drawn_size(count: Any) -> int:
    """Bytes of the pool, as a number: an open size is a formula."""
    if isinstance(count, int):
        return count
    return int(count.subs(dict.fromkeys(count.free_symbols, DRAWN_SIZE)))


def memory_drawing(half: HalfArtifacts, origins: Origins) -> Html:
    """The pool over time: steps from left to right, bytes upwards, a box per buffer while it lives."""
    program = half.planned
    names = buffer_names(half.lowered, origins)
    temporaries = [b for b in program.buffers.values() if b.slot is not None]
    if not temporaries:
        nothing = "Nothing to plan: what is not an input or an output never leaves its kernel."
        return el("p", nothing, class_="empty")
    lifetimes = _lifetimes(program)
    pools = [drawn_size(pool) for pool in program.pools]
    total = max(sum(pools), 1)
    base = [sum(pools[:k]) for k in range(len(pools))]
    work = [s for s in program.steps if not isinstance(s, Allocate | Free)]
    boxes = []
    for buffer in temporaries:
        assert buffer.slot is not None
        first, last = lifetimes[buffer.name]
        bottom = (base[buffer.slot.pool] + drawn_size(buffer.slot.offset)) / total
        style = (
            f"left:{100 * first / len(work):.2f}%;width:{100 * (last - first) / len(work):.2f}%;"
            f"bottom:{100 * bottom:.2f}%;height:{100 * drawn_size(buffer.slot.nbytes) / total:.2f}%"
        )
        what = f"{buffer.name}: {buffer.meta}, {bytes_text(buffer.slot.nbytes)} at {buffer.slot.offset}"
        label = [el("code", buffer.name), el("small", bytes_text(buffer.slot.nbytes))]
        ids = names.get(buffer.name, ())
        hue = hue_class(ids, origins)
        boxes.append(
            el("div", *label, class_=f"box {hue}", style=style, title=what, data_origins=" ".join(ids))
        )
    ticks = _ticks(work, half, origins)
    unshared = sum(b.slot.nbytes for b in temporaries if b.slot)
    words = [
        el("b", bytes_text(sum(program.pools))),
        f" of pool for {number(len(temporaries))} temporaries that would take ",
        el("b", bytes_text(unshared)), " side by side. Steps run from left to right, bytes upwards.",
    ]  # fmt: skip
    if any(not isinstance(pool, int) for pool in program.pools):
        words.append(f" Each open size is drawn as {DRAWN_SIZE}.")
    axis = el("div", *ticks, class_="ticks many" if len(ticks) > 12 else "ticks")
    return el("div", el("p", *words), el("div", *boxes, class_="pool"), axis, class_="drawing")


def _lifetimes(program: Program) -> dict[str, tuple[int, int]]:
    """(first, last) of each allocated buffer, in steps that do work; last is exclusive."""
    at, found = 0, {}
    for step in program.steps:
        if isinstance(step, Allocate):
            found[step.buffer] = (at, len(program.steps))
        elif isinstance(step, Free):
            found[step.buffer] = (found.get(step.buffer, (0, 0))[0], at)
        else:
            at += 1
    return {name: (first, max(min(last, at), first + 1)) for name, (first, last) in found.items()}


def _ticks(work: Sequence[object], half: HalfArtifacts, origins: Origins) -> list[Html]:
    names = program_names(half.planned, half.lowered, origins)
    found = []
    for step in work:
        ids = step_ids(step, names, origins)
        name = type(step).__name__.lower()
        word = str(getattr(step, "kernel", None) or getattr(step, "target", None) or name)
        # Where there is little room, fused_add_sum_div_3 is k3.
        short = re.sub(r"^fused_.*?(\d+)$", r"k\1", word) if len(work) > 8 else word
        found.append(marked("span", el("code", short), ids=ids, origins=origins, title=word))
    return found


# ---- time --------------------------------------------------------------------------------------

_TWICE = ("lower", "fuse", "schedule", "plan_memory", "emit", "build", "launch")  # run once per half
_SHOWN = ("compile", "pass", "build", "cache", "fallback", "graph_break", "recompile", "guard_failure")


def waterfall(events: Sequence[Event]) -> Html:
    """What the event log recorded while this function was compiled: a bar per event, on one axis of time."""
    shown = sorted((e for e in events if e.kind in _SHOWN), key=lambda e: (e.start_ns, -e.duration_ns))
    if not shown:
        return el("p", "The event log holds no event of this compile.", class_="empty")
    start = min(e.start_ns for e in shown)
    span = max(max(e.start_ns + e.duration_ns for e in shown) - start, 1)
    seen: dict[str, int] = {}
    rows = []
    for event in shown:
        name = event.name
        if event.kind == "pass" and name in _TWICE:
            seen[name] = seen.get(name, 0) + 1
            name = f"{name}, {'forward' if seen[name] == 1 else 'backward'}"
        rows.append(_event_row(event, name, start, span))
    return el("ol", *rows, class_="waterfall")


def _event_row(event: Event, name: str, start: int, span: int) -> Html:
    """One event: its name, its bar, how long it took, what it says of itself."""
    left, width = (event.start_ns - start) / span, event.duration_ns / span
    bar = el("i", style=f"left:{100 * left:.3f}%;width:{100 * width:.3f}%")
    took = milliseconds(event.duration_ns) if event.duration_ns else ""
    kind = event.kind if event.kind != "pass" else ""
    details = ", ".join(
        f"{k}: {v}" for k, v in event.details.items() if isinstance(v, (str, int, float)) and str(v)
    )
    return el(
        "li", el("span", el("small", kind) if kind else None, name, title=details),
        el("span", bar, class_="track"), el("b", took),
        el("em", details) if event.kind not in ("pass", "compile") and details else None,
        class_=f"event {event.kind}",
    )  # fmt: skip
