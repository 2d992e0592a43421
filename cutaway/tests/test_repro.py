"""repro_after: what fails is raised, not swallowed, and a program is saved that fails in the same way when it is run.

Input: faults planted while a graph is compiled and when it is launched, in programs with views, control flow, constants,
random draws and open sizes. The same program, run without the fault, does not fail: so it is the fault that it shows.
"""

import runpy
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import cutaway
from cutaway import inductor
from cutaway.torch_api import torch
from stage_contracts import config, events
from tests.errors.message_examples import a_faulty_pass

ROOT = Path(__file__).parent.parent.parent
CONSTANT = cutaway.arange(3.0)


class Planted(Exception):
    """The fault."""


@contextmanager
def a_faulty_launch():
    original = inductor.lower_and_build

    def lower_and_build(core, *rest):
        built = original(core, *rest)

        def finish():
            half = built()

            def fails(*arrays):
                raise Planted(core.name)

            half.run = fails
            return half

        return finish

    inductor.lower_and_build = lower_and_build
    try:
        yield
    finally:
        inductor.lower_and_build = original


def views(x, w):
    return (x * w + CONSTANT).sum(), x.shape[0]


def writes(x, w):
    with cutaway.no_grad():
        x.add_(cutaway.rand(4, 3))
    return (x * w).sum()


def branches(x, w):
    y = cutaway.cond(x.sum() > 1, lambda a: a * 2, lambda a: a - 1, (x,))
    return (y * w).sum()


def arguments():
    return cutaway.ones(3, 4).t(), cutaway.ones(3, requires_grad=True)


def again(path, fault, kind):
    with fault(), pytest.raises(kind):
        runpy.run_path(str(path))
    runpy.run_path(str(path))


@pytest.mark.parametrize(
    "program, after, dynamic, fault, kind",
    [
        (views, "dynamo", True, a_faulty_pass, KeyError),
        (views, "aot", False, a_faulty_launch, Planted),
        (writes, "dynamo", False, a_faulty_launch, Planted),
        (writes, "aot", True, a_faulty_pass, KeyError),
        (branches, "dynamo", False, a_faulty_pass, KeyError),
        (branches, "aot", False, a_faulty_launch, Planted),
    ],
)
def test_the_saved_program_fails_again(program, after, dynamic, fault, kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mark = events.EVENT_LOG.mark()
    with config.patch({"runtime.cxx_flags": "-O0"}):
        with fault(), config.patch(repro_after=after), pytest.raises(kind) as raised:
            cutaway.compile(program, dynamic=dynamic)(*arguments())
        assert any("reproduces this failure" in note for note in raised.value.__notes__)
        path = min(tmp_path.glob("cutaway_repro/*.py"))
        again(path, fault, kind)
    assert capsys.readouterr().err == "it did not fail\n"
    assert ("dynamic=True" in path.read_text()) == dynamic
    assert events.internal_errors(mark) == []


def broken(graph, inputs):
    raise Planted("a backend of the user's")


@pytest.mark.parametrize("backend", [broken, lambda graph, inputs: broken(graph, inputs)])
def test_a_backend_of_the_users(backend, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with config.patch(repro_after="dynamo", suppress_errors=True), pytest.raises(Exception, match="Planted"):
        cutaway.compile(views, backend=backend)(*arguments())
    (path,) = tmp_path.glob("cutaway_repro/*.py")
    with pytest.raises(
        Exception, match="Planted" if backend is broken else "<lambda>|invalid syntax|not defined"
    ):
        runpy.run_path(str(path))


def test_nothing_is_saved_where_nothing_fails_or_a_break_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for after in ("dynamo", "aot"):
        with config.patch(repro_after=after):
            cutaway.compile(views)(*arguments())
            with pytest.raises(cutaway.Unsupported):
                cutaway.compile(lambda x: (print(), x)[1], fullgraph=True)(cutaway.ones(2))
    assert not list(tmp_path.iterdir())


FAILS = """
import cutaway
from tests.errors.message_examples import a_faulty_pass
with a_faulty_pass():
    cutaway.compile(lambda x: x * 2)(cutaway.ones(2))
"""


@pytest.mark.parametrize(
    "variable", ["CUTAWAY_REPRO_AFTER", "TORCHDYNAMO_REPRO_AFTER", "CUTAWAY_CAPTURE_REPRO_AFTER"]
)
def test_the_variables(variable, tmp_path):
    run = subprocess.run([sys.executable, "-c", FAILS], check=False, capture_output=True, text=True, cwd=tmp_path,
                         env={"PYTHONPATH": str(ROOT), variable: "aot"})  # fmt: skip
    assert run.returncode == 1 and "KeyError: 'a fault'" in run.stderr, run.stderr
    assert "reproduces this failure" in run.stderr and len([*tmp_path.glob("cutaway_repro/*.py")]) == 1
    assert "unknown environment variable" not in run.stderr


def test_a_wrong_value_of_a_variable_is_one_warning(tmp_path):
    run = subprocess.run([sys.executable, "-c", "import cutaway"], check=False, capture_output=True, text=True,
                         cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "TORCHDYNAMO_REPRO_AFTER": "dynamoo"})  # fmt: skip
    assert run.returncode == 0 and "did you mean 'dynamo'" in run.stderr


def test_torchs_name():
    with torch._dynamo.config.patch(repro_after="aot"):
        assert config.current().capture.repro_after == torch._dynamo.config.repro_after == "aot"
    assert torch._dynamo.config.repro_after is None
