"""CompileProfiler's report, explain's counts and compile_times: each break once, phases that add up to the clock.

Input: the profiling guide's model with two breaks, calls inside calls, and six programs whose first call is timed.
"""

import time

import pytest

import cutaway
from cutaway.debug import compile_times as times
from cutaway.debug import logs
from cutaway.debug.breaks_once import breaks_once
from cutaway.torch_api import torch
from stage_contracts.events import EVENT_LOG

nn, utils = torch.nn, torch._dynamo.utils


class ModelWithBreaks(nn.Module):
    """The profiling guide's: four blocks with a break behind the first and the second."""

    def __init__(self):
        super().__init__()

        def block():
            return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())

        self.mod1, self.mod2, self.mod3, self.mod4 = block(), block(), block(), block()

    def forward(self, inp):
        mod1 = self.mod1(inp)
        torch._dynamo.graph_break()
        mod2 = self.mod2(mod1)
        torch._dynamo.graph_break()
        mod3 = self.mod3(mod2)
        return self.mod4(mod3)


def inner(x):
    x = x + 1
    print(end="")
    return x * 2


def middle(x):
    return inner(x) + 1


def outer(x):
    return middle(x).sin()


def twice(x):
    return inner(x) + inner(x * 2)


def two_places(x):
    y = inner(x)
    print(end="")
    return y + 1


COUNTS = {  # a program -> graphs, breaks
    "the guide's model": (ModelWithBreaks, 3, 2),
    "a break two calls down": (lambda: outer, 4, 1),
    "a function called twice": (lambda: twice, 4, 2),
    "a break of its own behind one of a callee": (lambda: two_places, 3, 2),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_break_is_counted_once_in_every_view(name, capsys):
    """Before, explain() counted 3 for the guide's model, and so did the log and the counters."""
    make, graphs, breaks = COUNTS[name]
    program = make()
    utils.counters.clear()
    torch._logging.set_logs(graph_breaks=True)
    try:
        report = torch._dynamo.explain(program)(torch.randn(2, 8))
    finally:
        torch._logging.set_logs()
    counted = sum(utils.counters["graph_break"].values())
    logged = capsys.readouterr().err.count("graph break GB")
    assert (report.graph_break_count, len(report.break_reasons)) == (counted, logged)
    assert (report.graph_count, report.graph_break_count) == (graphs, breaks)


def test_a_break_that_comes_back_is_counted_again():
    f = cutaway.compile(outer, backend="eager", dynamic=False)
    mark = EVENT_LOG.mark()
    for size in (2, 3, 4):
        f(cutaway.ones(size))
    assert len(breaks_once(EVENT_LOG.since(mark))) == 3, "one for each size"


def test_both_forms_of_explain():
    x = torch.randn(2, 8)
    assert repr(torch._dynamo.explain(outer)(x)) == repr(torch._dynamo.explain(outer, x))
    explanation, out_guards, graphs, ops_per_graph, break_reasons, verbose = torch._dynamo.explain(outer, x)
    assert explanation == "Dynamo produced 4 graphs with 1 graph break and 4 ops"
    assert len(graphs) == len(ops_per_graph) == 4 and out_guards and len(break_reasons) == 1
    assert "Break Reason 1" in verbose and "Out Guards" in verbose


def test_the_profilers_report():
    with utils.CompileProfiler() as prof:
        f = torch.compile(outer, backend=prof, dynamic=False)
        for size in (2, 3):
            f(torch.ones(size))
        text = prof.report()
    assert prof.frame_count == 8 and prof.op_count == 8
    assert text.startswith("Torchdynamo Profiler Report\n===========================\n\nGraph Breaks\n")
    assert "2 x graph break GB0060" in text and "print(end=" in text and "hint: " in text
    assert "x.shape[0]: 2 -> 3" in text and "mark_dynamic(x, 0) would avoid it" in text
    assert "8 graphs with 8 operators" in text and "fragments" in text
    with utils.CompileProfiler() as quiet:
        torch.compile(lambda x: x.sin().cos(), backend=quiet, fullgraph=True)(torch.ones(2))
    assert "No graph breaks detected." in quiet.report() and "No recompilation detected." in quiet.report()
    assert "fragments" not in quiet.report()


def test_print_graph_breaks_is_a_log(capsys):
    try:
        torch._dynamo.config.print_graph_breaks = True
        torch.compile(outer, backend="eager")(torch.ones(2))
        assert "[graph_breaks] graph break GB0060" in capsys.readouterr().err
        torch._dynamo.config.print_graph_breaks = False
        assert not logs.logs_on()
    finally:
        logs.set_logs()


# ---- compile_times -----------------------------------------------------------------------------------------------


def trained(x, w):
    return ((x @ w).relu() * 2).sum(1)


TIMED = {
    "a pointwise program": (lambda x: (x.sin() + 1).cos(), lambda: (cutaway.randn(8),), {}),
    "a training step": (trained, lambda: (cutaway.randn(4, 6), cutaway.randn(6, 3, requires_grad=True)), {}),
    "open sizes": (lambda x: x.softmax(-1) * x.shape[0], lambda: (cutaway.randn(4, 6),), {"dynamic": True}),
    "a broken program": (two_places, lambda: (cutaway.randn(8),), {}),
    "without kernels": (trained, lambda: (cutaway.randn(4, 6), cutaway.randn(6, 3)), {"backend": "aot_eager"}),
    "captured only": (ModelWithBreaks.forward, lambda: (ModelWithBreaks(), cutaway.randn(2, 8)), {"backend": "eager"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TIMED)
def test_phases_add_up_to_the_clock(name):
    function, inputs, options = TIMED[name]
    arguments = inputs()
    shares = []
    for _ in range(6):  # another process may take the processor between two looks at the clock
        f = cutaway.compile(function, **options)
        mark = EVENT_LOG.mark()
        with cutaway.config.patch(cache=False):
            began = time.perf_counter()
            f(*arguments)
            first = time.perf_counter()
            f(*arguments)
            wall = (first - began) - (time.perf_counter() - first)  # without running what was compiled
        found = times.compiles(EVENT_LOG.since(mark))
        for compiled in found:
            assert sum(compiled.by_phase().values()) == pytest.approx(compiled.seconds, rel=1e-6)
            assert all(seconds > -1e-6 for seconds in compiled.steps.values()), compiled.steps
        shares.append(sum(c.seconds for c in found) / wall)
        if 0.95 < shares[-1] < 1.05:
            break
    assert 0.95 < shares[-1] < 1.05, f"phases are {shares} of the clock"
    if name == "a training step":
        assert found[0].parallel["build"] > 0, "both halves are built in threads of their own"


def test_tables():
    cutaway.compile(inner, backend="eager")(cutaway.ones(2))
    table = utils.compile_times().splitlines()
    assert table[:2] == ["TorchDynamo compilation metrics:", "Function, Runtimes (s)"]
    assert table[2].startswith("compile, 0.") and any(row.startswith("  capture, ") for row in table)
    headers, values = utils.compile_times(repr="csv", aggregate=True)
    assert headers[0] == "compile" and len(headers) == len(values)
    whole, *parts = (float(v) for h, v in zip(headers, values, strict=True) if not h.startswith("("))
    assert sum(parts) == pytest.approx(whole, abs=1e-4)
    with pytest.raises(ValueError, match="it has 'str', 'csv'"):
        utils.compile_times(repr="xml")


def in_pieces(x):
    x = x.sin()
    print("between")
    return x.cos() * 2


def in_one(x):
    return x.sin().cos() * 2


def enough(x):
    x = x.sin().cos().exp().tanh().relu()
    print("between")
    return x.sin().cos().exp().tanh().relu()


@pytest.mark.parametrize(("function", "are"), [(in_pieces, True), (in_one, False), (enough, False)])
def test_fragments_are_said_by_every_view(function, are, capsys):
    """A warning where a break leaves graphs of a few operators, and only there."""
    assert (
        "2 of 2 graphs have fewer than 5 operators" in str(cutaway.explain(function)(cutaway.ones(2)))
    ) is are
    with utils.CompileProfiler() as prof:
        logs.set_logs(perf_hints=True)
        cutaway.compile(function, backend=prof)(cutaway.ones(2))
        logs.set_logs()
    assert ("fragments, which gain little. Begin with the breaks above" in prof.report()) is are
    said = capsys.readouterr().err
    assert (
        "[perf_hints] fragment: the graph of in_pieces has 1 operator; it ends at: graph break" in said
    ) is are
