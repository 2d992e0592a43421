"""The profiling guide's programs run and print what the page promises; their traces are valid and nest as the guide says.

Input: site_docs/profiling_guide.py, whose commands run here as they do when the site is built.
"""

import json

import pytest

from tests.debug.trace_format import problems
from tests.docs.guide_pages import GUIDES, SITE

GUIDE = GUIDES["profiling"]
REGION, FORWARD, BACKWARD = "Torch-Compiled Region", "CompiledFunction", "CompiledFunctionBackward"
# mark -> (words that are printed, the trace that is written)
PROMISED = {
    "basics": ([BACKWARD, FORWARD, "Self CPU time total"], "trace.json"),
    "cuda graphs": (["nothing to start"], None),
    "compiling": (
        ["a small compile: ", "  compile Module", "capture: ", "build: ", "compilation metrics"],
        "trace_compile.json",
    ),
    "breaks": (["3 calls side by side, 12 regions", f"      {REGION}\n"], "trace_break.json"),
    "kernels": (["kernel: fused_", "library: matmul", "kernels.py:"], None),
    "gaps": (["1 rows: kernels take ", "4096 rows: kernels take "], None),
    "command": (["What would pay most: ", "Kernels and routines"], None),
}


@pytest.mark.parametrize("name", GUIDE.shown)
def test_a_program_prints_what_the_page_promises(name, tmp_path):
    words, trace = PROMISED[name]
    lines = GUIDE.run_in(tmp_path, name) if trace else GUIDE.printed(tmp_path, name)
    printed = "\n".join(text for _, text in lines)
    assert "Traceback" not in printed and all(word in printed for word in words), printed
    if trace:
        assert problems(json.loads((tmp_path / trace).read_text())) == []
    if name == "breaks":
        check_breaks(json.loads((tmp_path / trace).read_text())["traceEvents"])


def check_breaks(events):
    """Three steps, each with four regions inside one another, a forward in each, and an arrow to its backward."""
    spans = [e for e in events if e["ph"] == "X"]
    regions = [e for e in spans if e["name"] == REGION]
    assert len(regions) == 12
    depths = [sum(inside(region, other) for other in regions) for region in regions]
    assert sorted(depths) == [depth for depth in range(4) for _ in range(3)]
    for name in (FORWARD, BACKWARD):
        assert sum(e["name"] == name for e in spans) == 12
    arrows = {ph: sorted(e["id"] for e in events if e["ph"] == ph) for ph in "sf"}
    assert arrows["s"] == arrows["f"] and len(set(arrows["s"])) == 12


def inside(event, other):
    ends = event["ts"] + event["dur"], other["ts"] + other["dur"]
    return event is not other and other["ts"] <= event["ts"] and ends[0] <= ends[1]


def test_every_mark_stands_on_the_page_once():
    text = (SITE / "guides" / "profiling.md").read_text(encoding="utf-8")
    assert {mark: text.count(mark) for mark in GUIDE.texts} == dict.fromkeys(GUIDE.texts, 1)
    assert set(PROMISED) == set(GUIDE.shown)
