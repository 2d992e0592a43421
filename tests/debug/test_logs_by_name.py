"""Every log has something to say; sets have levels; logs go to files and become JSON lines; no log can fail a program.

Input: one program with a break, a recompile, open sizes and a backward, logged once with everything on. tests/api/test_logs.py
has what single logs say, and that counters and explain() agree with them.
"""

import json
import logging
import os
import re
import subprocess
import sys

import pytest

import cutaway
from cutaway.debug import log_texts, logs
from cutaway.torch_api import torch
from stage_contracts import config
from stage_contracts.events import EVENT_LOG


def program(backend):
    @cutaway.compile(backend=backend)
    def f(x, w):
        y = (x @ w).relu()
        if y.sum() > -1:
            y = y + 1
        return (y * 2).sum(1)

    for size in (3, 5):
        f(cutaway.randn(size, 4), cutaway.randn(4, 2, requires_grad=True)).sum().backward()
    return f


@pytest.fixture(autouse=True)
def quiet():
    yield
    logs.set_logs()
    assert not EVENT_LOG.tracing


# What this program gives no reason to say.
SILENT = {"ddp_graphs", "internal_errors", "autotuning"}  # nothing is measured on a CPU


def test_every_log_says_something(tmp_path, capsys):
    path = tmp_path / "logs" / "all.txt"
    with config.patch({"debug.log_file": str(path), "runtime.cuda_graphs": True}):
        logs.set_logs(all=True)
        program("inductor")
    assert capsys.readouterr().err == ""
    lines = path.read_text().splitlines()
    said = {re.match(r"\[(\w+)\]", line)[1] for line in lines}
    assert said >= log_texts.ARTIFACTS.keys() - SILENT
    text = "\n".join(lines)
    for expected in (
        "[dynamo] Step 1: torchdynamo start tracing program.<locals>.f",
        "[dynamo] Step 1: torchdynamo done tracing program.<locals>.f (GB0003)",
        "[dynamo] Step 2: calling compiler function inductor",
        "[inductor] Step 3: inductor compiling backward of",
        "[trace_source]         y = (x @ w).relu()",
        "[trace_bytecode] TRACE BINARY_OP @ [",
        "[trace_call] TRACE FX call matmul from test_logs_by_name.py:",
        "[trace_call]          ^^^^^",
        "[graph] call_function  relu",
        "[graph_sizes] relu: (3, 2)",
        "[recompiles_verbose]   entry 0 failed: x.shape[0]: 3 -> 5",
        "[dynamic]   create_symbol s0 = 5 for x.size()[0]",
        "[dynamic]   check_open_tensor(x, 'float32[?, 4]')",
        "[ir_pre_fusion] op0: ExternKernelSchedulerNode",
        "FusedSchedulerNode(op",
        "[fusion] buf0 + buf1: not fused",
        "[kernel_code] extern \"C\" int64_t fused_",
        "[perf_hints] fragment: the graph of program.<locals>.f has ",
        "[cudagraphs] [fallback] cuda_graph program=forward reason=it runs on the CPU",
        "[overhead] guards of program.<locals>.f: ",
    ):  # fmt: skip
        assert expected in text, expected


SHOWN = {  # the variable's text -> logs that say something, logs that do not
    "+dynamo": ("dynamo guards graph_code graph_breaks trace_source", "aot inductor compile_times graph"),
    "dynamo": ("dynamo", "guards graph_breaks aot"),
    "-dynamo": ("", "dynamo guards"),
    "+dynamo,-guards,aot": ("dynamo graph_code aot", "guards inductor"),
    "graph, graph_sizes": ("graph graph_sizes", "graph_code dynamo"),
    "+aot": ("aot aot_graphs aot_joint_graph", "dynamo"),
}


@pytest.mark.parametrize("text", SHOWN)
def test_levels_and_signs(text, capsys):
    logs.logs_of_environment(text)
    program("aot_eager")
    said = set(re.findall(r"^\[(\w+)\]", capsys.readouterr().err, re.M))
    shown, hidden = map(str.split, SHOWN[text])
    assert said >= set(shown) and not said & set(hidden)


def test_set_logs_takes_torchs_levels_and_modules(capsys):
    torch._logging.set_logs(dynamo=logging.DEBUG, aot=logging.INFO, inductor=logging.ERROR, graph=False)
    assert {"guards", "dynamo", "aot", "internal_errors"} <= logs.logs_on()
    assert not {"inductor", "aot_graphs", "graph"} & logs.logs_on()
    torch._logging.set_logs(all=logging.INFO)
    assert {"dynamo", "aot", "inductor"} <= logs.logs_on() and "guards" not in logs.logs_on()
    torch._logging.set_logs(modules={"some.library": logging.DEBUG})
    assert logging.getLogger("some.library").level == logging.DEBUG and not logs.logs_on()


def test_json_lines_and_a_trace_of_every_event(tmp_path):
    source = (
        "import cutaway\ncutaway.compile(lambda x: x.sum().item() + 1, backend='eager')(cutaway.ones(2))\n"
    )
    variables = {
        "CUTAWAY_LOGS": "graph_breaks,dynamo",
        "CUTAWAY_DEBUG_LOG_FORMAT": "json",
        "TORCH_TRACE": str(tmp_path),
    }
    environment = {**os.environ, **variables, "TORCH_LOGS_OUT": str(tmp_path / "log.jsonl")}
    run = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == ""
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    (broken,) = [r for r in records if r["log"] == "graph_breaks"]
    assert broken["name"] == "GB0004" and broken["line"] == 2 and "hint:" in broken["text"]
    (trace,) = tmp_path.glob("cutaway_trace_*.jsonl")
    kinds = {json.loads(line)["kind"] for line in trace.read_text().splitlines()}
    assert {"compile", "pass", "graph_break", "phase"} <= kinds


def test_verbose_shows_what_every_entry_refused(capsys):
    torch._logging.set_logs(recompiles=True)
    with torch._dynamo.config.patch(verbose=True):
        program("eager")
    assert "[recompiles]   entry 0 failed: x.shape[0]: 3 -> 5" in capsys.readouterr().err


@pytest.mark.internal_errors
def test_verbose_shows_a_fault_of_the_compiler_whole(capsys):
    fault = {
        "stage": "fuse",
        "error": "KeyError: 'x'",
        "traceback": "Traceback ...",
        "report": "internal error in fuse\n  ...",
    }
    EVENT_LOG.record("internal_error", "f", **fault)
    assert capsys.readouterr().err == ""
    with config.patch({"debug.verbose": True}):
        EVENT_LOG.record("internal_error", "f", **fault)
    assert capsys.readouterr().err == "internal error in fuse\n  ...\n"


def test_a_log_that_fails_says_so_and_the_program_goes_on(monkeypatch, capsys):
    monkeypatch.setitem(log_texts.ARTIFACTS, "guards", ("broken", lambda event: 1 / 0))
    logs.set_logs(guards=True)
    program("eager")
    said = capsys.readouterr().err
    assert said.count("cutaway: the log 'guards' failed on") >= 1 and "ZeroDivisionError" in said


def test_the_troubleshooting_guide_spells_one_log_otherwise():
    """Its table says aot_joint_graphs."""
    logs.set_logs(aot_joint_graphs=True)
    assert logs.logs_on() == {"aot_joint_graph"}
    logs.set_logs()


def test_help_lists_every_log(capsys):
    logs.logs_of_environment("help")
    listed = capsys.readouterr().err
    assert all(f"  {name} " in listed for name in log_texts.ARTIFACTS) and "+dynamo: all of it" in listed


def test_every_log_of_torchs_is_one_here_or_is_answered(capsys):
    registry = pytest.importorskip("torch._logging._internal").log_registry
    names = {*registry.log_alias_to_log_qnames, *registry.artifact_names}
    assert len(names) > 60
    for name in sorted(names):
        found = logs.known_log(name)  # raises for a name that it does not know
        assert (
            found in log_texts.ARTIFACTS
            or f"torch's log {name!r} has nothing to show here" in capsys.readouterr().err
        )


def test_every_other_name_is_of_a_log():
    assert set(log_texts.OTHER_NAMES.values()) <= log_texts.ARTIFACTS.keys()
    for levels in logs.SETS.values():
        assert set(" ".join(levels.values()).split()) <= log_texts.ARTIFACTS.keys()


def test_dynamic_shapes_off_and_one_function_only():
    def doubled(x):
        return x * 2

    f = cutaway.compile(doubled, backend="eager", dynamic=True)
    with config.patch({"capture.dynamic_shapes": False}):
        for size in (3, 4, 5):
            f(cutaway.ones(size))
    assert len(f.entries) == 3, "an entry for each size"
    g = cutaway.compile(doubled, backend="eager")
    with config.patch({"capture.only_function": "another"}):
        g(cutaway.ones(2))
    assert not g.entries
    with config.patch({"capture.only_function": "doubled"}):
        g(cutaway.ones(2))
    assert len(g.entries) == 1
    with torch._dynamo.config.patch(disable=True):
        assert g(cutaway.ones(2)).tolist() == [2, 2] and g(cutaway.ones(2, 3)).sum().item() == 12
    assert len(g.entries) == 1
