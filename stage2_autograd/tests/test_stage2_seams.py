"""The seams as seams: another implementation passes their conformance tests, planted wrong ones fail and are named.

Input: the tiny seams, wrong_seams.py and wrong_partitioners.py, in process and through `--swap`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stage2_autograd.tests import wrong_partitioners, wrong_seams
from stage2_autograd.tests.helpers import (
    SEAMS,
    check_against_eager,
    compile_with,
    default,
    dropout,
    pointwise,
    reductions,
    tensor,
)
from stage2_autograd.tests.swapping import run_swapped
from stage_contracts.dtype import float32


def everything(x, w, buffer):
    """A write to an input, two draws, two calls that differ in a number, a round trip through float32, a composite."""
    buffer.add_(x.detach())
    h = dropout.dropout(dropout.dropout(x * w + x, 0.5), 0.5)
    rounded = pointwise.sin(h).to(float32).to(h.dtype)
    return reductions.softmax(rounded, 0) * (x + 1.5) * (x + 2.5), buffer


INPUTS = (tensor(20), tensor(20, seed=1), tensor(20, seed=2, grad=False))
ALL = [(seam, name) for seam, names in wrong_seams.PLANTED.items() for name in names]


def test_the_program_passes_with_the_defaults():
    check_against_eager(default, everything, *INPUTS)
    assert compile_with(default, everything, *INPUTS).run(*INPUTS)[1] is INPUTS[2]


@pytest.mark.parametrize(("seam_name", "planted"), ALL, ids=lambda v: v)
def test_a_planted_error_is_really_wrong(seam_name, planted):
    def with_it(name):
        return getattr(wrong_seams, planted) if name == seam_name else default(name)

    with pytest.raises(AssertionError):  # a GraphError is one
        check_against_eager(with_it, everything, *INPUTS)
        compiled = compile_with(with_it, everything, *INPUTS)
        assert compiled.run(*INPUTS)[1] is INPUTS[2]


# ---- through `pytest stage2_autograd --swap`, as anybody else's implementation -------------------------------

RIGHT = {
    "functionalize": "stage2_autograd.tiny:functionalize",
    "differentiate": "stage2_autograd.tiny:differentiate",
    "decompose": "stage2_autograd.tiny:decompose",
    "partition": "stage2_autograd.partition:recompute_pointwise",
}
WRONG = {
    **{s: [f"stage2_autograd.tests.wrong_seams:{n}" for n in ns] for s, ns in wrong_seams.PLANTED.items()},
    "partition": [f"stage2_autograd.tests.wrong_partitioners:{n}" for n in wrong_partitioners.PLANTED],
}
MANIFEST = json.loads(Path(__file__).with_name("conformance.json").read_text())


@pytest.mark.timeout(600)  # ten seconds on a machine that has nothing else to do
@pytest.mark.parametrize("seam_name", SEAMS)
def test_a_right_seam_passes_all_and_wrong_ones_fail_and_are_named(seam_name):
    """The right one runs the whole manifest; a wrong one must not even get through the core tier."""
    assert len(WRONG[seam_name]) == 3
    swaps = [["--swap", f"{seam_name}={target}"] for target in (RIGHT[seam_name], *WRONG[seam_name])]
    right, *wrong = run_swapped(swaps[0], *([*swap, "--tier", "core", "-x"] for swap in swaps[1:]))
    assert right.code == 0, right.output[-3000:]
    ran = re.search(rf"seam `{seam_name}` \({RIGHT[seam_name]}\): (\d+) full", right.output)
    assert ran and int(ran[1]) >= MANIFEST[seam_name]["full"]
    for target, run in zip(WRONG[seam_name], wrong, strict=True):
        assert run.code == pytest.ExitCode.TESTS_FAILED, f"{target}\n{run.output[-2000:]}"
        assert re.search(rf"seam `{seam_name}` \({target}\).* failed: ", run.output), run.output[-2000:]


@pytest.mark.timeout(600)
def test_the_tiny_seams_pass_together():
    together = [word for name in SEAMS for word in ("--swap", f"{name}=stage2_autograd.tiny:{name}")]
    (run,) = run_swapped([*together, "--tier", "core"])
    assert run.code == 0, run.output[-3000:]
