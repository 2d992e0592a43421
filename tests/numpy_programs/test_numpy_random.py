"""Random programs on arrays: whatever they compute, write and view, compiled code does what NumPy does, to the bit.

Input: statements from a small grammar over a few names: elementwise arithmetic, slices, folds, joins, writes into views.
Each is printed as Python when it fails, so that it can be run alone.
"""

import numpy as np
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import cutaway
from tests.numpy_programs.compare import assert_same, observe

DTYPES = ("float64", "float32", "int64", "int32", "int8", "bool")
# What gives a value, with holes: x and y are names there are, k a small number.
VALUES = (
    "{x} + {y}", "{x} * {y}", "{x} * {k}", "{x} / ({k} + 2.5)", "np.maximum({x}, {y})", "{x} // ({k} + 4)", "-(+{x})",
    "np.where({x} > {k}, {x}, {y})", "np.abs({x})", "np.exp(np.clip({x}, -2, 2))", "{x}.astype(np.float32)",
    "{x}.astype(np.int64)", "{x} > {y}", "({x} == {k}) | ({y} < {k})", "np.sqrt(np.abs({x}))", "{x} ** 2",
    "np.minimum({x}, {k})", "np.round({x}, 1)", "np.float32({k}) * {x}", "{x} % ({k} + 4)",
    "{x}.sum(axis=0)", "{x}.mean(axis=-1, keepdims=True)", "np.max({x}, axis=1)", "np.cumsum({x}, axis=0)", "{x}.sum()",
    "np.argmax({x}, axis=0)", "{x}.std(axis=0)", "np.any({x} > {k}, axis=1)", "np.sort({x}, axis=0)",
    "np.concatenate([{x}, {y}])[:3]", "np.stack([{x}, {y}]).sum(axis=0)", "np.roll({x}, {k}, axis=0)", "{x}.T.copy().T",
    "np.tril({x})", "{x}[[2, 0, 1]]", "{x}[:, [0, 0, 1]]", "np.zeros_like({x})", "np.outer({x}[0], {y}[0])", "{x}[0] + {y}",
)  # fmt: skip
# What gives a view, which writes go through.
VIEWS = ("{x}[1:]", "{x}[::2]", "{x}[:, 1:]", "{x}.T", "{x}[::-1]", "{x}.reshape(-1)", "{x}[{k}]", "{x}[..., 0]",
         "{x}[None]", "np.swapaxes({x}, 0, 1)", "{x}[1:, ::-1]")  # fmt: skip
WRITES = ("{v} += 1", "{v}[...] = 0", "{v}[0] = {k}", "{v} *= 2", "np.add({v}, {k}, out={v})", "{v}[{v} > 2] = 2",
          "{x}[1] = {y}[0]", "{x}[:, 0] = {k}", "{x}[0] += {y}[1]")  # fmt: skip


@st.composite
def programs(draw):
    """Lines over arrays a, b, c of shape (3, 3), and the dtypes of a and b."""
    whole, views, lines = ["a", "b"], ["a"], ["c = a + b"]
    number = st.integers(-1, 2)
    for i in range(draw(st.integers(2, 7))):
        words = {"x": draw(st.sampled_from(whole)), "y": draw(st.sampled_from(whole)), "k": draw(number)}
        kind = draw(st.sampled_from(["value", "value", "value", "view", "write"]))
        if kind == "write":
            lines.append(draw(st.sampled_from(WRITES)).format(v=draw(st.sampled_from(views)), **words))
        elif kind == "view":
            lines.append(f"v{i} = " + draw(st.sampled_from(VIEWS)).format(**words))
            views.append(f"v{i}")
        else:
            name = draw(st.sampled_from(["c", f"t{i}"]))
            # added to zeros, so that every name is a matrix of its own
            value = draw(st.sampled_from(VALUES)).format(**words)
            lines.append(f"{name} = np.zeros((3, 3), np.int8) + ({value})")
            whole.append(name)
    results = ", ".join(dict.fromkeys([*whole, *views]))
    body = "\n    ".join(lines)
    return f"def f(a, b):\n    {body}\n    return {results}\n", draw(
        st.tuples(*[st.sampled_from(DTYPES)] * 2)
    )


def matrix(dtype, number):
    values = np.random.default_rng(number).integers(-3, 4, (3, 3))
    return (values / 2 if "float" in dtype else values).astype(dtype)


def check(text, dtypes, backend, exact):
    names = {"np": np}
    exec(text, names)
    f = names["f"]
    compiled = cutaway.compile(f, backend=backend)
    for _ in range(2):
        args = [tuple(matrix(d, i) for i, d in enumerate(dtypes)) for _ in range(2)]
        want, got = observe(f, args[0]), observe(compiled, args[1])
        want.error, got.error = want.error.partition(":")[0], got.error.partition(":")[0]
        assert_same(got, want, f"{text}on {dtypes}, backend {backend}", exact)


@seed(4)
@settings(max_examples=15, deadline=None, database=None)
@given(programs())
def test_a_random_program_gives_numpys_bits(made):
    check(*made, "eager", exact=True)


@seed(5)
@settings(max_examples=5, deadline=None, database=None)
@given(programs())
def test_a_random_program_ahead_of_time(made):
    check(*made, "aot_eager", exact=False)
