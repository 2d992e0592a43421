"""A few programs of `make fuzz-kernels`, and that it finds a wrong fused kernel.

Input: fuzz_kernels.py, with fixed seeds.
"""

import pytest

import cutaway
from stage_contracts import config
from tests.tensor_programs import fuzz_kernels
from tests.tensor_programs.compare import Differs
from tests.tensor_programs.fuzz_kernels import NESTS, check_kernels, ways, write_program


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
