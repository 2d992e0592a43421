"""Every code of the catalogue of breaks is shown by a program that breaks so, and by one that says it without a break.

Input: break_examples.py, which the site's page shows.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import cutaway
from stage_contracts.breaks import CATALOGUE
from stage_contracts.guards import GUARD_KINDS
from tests import break_examples

# Not the program's doing: another Python, a backend that refuses. Their tests are stage 1's and the backends'.
NOT_SHOWN = {"GB0007", "GB0008"}
SHOWN = sorted(set(CATALOGUE) - NOT_SHOWN)


def outcome(function, args):
    try:
        return "returns", function(*args)
    except ValueError as error:
        return "raises", str(error)


@pytest.mark.parametrize("code", SHOWN)
def test_the_example_breaks_and_its_replacement_does_not(code):
    name = code.lower()
    example, instead = getattr(break_examples, name), getattr(break_examples, f"{name}_instead")
    compiled = cutaway.compile(example, backend="eager")
    got, want = (
        outcome(compiled, break_examples.arguments(name)),
        outcome(example, break_examples.arguments(name)),
    )
    assert got[0] == want[0]
    if got[0] == "raises":
        assert got == want
    else:
        np.testing.assert_array_equal(got[1].detach().numpy(), want[1].detach().numpy())
    assert code in [b.code for b in compiled.breaks], [str(b) for b in compiled.breaks]
    whole = cutaway.compile(instead, backend="eager", fullgraph=True)
    result = whole(*break_examples.arguments(f"{name}_instead"))
    if got[0] == "returns":
        np.testing.assert_array_equal(result.detach().numpy(), got[1].detach().numpy())
    assert not whole.breaks


def page_maker():
    path = Path(__file__).parent.parent / "site_docs" / "break_catalogue.py"
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
    assert "asyncio.run(later())" in text and "def gb0003_instead" not in text and "cutaway.where(" in text
