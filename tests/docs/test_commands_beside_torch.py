"""The commands of the pages that measure against torch: their recipes run, at small numbers. `make test-torch` runs this."""

import pytest

from tests.docs.beside_torch import BESIDE_TORCH
from tests.docs.test_commands import run_recipe

pytest.importorskip("torch")


@pytest.mark.timeout(300)  # cpu-speed compiles with torch, in fresh processes
@pytest.mark.parametrize("target", BESIDE_TORCH)
def test_the_recipe_of_a_target_beside_torch_runs(target, tmp_path):
    run_recipe(target, BESIDE_TORCH[target], tmp_path)
