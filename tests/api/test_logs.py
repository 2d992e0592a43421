"""Logs and counters are views of the event log: what they say, how they are asked for, and that explain() agrees.

Input: a function with a break that is compiled twice.
"""

import os
import subprocess
import sys

import pytest

import cutaway
from cutaway.debug import logs
from cutaway.debug.counters import counters as all_counters
from cutaway.torch_api import torch


@pytest.fixture(autouse=True)
def nothing_on():
    all_counters.clear()
    yield
    logs.set_logs()


def broken(x):
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    return y


def test_what_is_asked_for_is_logged_and_nothing_else(capsys):
    f = cutaway.compile(broken, backend="eager", dynamic=False)
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    f(cutaway.ones(2))
    first = capsys.readouterr().err
    assert "[graph_breaks] graph break GB0003" in first and "if y.sum() > 0" in first and "hint:" in first
    assert "guards" not in first and "recompil" not in first
    f(cutaway.ones(3))
    assert (
        "[recompiles] recompiling broken\n[recompiles]   because x.shape[0]: 2 -> 3"
        in capsys.readouterr().err
    )
    torch._logging.set_logs(guards=True, graph_code=True, bytecode=True, compile_times=True)
    cutaway.compile(lambda x: x * 3, backend="eager")(cutaway.ones(2))
    text = capsys.readouterr().err
    assert "[guards]   check_tensor(x, 'float32[2]')" in text and "[graph_code] def forward(" in text
    assert "[bytecode] " in text and "[compile_times] [pass] capture" in text and "graph_breaks" not in text
    torch._logging.set_logs()
    cutaway.compile(lambda x: x * 4, backend="eager")(cutaway.ones(2))
    assert capsys.readouterr().err == ""


def test_unknown_logs_are_refused():
    with pytest.raises(ValueError, match="there is no log named 'graph_brakes'.*did you mean 'graph_breaks'"):
        torch._logging.set_logs(graph_brakes=True)
    assert set(logs.ARTIFACTS) >= {"graph_breaks", "recompiles", "guards", "graph_code"}


def test_counters_log_and_explain_agree(capsys):
    torch._logging.set_logs(graph_breaks=True)
    report = cutaway.explain(broken)(cutaway.ones(2))
    text = capsys.readouterr().err
    counters = torch._dynamo.utils.counters
    assert report.graph_break_count == sum(counters["graph_break"].values()) == text.count("graph break GB")
    assert report.graph_count == counters["stats"]["unique_graphs"]
    assert report.op_count == counters["stats"]["calls_captured"]
    assert counters["frames"]["ok"] == counters["frames"]["total"] and not counters["nothing"]
    counters.clear()
    assert dict(counters) == {}


def test_the_environment_switches_logs_on():
    program = (
        "import cutaway\ncutaway.compile(lambda x: (x + 1).sum().item(), backend='eager')(cutaway.ones(2))\n"
    )
    environment = {**os.environ, "CUTAWAY_LOGS": "+graph_breaks,recompiles"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.returncode == 0 and "[graph_breaks] graph break GB0004" in run.stderr


def test_the_report_says_each_thing_once():
    class Net(cutaway.nn.Module):
        def forward(self, x):
            x = x + 1
            print("inside")
            return x * 2

    report = cutaway.explain(Net())(cutaway.ones(2))
    text = str(report)
    assert repr(report).startswith(
        f"<ExplainOutput: {report.graph_count} graphs, {report.graph_break_count} breaks"
    )
    assert text.count("Break Reason") == 1 + len(set(map(str, report.break_reasons)))
    if report.graph_break_count > 1:
        assert f"Break Reason 1 (in {report.graph_break_count} frames):" in text
    assert text.count("is_grad_enabled() is True  #") == len(
        {str(g) for g in report.out_guards if g.kind == "GRAD_MODE"}
    )
    assert "total" in text.splitlines()[-1] and "hint: move it after the compiled call" in text


def test_explain_of_what_is_refused_later():
    def f(x):
        return x + 1 if x.sum() > 0 else x

    whole = cutaway.compile(f, backend="eager", fullgraph=True)
    with pytest.raises(cutaway.Unsupported):
        whole(cutaway.ones(2))
    report = cutaway.explain(whole)(cutaway.ones(2))  # what would have been, had breaks been allowed
    assert report.graph_break_count == 1 and report.break_reasons[0].code == "GB0003"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("print('a')", "under `if not compiler.is_compiling"),
        ("time.time()", "measure the time around"),
        ("random.choice([1, 2])", "cutaway.rand"),
        ("logging.getLogger('a').warning('b')", "move it after"),
        ("open('nothing')", "read the file before"),
    ],
)
def test_a_break_at_a_known_function_says_what_to_write_instead(call, words, tmp_path):
    import linecache

    source = f"import logging, random, time\ndef f(x):\n    y = {call}\n    return x * 2\n"
    name = str(tmp_path / "example.py")
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {}
    exec(compile(source, name, "exec"), names)
    with pytest.raises(cutaway.Unsupported, match="hint: .*" + words):
        cutaway.compile(names["f"], backend="eager", fullgraph=True)(cutaway.ones(1))
