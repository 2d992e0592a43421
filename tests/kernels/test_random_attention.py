"""Random attention of `make gpu-compiled`, compiled for a CPU: the generator works without a GPU.

Input: benchmarks/gpu/attentions.py's seeds. What the comparison finds is tested in test_differences_found.py.
"""

import pytest

from benchmarks.gpu.compiled import RUN


@pytest.mark.parametrize("seed", range(8))
def test_compiled_is_eager(seed):
    assert RUN["attentions"](seed, "cpu") == ""
