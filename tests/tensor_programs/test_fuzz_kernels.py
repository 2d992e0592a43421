"""A few programs of `make fuzz-kernels`, and that it finds a wrong fused kernel.

Input: fuzz_kernels.py, with fixed seeds.
"""

import pytest

import cutaway
from stage_contracts import config
from tests.tensor_programs import fuzz_kernels
from tests.tensor_programs.compare import Differs
from tests.tensor_programs.fuzz_kernels import NESTS, POISONED, check_kernels, ways, write_program

FOUND = {
    86: "an open size that is a number",
    861: "a reshape of what lies turned had its dimensions' own order",
    1471: "NaN in bfloat16 is NaN",
    2471: "an index out of range is the program's own error",
    7521: "the negative of a negative constant, in C++",
    16074: "a tensor of inference mode saved for what eager saves in its place",
    19974: "blocks of rows without a row",
}


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_was_found_once(seed):
    """Each on the tree before: `python -m tests.tensor_programs.fuzz_kernels --programs 1 --seed N`."""
    program = write_program(seed)
    for way in (NESTS, POISONED):
        check_kernels(program, way)


@pytest.mark.parametrize("seed", range(0, 24))
def test_fused_is_unfused_is_eager(seed):
    program = write_program(seed)
    for way in ways(seed, program):
        check_kernels(program, way)


def test_a_fused_program_that_differs_is_found(monkeypatch):
    right = fuzz_kernels.interpret_program
    wrong = lambda *args, **more: tuple(a + 1 for a in right(*args, **more))  # noqa: E731
    monkeypatch.setattr(fuzz_kernels, "interpret_program", wrong)
    monkeypatch.setattr(fuzz_kernels.inductor, "lower_and_build", fuzz_kernels.interpreted)
    with (
        config.patch({"capture.suppress_errors": False}),
        pytest.raises(Differs, match="fused is not unfused"),
    ):
        cutaway.compile(lambda x: cutaway.sin(x) * 2, options=NESTS[1])(cutaway.ones(3))
