"""The tiers of conformance tests: naive versions pass `first`, the tiny ones `core`; wrong ones pass neither.

Input: every seam's tiny version, and the first versions in naive/. Each run is a process of pytest, as yours would be.
Of a test with many cases each run takes one in eight; `pytest tests/architecture/test_tiers.py --slice 1/1` takes all.
"""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from cutaway import swap

ROOT = Path(__file__).parents[2]
NAIVE = "tests/architecture/naive"
TINY = {
    "capture": "stage1_capture.tiny:capture",
    **{name: f"stage1_capture.tests.tiny_parts:{name}" for name in ("interpret", "resume", "residualize")},
    **{
        name: f"stage2_autograd.tiny.{name}:{name}"
        for name in ("functionalize", "differentiate", "decompose", "partition")
    },
    **{name: f"stage3_lowering.tiny.{name}:{name}" for name in ("lower", "fuse", "schedule", "emit")},
    **{name: f"stage4_runtime.tiny.{name}:{name}" for name in ("plan_memory", "build", "launch", "dispatch")},
}
WRONG = {
    "capture": """
from stage_contracts.breaks import GraphBreak
from stage_contracts.capture import CapturedFrame
from stage_contracts.origin import Origin

def capture(function, args, kwargs, policy=None):
    stop = GraphBreak("GB0001", "everything is beyond it", Origin("x.py", 1))
    return CapturedFrame("f", function.__code__, None, (), (), None, breaks=(stop,))
""",
    "partition": """
from dataclasses import replace
from stage2_autograd.tiny.partition import partition as honest

def partition(joint):
    part = honest(joint)
    return replace(part, saved=part.saved[:-1])
""",
    "plan_memory": """
def plan_memory(program):
    return program
""",
    "dispatch": """
def dispatch(entries, args, kwargs):
    return entries[0]
""",
}


@pytest.fixture(scope="module")
def cases(request):
    return "1/1" if request.config.getoption("--slice") == "1/1" else "1/8"


def run(seam, target, tier, cases):
    stage = swap.tested_seams()[seam].partition(".")[0].partition(":")[0]
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        stage,
        "--swap",
        f"{seam}={target}",
        "--tier",
        tier,
        "--slice",
        cases,
    ]
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)


def test_every_seam_has_a_tiny_version():
    assert set(TINY) == set(swap.tested_seams())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seam", TINY)
def test_the_tiny_version_passes_first_and_core(seam, cases):
    found = run(seam, TINY[seam], "core", cases)  # which includes first
    assert found.returncode == 0, found.stdout[-3000:]
    assert f"seam `{seam}` ({TINY[seam]})" in found.stdout and "correct:" in found.stdout


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the naive capture knows the instructions of 3.11")
@pytest.mark.parametrize("seam", ["capture", "fuse"])
def test_a_naive_version_passes_first(seam, cases):
    path = f"{NAIVE}/{seam}.py"
    assert len((ROOT / path).read_text().splitlines()) <= 75
    found = run(seam, f"{path}:{seam}", "first", cases)
    assert found.returncode == 0, found.stdout[-3000:]


@pytest.mark.parametrize("seam", WRONG)
def test_a_wrong_version_fails_first(seam, tmp_path, cases):
    (tmp_path / "mine.py").write_text(WRONG[seam])
    found = run(seam, f"{tmp_path}/mine.py:{seam}", "first", cases)
    assert found.returncode == 1, found.stdout[-3000:]
    assert f"seam `{seam}` ({tmp_path}/mine.py:{seam}) failed" in found.stdout
    assert "rule of the contract" in found.stdout


WRONG_TYPE = """
def partition(joint):
    return None

def no_arguments():
    pass
"""


def test_the_signature_and_the_type_of_the_result_are_checked_first(tmp_path, cases):
    (tmp_path / "mine.py").write_text(WRONG_TYPE)
    found = run("partition", f"{tmp_path}/mine.py:no_arguments", "first", cases)
    assert found.returncode == pytest.ExitCode.USAGE_ERROR and "partition" in found.stderr
    found = run("partition", f"{tmp_path}/mine.py:partition", "first", cases)
    assert found.returncode == 1 and "SeamError" in found.stdout and "Partition" in found.stdout


def test_each_rule_of_the_first_tier_is_a_sentence():
    """What a learner reads when a test of the first tier fails."""
    for stage in ("stage1_capture", "stage2_autograd", "stage3_lowering", "stage4_runtime"):
        for path in sorted((ROOT / stage / "tests").glob("test_*.py")):
            module = importlib.import_module(f"{stage}.tests.{path.stem}")
            for name, function in inspect.getmembers(module, inspect.isfunction):
                marks = getattr(function, "pytestmark", [])
                if any(m.name == "conformance" and m.kwargs.get("tier") == "first" for m in marks):
                    assert (function.__doc__ or "").strip().endswith("."), (
                        f"{stage}/tests/{path.name}: {name}"
                    )
