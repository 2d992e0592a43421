"""The minifier: what it leaves is small, and fails as the whole program did, run alone.

Input: a program of twenty operators and faults planted where core.tanh is compiled: an error, a crash of the process, a
wrong value. The oracle of the search itself: lists whose needed things are known.
"""

import os
import random
import re
import runpy
import signal
from contextlib import contextmanager

import pytest

import cutaway
from cutaway import compile_frame, config, inductor
from cutaway.debug.minify import NothingToMinify, minify
from cutaway.debug.minify.children import first_that_fails
from cutaway.debug.minify.cuts import cut, values_of
from cutaway.debug.minify.failure import failure_of
from cutaway.debug.minify.search import _opened as opened
from cutaway.debug.minify.simpler import passed_over, without_dead_calls
from cutaway.debug.minify.smallest import smallest
from stage0_eager.serialization import save
from stage_contracts.errors import VerifyError


def program(x, w):
    for _ in range(4):
        x = (x @ w).relu() + 0.5
    y = cutaway.tanh(x) * 3.0
    for _ in range(4):
        y = (y - x).sin()
    return y.sum()


def names(graph):
    return [getattr(call.target, "qualname", "") for call in graph.calls]


@contextmanager
def planted(fault):
    """`fault(graph)` is called before a graph with a tanh is lowered, and gives the graph to lower."""
    original = inductor.lower_and_build

    def lower_and_build(core, *rest):
        return original(fault(core) if "core.tanh" in names(core) else core, *rest)

    inductor.lower_and_build = lower_and_build
    try:
        yield
    finally:
        inductor.lower_and_build = original


def raises(graph):
    raise KeyError(f"a fault at {id(graph)}")


def is_killed(graph):
    os.kill(os.getpid(), signal.SIGSEGV)


def is_wrong(graph):
    wrong = graph.copy()
    node = next(call for call in wrong.calls if call.target.qualname == "core.tanh")
    with wrong.inserting_before(node):
        twice = wrong.call_function(node.target, node.args, val=node.val)
    wrong.set_args(node, [twice])
    return wrong


def saved(tmp_path, fault, level):
    """The program that repro_after saves; one that kills the process is saved before, without the fault."""
    settings = {
        "capture.repro_after": "aot",
        "capture.repro_level": level,
        "runtime.cxx_flags": "-O0",
        "runtime.force_disable_caches": True,
    }
    with config.patch(settings), planted(fault if fault is not is_killed else lambda graph: graph):
        try:
            cutaway.compile(program)(cutaway.randn(6, 8), cutaway.randn(8, 8))
        except Exception as error:
            assert "cutaway minify" in "".join(error.__notes__)
    (path,) = tmp_path.glob("cutaway_repro/*.py")
    return path


@pytest.mark.parametrize(
    "fault, level, kind", [(raises, 2, "KeyError"), (is_killed, 3, "killed"), (is_wrong, 4, "VerifyError")]
)
def test_one_operator_is_left_and_it_fails_alone(fault, level, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, fault, level)
    with planted(fault), config.patch({"runtime.cxx_flags": "-O0"}):
        found = minify(path)
        assert (found.failure.kind, found.operators) == (kind, 1)
        assert found.before > 15
        again = first_that_fails([tmp_path / "repro.py"], found.failure, 60, 1)
        assert again == (0, found.failure)
        # the checkpoints hold what was found: a second search begins there
        resumed = minify(path)
        assert resumed.operators == 1
        assert resumed.runs < found.runs
    assert (tmp_path / "minifier_launcher.py").exists() == (level > 1)
    assert "tanh" in (tmp_path / "repro.py").read_text()


REORDERED = """
import cutaway
from cutaway.repro_program import Saved, operators
core = operators("core")

def forward(a, b, c):
    return core.exp(b), core.mul(c, a)

Saved(__file__).run(forward, [cutaway.ones(2), cutaway.ones(4), cutaway.ones(2)], backend="inductor", options={})
"""


def test_inputs_are_in_the_order_in_which_the_graph_reads_them(tmp_path):
    """Captured again, a half's graph has its inputs in the order of their readers: they were paired with others."""
    path = tmp_path / "half.py"
    path.write_text(REORDERED)
    save({}, path.with_suffix(".safetensors"))
    graph, inputs, *_ = opened(path)
    assert [tuple(one.shape) for one in inputs] == [node.val.shape for node in graph.placeholders]


def test_an_input_of_infinities_becomes_zeros(tmp_path, monkeypatch):
    """0 * inf is no zero: the search for zeros did not end."""
    monkeypatch.chdir(tmp_path)
    settings = {"capture.repro_after": "aot", "runtime.force_disable_caches": True}
    mask = cutaway.full((3, 4), float("-inf"))
    with planted(raises), config.patch({**settings, "runtime.cxx_flags": "-O0"}):
        with pytest.raises(KeyError):
            cutaway.compile(lambda x: cutaway.tanh(x), fullgraph=True)(mask)
        (path,) = tmp_path.glob("cutaway_repro/*.py")
        found = minify(path)
    assert found.operators == 1
    assert found.runs < 20


def test_a_wrong_guard_is_a_program_of_two_calls(tmp_path, monkeypatch):
    """The guard on the number is not checked, so the entry of the first call is taken for the second."""
    monkeypatch.chdir(tmp_path)
    made = compile_frame.guard_function

    def weaker(guards, *rest):
        return made(tuple(g for g in guards if "dim" not in str(g.source)), *rest)

    monkeypatch.setattr(compile_frame, "guard_function", weaker)
    compiled = cutaway.compile(lambda x, dim: (x + 2).sin().softmax(dim).exp())
    with config.patch({"capture.repro_after": "dynamo", "capture.repro_level": 4}):
        compiled(cutaway.ones(4, 3), 1)
        with pytest.raises(VerifyError, match="the guard type.dim. .* is wrong.*1 -> 0") as raised:
            compiled(cutaway.ones(4, 3), 0)
    assert "cutaway minify" in "".join(raised.value.__notes__)
    (path,) = tmp_path.glob("cutaway_repro/*.py")
    found = minify(path)
    assert found.operators == 1
    text = (tmp_path / "repro.py").read_text()
    assert "then={'dim': 0}" in text
    assert minify(path).operators == 1  # from the checkpoint
    assert re.search(r"def forward\([^)]*\bdim\b", text)
    monkeypatch.undo()  # without the fault, both calls are right
    monkeypatch.chdir(tmp_path)
    assert first_that_fails([tmp_path / "repro.py"], None, 60, 1) is None


def graph_of(fn, *inputs):
    seen = []
    cutaway.compile(fn, backend=lambda gm, _: seen.append(gm.graph) or gm, fullgraph=True)(*inputs)
    return cut(seen[0], values_of(seen[0], inputs), seen[0].calls)


def test_calls_that_no_result_needs_go():
    """Fewer results left calls whose values nobody read: 14 operators of GPT-2 stayed where 10 do."""
    state = graph_of(lambda x: (x.sin().exp(), x.cos()), cutaway.ones(3))
    graph, inputs = state
    graph.set_args(graph.output_node, (graph.outputs[1:],))
    ((less, same),) = without_dead_calls(state)
    assert (names(less), same) == (["cutaway.cos"], inputs)
    assert list(without_dead_calls((less, same))) == []


def test_a_call_is_passed_over_where_its_reader_can_read_what_it_read():
    """sin has the type of x, and so has the product; the sum has not."""
    state = graph_of(lambda x: (x.sin() * 2.0).sum(), cutaway.ones(3))
    assert [names(graph) for graph, _ in passed_over(state)] == [
        ["cutaway.mul", "cutaway.sum"],
        ["cutaway.sin", "cutaway.sum"],
    ]


def test_what_does_not_fail_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, raises, 2)
    with config.patch({"runtime.cxx_flags": "-O0"}), pytest.raises(NothingToMinify, match="does not fail"):
        minify(path)
        runpy.run_path(str(path))


def test_a_program_that_fails_otherwise_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, raises, 2)
    path.write_text(path.read_text().replace("saved.run", "missing.run"))
    with pytest.raises(NothingToMinify, match="failed with KeyError, but now with NameError"):
        minify(path)


@pytest.mark.parametrize("seed", range(30))
def test_the_search_keeps_what_is_needed_and_no_more(seed):
    drawn = random.Random(seed)
    things = list(range(drawn.randint(1, 60)))
    needed = set(drawn.sample(things, min(len(things), drawn.randint(1, 5))))
    left = smallest(things, lambda parts: next((i for i, p in enumerate(parts) if needed <= set(p)), None))
    assert left == sorted(needed)


def test_failures_are_compared_without_their_numbers():
    assert failure_of(KeyError("at 0x7f12, size 3")) == failure_of(KeyError("at 0x81aa, size 14"))
    assert failure_of(KeyError("a")) != failure_of(ValueError("a"))
    assert failure_of(ValueError("a")) != failure_of(ValueError("b"))
