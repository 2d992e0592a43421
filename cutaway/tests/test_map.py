"""The map of the machine is true: what a compile does is the list of its steps, and each step's result can be seen.

Input: inductor.py's STEPS, the events of one compile, its artifacts.
"""

import re
from pathlib import Path

import pytest

import cutaway
from cutaway.inductor import STEPS
from stage1_capture.steps import CAPTURE
from stage_contracts.graph import Graph

FOLDER = Path(__file__).parent.parent


def train(x, w):
    return ((x @ w).relu() * 1).sum()


@pytest.fixture
def compiled():
    f = cutaway.compile(train)
    with cutaway.config.patch(cache=False):
        f(cutaway.randn(3, 4), cutaway.randn(4, 2, requires_grad=True))
    return f


def test_a_compile_takes_the_steps_of_the_map_in_order(compiled):
    ran = [e.name for e in compiled.artifacts[-1].events if e.kind == "pass" and "." not in e.name]
    assert list(dict.fromkeys(ran)) == [name for name, _, _ in STEPS]
    assert all(e.duration_ns > 0 for e in compiled.artifacts[-1].events if e.kind == "pass")


def test_every_pass_can_be_seen_and_compared(compiled):
    passes = compiled.artifacts[-1].passes
    for name in ("capture", "functionalize", "differentiate", "decompose", "core_bodies", "partition.backward",
                 "lower.forward", "fuse.backward", "plan_memory.forward", "emit.forward"):  # fmt: skip
        assert str(passes[name]).strip(), name
        assert re.search(rf"\b{name}\b", str(passes))
    made = passes["decompose"].artifact
    assert isinstance(made, Graph) and str(made) == str(compiled.artifacts[-1].decomposed.graph)
    difference = passes.diff("core_bodies", "identities")
    assert any(line.startswith("-") and "mul" in line for line in difference.splitlines()), difference
    assert passes.diff("identities", "identities") == ""
    with pytest.raises(KeyError, match="there is no pass 'nothing'"):
        passes["nothing"]


def test_captures_steps_can_be_seen():
    def broken(x):
        y = x.sin()
        print(end="")
        return y.cos() * 2

    f = cutaway.compile(broken)
    f(cutaway.randn(3))
    artifacts = f.artifacts[-1] if f.artifacts[-1].frame.breaks else f.artifacts[0]
    passes = artifacts.passes
    assert [r.name for r in passes][:5] == [f"capture.{name}" for name in CAPTURE.names]
    for name, word in {
        "instructions": "print",
        "interpret": "sin",
        "resume": "cos",
        "residual": "__compiled_graph_0",
        "guards": "check_tensor(x",
    }.items():
        assert word in str(passes[f"capture.{name}"]), name
    assert "cos" not in str(passes["capture.interpret"])
    ran = {e.name for e in artifacts.events if e.kind == "pass" and e.duration_ns > 0}
    assert ran >= {f"capture.{name}" for name in CAPTURE.names}


def test_fusion_is_seen_round_by_round():
    f = cutaway.compile(lambda x: ((x.sin() + x.cos()).sum(0), (x * x).exp().sum(1)))
    f(cutaway.randn(5, 7))
    passes = f.artifacts[-1].passes
    rounds = [r for r in passes if r.name.startswith(("fuse.alone", "fuse.round_"))]
    assert len(rounds) > 1 and {r.kind for r in rounds} == {"Grouped"}
    assert "fused" in passes.diff(rounds[0].name, rounds[-1].name)
    assert str(rounds[-1]) == str(passes["fuse.groups"])
    with pytest.raises(
        ValueError, match="made a Grouped, capture a Graph: they cannot be compared; compare fuse"
    ):
        passes.diff("fuse.groups", "capture")
    with pytest.raises(ValueError, match="text of capture.guards"):
        passes.diff("capture.residual", "capture.guards")


def test_seeing_them_is_no_compile(compiled):
    entries = compiled.entries
    assert compiled.artifacts[-1].passes is compiled.artifacts[-1].passes
    assert compiled.entries == entries


def test_the_page_names_every_file():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = {p.name for p in FOLDER.glob("*.py")} - {"__init__.py", "cli.py", "stubs.py"}
    assert {name for name in files if f"`{name}`" not in page} == set()
    named = set(re.findall(r"`([a-z_]+\.py)`", page))
    assert named <= files
