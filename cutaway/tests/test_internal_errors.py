"""A fault of the compiler itself reaches no user: at compile time, at a launch, in a backward, in a late variant.

Input: faults planted in the machine, each with the call that meets it. The program's own errors pass as they are.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway import inductor, internal_errors
from stage_contracts import events

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.internal_errors, pytest.mark.filterwarnings("ignore:cutaway:UserWarning")]


class Planted(Exception):
    """The fault."""


@pytest.fixture
def launch(monkeypatch):
    """Every graph that is launched fails while `failing` names its place: "forward", "backward" or "variant"."""
    failing, original = set(), inductor.lower_and_build

    def lower_and_build(core, *rest):
        finish = original(core, *rest)

        def finish_with_fault():
            half = finish()
            run = half.run

            def failing_run(*arrays):
                if core.name in failing:
                    raise Planted(core.name)
                return run(*arrays)

            failing_run.program = getattr(run, "program", None)
            half.run = failing_run
            return half

        return finish_with_fault

    monkeypatch.setattr(inductor, "lower_and_build", lower_and_build)
    return failing


def faults(mark):
    return [(e.name, e.details["stage"], e.details["error"]) for e in events.internal_errors(mark)]


def test_a_second_call(launch):
    f = cutaway.compile(lambda x: (x * 2, x.sum()))
    x = cutaway.randn(3)
    f(x)
    launch.add("forward")
    mark = events.EVENT_LOG.mark()
    for _ in range(3):
        assert f(x)[0].tolist() == (x * 2).tolist()
    ((_, stage, error),) = faults(mark)  # told once
    assert stage == "launch" and "Planted" in error


def test_with_gradients_and_the_same_random_bits(launch):
    def step(x):
        return (cutaway.rand(4) * x).sum()

    def trained(f):
        cutaway.manual_seed(3)
        x = cutaway.ones(4, requires_grad=True)
        f(x).backward()
        return x.grad.tolist(), cutaway.rand(1).tolist()

    f = cutaway.compile(step)
    assert trained(f) == trained(step)
    launch.add("forward")
    mark = events.EVENT_LOG.mark()
    assert trained(f) == trained(step)
    assert len(faults(mark)) == 1


def test_a_backward(launch):
    f, x = cutaway.compile(lambda x: (x.sin() * x).sum()), cutaway.randn(5, requires_grad=True)
    launch.add("backward")
    mark = events.EVENT_LOG.mark()
    f(x).backward()
    want = x.detach().clone().requires_grad_()
    (want.sin() * want).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want.grad.numpy(), rtol=1e-6)
    assert len(faults(mark)) == 1


def test_a_late_variant(monkeypatch):
    def f(x, y):
        x.add_(1)
        return x + y

    compiled = cutaway.compile(f)
    compiled(cutaway.ones(3), cutaway.ones(3))
    original, mark = inductor.two_graphs, events.EVENT_LOG.mark()

    def fails(*_):
        raise Planted

    monkeypatch.setattr(inductor, "two_graphs", fails)
    for _ in range(2):
        x = cutaway.ones(3)
        assert compiled(x, x).tolist() == [4, 4, 4] and x.tolist() == [2, 2, 2]
    assert len(faults(mark)) == 1
    assert original is not inductor.two_graphs


def test_a_late_variant_has_the_settings_of_its_function(monkeypatch):
    def f(x, y):
        x.add_(1)
        return x + y

    compiled = cutaway.compile(f, options={"suppress_errors": False})
    compiled(cutaway.ones(3), cutaway.ones(3))

    def fails(*_):
        raise Planted

    monkeypatch.setattr(inductor, "lower_and_build", fails)
    mark, x = events.EVENT_LOG.mark(), cutaway.ones(3)
    with pytest.raises(Planted):
        compiled(x, x)
    assert faults(mark) == [] and x.tolist() == [1, 1, 1]


def index_out_of_range(x):
    return x[cutaway.tensor([9])]


def singular(x):
    return cutaway.linalg.inv(x.reshape(2, 2) * 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [index_out_of_range, singular])
def test_the_programs_own_errors_pass(program, backend):
    compiled, x = cutaway.compile(program, backend=backend), cutaway.ones(4)
    mark, kinds = events.EVENT_LOG.mark(), []
    for f in (program, compiled, compiled):
        with pytest.raises(Exception) as caught:
            f(x)
        kinds.append(caught.type)
    assert issubclass(kinds[1], kinds[0]) and issubclass(kinds[2], kinds[0])
    assert faults(mark) == []


# ---- while compiling ----------------------------------------------------------------------------------------------


def test_a_fault_with_open_sizes_is_told_and_known_sizes_compile(monkeypatch):
    original = inductor.lower_and_build

    def fails_when_open(core, *rest):
        if any("s" in str(size) for n in core.placeholders for size in n.val.shape):
            raise Planted
        return original(core, *rest)

    monkeypatch.setattr(inductor, "lower_and_build", fails_when_open)
    f, mark = cutaway.compile(lambda x: x * 2, dynamic=True), events.EVENT_LOG.mark()
    assert f(cutaway.ones(3)).tolist() == [2, 2, 2]
    assert len(faults(mark)) == 1 and f.entries
    mark = events.EVENT_LOG.mark()
    with pytest.raises(Planted):
        cutaway.compile(lambda x: x * 2, dynamic=True, options={"suppress_errors": False})(cutaway.ones(3))


@pytest.fixture
def fails_for_threes(monkeypatch):
    """Compiling fails for tensors of three elements; how often it was tried."""
    tried, original = Counter(), inductor.lower_and_build

    def lower_and_build(core, *rest):
        size = core.placeholders[0].val.shape[0]
        tried[size] += 1
        if size % 3 == 0:
            raise Planted
        return original(core, *rest)

    monkeypatch.setattr(inductor, "lower_and_build", lower_and_build)
    return tried


def test_other_shapes_still_compile(fails_for_threes):
    f = cutaway.compile(lambda x: x * 2, dynamic=False)
    for size in (3, 3, 4, 3, 4, 5):
        assert f(cutaway.ones(size)).tolist() == [2] * size
    assert fails_for_threes == {3: 1, 4: 1, 5: 1} and len(f.entries) == 2


def test_one_cause_is_tried_so_often_and_no_more(fails_for_threes):
    f, mark = cutaway.compile(lambda x: x * 2, dynamic=False), events.EVENT_LOG.mark()
    for size in range(3, 60, 3):
        assert f(cutaway.ones(size)).tolist() == [2] * size
    assert sum(fails_for_threes.values()) == internal_errors.ATTEMPTS == len(faults(mark))
    cutaway.reset(f)
    f(cutaway.ones(4))
    assert len(f.entries) == 1


# ---- a process of its own -----------------------------------------------------------------------------------------

PROGRAM = """
import cutaway
from cutaway import inductor
def fails(*_): raise KeyError("planted")
inductor.lower_and_build = fails
print(cutaway.compile(lambda x: x * 2)(cutaway.ones(2)).tolist())
"""


@pytest.mark.parametrize("variable, status", [("exit", 70), ("", 0)])
def test_a_process_can_be_made_to_end_with_an_error(variable, status):
    environment = {**os.environ, "CUTAWAY_INTERNAL_ERRORS": variable}
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True,
                          cwd=ROOT, env=environment)  # fmt: skip
    assert done.returncode == status and "[2.0, 2.0]" in done.stdout, done.stderr
    assert "please report" in done.stderr or not status
