"""Pictures of artifacts as boxes and arrows, for the chapters: graphs, loops, programs, passes, guards, memory.

Input: an artifact. Each function returns ({box: (kind, label)}, [(from box, to box, label)]). `svg` has graphviz draw
them. Where its `dot` is not installed, cutaway/debug/diagram.py lays them out. The colours are the page's: a box has
its kind as its class (assets/cutaway.css).
"""

import html
import re
import shutil
import subprocess

from cutaway.debug.diagram import boxes as program_boxes
from cutaway.debug.diagram import laid_out
from stage_contracts.loop_ir import WRITES, ExternCall
from stage_contracts.program import Allocate, External, Free, Launch, step_accesses

SETTINGS = "bgcolor=transparent, rankdir=TB, nodesep=0.2, ranksep=0.3, margin=0.05"
NODES = 'shape=box, style="filled,rounded", fontname="DejaVu Sans Mono", fontsize=10, margin="0.1,0.05"'
WIDEST = 26  # letters in a line of a label: a box fits a phone


def svg(title, found, edges):
    """The picture as SVG, to stand in a page."""
    dot = shutil.which("dot")
    drawn = laid_out(found, edges) if dot is None else _by_dot(dot, found, edges)
    return re.sub(
        r"<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', drawn[drawn.index("<svg") :], count=1
    )


def _by_dot(dot, found, edges):
    ids = {box: f"n{k}" for k, box in enumerate(found)}
    lines = [f"digraph {{ graph [{SETTINGS}]; node [{NODES}]; edge [fontname=monospace, fontsize=9];"]
    lines += [
        f'{ids[box]} [class="{kind}", label="{_quoted(label)}", tooltip=" "];'
        for box, (kind, label) in found.items()
    ]
    lines += [f'{ids[a]} -> {ids[b]} [label=" {_quoted(label)}", tooltip=" "];' for a, b, label in edges]
    drawn = subprocess.run(
        [dot, "-Tsvg"], input="\n".join([*lines, "}"]), capture_output=True, text=True, check=True
    ).stdout
    # graphviz numbers its ids in each picture anew, and a page has several
    return re.sub(r' id="[^"]*"|<title>[^<]*</title>\n?|<!--.*?-->\n?', "", drawn)


def _quoted(label):
    lines = [line for part in label.splitlines() for line in _broken(part)]
    return "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)


def _broken(line):
    """A line in parts of at most WIDEST letters, broken at blanks."""
    while len(line) > WIDEST and " " in line[1:]:
        at = line.rfind(" ", 1, WIDEST + 1)
        at = at if at > 0 else line.index(" ", 1)
        yield line[:at]
        line = line[at + 1 :]
    yield line


def graph(made):
    """A graph: each node with the shape of its value. Forward and backward nodes are of two kinds."""
    found, edges = {}, []
    for node in made.nodes:
        if node.op == "output":
            found[node.name] = ("output", "return")
        elif node.op == "placeholder":
            kind = "saved" if node.meta.get("role") == "saved" else "input"
            found[node.name] = (kind, f"{node.name}\n{_short(node.meta.get('val'))}")
        else:
            operator = getattr(node.target, "__name__", str(node.target))
            kind = "backward" if node.meta.get("region") == "backward" else "kernel"
            found[node.name] = (kind, f"{node.name} = {operator}\n{_short(node.meta.get('val'))}")
        edges += [(source.name, node.name, "") for source in node.all_input_nodes]
    return found, edges


def cut(joint, partition):
    """A joint graph where the values that the partition saves are marked."""
    found, edges = graph(joint)
    for value in partition.saved:
        if value.name in found:
            found[value.name] = ("saved", f"{found[value.name][1]}\nsaved")
    return found, edges


def _short(meta):
    return "" if meta is None else str(meta).split(" strides")[0].split(" requires_grad")[0]


def lowered(made):
    """Loop nests and external calls, with the buffers between them."""
    found = {name: ("input", f"{name}\n{_short(made.buffers[name])}") for name in made.inputs}
    maker = {name: name for name in made.inputs}
    edges = []
    for node in made.nodes:
        if isinstance(node, ExternCall):
            found[node.name] = ("call", f"call {node.target}")
        else:
            loops = [f"{v}: {n}" for v, n in zip(node.loop_variables, node.ranges)]
            loops += [f"{v}: {n}" for v, n in zip(node.reduction_variables, node.reduction_ranges)]
            found[node.name] = ("kernel", f"for {', '.join(loops)}\n{_operations(node)}")
        edges += [(maker[name], node.name, name) for name in node.reads if name in maker]
        maker |= dict.fromkeys(node.writes, node.name)
    found["return"] = ("output", "return")
    results = {getattr(ref, "name", None) for ref in made.outputs}
    return found, edges + [(maker[name], "return", name) for name in maker if name in results]


def _operations(nest):
    skipped = ("load", "store", "constant")
    return " ".join(i.args[0] if i.op == "reduction" else i.op for i in nest.body if i.op not in skipped)


def body(nest):
    """The body of a loop nest: each value with those that it is made from."""
    found, edges = {}, []
    for k, instr in enumerate(nest.body):
        box = instr.name or f"store{k}"
        shown = ", ".join(map(str, instr.args))
        kinds = {"load": "input", **dict.fromkeys(WRITES, "output"), "reduction": "backward"}
        kind = kinds.get(instr.op, "kernel")
        found[box] = (kind, f"{instr.name} =\n{instr.op} {shown}" if instr.name else f"{instr.op} {shown}")
        # the name of a buffer is no value, also where a value has the same name
        values = instr.args[1:] if instr.op in ("load", *WRITES, "reduction") else instr.args
        edges += [(str(arg), box, "") for arg in values if isinstance(arg, str) and str(arg) in found]
    return found, edges


program = program_boxes


def memory(planned):
    """A program's steps in order, with the place that each temporary takes in the pool, and when it is free again."""
    found, last, edges = {}, None, []
    for number, step in enumerate(planned.steps):
        if isinstance(step, Allocate):
            slot = planned.buffers[step.buffer].slot
            where = f"bytes {slot.offset} to {slot.offset + slot.nbytes}" if slot else "memory of its own"
            shown = ("input", f"allocate {step.buffer}\n{where}")
        elif isinstance(step, Free):
            shown = ("saved", f"free {step.buffer}")
        elif isinstance(step, Launch | External):
            writes = ", ".join(step_accesses(step, planned.kernels)[1])
            name = step.kernel if isinstance(step, Launch) else f"call {step.target}"
            shown = ("kernel" if isinstance(step, Launch) else "call", f"{name}\nwrites {writes}")
        else:
            shown = ("output", type(step).__name__.lower())
        found[number] = shown
        edges += [(last, number, "")] if last is not None else []
        last = number
    return found, edges


def passes(table):
    """A table of passes: what must run before what. Constraints that follow from others are left out."""
    found = {p.name: ("call" if p.needed else "kernel", f"{p.name}\n{p.summary}") for p in table.passes}
    pairs = dict.fromkeys((earlier, later) for earlier, later, _ in table.order)
    after = {name: {b for a, b in pairs if a == name} for name in found}
    for name in reversed(table.names):  # those that run later are complete already
        after[name] |= {far for near in after[name] for far in after[near]}
    direct = [(a, b) for a, b in pairs if not any(b in after[other] for other in after[a])]
    return found, [(a, b, "") for a, b in direct]


def guards(frame):
    """The guards of a frame, below what each of them reads."""
    found, edges = {"call": ("output", frame.code.co_qualname)}, []
    for number, guard in enumerate(frame.guards):
        source = str(guard.source) if guard.source is not None else "the state of the process"
        if source not in found:
            found[source] = ("input", source)
            edges.append(("call", source, ""))
        found[number] = ("kernel", str(guard).split("  #")[0])
        edges.append((source, number, ""))
    return found, edges


def breaks(frames):
    """Frames that a graph break joins: graph, break, and the graph of the function that resumes."""
    found, edges, last = {"call": ("input", frames[0].code.co_qualname)}, [], "call"
    for number, frame in enumerate(frames):
        calls = ", ".join(getattr(n.target, "__name__", "") for n in frame.graph.calls)
        steps = [(f"graph{number}", "kernel", f"graph {number}\n{calls}")]
        steps += [
            (f"break{number}{k}", "backward", f"{b.code}: {b.reason}") for k, b in enumerate(frame.breaks)
        ]
        for box, kind, label in steps:
            found[box] = (kind, label)
            edges.append((last, box, ""))
            last = box
    found["return"] = ("output", "return")
    return found, [*edges, (last, "return", "")]


def entries(frames):
    """The compiled entries of a function: which call each accepts. Each that refuses hands the call to the next."""
    found, edges, last = {"call": ("input", f"a call of\n{frames[0].code.co_qualname}")}, [], "call"
    for number, frame in enumerate(frames):
        checks = "\n".join(str(g).split("  #")[0] for g in frame.guards if "TENSOR" in g.kind)
        found[f"guards{number}"] = ("kernel", checks)
        found[f"run{number}"] = ("output", f"run entry {number}")
        edges += [
            (last, f"guards{number}", "no" if number else ""),
            (f"guards{number}", f"run{number}", "yes"),
        ]
        last = f"guards{number}"
    found["compile"] = ("backward", "compile a new entry")
    return found, [*edges, (last, "compile", "no")]
