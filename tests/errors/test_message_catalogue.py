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
from cutaway.nn import functional as F

import cutaway
from cutaway import inductor
from cutaway.subjects import PRIVATE, SUBJECTS
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
def test_the_program_makes_the_message_appear(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = getattr(message_examples, row)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            example()
            said, kind = "\n".join(str(w.message) for w in warned), "warning"
        except Exception as error:
            said, kind = str(error), type(error).__name__
            if MESSAGES[row][0] == "note":
                said, kind = "\n".join(error.__notes__), "note"
    assert kind == MESSAGES[row][0] and re.search(pattern(row), said), said


def test_every_row_is_said_somewhere():
    sources = [p for p in ROOT.glob("*/**/*.py") if p.parts[len(ROOT.parts)][0] != "."]
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
    for name in ("sparse", "quantization", "export", "nested"):
        with pytest.raises(AttributeError) as told:
            getattr(torch, name)
        assert "nearest" not in str(told.value) and str(told.value).endswith(SUBJECTS[name])


# torch's documented modules. Each is here, or an import says what its subject is and whether it is planned.
MODULES = """
accelerator amp ao autograd backends compiler cpu cuda distributed distributions export fft func futures fx hub jit
library linalg masked monitor mps mtia multiprocessing nested nn nn.functional nn.init nn.quantized nn.utils onnx optim
overrides package profiler quantization quasirandom random signal sparse special storage testing types utils
utils.benchmark utils.bottleneck utils.checkpoint utils.cpp_extension utils.data utils.deterministic utils.dlpack
utils.flop_counter utils.mobile_optimizer utils.model_zoo utils.tensorboard version xpu
""".split()


@pytest.mark.parametrize("ways", ["import torch.{0}", "from torch.{1} import {2}"])
def test_every_documented_module_of_torchs_is_here_or_its_subject_is_said(ways):
    bare = {}
    for name in MODULES:
        parent, _, last = f"torch.{name}".rpartition(".")
        statement = ways.format(name, parent.partition(".")[2], last).replace("torch. ", "torch ")
        with cutaway.torch_api.as_torch():
            try:
                exec(statement, {})
            except ImportError as told:
                said = str(told)
                if f"torch.{name}: " not in said or not said.endswith((*SUBJECTS.values(), PRIVATE)):
                    bare[statement] = said
    assert bare == {}


def test_imports_of_names_propose_only_what_is_near():
    def said(statement):
        with cutaway.torch_api.as_torch(), pytest.raises(ImportError) as told:
            exec(statement, {})
        return str(told.value)

    assert (
        said("from torch.nn import Linera")
        == "Cutaway has no torch.nn.Linera; the nearest it has is torch.nn.Linear"
    )
    assert "nearest" not in said("import torch.sparse") + said("from torch import sparse")
    assert said("import torch.sparse.sub").startswith("Cutaway has no module torch.sparse:")
    assert said("import torch.optm") == "Cutaway has no module torch.optm; the nearest it has is torch.optim"
    assert "private" in said("from torch._inductor import utils")


def test_who_asks_for_a_module_gets_none_and_what_can_do_without_goes_on():
    with cutaway.torch_api.as_torch():
        assert importlib.util.find_spec("torch.nested") is None
        try:
            import torch.sparse as found
        except ModuleNotFoundError as error:
            assert error.name == "torch.sparse"
            found = None
        assert found is None
    assert not any(type(finder).__name__ == "_Missing" for finder in sys.meta_path)


RECORDS = [
    cutaway.DEFAULT_PIPELINE,
    *(getattr(cutaway.config.current(), f.name) for f in fields(cutaway.config.Config)),
]


@pytest.mark.parametrize("record", [*RECORDS, cutaway.config.current()], ids=lambda r: type(r).__name__)
def test_a_field_misspelt_in_any_way_is_named(record):
    for name in (f.name for f in fields(record)):
        for wrong in {name[:-1], name + "e", name[1:] + name[:1], name.upper()} - {
            f.name for f in fields(record)
        }:
            with pytest.raises(TypeError) as told:
                replace(record, **{wrong: None})
            assert f"{type(record).__name__} has no field {wrong!r}" in str(told.value)
            if len(name) > 4 and wrong == name + "e":
                assert f"did you mean {name!r}?" in str(told.value)


@pytest.mark.parametrize("section", [f.name for f in fields(cutaway.config.Config)])
def test_a_variable_without_its_section_or_misspelt_is_named(section):
    for f in fields(getattr(cutaway.config.current(), section)):
        full = f"CUTAWAY_{section}_{f.name}".upper()
        known = cutaway.config.variables_of(f"{section}.{f.name}")
        for wrong in (f"CUTAWAY_{f.name}".upper(), full + "S", full[:8] + full[8:].replace("_", "", 1)):
            if wrong not in known:
                with pytest.warns(UserWarning, match=f"did you mean '{full}'"):
                    cutaway.config.environment_in_words({wrong: ""})


@pytest.mark.parametrize("make", ["function", "module", "in place"])
def test_before_the_first_call_artifacts_say_so(make):
    class Doubles(cutaway.nn.Module):
        def forward(self, x):
            return x * 2

    made = cutaway.compile(message_examples.double) if make == "function" else Doubles()
    if make == "module":
        made = cutaway.compile(made)
    if make == "in place":
        made.compile()
    name = "double" if make == "function" else "Doubles"
    with pytest.raises(IndexError, match=f"{name} has no artifacts yet"):
        made.artifacts[-1]
    assert "it was not compiled" in str(made.artifacts) and made.artifacts == []
    made(cutaway.ones(2))
    assert len(made.artifacts) == 1 and "it was not compiled" not in repr(made.artifacts)


def test_losses_raise_the_same_compiled_and_eager():
    """As torch 2.13's: a negative variance raises compiled too (its call breaks the graph), no probability gives NaN."""
    zero, bad = cutaway.zeros(2), cutaway.tensor([1.0, -1.0])
    for backend in ("eager", "aot_eager", "inductor"):
        likelihood = cutaway.compile(lambda v: F.gaussian_nll_loss(zero, zero, v) * 2, backend=backend)
        assert (
            likelihood(cutaway.ones(2)).item() == F.gaussian_nll_loss(zero, zero, cutaway.ones(2)).item() * 2
        )
        with pytest.raises(ValueError, match="negative"):
            likelihood(bad)
        entropy = cutaway.compile(lambda p: F.binary_cross_entropy(p, zero), backend=backend)
        if backend == "inductor":
            assert entropy(cutaway.tensor([0.5, 1.5])).isnan()


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
