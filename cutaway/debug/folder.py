"""The debug folder: what each compile made, as files of torch's names. TORCH_COMPILE_DEBUG=1, `trace.enabled`.

Input: events while `debug.folder` is on, and the artifacts that a "compile" event leads to. The folder is made when the
first compile ends: torch_compile_debug/run_<time>-pid_<n>/.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cutaway.debug.diagram import program_dot, program_svg
from cutaway.debug.log_texts import artifacts_of
from cutaway.debug.logs import SETS, append, lines_of, text_of
from cutaway.debug.memory_text import memory_text
from cutaway.debug.runnable import can_be_named, runnable_graph, runnable_program
from cutaway.debug.scheduler_text import post_fusion, pre_fusion
from stage_contracts import config
from stage_contracts.events import Event
from stage_contracts.program_text import print_program
from stage_contracts.report import report_once
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

# What torchdynamo/debug.log holds: all that the set shows, and each break and recompile.
IN_DEBUG_LOG = " ".join(SETS["dynamo"].values()).split()


class _Run:
    """The folder of this process, and how many compiles and graphs it holds. One per root."""

    def __init__(self, root: Path) -> None:
        now = time.time()
        stamp = time.strftime("%Y_%m_%d_%H_%M_%S", time.localtime(now))
        self.path = root / f"run_{stamp}_{int(now % 1 * 1e6):06d}-pid_{os.getpid()}"
        self.compiles = self.graphs = 0


_RUNS: dict[tuple[Path, int], _Run] = {}
_LOCK = threading.RLock()


def run_folder() -> Path:
    """Where the files of this process go, by the configuration in force."""
    return _run().path


def _run() -> _Run:
    root = Path(config.current().debug.folder_root or "torch_compile_debug").absolute()
    with _LOCK:
        return _RUNS.setdefault((root, os.getpid()), _Run(root))  # a child of fork() has its own


def write_event(event: Event) -> None:
    """Write what an event says, and at the end of a compile what it made."""
    texts = [(name, text_of(name, event)) for name in IN_DEBUG_LOG]
    lines = [line for name, text in texts if text is not None for line in lines_of(name, text)]
    if lines and _is_wanted("debug.log"):
        append(run_folder() / "torchdynamo" / "debug.log", lines)
    artifacts = artifacts_of(event)
    if artifacts is not None:
        with _LOCK:
            write_compile(artifacts)


def write_compile(artifacts: Any) -> None:
    """One entry's files: the graphs of ahead-of-time autograd, and a folder for each of its programs."""
    run = _run()
    number, run.compiles = run.compiles, run.compiles + 1
    if artifacts.functional is not None:
        text = "\n".join(f"# ---- {name}\n{graph}" for name, graph in _aot_graphs(artifacts))
        _write(run.path / "aot_torchinductor" / f"aot_model___{number}_debug.log", lambda: text)
    for half in ("forward", "backward"):
        part = getattr(artifacts, half)
        if part is None:
            continue
        kind = half if artifacts.backward is not None else "inference"
        folder = run.path / "torchinductor" / f"model__{number}_{kind}_{run.graphs}.0"
        run.graphs += 1
        title = f"The {kind} graph of {artifacts.function_name}"
        captured = half == "forward" and can_be_named(artifacts.captured)
        source = artifacts.captured if captured else part.core
        for name, text_of_file in _files(part, source, title).items():
            _write(folder / name, text_of_file)
        if config.current().debug.benchmark_kernel:
            _write_kernels(part, folder / "kernels")


def _aot_graphs(artifacts: Any) -> list[tuple[str, Any]]:
    cut = artifacts.partition
    found = [
        ("functional", artifacts.functional.graph),
        ("joint", artifacts.joint and artifacts.joint.graph),
        ("forward", cut and cut.forward),
        ("backward", cut and cut.backward),
        ("saved", cut and cut.report()),
    ]
    return [(name, graph) for name, graph in found if graph]


def _files(half: Any, source: Any, title: str) -> dict[str, Callable[[], str]]:
    """The files of one program, by name. `source`: the graph as it was before lowering's stage."""
    files: dict[str, Callable[[], str]] = {
        "fx_graph_readable.py": lambda: f"# {title}, as it was captured.\n{source}",
        "fx_graph_runnable.py": lambda: runnable_graph(source, title, source is half.core),
        "fx_graph_transformed.py": lambda: (
            f"# {title}, in core operators, as lowering takes it.\n{half.core}"
        ),
        "ir_pre_fusion.txt": lambda: pre_fusion(half.lowered),
        "ir_post_fusion.txt": lambda: post_fusion(half.fused, half.lowered),
        "graph_diagram.dot": lambda: program_dot(half.fused),
        "graph_diagram.svg": lambda: program_svg(half.fused),
        "schedule.txt": lambda: _schedule(half),
        "memory.txt": lambda: memory_text(half.planned, half.core),
        **_output_code(half, title, ""),
    }
    return files


def _output_code(half: Any, title: str, suffix: str) -> dict[str, Callable[[], str]]:
    """output_code.py, and beside it those of the subgraphs that its program calls."""
    files: dict[str, Callable[[], str]] = {}
    named = {}
    for name, part in half.subgraphs.items():
        named[name] = f"output_code{suffix}_{name}.py"
        files |= _output_code(part, f"{title}, its part {name}", f"{suffix}_{name}")
    program = half.emitted.get(half.target.name)
    if program is not None:
        steps = getattr(half.run, "source_text", "")
        files[f"output_code{suffix}.py"] = lambda: runnable_program(program, half.core, title, named, steps)
    return files


def _write_kernels(half: Any, folder: Path) -> None:
    """Each generated kernel as a file that runs alone."""
    from cutaway.profiler.kernel_files import generated_steps, write_kernels

    program = half.emitted.get(half.target.name)
    if program is None:
        return
    shapes = {
        name: node.val.shape
        for name, node in zip(program.inputs, half.core.placeholders, strict=False)
        if isinstance(node.val, TensorMeta)
    }
    sizes = {
        size.name: hinted(shapes[size.buffer][size.dim]) for size in program.sizes if size.buffer in shapes
    }
    report_once(f"cutaway: kernels that run alone are written to {run_folder()}")
    write_kernels(((program, step, sizes) for step in generated_steps(program)), folder)


def _schedule(half: Any) -> str:
    kernels = [f"{kernel.name}: {kernel.schedule}" for kernel in half.planned.kernels.values()]
    decisions = [str(decision) for decision in half.fused.decisions]
    steps = print_program(half.planned.with_(decisions=()), sources=False)
    return "\n".join(
        ["# how each kernel runs", *kernels, "", "# what was fused, and why not", *decisions, "", steps]
    )


def _is_wanted(name: str) -> bool:
    left_out = config.current().debug.folder_without
    return not any(fnmatchcase(name, pattern.strip()) for pattern in left_out.split(","))


def _write(path: Path, text: Callable[[], str]) -> None:
    """One file, if it is wanted. A text that cannot be made or written is said, and the program goes on."""
    if not _is_wanted(path.name):
        return
    try:
        made = text()
    except Exception as error:
        report_once(f"cutaway: {path.name} of the debug folder failed: {type(error).__name__}: {error}")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made, encoding="utf-8")
    except OSError as error:
        report_once(f"cutaway: cannot write the debug folder {path.parent}: {error.strerror or error}")
