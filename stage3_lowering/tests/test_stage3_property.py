"""Random small core graphs: however they fuse, nests, fused programs and C++ give what NumPy gives directly.

Input: hypothesis draws shapes, layouts and a list of steps; the same seed every run. Values are small
integers held in floats, so every answer is exact and any difference is an error.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stage3_lowering.tests.graphs import CPP, TRITON, run_every_way, trace

SETTINGS = {
    "derandomize": True,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
}
SIZES = st.sampled_from([1, 2, 3, 4])


@st.composite
def inputs(draw):
    """Two arrays of equal or broadcastable shape, dense, transposed, sliced or repeated."""
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    arrays = []
    for k in range(2):
        own = tuple(draw(st.sampled_from([s, s, s, 1])) for s in shape)
        values = (np.arange(np.prod(own, dtype=int)) * (7 + k) % 11 - 5).astype(np.float32)
        array = values.reshape(own)
        layout = draw(st.sampled_from(["dense", "transposed", "sliced", "repeated"]))
        if layout == "transposed":
            array = values.reshape(own[::-1]).T
        if layout == "sliced":
            array = np.repeat(array, 2, axis=0)[::2]
        if layout == "repeated":
            array = np.broadcast_to(array[:1], own)
        arrays.append(array)
    return arrays


# What a step may be: (core operators, NumPy), both of the values so far and of drawn numbers.
def unary(name, function):
    return lambda draw, x: (lambda c, n: getattr(c, name)(n), function)


def view_permute(draw, x):
    dims = tuple(draw(st.permutations(range(x.ndim))))
    return lambda c, n: c.permute(n, dims), lambda a: a.transpose(dims)


def view_reshape(draw, x):
    split = draw(st.sampled_from([d for d in range(1, max(x.size, 1) + 1) if x.size % d == 0]))
    shape = draw(st.sampled_from([(split, x.size // split), (x.size,), (1, x.size // split, split)]))
    return lambda c, n: c.reshape(n, shape), lambda a: a.reshape(shape)


def view_slice(draw, x):
    dim = draw(st.integers(0, x.ndim - 1))
    start, step = draw(st.integers(0, 1)), draw(st.integers(1, 2))
    window = (slice(None),) * dim + (slice(start, None, step),)
    return lambda c, n: c.slice(n, dim, start, None, step), lambda a: a[window]


def reduction(draw, x):
    dims = tuple(sorted(draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))))
    keep = draw(st.booleans())
    name = draw(st.sampled_from(["sum", "amax", "amin"]))
    if any(x.shape[d] == 0 for d in dims):
        name = "sum"
    return (
        lambda c, n: getattr(c, name)(n, dims, keep),
        lambda a: np.asarray(getattr(np, name)(a, axis=dims, keepdims=keep)),
    )


def external(draw, x):
    return lambda c, n: c.flip(n, (0,)), lambda a: a[::-1].copy()


def pad(draw, x):
    """Added before and after, or cut off, along each dimension."""
    pads = tuple((draw(st.integers(-1, 2)), draw(st.integers(-1, 2))) for _ in x.shape)
    pads = tuple(
        (a, b) if n + min(a, 0) + min(b, 0) >= 0 else (1, 0) for n, (a, b) in zip(x.shape, pads, strict=True)
    )
    value = draw(st.integers(-2, 2))
    crop = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pads, strict=True))
    grow = [(max(a, 0), max(b, 0)) for a, b in pads]
    return lambda c, n: c.constant_pad(n, pads, value), lambda a: np.pad(a[crop], grow, constant_values=value)


def cat_of_itself(draw, x):
    """Views, and what is computed, one after another: the second part starts inside a vector, or on one's edge."""
    dim, start = draw(st.integers(0, x.ndim - 1)), draw(st.integers(0, 2))
    window = (slice(None),) * dim + (slice(start, None),)
    return (
        lambda c, n: c.cat([n, c.neg(c.slice(n, dim, start, None, 1)), n], dim),
        lambda a: np.concatenate([a, -a[window], a], dim),
    )


STEPS = [
    unary("neg", lambda a: -a), unary("abs", np.abs), unary("sign", lambda a: np.sign(np.nan_to_num(a))),
    view_permute, view_reshape,
    view_slice, pad, cat_of_itself,
    reduction, reduction, external,
]  # fmt: skip


@st.composite
def programs(draw):
    """(inputs, function of c and nodes, NumPy's outputs)."""
    arrays = draw(inputs())
    values = [np.asarray(a) for a in arrays]
    recipes = []
    for _ in range(draw(st.integers(2, 9))):
        k = draw(st.integers(0, len(values) - 1))
        pairs = [j for j, v in enumerate(values) if _broadcasts(v, values[k])]
        if draw(st.booleans()) or not values[k].ndim:
            j = draw(st.sampled_from(pairs))
            name = draw(st.sampled_from(["add", "sub", "maximum"]))
            numpy_name = {"sub": "subtract"}.get(name, name)
            recipes.append((lambda c, a, b, name=name: getattr(c, name)(a, b), (k, j)))
            values.append(np.asarray(getattr(np, numpy_name)(values[k], values[j])))
        else:
            record, compute = draw(st.sampled_from(STEPS))(draw, values[k])
            recipes.append((record, (k,)))
            values.append(np.asarray(compute(values[k])))
    wanted = draw(st.sets(st.integers(0, len(values) - 1), min_size=1, max_size=4)) | {len(values) - 1}

    def function(c, *nodes):
        known = list(nodes)
        for record, operands in recipes:
            known.append(record(c, *[known[o] for o in operands]))
        return [known[k] for k in sorted(wanted)]

    return arrays, function, [values[k] for k in sorted(wanted)]


def _broadcasts(a, b):
    try:
        return np.broadcast_shapes(a.shape, b.shape) is not None
    except ValueError:
        return False


@pytest.mark.conformance("lower", "fuse", "emit")
@settings(max_examples=60, **SETTINGS)
@given(case=programs())
def test_random_graphs_interpreted(seam, case):
    from stage3_lowering.interpret import interpret_lowered, interpret_program

    arrays, function, want = case
    lowered = seam("lower")(trace(function, *arrays))
    program = seam("fuse")(lowered).verify()
    for outputs in (interpret_lowered(lowered, arrays), interpret_program(program, arrays)):
        for got, wanted in zip(outputs, want, strict=True):
            np.testing.assert_array_equal(got, wanted)
    seam("emit")(program, TRITON), seam("emit")(program, CPP)


@pytest.mark.conformance("lower", "fuse", "emit")
@settings(max_examples=12, **SETTINGS)
@given(case=programs())
def test_random_graphs_in_cpp(seam, case):
    arrays, function, want = case
    for way, outputs in run_every_way(seam, trace(function, *arrays), arrays).items():
        for got, wanted in zip(outputs, want, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=way)
