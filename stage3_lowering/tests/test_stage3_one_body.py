"""C++ functions that share a body: equal up to names and outer sizes, and nothing else; the results keep their bits.

Input: small texts as emit_cpp.py writes them, and programs that compute the same at several sizes.
"""

import re

import numpy as np
import pytest

from stage3_lowering.lowering.cpp_one_body import one_body
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, trace

FUNCTION = """\
// model.py:1: exp(x) * 2
extern "C" int64_t fused_exp(const float* x, float* buf0) {
    for (int64_t i0 = 0; i0 < 12; ++i0) {
        float high = -INFINITY;
        #pragma omp simd
        for (int64_t i1 = 0; i1 < 64; ++i1) {
            float exp = cutaway::exp(x[64*i0 + i1]);
            buf0[96*i0 + 2*i1 + 3] = exp * 5;
        }
        buf0[96*(i0 / 4) + (i0 % 7)] = high;
    }
    return 0;
}
"""
NAMES = {"fused_exp": "fused_exp_1", "float exp =": "float e =", "exp * 5": "e * 5", "buf0": "out"}
# What may differ, and what may not: a text, and what stands there in the second function.
SIZES = {
    "i0 < 12": "i0 < 7",
    "64*i0": "70*i0",
    "96*i0": "99*i0",
    "+ 3]": "+ 4]",
    "1: exp": "2: exp",
    "[96": "[95",
}
OTHERS = {
    "i1 < 64": "i1 < 32",
    "2*i1": "4*i1",
    "/ 4": "/ 8",
    "% 7": "% 9",
    "* 5": "* 6",
    "cutaway::exp": "cutaway::log",
    "-INFINITY": "-NAN",
    "96*(i0": "97*(i0",
    "const float* x": "const double* x",
    "#pragma omp simd": "#pragma omp for",
}


def bodies(*changes):
    """How many functions have a body of their own, with each of these changes, beside the first."""
    texts = [FUNCTION]
    for change in changes:
        text = FUNCTION
        for old, new in change.items():
            assert old in text
            text = text.replace(old, new)
        texts.append(text)
    return len(re.findall(r"return 0;", "\n".join(one_body(texts))))


@pytest.mark.parametrize("old", [key for key in SIZES if key != "[96"])
def test_names_and_outer_sizes_may_differ(old):
    assert bodies({**NAMES, old: SIZES[old]}) == 1


@pytest.mark.parametrize("old", OTHERS)
def test_all_else_may_not(old):
    assert bodies({**NAMES, old: OTHERS[old]}) == 2


def test_each_function_gives_its_own_sizes():
    """One parameter for what always differs together, none for what never does."""
    second = FUNCTION.replace("fused_exp", "second").replace("12", "7").replace("96*i0", "7*i0")
    text = "\n".join(one_body([FUNCTION, second]))
    assert "i0 < size_0" in text and "out" not in text and "64*i0" in text
    assert "return body_of_fused_exp(x, buf0, 12, 96);" in text
    assert "return body_of_fused_exp(x, buf0, 7, 7);" in text


def test_a_name_of_a_kernel_is_no_size():
    first = re.sub(r"\bx\b", "size_0", FUNCTION)
    assert "int64_t size_0_)" in "\n".join(
        one_body([first, first.replace("fused_e", "other_e").replace("12", "7")])
    )


def transposed_sums(c, *inputs):
    """A tile's kernel for each input."""
    return tuple(c.add(c.permute(x, (1, 0)), c.reshape(x, x.val.shape[::-1])) for x in inputs)


def batch_sums(c, *inputs):
    return tuple(c.sum(c.exp(x), (0, 2)) for x in inputs)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (transposed_sums, [(512, 384), (640, 384), (384, 512)]),
        (batch_sums, [(4, 512, 64), (4, 768, 64), (4, 1024, 64)]),
    ],
)
def test_the_results_keep_their_bits(seam, function, shapes):
    arrays = [np.random.default_rng(k).standard_normal(s, np.float32) for k, s in enumerate(shapes)]
    together, text = emitted(seam, function, arrays)
    assert 1 <= text.count("CUTAWAY_SHARED int64_t body_of_") < text.count("return body_of_")
    for out, array in zip(run_cpp(together, arrays), arrays, strict=True):
        alone, own = emitted(seam, function, [array])
        assert "CUTAWAY_SHARED" not in own
        assert out.tobytes() == run_cpp(alone, [array])[0].tobytes()


def emitted(seam, function, arrays):
    fused = seam("fuse")(seam("lower")(trace(function, *arrays)))
    program = seam("emit")(seam("schedule")(fused, CPP), CPP)
    return program, program.units[0].text
