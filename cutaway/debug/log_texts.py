"""What can be logged, by torch's names, and the text that an event has in each log (None: the event is not in it).

Input: events, and the artifacts of a compile that a "compile" event leads to. Artifacts that a cached program did not
need are made when a log asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutaway.debug.fragments import hint
from stage_contracts.events import Event

Text = Callable[[Event], str | None]


def artifacts_of(event: Event) -> Any:
    """The artifacts of a compile, if they are still there."""
    reference = event.details.get("artifacts")
    return None if event.kind != "compile" or reference is None else reference()


def _frame(event: Event) -> Any:
    reference = event.details.get("frame")
    return None if event.kind != "compile" or reference is None else reference()


# ---- capture -----------------------------------------------------------------------------------------------------


def _graph_break(event: Event) -> str | None:
    return str(event.details["graph_break"]) if event.kind == "graph_break" else None


def _recompile(event: Event) -> str | None:
    if event.kind != "recompile":
        return None
    return f"recompiling {event.name}\n  because {event.details.get('reason', 'of another call')}"


def _recompile_verbose(event: Event) -> str | None:
    text = _recompile(event)
    reasons = event.details.get("entries", ())
    if text is None or not reasons:
        return text
    lines = [f"  entry {i} failed: {reason}" for i, reason in enumerate(reasons)]
    return "\n".join([f"recompiling {event.name}", *lines])


def _guards(event: Event) -> str | None:
    frame = _frame(event)
    return None if frame is None else "\n  ".join([f"guards of {event.name}:", *map(str, frame.guards)])


def _of_graph(title: str, text: Callable[[Any], str]) -> Text:
    """The captured graph of a compile, written by `text`."""

    def shown(event: Event) -> str | None:
        graph = getattr(_frame(event), "graph", None)
        return None if graph is None else f"{title} of {event.name}:\n{text(graph)}".rstrip()

    return shown


def _table(graph: Any) -> str:
    """A row per node, as torch's tabular print has it."""
    rows = [("opcode", "name", "target", "args", "kwargs")]
    rows += [
        (
            node.op,
            node.name,
            str(getattr(node.target, "qualname", node.target)),
            _listed(node.args),
            str(dict(node.kwargs)),
        )
        for node in graph.nodes
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join([*(row[i].ljust(widths[i]) for i in range(4)), row[4]]).rstrip() for row in rows]
    rule = "  ".join("-" * width for width in (*widths, 6))
    return "\n".join([lines[0], rule, *lines[1:]])


def _listed(value: Any) -> str:
    """Nodes by name, anything else as Python prints it."""
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(_listed, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    return getattr(value, "name", None) or repr(value)


def _sizes(graph: Any) -> str:
    return "\n".join(f"{n.name}: {tuple(n.val.shape)}" for n in graph.nodes if hasattr(n.val, "shape"))


def _calls(graph: Any) -> str:
    """Each call that went into the graph, with the user's line and a caret."""
    lines = []
    for node in graph.calls:
        origins = node.meta.get("origins", ())
        lines.append(f"TRACE FX call {node.name} from {origins[0] if origins else 'no line'}")
        lines += origins[0].caret().splitlines()[1:] if origins else []
    return "\n".join(lines)


def _bytecode(event: Event) -> str | None:
    frame = _frame(event)
    if frame is None or not frame.residual_source:
        return None
    from stage1_capture.steps import results  # a compile that is not logged needs no texts of capture's steps

    listing = next(results(frame)).artifact
    return (
        f"ORIGINAL BYTECODE of {event.name}:\n{listing}\n"
        f"what runs in place of {event.name}:\n{frame.residual_source}"
    ).rstrip()


def _trace(what: str) -> Text:
    def shown(event: Event) -> str | None:
        return event.details["text"] if event.kind == "trace" and event.name == what else None

    return shown


def _open_sizes(event: Event) -> str | None:
    """Which sizes are left open, what is known of them, and what was compiled for known sizes instead."""
    if event.kind == "fallback" and event.name == "static":
        return f"compiled for known sizes: {event.details.get('reason', '')}"
    frame = _frame(event)
    if frame is None:
        return None
    found = [str(g) for g in frame.guards if g.kind in ("OPEN_TENSOR", "OPEN_ARRAY", "SHAPE")]
    symbols = _symbols(frame.graph) if frame.graph is not None else []
    return "\n  ".join([f"open sizes of {event.name}:", *symbols, *found]) if found else None


def _symbols(graph: Any) -> list[str]:
    """The symbol of each open size, what it was in this call, and the input that has it."""
    return [
        f"create_symbol {size} = {size.hint} for {node.name}.size()[{dim}]"
        for node in graph.placeholders
        for dim, size in enumerate(getattr(node.val, "shape", ()))
        if hasattr(size, "hint")
    ]


def _internal_error(event: Event) -> str | None:
    return event.details["report"] if event.kind == "internal_error" else None


def _of_kind(*kinds: str, where: Callable[[Event], bool] = lambda event: True) -> Text:
    """Events as they print; one kind alone needs no name beside the log's."""

    def text(event: Event) -> str | None:
        if event.kind not in kinds or not where(event):
            return None
        return str(event).removeprefix(f"[{event.kind}] ") if len(kinds) == 1 else str(event)

    return text


# ---- the later stages --------------------------------------------------------------------------------------------


def _made(text: Callable[[Any], str | None]) -> Text:
    """What a compile made, written by `text` of its artifacts."""

    def shown(event: Event) -> str | None:
        artifacts = artifacts_of(event)
        found = None if artifacts is None else text(artifacts)
        return f"{event.name}:\n{found}".rstrip() if found else None

    return shown


def _halves(text: Callable[[Any], str]) -> Text:
    """What stages 3 and 4 made of the forward and of the backward."""

    def both(artifacts: Any) -> str:
        parts = [(name, getattr(artifacts, name)) for name in ("forward", "backward")]
        return "\n".join(f"===== {name} =====\n{text(half)}" for name, half in parts if half is not None)

    return _made(both)


def _aot_graphs(artifacts: Any) -> str | None:
    if artifacts.partition is not None:
        cut = artifacts.partition
        return f"===== forward =====\n{cut.forward}\n===== backward =====\n{cut.backward}"
    return f"===== forward =====\n{artifacts.functional.graph}" if artifacts.functional else None


def _joint(artifacts: Any) -> str | None:
    return str(artifacts.joint.graph) if artifacts.joint is not None else None


def _pre_fusion(half: Any) -> str:
    from cutaway.debug.scheduler_text import pre_fusion  # loads stage 3

    return pre_fusion(half.lowered)


def _post_fusion(half: Any) -> str:
    from cutaway.debug.scheduler_text import post_fusion

    return post_fusion(half.fused, half.lowered)


def _schedule(half: Any) -> str:
    """Each kernel's schedule, and the steps in order."""
    from stage_contracts.program_text import print_program

    kernels = [f"{k.name}: {k.schedule}" for k in half.planned.kernels.values()]
    steps = print_program(half.planned.with_(decisions=()), sources=False)
    return "\n".join([*kernels, steps[steps.index("@program") :]])


def _output_code(half: Any) -> str:
    return "\n".join([getattr(half.run, "source_text", ""), _kernel_code(half)]).strip()


def _kernel_code(half: Any) -> str:
    return "\n".join(unit.text for program in half.emitted.values() for unit in program.units)


def _of_steps(*names: str) -> Callable[[Event], bool]:
    return lambda event: event.name.partition(".")[0] in names


AOT_STEPS = "without_size_inputs functionalize differentiate decompose partition save_hidden_sizes".split()
INDUCTOR_STEPS = "lower fuse schedule plan_memory emit build launch".split()


def _aot(event: Event) -> str | None:
    return _passes(event) if _of_steps(*AOT_STEPS)(event) else None


def _inductor(event: Event) -> str | None:
    if event.kind == "phase" and event.name.startswith("Step 3"):
        return event.name
    return _passes(event) if event.kind == "build" or _of_steps(*INDUCTOR_STEPS)(event) else None


_passes = _of_kind("pass", "build")


def _dynamo(event: Event) -> str | None:
    if event.kind == "phase":
        return None if event.name.startswith("Step 3") else event.name
    return _of_kind("compile", "guard_failure")(event)


def _overhead(event: Event) -> str | None:
    """What a call costs before its graph runs: the guards, timed on the call that they were made from."""
    if event.kind != "pass" or event.name != "check_guards":
        return None
    return f"guards of {event.details.get('function')}: {event.duration_ns / 1e3:.1f} us, checked for the first time"


def _perf_hint(event: Event) -> str | None:
    return hint(event.name, _frame(event)) if event.kind == "compile" else _of_kind("fallback")(event)


def _autotuning(event: Event) -> str | None:
    """A choice by measurement: what was tried and what each took, the fastest first."""
    if event.kind != "autotune":
        return None
    details = event.details
    if not details["measured"]:
        return f"{event.name}: {details['chosen']} (chosen before)"
    rows = sorted(details["times"].items(), key=lambda row: row[1] if row[1] is not None else float("inf"))
    lines = [
        f"  {f'{took:.4f} ms' if took is not None else 'does not run':>12}  {label}" for label, took in rows
    ]
    return "\n".join([f"{event.name}: {details['chosen']} ({details['seconds']:.2f} s)", *lines])


def _cudagraphs(event: Event) -> str | None:
    return str(event) if event.kind == "fallback" and event.name == "cuda_graph" else None


# What can be logged: the name torch has for it, what it shows, and the text of an event.
ARTIFACTS: dict[str, tuple[str, Text]] = {
    "dynamo": ("the phases of each compile, every compile and what it took", _dynamo),
    "aot": ("each step of ahead-of-time autograd and what it took", _aot),
    "inductor": ("each step of lowering and of the runtime, each build, and what they took", _inductor),
    "graph_breaks": ("each break, with the user's line and what to do", _graph_break),
    "recompiles": ("each further compile, and the fact that differed", _recompile),
    "recompiles_verbose": ("as recompiles, with what every entry refused", _recompile_verbose),
    "guards": ("what an entry relies on", _guards),
    "graph": ("each captured graph, as a table", _of_graph("TRACED GRAPH", _table)),
    "graph_code": ("each captured graph, as Python", _of_graph("graph", str)),
    "graph_sizes": ("the shape of every value of a graph", _of_graph("TRACED GRAPH TENSOR SIZES", _sizes)),
    "bytecode": ("a frame's instructions, and as Python the code around its graph", _bytecode),
    "trace_source": ("each line of yours as capture comes to it", _trace("source")),
    "trace_bytecode": ("each instruction as capture comes to it, and the stack", _trace("bytecode")),
    "trace_call": ("each call that goes into a graph, with its expression", _of_graph("calls", _calls)),
    "dynamic": ("sizes that are left open, and what is assumed of them", _open_sizes),
    "aot_graphs": ("the forward and the backward graph", _made(_aot_graphs)),
    "aot_joint_graph": ("forward and backward as one graph", _made(_joint)),
    "post_grad_graphs": ("the core-operator graphs that lowering takes", _halves(lambda half: str(half.core))),
    "ir_pre_fusion": ("the scheduler's nodes before fusion", _halves(_pre_fusion)),
    "ir_post_fusion": ("the scheduler's nodes after fusion, by kernel", _halves(_post_fusion)),
    "fusion": ("which nests became one kernel, and why others did not", _halves(
        lambda half: "\n".join(map(str, half.fused.decisions)))),
    "schedule": ("how each kernel runs, and the steps in order", _halves(_schedule)),
    "output_code": ("all that is generated: the steps as Python, the kernels' source", _halves(_output_code)),
    "kernel_code": ("the kernels' source", _halves(_kernel_code)),
    "perf_hints": ("what ran another way than asked, and why; graphs that breaks leave small", _perf_hint),
    "cudagraphs": ("each graph that could not become a CUDA graph, and why", _cudagraphs),
    "autotuning": ("each choice by measurement: the configurations of a kernel, and what each took", _autotuning),
    "cache": ("each look into a cache", _of_kind("cache")),
    "compile_times": ("each named pass and what it took", _passes),
    "overhead": ("what checking the guards of an entry takes", _overhead),
    "ddp_graphs": ("nothing: no graph is split for several processes", lambda event: None),
    "internal_errors": ("each fault of the compiler itself, and what to report", _internal_error),
}  # fmt: skip

# Names that stand for others, torch's spellings among them.
OTHER_NAMES = {
    "aot_joint_graphs": "aot_joint_graph",
    "graph_breaks_verbose": "graph_breaks",
    "graph_code_verbose": "graph_code",
    "verbose_guards": "guards",
    "overheads": "overhead",
    "pre_grad_graphs": "graph_code",
    "sym_node": "dynamic",
    "trace_shape_events": "dynamic",
    "caching": "cache",
    "side_effects": "bytecode",
    "compute_dependencies": "ir_pre_fusion",
    "loop_ordering": "schedule",
    "loop_tiling": "schedule",
    "cudagraph_static_inputs": "cudagraphs",
    "inductor_metrics": "compile_times",
    "benchmarking": "compile_times",
    "not_implemented": "perf_hints",
    "autograd": "aot",
    "ddp": "ddp_graphs",
}
