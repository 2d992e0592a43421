"""The pages on troubleshooting show what the tools print: each mark is filled once, and says what the page promises.

Input: site_docs/debug_page.py. Where the site was built from this very tree, as in CI, its texts are read; otherwise the
commands run here.
"""

import importlib.util
import re
from pathlib import Path

import pytest

from cutaway.debug import switches, torch_fields
from stage_contracts import config
from tests.docs.site_files import load

SITE = Path(__file__).parents[2] / "site_docs"


def page():
    spec = importlib.util.spec_from_file_location("debug_page", SITE / "debug_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = page()
KEPT = load("kept_outputs")
PROMISED = {
    "steps": ["Step 1: torchdynamo start tracing layer example.py:3", "Step 2: calling compiler function inductor"],
    "breaks": ["graph break GB0003", "if y.sum() > 0:", "because x.shape[0]: 4 -> 5"],
    "json": ['"log": "recompiles"', '"kind": "recompile"'],
    "unhonoured": ["did you mean TORCHDYNAMO_VERBOSE?", "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING is not honoured here; nearest: "],
    "wrong log": ["there is no log named 'graph_brakes'", "did you mean 'graph_breaks'?"],
    "switches": ["runtime.cache = False  (CUTAWAY_RUNTIME_CACHE)", "debug.verbose = True  (TORCHDYNAMO_VERBOSE)"],
    "profiled": ["step: ", "graph break GB0060", "hint: ", "fragments"],
    "timed": ["compile, ", "  ahead-of-time autograd, ", "  build, in other threads, ("],
    "profiler table": ["Torch-Compiled Region ", "CompiledFunctionBackward ", "Self CPU Mem", "Self CPU time total: "],
    "doctor": ["ok      self-test     lowering, the C++ compiler and the runtime: as eager"],
    "threads": ["PROBLEM threads", "$ unset OMP_NUM_THREADS", "1 problem, 0 notes; begin with threads"],
    "all logs": ["trace_source", "ir_post_fusion", "sets, with levels"],
}  # fmt: skip


def text_of(mark):
    """What stands on the page: as the site's build made it of this very tree, or as it is made now."""
    return KEPT.get(mark) or PAGE.TEXTS[mark]()


@pytest.mark.parametrize("name", PAGE.SHOWN)
def test_what_is_shown_says_what_is_promised(name):
    printed = text_of(f"<!-- shown: {name} -->")
    assert "Traceback" not in printed and re.match(r"`+console\n\$ ", printed)
    for words in PROMISED[name]:
        assert words in printed, printed


def test_the_folder_is_shown_and_its_files_run():
    printed = text_of("<!-- debug folder -->")
    assert "run_<time>-pid_<n>/" in printed and "output_code.py" in printed
    assert "values as in eager" in printed and "GB/s" in printed


def test_the_command_is_shown_and_a_kernels_file_runs():
    printed = text_of("<!-- profile command -->")
    for words in (
        "What would pay most: ",
        "Kernels and routines",
        "GFLOP/s in float32",
        "fused_",
        "\nroofline: ",
    ):
        assert words in printed, printed
    assert printed.count("wrote kernels/") > 3 and "Traceback" not in printed


def test_every_mark_stands_on_a_page_once():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SITE.glob("*.md"))
    assert {mark: text.count(mark) for mark in PAGE.TEXTS} == dict.fromkeys(PAGE.TEXTS, 1)


def test_every_field_variable_and_name_of_torchs_is_on_the_page_of_switches():
    text = PAGE.TEXTS["<!-- all switches -->"]()
    for name in config.field_types():
        assert f"| `{name}` |" in text and all(f"`{v}`" in text for v in config.variables_of(name))
        assert switches.meanings()[name], f"{name} says nothing of itself: write a comment beside it"
    for module, rows in torch_fields.FIELDS.items():
        assert all(f"`{module}.{name}`" in text for name in rows)
