"""Programs on arrays compiled and run against NumPy: results, writes, memory shared, what is printed, graphs and breaks.

Input: numpy_programs/programs.py. Backend "eager" must agree to the bit; `make numpy` runs all of them on "inductor".
"""

import numpy as np
import pytest

import cutaway
from tests.numpy_programs import programs, writing  # noqa: F401  (they fill the table)
from tests.numpy_programs.compare import assert_same, observe
from tests.numpy_programs.registry import PROGRAMS, arguments

BUILT = ("heat", "write_through_a_chain_of_views", "promotion")


def check(name, backend, exact=False):
    function, _, graphs, breaks = PROGRAMS[name]
    compiled = cutaway.compile(function, backend=backend)
    for call in ("first call", "second call"):
        want, got = observe(function, arguments(name)), observe(compiled, arguments(name))
        assert_same(got, want, f"{name} on {backend}, {call}", exact)
    made = sum(part.frame.graph is not None for part in compiled.artifacts)
    assert (made, len(compiled.breaks)) == (graphs, breaks), [str(b) for b in compiled.breaks]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_numpys_bits(name):
    check(name, "eager", exact=True)


@pytest.mark.parametrize("name", list(PROGRAMS)[::6])
def test_a_program_ahead_of_time(name):
    check(name, "aot_eager")


@pytest.mark.parametrize("name", BUILT)
def test_a_program_in_kernels(name):
    check(name, "inductor")


def test_there_are_enough_programs():
    assert len(PROGRAMS) >= 60


# ---- guards -----------------------------------------------------------------------------------------------------


def scaled(a, by):
    return np.sum(a * by, axis=0)


def test_another_dtype_shape_or_layout_recompiles_and_other_values_do_not():
    compiled = cutaway.compile(scaled, backend="eager", dynamic=False)
    calls = [np.ones((3, 4)), np.ones((3, 4), np.float32), np.ones((3, 5)), np.ones((4, 3)).T, np.ones(3)]
    for count, a in enumerate(calls, 1):
        for again in (a, a + 1 if a.flags.c_contiguous else a):
            np.testing.assert_array_equal(compiled(again, 2.0), scaled(again, 2.0))
        assert len(compiled.entries) == count


def test_sizes_that_change_are_left_open():
    compiled = cutaway.compile(scaled, backend="eager")
    for n in (7, 5, 3, 2, 11):
        np.testing.assert_array_equal(compiled(np.ones((n, 4)), 2.0), scaled(np.ones((n, 4)), 2.0))
    assert len(compiled.entries) <= 2
    assert any(g.kind == "OPEN_ARRAY" for g in compiled.entries[0].guards)


def test_shapes_made_of_open_sizes_stay_open():
    def fresh(a):
        return np.zeros((len(a), 2)), np.arange(a.shape[0]) + a, np.ones(a.shape)

    compiled = cutaway.compile(fresh, backend="eager")
    for n in (7, 5, 3, 11):
        for got, want in zip(compiled(np.ones(n)), fresh(np.ones(n)), strict=True):
            np.testing.assert_array_equal(got, want)
    assert len(compiled.entries) <= 2


def test_python_floats_beside_arrays_are_inputs():
    compiled = cutaway.compile(scaled, backend="eager")
    a = np.ones((3, 4), np.float32)
    for by in (0.1, 0.2, 3.5, -1e-3):
        got = compiled(a, by)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, scaled(a, by))
    assert len(compiled.entries) == 1
    reflected = cutaway.compile(lambda a, n, s: (s * a, a > n, np.maximum(s, a)), backend="eager")
    for n, s in ((1, 0.5), (2, -1.5), (-3, 2.0)):
        for got, want in zip(reflected(a, n, s), (s * a, a > n, np.maximum(s, a)), strict=True):
            np.testing.assert_array_equal(got, want)
    assert len(reflected.entries) == 1
    assert compiled(a.astype(np.int64), 0.5).dtype == np.float64


def test_a_number_beyond_the_dtype_is_numpys_own_error():
    compiled = cutaway.compile(lambda a, n: a + n, backend="eager")
    a = np.zeros(3, np.int8)
    np.testing.assert_array_equal(compiled(a, 5), a + 5)
    with pytest.raises(OverflowError, match="out of bounds for int8"):
        compiled(a, 300)


def test_rebound_globals_and_functions_are_noticed(monkeypatch):
    compiled = cutaway.compile(lambda a: np.sin(a), backend="eager")
    a = np.ones(3)
    np.testing.assert_array_equal(compiled(a), np.sin(a))
    monkeypatch.setattr(np, "sin", np.cos)
    np.testing.assert_array_equal(compiled(a), np.cos(a))


def test_an_array_that_becomes_read_only_is_not_written():
    def store(a):
        a[0] = 5
        return a

    compiled = cutaway.compile(store, backend="eager")
    assert compiled(np.zeros(3))[0] == 5
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled(fixed)
    assert fixed[0] == 0


class Tagged(np.ndarray):
    """A subclass, which NumPy's functions ask about everything."""


ODD = {
    "big-endian": lambda: np.arange(3.0).astype(">f8"),
    "reversed": lambda: np.arange(6.0)[::-2],
    "unsigned": lambda: np.arange(3, dtype=np.uint32),
    "complex": lambda: np.array([1 + 2j, 3]),
    "objects": lambda: np.array([1, 2.5, 3], object),
    "masked": lambda: np.ma.array([1.0, 2, 3], mask=[0, 1, 0]),
    "subclass": lambda: np.arange(3.0).view(Tagged),
    "unaligned": lambda: np.zeros(3, np.dtype([("a", "i1"), ("x", "f8")], align=False))["x"],
    "dates": lambda: np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"),
    "long double": lambda: np.arange(3, dtype=np.longdouble),
}


@pytest.mark.parametrize("kind", ODD)
def test_other_arrays_run_in_numpy_without_a_word(kind, recwarn):
    function = (lambda a: a + 1) if kind == "dates" else (lambda a: np.sort(a + a) * 1)
    compiled = cutaway.compile(function, backend="eager")
    want = observe(function, (ODD[kind](),))
    assert_same(observe(compiled, (ODD[kind](),)), want, kind)
    assert not [str(w.message) for w in recwarn]
    plain = np.arange(4.0) if kind != "dates" else np.arange(4)
    np.testing.assert_array_equal(compiled(plain), function(plain))
    assert any(part.frame.graph is not None for part in compiled.artifacts), (
        "an ordinary array is captured after it"
    )


def test_arrays_and_their_views_as_arguments():
    def shift(a, b):
        a[:] = a + 1
        return a + b

    base = np.arange(6.0)
    for backend in ("eager", "aot_eager"):
        compiled = cutaway.compile(shift, backend=backend)
        for make in (lambda x: (x[:3], x[3:]), lambda x: (x[:4], x[2:]), lambda x: (x[:3], x[:3])):
            one, two = base.copy(), base.copy()
            np.testing.assert_array_equal(compiled(*make(one)), shift(*make(two)))
            np.testing.assert_array_equal(one, two)


# ---- wrap_numpy, trace_numpy ------------------------------------------------------------------------------------


def loss(a, w):
    hidden = np.tanh(a @ w["in"]) + np.maximum(a[:, :1], 0.1)
    return np.mean(hidden**2) + np.linalg.norm(w["in"][1:]) + np.where(a > 0, a, a * 3).sum(), hidden.shape


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_through_a_numpy_function(backend):
    rng = np.random.default_rng(0)
    arrays = {"a": rng.standard_normal((4, 3)), "w": rng.standard_normal((3, 2))}
    a, w = (cutaway.from_numpy(x.copy()).requires_grad_() for x in arrays.values())
    value, shape = cutaway.compile(cutaway.compiler.wrap_numpy(loss), backend=backend, fullgraph=True)(
        a, {"in": w}
    )
    value.backward()
    assert isinstance(value, cutaway.Tensor) and tuple(shape) == (4, 2)
    np.testing.assert_allclose(value.item(), loss(arrays["a"], {"in": arrays["w"]})[0], rtol=1e-12)
    for name, grad in (("a", a.grad), ("w", w.grad)):
        for place in np.ndindex(arrays[name].shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {k: v.copy() for k, v in arrays.items()}
                moved[name][place] += step
                ends.append(loss(moved["a"], {"in": moved["w"]})[0])
            np.testing.assert_allclose(grad.numpy()[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_wrap_numpy_without_compile():
    wrapped = cutaway.compiler.wrap_numpy(lambda a: [np.sin(a), a.sum()])
    sine, total = wrapped(cutaway.ones(3))
    assert isinstance(sine, cutaway.Tensor) and total.item() == 3
    with pytest.raises(RuntimeError, match="requires grad"):
        wrapped(cutaway.ones(3).requires_grad_())


def test_without_tracing_numpy_runs_in_numpy():
    compiled = cutaway.compile(lambda a: np.sin(a) + 1, backend="eager")
    with cutaway.config.patch(trace_numpy=False):
        np.testing.assert_array_equal(compiled(np.ones(3)), np.sin(np.ones(3)) + 1)
        assert all(part.frame.graph is None for part in compiled.artifacts)
    cutaway.reset()
    compiled(np.ones(3))
    assert len(compiled.artifacts) == 1 and compiled.artifacts[0].frame.graph is not None


def test_results_without_dimensions_are_arrays():
    total, first = cutaway.compile(lambda a: (a.sum(), a[0]), backend="eager")(np.ones(3))
    assert type(total) is type(first) is np.ndarray and total.shape == first.shape == ()
