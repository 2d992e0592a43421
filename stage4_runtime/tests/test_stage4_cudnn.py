"""Convolutions by cuDNN without a GPU: descriptors and arguments, read by a stand-in that computes what they say.

Input: a table of steps in every form that lowering writes: forward, transposed, the kernel's gradient; strides,
dilations, groups, one to three dimensions, both layouts. The oracle is the operator's eager kernel.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest

from stage0_eager.kernels import convolution as eager
from stage4_runtime.runtime import convolution as routine
from stage4_runtime.runtime import cudnn
from stage4_runtime.runtime.cudnn import Cudnn
from stage4_runtime.runtime.launch import launch, plain_launch
from stage4_runtime.tests.fake_cudnn import NOT_SUPPORTED, FakeCudnn
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage_contracts import config, events
from stage_contracts.convolution_metas import convolved_size
from stage_contracts.device import Device
from stage_contracts.dtype import dtype_of
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Program, Return
from stage_contracts.tensor_meta import TensorMeta

RNG = np.random.default_rng(2)
CUDA = Device("cuda", 0)
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
CLOSE = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}  # of the largest element

CASES = {  # name: (x, kernel, outs, stride, padding, dilation, groups)
    "plain": ((2, 3, 6, 5), (3, 3), 4, (1, 1), (1, 1), (1, 1), 1),
    "strided, the last rows unseen": ((1, 4, 8, 7), (3, 2), 4, (2, 3), (1, 0), (1, 1), 1),
    "dilated": ((2, 2, 9, 9), (3, 3), 2, (1, 2), (2, 1), (2, 3), 1),
    "groups": ((2, 4, 5, 5), (3, 3), 6, (1, 1), (1, 1), (1, 1), 2),
    "each channel alone": ((1, 4, 5, 5), (3, 3), 4, (1, 1), (1, 1), (1, 1), 4),
    "one dimension": ((2, 3, 9), (4,), 5, (2,), (1,), (1,), 1),
    "three": ((1, 2, 4, 5, 3), (2, 3, 1), 3, (1, 2, 1), (0, 1, 0), (1, 1, 1), 1),
    "kernel of one": ((2, 8, 4, 4), (1, 1), 8, (1, 1), (0, 0), (1, 1), 1),
}


def laid(values, last):
    """The same values, with the channels innermost."""
    if not last:
        return array(values, values.dtype)
    order = (0, *range(2, values.ndim), 1)
    return array(values.transpose(order), values.dtype).transpose(np.argsort(order))


def meta_of(values):
    strides = tuple(s // values.itemsize for s in values.strides)
    return TensorMeta(values.shape, dtype_of(values.dtype), strides, CUDA)


def step_of(makes, case, dtype, last):
    """(the step, its arrays, what the eager kernel makes of them)."""
    x, kernel, outs, stride, padding, dilation, groups = case
    windows = zip(x[2:], kernel, stride, padding, dilation, strict=True)
    y = (x[0], outs, *(convolved_size(*each) for each in windows))
    shapes = {"x": x, "w": (outs, x[1] // groups, *kernel), "y": y}
    given = {n: laid(RNG.standard_normal(s).astype(DTYPES[dtype]), last) for n, s in shapes.items()}
    numbers = stride, padding, dilation
    if makes == "w":
        operands, words, target = "xy", (kernel, *numbers, groups), "convolution_weight_gradient"
    else:
        full = [(n - 1) * s - 2 * p + d * (k - 1) + 1
                for n, s, p, d, k in zip(y[2:], stride, padding, dilation, kernel, strict=True)]  # fmt: skip
        extra = tuple(n - m for n, m in zip(x[2:], full, strict=True)) if makes == "x" else (0,) * len(kernel)
        operands, target = ("yw" if makes == "x" else "xw"), "convolution"
        words = (*numbers, makes == "x", extra, groups)
    arrays = [given[n] for n in operands]
    want = getattr(eager, target)(np, *(np.asarray(a) for a in arrays), *words)
    step = External(target, (BufferRef("a"), BufferRef("b"), *words), {}, ("c",))
    return step, arrays, want


def program_of(step, arrays, want, last):
    metas = dict(zip("abc", (*map(meta_of, arrays), meta_of(laid(want, last))), strict=True))
    buffers = {n: Buffer(n, m, "input" if n != "c" else "output") for n, m in metas.items()}
    return Program("forward", CUDA, ("a", "b"), buffers, {}, (step, Return((BufferRef("c"),))))


@pytest.fixture
def gpu(monkeypatch):
    """`install(library)` gives a stand-in of CuPy that runs with this cuDNN."""
    fake = FakeCupy({})
    monkeypatch.setattr("stage4_runtime.runtime.cuda.import_cupy", lambda: fake)

    def install(library):
        monkeypatch.setattr(cudnn, "_THREAD", type("Local", (), {})())
        monkeypatch.setattr(routine, "_MADE", {})
        monkeypatch.setattr(cudnn, "cudnn", lambda: library and Cudnn(library))
        return fake

    return install


def ready(program):
    from stage4_runtime.runtime.cuda import cupy_library

    return plain_launch(program, {}, {}, cupy_library(program.device))


def run_as_eager(name, makes, dtype, last):
    """A case's result by the library in place, near eager's, and eager's."""
    step, arrays, want = step_of(makes, CASES[name], dtype, last)
    (got,) = ready(program_of(step, arrays, want, last))(*arrays)
    wide = want.astype(np.float64)
    far = np.abs(np.asarray(got).astype(np.float64) - wide).max() / np.abs(wide).max()
    assert got.dtype == want.dtype and far <= CLOSE[dtype], (dtype, last, far)
    return got, want


@pytest.mark.parametrize("makes", "xwy")
@pytest.mark.parametrize("name", CASES)
def test_the_descriptors_mean_what_eager_computes(name, makes, gpu):
    for dtype, last in itertools.product(DTYPES, (False, True)):
        library = FakeCudnn()
        gpu(library)
        got, want = run_as_eager(name, makes, dtype, last)
        assert seen_strides(np.asarray(got)) == seen_strides(laid(want, last))
        ((_, algorithm, math, _),) = library.calls
        assert (algorithm, math) == (1, {"float32": 3, "float64": 0}.get(dtype, 1))


def seen_strides(values):
    return [s for s, n in zip(values.strides, values.shape, strict=True) if n > 1]


def test_operands_that_begin_inside_their_buffers(gpu):
    library = FakeCudnn()
    gpu(library)
    step, (x, w), want = step_of("y", CASES["plain"], "float32", False)
    flat = array(np.concatenate([np.zeros(8, np.float32), np.asarray(x).ravel()]))
    meta = meta_of(x)
    inside = BufferRef("a", meta.shape, meta.strides, 8)
    program = program_of(External(step.target, (inside, *step.args[1:]), {}, ("c",)), (flat, w), want, False)
    (got,) = ready(program)(flat, w)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)
    odd = External(step.target, (BufferRef("a", meta.shape, meta.strides, 7), *step.args[1:]), {}, ("c",))
    assert "multiples of 16" in why_not(program_of(odd, (flat, w), want, False))


def why_not(program):
    """The reason in the event of a step that the eager kernel runs."""
    before = events.EVENT_LOG.mark()
    ready(program)
    (event,) = [e for e in events.EVENT_LOG.since(before, "fallback") if e.name == "convolution"]
    return event.details["reason"]


def test_what_cudnn_does_not_do_goes_to_the_eager_kernel(gpu):
    gpu(None)
    step, arrays, want = step_of("y", CASES["plain"], "float32", False)
    assert "there is no cuDNN" in why_not(program_of(step, arrays, want, False))
    gpu(FakeCudnn())
    mixed = [arrays[0], laid(np.asarray(arrays[1]), True)]
    assert "differ in layout" in why_not(program_of(step, mixed, want, False))
    whole = [np.ones(a.shape, np.int32) for a in arrays]
    assert "none in this dtype" in why_not(program_of(step, whole, want.astype(np.int32), False))
    # an output padding larger than the stride leaves windows that no one reads
    words = ((1,), (0,), (2,), True, (1,), 1)
    given = [np.ones((1, 2, 5), np.float32), np.ones((2, 2, 3), np.float32)]
    out = eager.convolution(np, *given, *words)
    step = External("convolution", (BufferRef("a"), BufferRef("b"), *words), {}, ("c",))
    assert "not all of a convolution's" in why_not(program_of(step, given, out, False))
    gpu(FakeCudnn(listed=((1, NOT_SUPPORTED, 0, 1, 1), (0, 0, 1 << 40, 1, 1))))
    step, arrays, want = step_of("y", CASES["plain"], "float32", False)
    reason = why_not(program_of(step, arrays, want, False))
    assert (
        "implicit precomputed gemm: CUDNN_STATUS_NOT_SUPPORTED" in reason and "1099511627776 bytes" in reason
    )


LISTED = (  # the fastest first: atomic, winograd, one that is neither
    (0, 0, 10, 0, 1),
    (4, 0, 20, 1, 1),
    (1, 0, 30, 1, 1),
)


@pytest.mark.parametrize(
    ("switches", "dtype", "wanted", "why"),
    [
        ({}, "float32", 4, "cuDNN's rule"),
        ({}, "bfloat16", 1, "cuDNN's rule"),  # winograd rounds what it transforms
        ({"cudnn_benchmark": True}, "float32", 0, "measured"),
        ({"cudnn_benchmark": True, "deterministic": True}, "bfloat16", 1, "it is deterministic"),
    ],
)
def test_which_algorithm_runs(switches, dtype, wanted, why, gpu):
    library = FakeCudnn(LISTED)
    gpu(library)
    step, arrays, want = step_of("w", CASES["plain"], dtype, False)
    before = events.EVENT_LOG.mark()
    with config.patch({f"runtime.{name}": value for name, value in switches.items()}):
        run = ready(program_of(step, arrays, want, False))
    run(*arrays)
    assert library.calls[0][1] == wanted and library.asked == [("BackwardFilter", why == "measured")]
    (event,) = [e for e in events.EVENT_LOG.since(before, "policy") if e.name == "convolution"]
    assert event.details["why"] == why


def test_tf32_only_where_it_is_switched_on(gpu):
    for allowed, math in ((False, 3), (True, 0)):
        library = FakeCudnn()
        gpu(library)
        step, arrays, want = step_of("y", CASES["plain"], "float32", False)
        with config.patch({"runtime.cudnn_allow_tf32": allowed}):
            ready(program_of(step, arrays, want, False))(*arrays)
        assert library.calls[0][2] == math


def test_steps_that_are_alike_share_descriptors_and_algorithm(gpu):
    library = FakeCudnn()
    gpu(library)
    step, arrays, want = step_of("y", CASES["plain"], "float32", False)
    program = program_of(step, arrays, want, False)
    for _ in range(3):
        ready(program)(*arrays)
    assert len(library.asked) == 1 and len(library.calls) == 3


def test_memory_of_a_stream_grows_before_a_capture_and_stays(gpu):
    """The run before the capture makes the handle and its memory. What was outgrown is still there for its graph."""
    library = FakeCudnn(listed=((1, 0, 5000, 1, 1),))
    fake = gpu(library)
    step, arrays, want = step_of("y", CASES["plain"], "float32", False)
    run = launch(program_of(step, arrays, want, False), {}, {}, cuda_graph=True)
    for _ in range(3):
        run(*arrays)
    # of the caller's stream, on which the first call runs plain, and of the capture's
    assert [entry[1] for entry in fake.log if entry[0] == "memory"] == [8192, 8192]
    handles = cudnn.Handles(fake, Cudnn(library))
    stream = library.calls[-1][3]
    small = handles.of(stream, 100)
    large = handles.of(stream, 20000)
    assert small[0] == large[0] and small[1] != large[1] and handles.of(stream, 30)[1] == large[1]
    assert [entry[1] for entry in fake.log if entry[0] == "memory"] == [8192, 8192, 32768]


def test_a_refusal_at_a_call_has_cudnns_words(gpu):
    library = FakeCudnn()
    gpu(library)
    step, arrays, want = step_of("y", CASES["plain"], "float32", False)
    run = ready(program_of(step, arrays, want, False))
    library.listed = ((1, 0, 1 << 20, 1, 1),)  # it wants more memory than it said
    with pytest.raises(RuntimeError, match="cudnnConvolutionForward of .*CUDNN_STATUS_BAD_PARAM"):
        run(*arrays)


def test_the_library_is_found_in_the_python_package(tmp_path, monkeypatch):
    package = tmp_path / "nvidia" / "cudnn"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "lib" / "libcudnn.so.9").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    opened = []

    def open_library(name):
        opened.append(str(name))
        if "/" not in str(name):
            raise OSError(name)
        return "the library"

    monkeypatch.setattr(cudnn.ctypes, "CDLL", open_library)
    found = cudnn.cudnn.__wrapped__()
    assert found.library == "the library" and opened[-1] == str(package / "lib" / "libcudnn.so.9")
