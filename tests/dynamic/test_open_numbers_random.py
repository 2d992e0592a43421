"""Random arithmetic on numbers and sizes that stay open: whatever the values, compiled code does what eager does.

Input: expressions from a small grammar over an int, a float and a tensor's size, with comparisons that branch; each
program is compiled once and called with several values, zeros, negative and huge ones among them.
"""

import random
import warnings

import pytest

import cutaway

LEAVES = ["n", "s", "x.shape[0]", "2", "3", "0.5", "-1", "1.5"]
SIGNS = ["+", "-", "*", "/", "//", "%", "**"]
VALUES = [
    (3, 0.25, 4), (5, -1.5, 4), (0, 0.0, 2), (-2, -0.0, 3), (7, 2.0, 1), (2**60, 1e300, 4), (1, float("inf"), 0),
    (3, 0.25, 4),
]  # fmt: skip


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(LEAVES)
    sign = rng.choice(SIGNS)
    left = expression(rng, depth - 1)
    # an open exponent could make eager itself compute a number of any length
    right = rng.choice(["2", "3", "0.5", "-1"]) if sign == "**" else expression(rng, depth - 1)
    return f"({left} {sign} {right})"


def program(seed):
    rng = random.Random(seed)
    lines = [f"    a = {expression(rng, 2)}", f"    b = {expression(rng, 1)}"]
    if rng.random() < 0.6:
        lines += [
            f"    if a {rng.choice(['<', '<=', '>', '==', '!='])} b:",
            f"        a = {expression(rng, 1)}",
        ]
    if rng.random() < 0.3:
        lines += ["    if a:", "        b = -b"]
    result = rng.choice(["x * a, b", "x + a - b, a", "a * x / 3, (a, b)", "x * n + s, a"])
    return "\n".join(["def f(x, n, s):", *lines, f"    return {result}"])


def outcome(f, args):
    try:
        tensor, *rest = f(*args)
    except (ArithmeticError, TypeError, ValueError) as error:
        return type(error)
    return tensor.dtype.name, tensor.shape, tensor.numpy().tobytes(), repr(rest)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("block", range(3))
def test_compiled_code_does_what_eager_does(block, dynamic):
    for seed in range(block * 12, block * 12 + 12):
        names = {}
        exec(program(seed), names)
        f = names["f"]
        compiled = cutaway.compile(f, backend="eager", dynamic=dynamic, options={"recompile_limit": 20})
        for n, s, size in VALUES:
            args = cutaway.arange(size, dtype=cutaway.float32) - 1, n, s
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want, got = outcome(f, args), outcome(compiled, args)
            assert got == want, f"seed {seed}, n={n}, s={s}, size={size}\n{program(seed)}"
