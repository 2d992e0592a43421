"""Every row of the catalogue of messages is shown by a program; seams, names, variables and internal errors beside it.

Input: message_examples.py, and stage_contracts/messages.py.
"""

import importlib.util
import os
import re
import subprocess
import sys
import warnings
from dataclasses import fields, replace
from pathlib import Path

import pytest

import cutaway
from cutaway import inductor
from cutaway.torch_api import torch
from stage_contracts import events
from stage_contracts.errors import SeamError
from stage_contracts.messages import MESSAGES, near
from stage_contracts.pipeline import Pipeline
from tests.errors import message_examples

ROOT = Path(__file__).parent.parent.parent


def pattern(row):
    return re.sub(r"\\\{.*?\\\}", "(?:.|\n)*?", re.escape(MESSAGES[row][2]))


@pytest.mark.internal_errors
@pytest.mark.parametrize("row", MESSAGES)
def test_the_program_makes_the_message_appear(row):
    example = getattr(message_examples, row)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            example()
            said, kind = "\n".join(str(w.message) for w in warned), "warning"
        except Exception as error:
            said, kind = str(error), type(error).__name__
    assert kind == MESSAGES[row][0] and re.search(pattern(row), said), said


def test_every_row_is_said_somewhere():
    sources = [*ROOT.glob("*/*.py"), *ROOT.glob("cutaway/debug/*.py")]
    text = "\n".join(p.read_text(encoding="utf-8") for p in sources)
    assert {row for row in MESSAGES if not re.search(rf'say\(\s*"{row}"', text)} == set()


def test_a_page_shows_every_row_with_its_program():
    path = ROOT / "site_docs" / "message_catalogue.py"
    spec = importlib.util.spec_from_file_location("message_catalogue", path)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    text = page.messages_page()
    for row, (_, when, _, do) in MESSAGES.items():
        assert f"## {row}" in text and when[1:] in text and do in text
    assert "full_graph=True" in text


@pytest.mark.parametrize("seam", [f.name for f in fields(Pipeline)])
def test_every_seam_is_held_to_its_contract(seam):
    with pytest.raises(SeamError, match=f"seam '{seam}'.*cannot be called with"):
        cutaway.compile(lambda x: x, pipeline=replace(cutaway.DEFAULT_PIPELINE, **{seam: lambda: None}))
    wrong = replace(
        cutaway.DEFAULT_PIPELINE, **{seam: lambda *a, **k: "text" if seam == "dispatch" else None}
    )
    x = cutaway.ones(3, requires_grad=True)
    with pytest.raises(SeamError, match=f"seam '{seam}'.*returned"), cutaway.config.patch(cache=False):
        cutaway.compile(lambda x: (x * 2).sum(), pipeline=wrong)(x)


NEAR = {"full_graph": "fullgraph", "fulgraph": "fullgraph", "hub": None, "inductr": "inductor", "sbu": None}


@pytest.mark.parametrize("name", NEAR)
def test_only_what_is_near_is_proposed(name):
    assert near(name, ["sub", "fullgraph", "inductor", "distributed"]) == NEAR[name]


def test_missing_subjects_are_explained_and_nothing_else_proposed():
    for name in ("hub", "distributions", "fft", "onnx", "sparse", "quantization", "export"):
        with pytest.raises(AttributeError) as told:
            getattr(torch, name)
        assert "nearest" not in str(told.value) and (
            "planned" in str(told.value) or "not here" in str(told.value)
        )


def test_the_environment_never_stops_the_import():
    wrong = {"CUTAWAY_LOGS": "nonsense", "CUTAWAY_LOG": "x", "CUTAWAY_RUNTIME_CACHE": "maybe"}
    run = subprocess.run([sys.executable, "-c", "import cutaway; print(cutaway.ones(1))"], check=False,
                         capture_output=True, text=True, cwd=ROOT, env={**os.environ, **wrong})  # fmt: skip
    assert run.returncode == 0 and "tensor" in run.stdout
    for words in ("'nonsense'", "did you mean 'CUTAWAY_LOGS'", "CUTAWAY_RUNTIME_CACHE='maybe'"):
        assert words in run.stderr


# ---- internal errors ---------------------------------------------------------------------------------------------


def fails(*_, **__):
    raise KeyError("a fault")


@pytest.fixture
def faulty(monkeypatch):
    monkeypatch.setattr(inductor, "lower_and_build", fails)
    return lambda **options: cutaway.compile(lambda x: x * 2, **options)


@pytest.mark.internal_errors
def test_an_internal_error_runs_eagerly_and_is_recorded_once(faulty):
    mark, f = events.EVENT_LOG.mark(), faulty()
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert f(cutaway.ones(2)).tolist() == [2, 2]
    assert f(cutaway.ones(2)).tolist() == [2, 2]
    (event,) = events.internal_errors(mark)
    assert "KeyError" in event.details["report"] and "please report" in event.details["report"]
    with (
        pytest.warns(UserWarning),
        pytest.raises(AssertionError, match="KeyError"),
        events.no_internal_errors(),
    ):
        faulty()(cutaway.ones(2))


@pytest.mark.internal_errors
def test_explain_shows_an_internal_error(faulty):
    with pytest.warns(UserWarning):
        assert "Internal Error:" in str(cutaway.explain(faulty())(cutaway.ones(2)))


def test_it_is_raised_where_the_user_asked(faulty):
    for options in ({"fullgraph": True}, {"options": {"suppress_errors": False}}):
        with pytest.raises(KeyError, match="a fault"):
            faulty(**options)(cutaway.ones(2))


def test_what_a_swapped_seam_raises_is_the_users():
    f = cutaway.compile(
        lambda x: x * 2, pipeline=replace(cutaway.DEFAULT_PIPELINE, lower=lambda graph: fails())
    )
    with pytest.raises(KeyError, match="a fault"):
        f(cutaway.ones(2))
