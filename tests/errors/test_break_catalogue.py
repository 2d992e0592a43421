"""Every code of the catalogue of breaks is shown by a program that breaks so, and by one that says it without a break.

Input: the files break_examples*.py, which the site's page shows.
"""

import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import cutaway
from stage_contracts import events, python_version
from stage_contracts.breaks import CATALOGUE, GraphBreak, Unsupported
from stage_contracts.guards import GUARD_KINDS
from tests.errors import break_examples, break_examples_calls, break_examples_language, break_examples_writes

ROOT = Path(__file__).parents[2]
PACKAGES = ("cutaway", *(path.name for path in ROOT.glob("stage*")))

EXAMPLES = (break_examples, break_examples_language, break_examples_calls, break_examples_writes)
ASKED = "GB0021"  # graph_break(), which an example may need before the break it shows


def outcome(function, args):
    cutaway.manual_seed(0)
    try:
        result = function(*args)
    except Exception as error:
        return "raises", re.sub(r"0x\w+", "", str(error))
    return "returns", (result[0] if isinstance(result, tuple) else result).detach().numpy()


def codes_met(compiled, mark):
    """Those of the breaks in their order, then of what was compiled another way than asked."""
    fallbacks = [e.details.get("code") for e in events.EVENT_LOG.since(mark) if e.kind == "fallback"]
    return [b.code for b in compiled.breaks] + [code for code in fallbacks if code]


def parts(name):
    """The two programs of a code, their arguments, and what compile() is told of each."""
    (home,) = [module for module in EXAMPLES if hasattr(module, name)]
    both = (name, f"{name}_instead")
    told = getattr(home, "SETTINGS", {})
    settings = told.get(name, {"backend": "eager"})
    arguments = [home.ARGUMENTS.get(one, lambda: (cutaway.ones(3),)) for one in both]
    return [getattr(home, one) for one in both], arguments, [settings, told.get(both[1], settings)]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_the_example_breaks_so_and_its_replacement_does_not(code, monkeypatch):
    """The first break is of this code; what Python runs then may break in its turn."""
    (example, instead), (given, given_instead), (settings, whole) = parts(code.lower())
    compiled = cutaway.compile(example, **settings)
    captured = cutaway.compile(instead, fullgraph=True, **whole)
    want = outcome(example, given())
    mark = events.EVENT_LOG.mark()
    with monkeypatch.context() as patched:
        if code == "GB0007":  # no program's doing
            patched.setattr(python_version, "VERSION", (3, 99))
        got = outcome(compiled, given())
    assert got[0] == want[0]
    np.testing.assert_array_equal(got[1], want[1])
    first = [met for met in codes_met(compiled, mark) if met != ASKED or code == ASKED][:1]
    assert first == [code], [str(b) for b in compiled.breaks]
    mark = events.EVENT_LOG.mark()
    result = outcome(captured, given_instead())
    if got[0] == "returns":
        np.testing.assert_array_equal(result[1], got[1])
    assert result[0] == "returns" and not codes_met(captured, mark)


def test_every_code_in_the_source_is_in_the_catalogue_and_the_other_way_round():
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    files = [path for path in files if "tests" not in path.parts and path.name != "breaks.py"]
    used = {code for path in files for code in re.findall(r"GB\d{4}", path.read_text(encoding="utf-8"))}
    assert used == set(CATALOGUE)


def test_no_use_gives_a_hint_of_its_own_or_leaves_the_code_out():
    """A code has one hint, the catalogue's: neither the report nor the exception takes another."""
    for kind in (GraphBreak, Unsupported):
        assert "hint" not in inspect.signature(kind).parameters
        assert inspect.signature(kind).parameters["code"].default is inspect.Parameter.empty


def test_no_two_codes_say_the_same():
    for texts in zip(*CATALOGUE.values(), strict=True):
        assert len(set(texts)) == len(CATALOGUE)
    assert list(CATALOGUE) == sorted(CATALOGUE)


def test_a_loop_that_broke_is_no_iterator_of_the_users():
    def steps(x):
        for _ in range(2):
            x = x + x.sum().item()
        return x

    told = str(cutaway.explain(steps)(cutaway.ones(3)))
    assert "a loop in which the frame broke goes on with the iterator it had" in told
    assert "hint: avoid the break inside the loop" in told and "pass the container itself" not in told


def page_maker():
    path = ROOT / "site_docs" / "break_catalogue.py"
    spec = importlib.util.spec_from_file_location("break_catalogue", path)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    return page


def test_a_page_lists_every_kind_of_guard():
    text = page_maker().guards_page()
    for kind, row in GUARD_KINDS.items():
        assert f"| `{kind}` | {row.meaning} | `{row.template}` |" in text


def test_the_page_shows_every_code_with_its_programs():
    text = page_maker().catalogue_page()
    for code, (title, hint) in CATALOGUE.items():
        assert f"## {code}" in text and title[1:] in text and hint in text
    assert "except* ValueError:" in text and "def gb0003_instead" not in text and "cutaway.where(" in text
    assert "def logged(x):" in text and "# breaks, called as f(cutaway.ones(3), iter([2.0, 3.0]))" in text
    assert "# compiled with backend='inductor', dynamic=True" in text
