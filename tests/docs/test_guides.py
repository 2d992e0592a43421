"""Each guide's programs run and print what its page promises, and every mark stands on its page once.

Input: the tables of site_docs/*_guide.py. What the site's build printed is read where it was built from this very tree, as
in CI; otherwise the commands run here. (The profiling guide
has a file of its own, since its traces are checked, too.)
"""

import re

import pytest

from tests.docs.guide_pages import GUIDES, SITE

# guide -> mark -> patterns, in the order in which they are printed
PROMISED = {
    "get_started": {
        "kernel": [r"fused_cos_sin_0\(const float\*", r"10000", r"torch\.cos\(x\)", r"torch\.sin\(a\)"],
        "debug": ["True", "fx_graph_runnable.py", "output_code.py", r"forward: .* GB/s"],
        "real model": [r"\(1, 1000\)", "'inductor'", "cudagraphs: True"],
        "bert": [r"\(1, 36, 32\)"],
        "vision": [r"\(64, 2\)"],
    },
    "troubleshooting": {
        "ablation": [r"'eager'\} True", "decomp_partition'} True", "'max-autotune'} True", "'dynamic': False} True"],
        "record": [r"fn_BackendFailed_8_1\.rec", "fn, written by", "BackendFailed: backend 'refuses' raised"],
        "repro file": [r"make_fx: \(200, 200\)", "run_fwd_maybe_bwd: True"],
        "capture error": ["Step 1: torchdynamo start tracing", "Step 1: torchdynamo done", "Step 2: done compiler"],
        "levels": ["Step 1: torchdynamo start", "Step 2: calling compiler function inductor", r"\[aot\] \[pass\]"],
        "backend error": ["AttributeError: '_OpNamespace' 'aten' object has no attribute '_foobar'"],
        "repro": [
            "repro_after=dynamo", "repro.py: 1 of 9 operators; it fails with AssertionError", r"def toy_compiler\(gm, _\)",
            r"relu = cutaway.relu\(add\)",
        ],
        "profiler": ["2 x graph break GB0060", "my_model: 2 recompiles", "fragments, which gain little"],
        "debug": ["fx_graph_readable.py", "output_code.py", "FusedSchedulerNode"],
        "explain": [
            "Graph Count: 3\n", "Graph Break Count: 2\n", "a call of print", "a branch on a tensor", "Fragments: 3 of 3",
            "Out Guards:", "produced 3 graphs with 2 graph breaks", r"\ncheck_tensor\(b", "Unsupported: graph break GB0060",
        ],
        "recompiles": ["'a' -> 'bc'", r"reached the recompile limit \(4\)", "shift: 4 entries", "double: 1 entries"],
        "extended": [
            "symbol made: s0", r"guard added: Eq\(s0, 10\)", r"is_ten\(x\)", r"x.shape\[0\] == 10", "in open_compare",
        ],
        "caches": ["TorchDynamo compilation metrics", "  build, "],
        "terms": [
            r"check_tensor\(x, 'float32\[3, 3\]'\)", r"because x.shape\[0\]: 3 -> 4", r"check_open_tensor\(x",
            r"create_symbol s0 = 3 for x.size\(\)\[0\]",
        ],
        "where": [r"inference: \(2, 3\)", "train: 1 entries", r"disabled: \(tensor\(\[0.\]\), tensor\(\[1.\]\)\)"],
        "wrong call": [r"TypeError: sin\(\) takes 1 positional argument but 2 were given"],
        "limit": [r"fn reached the recompile limit \(8\)", r"x.shape\[0\]: 8 -> 9", "8 256"],
        "traced": [
            r"TRACE starts_line traced.py:\d+ in f", "TRACE LOAD_ATTR sin", r"in g \(inlined, depth 1\)", r"\[graph_code\]",
        ],
        "stopped": [
            "line 7, in f", "comptime.breakpoint", r"x = a tensor float32\[3, 3\]\ny = ", r"cutaway.add\(x, 1\)",
        ],
        "all logs": [r"\[aot_graphs\]", r"\[dynamo\]", r"\[kernel_code\]", r"\[schedule\]", r"\[trace_source\]"],
        "trace": ["cutaway_trace_<n>.jsonl", '"kind": "phase", "name": "Step 1'],
        "graph breaks": [
            "GB0061", "on_cutaway.py", "hint: read the file before", "GB0003", "GB0004", r"True\n", r"\(3, 3\) tensor\(\[3",
            r"log!\s*$",
        ],
        "undefined": ["NameError: name 'y' is not defined", "x = y"],
        "constants": [r"type\(c\): float -> Tensor", "fn: 2 entries", "step: 1 entries"],
        "workarounds": [
            r"disable: \(2, 3\)", r"force_eager: tensor\(\[0", r"default: tensor\(\[1", r"custom_op: tensor\(\[2",
            r"substitute_in_graph: tensor\(\[3", "'x', 'sin', 'add', 'output'",
        ],
    },
    "faq": {
        "training": ["the loss falls: True", r"\(3, 2\)"],
        "shapes": [r"2 -> 3", "f: 2 entries", "f: 6 entries"],
        "breaks": ["Graph Count: 3", "Graph Break Count: 2", "Fragments: "],
        "memory": [r"\(16, 16\)"],
        "functional": ["True\nTrue", r"\(3, 3\)", r"\(2,\)\n\(2,\)"],
        "numpy": [
            "float64", "float32", r"\(1024, 64\)", "oops, a graph break", r"\(1024,\) cpu", "ndarray", r"9\. 9\.",
            "cutaway.float64", r"2\.\] graph: None",
        ],
        "fine grain": [
            "2 graphs", r"allow_in_graph: tensor\(\[1.8415", r"disable: tensor\(\[4", "graph_break: 1",
            r"constant_result: tensor\(\[3", r"run: tensor\(\[1., 1.\]\) \(5,\) <compiled plain: 1 entries>",
        ],
    },
}  # fmt: skip
PROMISED |= {
    "graph_breaks": {
        "breaks": ["GB0003", "hint: use cutaway.where", "GB0004", "GB0060", "mean 1.68"],
        "whole": ["mean 1.68", "1 graph, 0 breaks"],
    },
    "recompilation": {
        "recompiles": [r"mode: 'sine' -> 'plain'", r"x.shape\[0\]: 4 -> 5", "scaled: 3 entries"],
        "limit": [r"power reached the recompile limit \(3\)", "power: 3 entries"],
    },
    "backends": {
        "counting": ["3 operators: matmul, relu, sum", r"tensor\(24\.\)"],
        "faster": [r"cutaway.mul\(x, x\)", r"tensor\(14\.\)"],
    },
    "swap": {"swapped": [r"default \d+ bytes saved", r"mine \d+ bytes saved"]},
    "caches": {
        "twice": [r"miss unit=program", "reason=new source", r"hit unit=program", "1682.94"],
        "bundle": ["2 entries saved", "pass trust=True", "2 entries loaded"],
        "function": [r"tensor\(\[0.25", "compiled ahead of time for another call"],
    },
    "distributed": {
        "two": ["2 processes, mean loss 0.036"],
        "launcher": ["2 processes, mean loss 0.036"],  # `run` under a launcher keeps the pipe to it open
        "collectives": ["launch", 'collective\\("all_reduce"', "await_collective", "launch"],
    },
}
TORCHS = {
    "get_started",
    "troubleshooting",
    "faq",
    "profiling",
}  # torch's guides: they say where Cutaway differs
# The guide's program ends with an error, and the page shows it.
FAILS = {("troubleshooting", "explain")}


@pytest.mark.parametrize(("guide", "mark"), [(g, m) for g, marks in PROMISED.items() for m in marks])
def test_a_command_prints_what_the_page_promises(guide, mark, tmp_path):
    printed = "\n".join(text for _, text in GUIDES[guide].printed(tmp_path, mark))
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
    marks = [
        m for m in GUIDES[name].texts if name in TORCHS or "on_cutaway.py" not in m
    ]  # only torch's say how to run
    assert {mark: text.count(mark) for mark in marks} == dict.fromkeys(marks, 1)
    assert ("Differs" in text) is (name in TORCHS)
