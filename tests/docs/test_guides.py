"""Each guide's programs run and print what its page promises, and every mark stands on its page once.

Input: the tables of site_docs/*_guide.py, whose commands run here as they do when the site is built. (The profiling guide
has a file of its own, since its traces are checked, too.)
"""

import re

import pytest

from tests.docs.guide_pages import GUIDES, SITE

# guide -> mark -> patterns, in the order in which they are printed
PROMISED = {
    "get_started": {
        "example": ["True"],
        "kernel": [r"fused_cos_sin_0\(const float\*", r"10000", r"torch\.cos\(x\)", r"torch\.sin\(a\)"],
        "debug": ["True", "fx_graph_runnable.py", "output_code.py", r"forward: .* GB/s"],
        "real model": [r"\(1, 1000\)"],
        "backends": ["'inductor'"],
        "bert": [r"\(1, 36, 32\)"],
        "vision": [r"\(64, 2\)"],
    },
}
FAILS = set()  # (guide, mark): the guide's program ends with an error, and the page shows it


@pytest.mark.parametrize(("guide", "mark"), [(g, m) for g, marks in PROMISED.items() for m in marks])
def test_a_command_prints_what_the_page_promises(guide, mark, tmp_path):
    printed = "\n".join(text for _, text in GUIDES[guide].run_in(tmp_path, mark))
    assert ("Traceback" in printed) is ((guide, mark) in FAILS), printed
    assert re.search(".*".join(PROMISED[guide][mark]), printed, re.S), printed
    assert "is not honoured here" not in printed, printed


def test_every_command_is_promised():
    assert {name: set(guide.shown) for name, guide in GUIDES.items() if name != "profiling"} == {
        name: set(marks) for name, marks in PROMISED.items()
    }


@pytest.mark.parametrize("name", GUIDES)
def test_every_mark_stands_on_the_page_once(name):
    text = (SITE / "guides" / f"{name}.md").read_text(encoding="utf-8")
    assert {mark: text.count(mark) for mark in GUIDES[name].texts} == dict.fromkeys(GUIDES[name].texts, 1)
    assert "Differs" in text
