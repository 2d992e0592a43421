"""Every bfloat16 through the elementary functions: compiled code is NaN, and only NaN, where eager is.

Input: all 65,536 of them, NaNs that signal among them. C++ rounds without a look at NaN where all that a kernel reads
is bfloat16 (`narrow_bfloat16`): a NaN whose lower bits are not zero would become an infinity or a zero.
"""

import numpy as np

import cutaway as ct

NAMES = (
    "sin cos tan exp exp2 expm1 log log2 log10 log1p sqrt rsqrt tanh sinh cosh asin acos atan asinh acosh atanh erf erfc "
    "sigmoid reciprocal abs neg floor ceil sign relu square"
).split()


def program(x):
    chosen = ct.maximum(x, -x), ct.where(x > 0, x, -x), x - x, x * 0.0
    return tuple(getattr(ct, name)(x) for name in NAMES) + chosen


def test_nan_where_eager_is_and_eagers_numbers():
    every = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    x = ct.from_numpy(every).to(ct.bfloat16)
    compiled, eager = ct.compile(program)(x), program(x)
    for name, got, want in zip([*NAMES, "maximum", "where", "sub", "mul"], compiled, eager, strict=True):
        got, want = got.float().numpy(), want.float().numpy()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=name)
        numbers = ~np.isnan(want)
        differ = (got != want)[
            numbers
        ].sum()  # a result beside a tie may round the other way: one of all these did
        assert differ <= 2, f"{name}: {differ} of {numbers.sum()} differ"
