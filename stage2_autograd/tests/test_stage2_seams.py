"""The seams as seams: another implementation passes their conformance tests, planted wrong ones fail and are named.

Input: the tiny seams, and wrong_seams.py. The partitioners have the same tests in test_stage2_partition.py.
"""

from __future__ import annotations

import pytest

from stage2_autograd import autograd
from stage2_autograd.tests import wrong_seams
from stage2_autograd.tests.helpers import (
    SEAMS,
    activations,
    check_against_eager,
    compile_with,
    pointwise,
    reductions,
    tensor,
)
from stage2_autograd.tests.swapping import run_swapped
from stage_contracts.dtype import float32


def everything(x, w, buffer):
    """A write to an input, two draws, two calls that differ in a number, a round trip through float32, a composite."""
    buffer.add_(x.detach())
    h = activations.dropout(activations.dropout(x * w + x, 0.5), 0.5)
    rounded = pointwise.sin(h).to(float32).to(h.dtype)
    return reductions.softmax(rounded, 0) * (x + 1.5) * (x + 2.5), buffer


INPUTS = (tensor(20), tensor(20, seed=1), tensor(20, seed=2, grad=False))
ALL = [(seam, name) for seam, names in wrong_seams.PLANTED.items() for name in names]


def default(name):
    return getattr(autograd, name)


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


@pytest.mark.parametrize("seam_name", wrong_seams.PLANTED)
def test_a_wrong_seam_fails_its_conformance_tests_and_is_named(seam_name):
    target = f"stage2_autograd.tests.wrong_seams:{wrong_seams.PLANTED[seam_name][0]}"
    result = run_swapped(f"{seam_name}={target}")
    assert result.returncode == 1, result.stdout[-2000:]
    assert f"seam `{seam_name}` ({target})" in result.stdout


def test_the_tiny_seams_pass():
    result = run_swapped(*(f"{name}=stage2_autograd.tiny:{name}" for name in SEAMS), stop=False)
    assert result.returncode == 0, result.stdout[-3000:]
