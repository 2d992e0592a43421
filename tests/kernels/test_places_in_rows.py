"""Places in a row that are divided are computed in 32 bits: of pairs of 16 bits ptxas made wrong code.

Input: rows of a GPU's kernel, of two loops or with a division in an index. PTX is compiled without a GPU.
"""

import importlib.util
import re

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from stage3_lowering.triton_interpreter import run_in_interpreter
from tests.kernels.gpu_programs import emitted, inference_graph, program_of

IN_16_BITS = re.compile(r"\b\w+\.[us]16x2\b|\bmul\.(?:hi|lo)\.[us]16\b")


def padded_mean(x):
    return F.pad(-x, (1, 2)).clamp(-5, 5).exp().mean()


def mean_of_a_part(x):
    return x.transpose(0, 1).reshape(-1)[:5000].exp().mean()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("function", [padded_mean, mean_of_a_part])
def test_a_divided_place_is_computed_in_32_bits(function, dtype):
    x = cutaway.from_numpy(np.random.default_rng(0).standard_normal((64, 130), np.float32))
    x = x.to(getattr(cutaway, dtype))
    graph, inputs = inference_graph(function, [x])
    program = emitted(program_of(graph))
    (got,) = run_in_interpreter(program, [t.detach().numpy() for t in inputs])
    want = function(x).numpy().astype(np.float64)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2.0**-6)
    if importlib.util.find_spec("triton.backends.nvidia"):
        from stage3_lowering.triton_interpreter import compile_to_ptx

        for made in compile_to_ptx(program, 90).values():
            assert not IN_16_BITS.findall(made["ptx"])
