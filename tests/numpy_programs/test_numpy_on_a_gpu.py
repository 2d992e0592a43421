"""NumPy programs where a GPU is the default device: the same as without, and all of it is computed on the GPU.

Input: numpy_programs/programs.py. There is no GPU: an array "there" is a copy, and a part for it runs op by op on the
CPU after it was checked.
"""

import warnings

import numpy as np
import pytest

import cutaway
from cutaway import inductor
from cutaway.artifacts import HalfArtifacts
from cutaway.compiler import load_compiled_function
from cutaway.device_parts import devices_of
from cutaway.targets import target_for
from stage0_eager import arrays
from stage4_runtime.runtime import launch_on_numpy
from stage_contracts.core_metas import to_device
from stage_contracts.device import CPU, Device
from tests.numpy_programs import programs, strict_gpu, writing  # noqa: F401  (they fill the table)
from tests.numpy_programs.calls import FAMILIES
from tests.numpy_programs.compare import assert_same, observe
from tests.numpy_programs.registry import PROGRAMS, arguments
from tests.numpy_programs.test_numpy_functions import DTYPES
from tests.numpy_programs.test_numpy_functions import check as on_a_line

GPU = Device("cuda", 0)


# A tensor that is given on the CPU stays there, and so does what it is computed with.
WITH_TENSORS = {"from_a_tensor", "mixed_operators"}


@pytest.fixture
def gpu(monkeypatch):
    """The parts that were compiled: (graph, device)."""
    parts, real = [], arrays.namespace

    def lower_and_build(core, device, pipeline, *rest):
        parts.append((core, device))
        return lambda: HalfArtifacts(core, pipeline, target_for(CPU), run=launch_on_numpy(core))

    monkeypatch.setattr(arrays, "move", lambda array, device: array.copy(order="K"))
    monkeypatch.setattr(arrays, "namespace", lambda device: np if device == GPU else real(device))
    monkeypatch.setattr(inductor, "lower_and_build", lower_and_build)
    monkeypatch.setattr("cutaway.device_parts.target_for", lambda device: target_for(CPU))
    return parts


def check(compiled, function, make, what):
    want, got = observe(function, make()), observe(compiled, make())
    assert_same(got, want, what, exact=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_under_a_device_context(name, gpu):
    function, _, graphs, _ = PROGRAMS[name]
    compiled = cutaway.compile(function)
    for context in ("cuda", "cuda", "cpu", "cuda"):
        with cutaway.device(context):
            check(compiled, function, lambda: arguments(name), f"{name}, {context}")
        if context == "cuda":
            computed = [(core, device) for core, device in gpu if core.has_calls]
            assert name in WITH_TENSORS or all(device == GPU for _, device in computed)
            assert all(devices_of(core.nodes) == {device} for core, device in computed)
        else:
            assert [c for c, d in gpu if d == CPU] or not graphs
            gpu.clear()
    assert not gpu, "the entry for the context is still there"
    made = sum(part.frame.graph is not None for part in compiled.artifacts)
    assert made == 2 * graphs


@pytest.mark.parametrize("name", list(PROGRAMS)[::4])
def test_a_program_ahead_of_time(name, gpu):
    function = PROGRAMS[name][0]
    with cutaway.device("cuda"):
        check(cutaway.compile(function, backend="aot_eager"), function, lambda: arguments(name), name)


def heat(a):
    a[1:-1] = a[1:-1] + 0.1 * (a[2:] - 2 * a[1:-1] + a[:-2])
    return a, a.sum(), np.zeros(len(a)) + a


def test_sizes_that_change_are_left_open(gpu):
    compiled = cutaway.compile(heat)
    for n in (7, 5, 3, 11):
        with cutaway.device("cuda"):
            check(compiled, heat, lambda n=n: (np.random.default_rng(0).random(n),), f"{n} cells")
    assert len(compiled.entries) <= 2
    assert all(device == GPU for _, device in gpu)


LAYOUTS = {
    "turned": lambda a: a.T,
    "turned twice": lambda a: a.reshape(2, 3, 4).transpose(2, 0, 1)[:, 0],
    "with gaps": lambda a: a[:, ::2],
    "turned with gaps": lambda a: a.T[::2],
    "a row many times": lambda a: np.broadcast_to(a[0], (6, 4)),
    "without elements": lambda a: a[:0],
    "without dimensions": lambda a: a[0, 0, ...],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_in_any_layout(layout, gpu):
    def function(a, b):
        c = a * 2 + b
        return c, c.T, a.T, np.sort(a, axis=None), (a - b).reshape(-1), np.moveaxis(c, 0, -1) * 1

    make = lambda: [LAYOUTS[layout](np.arange(24.0).reshape(6, 4) + k) for k in range(2)]  # noqa: E731
    with cutaway.device("cuda"):
        check(cutaway.compile(function), function, make, layout)
    assert [device for _, device in gpu] == [GPU]


def test_a_written_input_that_shares_memory(gpu):
    def shift(a, b):
        a[:] = a + 1
        return a + b

    compiled = cutaway.compile(shift)
    with cutaway.device("cuda"):
        for make in (lambda x: (x[:3], x[3:]), lambda x: (x[:4], x[2:6]), lambda x: (x[:3], x[:3])):
            one, two = np.arange(6.0), np.arange(6.0)
            if len(make(one)[0]) == len(make(one)[1]):
                np.testing.assert_array_equal(compiled(*make(one)), shift(*make(two)))
            np.testing.assert_array_equal(one, two)
    assert {device for _, device in gpu} == {GPU}


def test_what_numpy_keeps_to_itself_runs_there(gpu):
    """Dtypes that no tensor has."""
    compiled = cutaway.compile(lambda a: np.sort(a + a) * 1)
    with cutaway.device("cuda"):
        for a in (
            np.array([1, 2.5, 3], object),
            np.arange(3.0).astype(">f8"),
            np.arange(3, dtype=np.longdouble),
        ):
            got, want = compiled(a), np.sort(a + a) * 1
            assert type(got) is np.ndarray and got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


def test_a_context_inside_the_function_is_for_tensors(gpu):
    def function(a):
        with cutaway.device("cuda"):
            return np.sin(a) + 1

    check(cutaway.compile(function), function, lambda: (np.ones(3),), "inside")
    assert {device for _, device in gpu} <= {CPU}


# ---- tensors on a GPU, which refuses arrays of the host ------------------------------------------------------------


@pytest.fixture
def strict(monkeypatch):
    strict_gpu.install(monkeypatch)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_where_host_and_gpu_do_not_mix(name, strict):
    function = PROGRAMS[name][0]
    compiled = cutaway.compile(function, backend="aot_eager")
    with cutaway.device("cuda"):
        check(compiled, function, lambda: arguments(name), name)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_function_on_the_gpu(family, strict):
    """Every line of calls.py, on float64 and on another dtype in another layout."""
    warnings.simplefilter("ignore", RuntimeWarning)
    for i, line in enumerate(FAMILIES[family]):
        other = DTYPES[i % len(DTYPES)], ("column-major", "strided")[i // len(DTYPES) % 2]
        for dtype, layout in {("float64", "row-major"), other}:
            with cutaway.device("cuda"):
                on_a_line(line, dtype, layout, backend="aot_eager")


BESIDE = {
    "operands": lambda a, b: np.zeros(3) + a * np.arange(3.0)[::-1],
    "joined": lambda a, b: np.concatenate([b, a, np.stack([a, b])[0], np.hstack([a, 1.0])]),
    "listed": lambda a, b: np.array([a, b]),
    "chosen": lambda a, b: np.where(a > 0, np.clip(a, b, b + 1), b),
    "weighted": lambda a, b: np.average(a, weights=b),
    "multiplied": lambda a, b: np.outer(b, a) @ np.eye(3) @ np.einsum("i,i->i", a, b),
}


@pytest.mark.parametrize("context", ["cuda", "cpu"])
@pytest.mark.parametrize("name", BESIDE)
def test_arrays_made_beside_a_tensor_on_the_gpu(name, context, strict):
    """wrap_numpy of a tensor there: what NumPy makes comes to it."""

    def function(a):
        return BESIDE[name](a, np.ones(3))

    given = cutaway.tensor([1.0, 2.0, -3.0], dtype=cutaway.float64)
    wrapped = cutaway.compile(cutaway.compiler.wrap_numpy(function), fullgraph=True, backend="aot_eager")
    with cutaway.device(context):
        got = wrapped(given.to("cuda"))
    assert got.device == GPU
    np.testing.assert_allclose(got.cpu().numpy(), function(given.numpy()), rtol=1e-12)


@pytest.mark.parametrize("context", ["cuda", "cpu"])
def test_gradients_on_the_gpu(context, strict):
    scale = np.arange(1.0, 4.0)

    def loss(a):
        return np.sum(np.tanh(a * scale) ** 2 + np.ones(3))

    found = {}
    for device in ("cuda", "cpu"):
        x = cutaway.tensor([0.1, 0.2, -0.3], dtype=cutaway.float64, device=device).requires_grad_()
        compiled = cutaway.compile(cutaway.compiler.wrap_numpy(loss), fullgraph=True, backend="aot_eager")
        with cutaway.device(context if device == "cuda" else "cpu"):
            compiled(x).backward()
        assert x.grad.device.type == device
        found[device] = x.grad.cpu().numpy()
    np.testing.assert_allclose(found["cuda"], found["cpu"], rtol=1e-12)


def test_a_saved_function_runs_there(gpu, tmp_path):
    def spread(a):
        a[1:] = a[1:] * 0.5 + a[:-1]
        return a.sum(), np.ones(3) + a[:3]

    def make():
        return (np.arange(6.0),)

    with cutaway.device("cuda"):
        ahead = cutaway.compile(spread, fullgraph=True).aot_compile((make(), {}))
        ahead.save_compiled_function(tmp_path / "f")
        gpu.clear()
        loaded = load_compiled_function(tmp_path / "f", f_globals={"np": np}, trust=True)
        check(loaded, spread, make, "loaded")
    assert [device for _, device in gpu] == [GPU]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_on_another_device_is_laid_out_as_the_meta_rule_says(layout, strict):
    there = cutaway.from_numpy(np.arange(24.0).reshape(6, 4)).to("cuda")
    for x, to in ((cutaway.from_numpy(np.arange(24.0).reshape(6, 4)), GPU), (there, CPU)):
        x = cutaway.Tensor(LAYOUTS[layout](x._data))
        made, rule = x.to(to), to_device(x.meta, to)
        assert made.meta == rule and made.tolist() == x.tolist()
