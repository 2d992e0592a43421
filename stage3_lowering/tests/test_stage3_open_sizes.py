"""Open sizes: one lowered graph, one kernel text, right at every size. Random graphs against the eager kernels.

Input: graphs traced on metas with SymInts. Each is lowered once, then interpreted, run as C++ and in Triton's
interpreter at sizes that are 0, 1, prime and multiples of a vector's width.
"""

import importlib.util

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stage0_eager.core_interpreter import interpreter
from stage3_lowering.interpret import interpret_lowered, interpret_program, sizes_of
from stage3_lowering.tests import programs
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, TRITON, assert_close, results, trace
from stage_contracts import dtype as dt
from stage_contracts.breaks import Unsupported
from stage_contracts.device import CPU
from stage_contracts.program_json import load_program, save_program
from stage_contracts.program_text import parse_program, print_program
from stage_contracts.symbolic import ShapeEnv, same_shape, statically_known_true
from stage_contracts.tensor_meta import TensorMeta

SETTINGS = {
    "derandomize": True,
    "deadline": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "database": None,
}
SIZES = ((5, 7), (1, 1), (0, 3), (8, 16), (13, 2))


def open_metas(*shapes, layout=None):
    """Metas in which the letters s and t are open sizes, and the environment that relates them."""
    env = ShapeEnv()
    letters = {"s": env.dimension("s0", 5), "t": env.dimension("s1", 7)}
    return env, [TensorMeta([letters.get(n, n) for n in shape], dt.float32) for shape in shapes]


def arrays_at(shapes, s, t):
    """Small integers held in floats, so that every answer is exact."""
    made = []
    for k, shape in enumerate(shapes):
        own = [{"s": s, "t": t}.get(n, n) for n in shape]
        made.append((np.arange(np.prod(own, dtype=int)) * (7 + k) % 11 - 5).astype(np.float32).reshape(own))
    return made


def eager(graph, arrays):
    """The graph by the eager kernels, at these arrays' sizes."""
    return interpreter(graph)(*arrays)


def compiled(seam, function, *shapes):
    """(graph, environment, program): lowered and fused once."""
    env, metas = open_metas(*shapes)
    graph = trace(function, *metas)
    return graph, env, seam("fuse")(seam("lower")(graph))


def holds_at(env, s, t):
    values = dict(zip(env.hints, (s, t), strict=True))
    return all(bool(a.condition.subs(values)) for a in env.assumptions)


# ---- random graphs ---------------------------------------------------------------------------------------------


def draw_step(draw, values, env):
    """One more node, as a function of `c` and the nodes so far. Shapes are those of nodes already traced."""
    k = draw(st.integers(0, len(values) - 1))
    shape = values[k].val.shape
    alike = [j for j, v in enumerate(values) if same_shape(v.val.shape, shape)]
    other = draw(st.sampled_from(alike))
    dim = draw(st.integers(0, max(len(shape) - 1, 0)))
    fixed = [d for d, n in enumerate(shape) if isinstance(n, int)]
    steps = [
        lambda c, n: c.neg(n[k]),
        lambda c, n: c.add(n[k], n[other]),
        lambda c, n: c.maximum(n[other], n[k]),
        lambda c, n: c.mul(n[k], c.sum(n[k], tuple(range(len(shape))), True)),
        lambda c, n: c.expand(c.reshape(n[k], (1, *shape)), (3, *shape)) if len(shape) < 4 else c.abs(n[k]),
        lambda c, n: c.flip(n[k], (dim,)) if shape else c.abs(n[k]),
    ]
    if shape:
        order = tuple(draw(st.permutations(range(len(shape)))))
        half = shape[dim] // 2
        window = draw(st.sampled_from([(None, half), (half, None)]))
        steps += [
            lambda c, n: c.permute(n[k], order),
            lambda c, n: c.reshape(n[k], (-1,)),
            lambda c, n: c.reshape(n[k], (*shape[:dim], 1, *shape[dim:])),
            lambda c, n: c.sum(n[k], (dim,), draw_keep),
            lambda c, n: c.slice(n[k], dim, *window, 1),
            lambda c, n: c.add(n[k], c.cast(c.iota(shape[-1], 0, 1, dt.int64, CPU), dt.float32)),
            lambda c, n: c.cat([n[k], n[k]], dim),
            lambda c, n: results(c.cummax(n[k], dim))[0],
            lambda c, n: c.cast(results(c.cummin(n[k], dim))[1], dt.float32),
        ]
        draw_keep = draw(st.booleans())
    if len(shape) > 1:
        at = max(dim, 1)
        joined = (*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :])
        steps.append(lambda c, n: c.reshape(n[k], joined))
    if fixed and shape[fixed[0]] == 4:
        four = fixed[0]
        steps += [
            lambda c, n: c.reshape(n[k], (*shape[:four], 2, 2, *shape[four + 1 :])),
            lambda c, n: c.amax(n[k], (four,), True),
        ]
    return draw(st.sampled_from(steps))


@st.composite
def random_graphs(draw):
    """(shapes, graph, environment)."""
    shapes = [("s", "t"), ("s", "t"), ("t",), ("s", 4), ("t", "s")]
    env, metas = open_metas(*shapes)
    nodes = draw(st.integers(2, 8))

    def function(c, *given):
        values = list(given)
        for _ in range(nodes):
            values.append(draw_step(draw, values, env)(c, values))
        wanted = draw(st.sets(st.integers(len(given), len(values) - 1), min_size=1, max_size=3))
        return [values[w] for w in sorted(wanted | {len(values) - 1})]

    return shapes, trace(function, *metas), env


@pytest.mark.conformance("lower", "fuse", tier="full")
@settings(max_examples=25, **SETTINGS)
@given(case=random_graphs())
def test_random_graphs_interpreted_at_all_sizes(seam, case):
    shapes, graph, env = case
    lowered = seam("lower")(graph)
    program = seam("fuse")(lowered).verify()
    for s, t in SIZES:
        if not holds_at(env, s, t):
            continue
        arrays = arrays_at(shapes, s, t)
        want = eager(graph, arrays)
        for outputs in (interpret_lowered(lowered, arrays), interpret_program(program, arrays)):
            for got, wanted in zip(outputs, want, strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=str((s, t)))


@pytest.mark.conformance("lower", "fuse", "emit", tier="full")
@settings(max_examples=5, **SETTINGS)
@given(case=random_graphs())
def test_random_graphs_in_cpp_at_all_sizes(seam, case):
    shapes, graph, env = case
    program = seam("emit")(seam("fuse")(seam("lower")(graph)), CPP)
    for s, t in SIZES:
        if holds_at(env, s, t):
            arrays = arrays_at(shapes, s, t)
            for got, wanted in zip(run_cpp(program, arrays), eager(graph, arrays), strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=str((s, t)))


# ---- what a program with open sizes is ---------------------------------------------------------------------------


def rows(c, x, w):
    return c.add(programs.softmax(c, x), c.sum(w, (1,), True)), c.mul(c.reshape(w, (-1,)), 2)


ROWS = (("s", "t"), ("s", 4))


@pytest.mark.conformance("lower", "fuse", "emit", tier="full")
def test_the_text_of_a_kernel_does_not_depend_on_the_first_size(seam):
    texts = set()
    for hint in (5, 4096):
        env = ShapeEnv()
        meta = TensorMeta((env.dimension("s0", hint), 16), dt.float32)
        graph = trace(lambda c, x: programs.softmax(c, x), meta)
        (unit,) = seam("emit")(seam("fuse")(seam("lower")(graph)), CPP).units
        texts.add(unit.text)
        assert not env.assumptions
    (text,) = texts
    assert "int64_t s0" in text and "i0 < s0" in text


def test_it_prints_and_saves(seam, tmp_path):
    _, _, program = compiled(seam, lambda c, x, w: (*rows(c, x, w), c.cat([x, x], 0)), *ROWS)
    program = seam("emit")(program, CPP)
    assert [str(size) for size in program.sizes] == ["s0 = size(x, 0)", "s1 = size(x, 1)"]
    text = print_program(program)
    assert print_program(parse_program(text)) == text
    assert parse_program(text).sizes == program.sizes
    save_program(program, tmp_path)
    assert print_program(load_program(tmp_path)) == text


def test_a_size_is_read_where_a_shape_shows_it(seam):
    env = ShapeEnv()
    s = env.dimension("s0", 3)
    graph = trace(
        lambda c, x: c.expand(c.reshape(c.sum(x, (0,), True), (1, 1)), (s, s + 1)),
        TensorMeta((s * 8,), dt.float32),
    )
    program = seam("fuse")(seam("lower")(graph))
    assert [str(v) for v in program.sizes] == ["s0_dim = size(x, 0)", "s0 = (s0_dim // 8)", "u0 = s0 + 1"]
    (out,) = interpret_program(program, [np.ones(16, np.float32)])
    np.testing.assert_array_equal(out, np.full((2, 3), 16, np.float32))
    hidden = trace(lambda c, x: c.expand(x, (s,)), TensorMeta((1,), dt.float32))
    with pytest.raises(Unsupported, match="the open size s0, which no input of the graph shows"):
        seam("lower")(hidden)


def test_equal_expressions_fuse_and_others_do_not(seam):
    _, _, program = compiled(
        seam, lambda c, x, y: c.mul(c.reshape(c.neg(x), (-1,)), c.reshape(y, (-1,))), ("s", "t"), ("s", "t")
    )
    (kernel,) = program.kernels.values()
    assert kernel.sizes == ("s0", "s1") and str(kernel.nests[0].ranges) == "(s0*s1,)"
    _, _, apart = compiled(seam, lambda c, x, y: (c.neg(x), c.exp(y)), ("s", "t"), ("t", "s"))
    assert len(apart.kernels) == 2


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_triton_takes_sizes_as_arguments(seam):
    from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter

    graph, _, program = compiled(seam, rows, *ROWS)
    program = seam("emit")(program, TRITON)
    for s, t in SIZES:
        if t:
            arrays = arrays_at(ROWS, s, t)
            for got, want in zip(run_in_interpreter(program, arrays), eager(graph, arrays), strict=True):
                assert_close(got, want, 8, str((s, t)))
    for name, made in compile_to_ptx(program).items():
        kernel = program.kernels[name]
        assert all(kernel.grid["signature"][size] == "i64" for size in kernel.sizes)
        assert ".param .u64" in made["ptx"]


def test_sizes_of_a_program(seam):
    _, _, program = compiled(seam, rows, *ROWS)
    values = sizes_of(program, arrays_at(ROWS, 3, 2))
    assert {str(name): value for name, value in values.items()} == {"s0": 3, "s1": 2}


def test_a_comparison_that_always_holds_is_known():
    env = ShapeEnv()
    s = env.dimension("s0", 3, low=2)
    assert statically_known_true(s * 4 >= 8) and not statically_known_true(s * 4 > 8) and not env.assumptions
