"""Programs for a GPU without a GPU: Triton compiled ahead of time, launches looked at through a fake CuPy."""

import importlib.util
import sys

import numpy as np
import pytest

from stage4_runtime.runtime import build, launch, plan_memory, triton_units
from stage4_runtime.runtime.build import forget_built
from stage4_runtime.runtime.cuda import KERNEL_ALIGNMENT, cupy_library, gpu_architecture, kernel_launcher
from stage4_runtime.runtime.triton_compile import POINTER_ALIGNMENT
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage4_runtime.tests.programs import chain, external, loaded_kernel, meta, program, python_kernels
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.graph import GraphError
from stage_contracts.program import Launch, SourceUnit, Target
from stage_contracts.tensor_meta import TensorMeta

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)
CUDA = Device("cuda")

SIN_COS = """\
import triton
import triton.language as tl


@triton.jit
def sin_cos(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < 1000, other=0.0)
    tl.store(y + i, tl.sin(tl.cos(value)), mask=i < 1000)
"""
GRID = {"grid": (8,), "num_warps": 2, "constants": {"BLOCK": 128}, "signature": {"x": "*fp32", "y": "*fp32"}}


def triton_unit(text=SIN_COS, arch="sm_90", grids=None):
    target = Target("triton", CUDA, arch)
    return SourceUnit(
        "sin_cos", "triton", text, ("sin_cos",), target, {"sin_cos": GRID} if grids is None else grids
    )


@needs_triton
def test_a_unit_is_compiled_for_a_gpu_that_is_not_here(event_log):
    imported = "triton" in sys.modules  # by another test of this process, if it was
    kernel = build(triton_unit())["sin_cos"]
    assert kernel.cubin.startswith(b"\x7fELF")
    assert ".target sm_90" in kernel.ptx and ".entry sin_cos" in kernel.ptx
    assert (kernel.name, kernel.grid, kernel.types) == ("sin_cos", (8, 1, 1), ("*fp32", "*fp32"))
    assert kernel.num_warps == 2 and kernel.scratch == 0
    assert "ld.global.v" in kernel.ptx, "pointers are promised to be aligned, so loads are wide"
    forget_built()
    assert build(triton_unit())["sin_cos"] == kernel
    assert [e.name for e in event_log("cache")] == ["miss", "hit"] and len(event_log("build")) == 1
    assert ("triton" in sys.modules) == imported, "only the child process imports Triton"


@needs_triton
def test_a_kernel_triton_refuses():
    with pytest.raises(BuildError, match="arange's range must be a power of 2") as raised:
        build(triton_unit(SIN_COS.replace("tl.arange(0, BLOCK)", "tl.arange(0, 1000)")))
    assert len(str(raised.value).splitlines()) < 15


@needs_triton
def test_a_kernel_that_takes_too_long(monkeypatch):
    monkeypatch.setattr("stage4_runtime.runtime.triton_units.TIME_LIMIT", 0.01)
    with pytest.raises(BuildError, match=r"nothing for 0\.01 seconds; it was stopped"):
        build(triton_unit())


@needs_triton
@pytest.mark.parametrize(
    ("unit", "says"),
    [
        (triton_unit(arch=""), "target architecture ''; expected one like 'sm_90'"),
        (triton_unit(grids={}), r"emit must set SourceUnit.grids\['sin_cos'\]"),
    ],
)
def test_a_unit_that_does_not_say_enough(unit, says):
    with pytest.raises(BuildError, match=says):
        build(unit)


def test_no_triton(monkeypatch):
    from importlib.metadata import PackageNotFoundError

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    monkeypatch.setattr(triton_units, "triton_version", triton_units.triton_version.__wrapped__)
    with pytest.raises(CompilerMissing, match=r"install cutaway\[triton\]"):
        build(triton_unit())


def test_no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install 'cutaway\[cuda\]'"):
        launch(plan_memory(chain(1).with_(device=CUDA)), {}, {})


def test_what_is_promised_to_triton_is_what_launch_code_keeps():
    assert KERNEL_ALIGNMENT == POINTER_ALIGNMENT == 16


# ---- launching -------------------------------------------------------------------------------------------


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_a_launch_packs_addresses_shape_and_stream(on_fake_gpu):
    run, fake = on_fake_gpu(chain(2))
    x = array(numbers(64))
    (y,) = run(x)
    np.testing.assert_array_equal(y, numbers(64) + 2)
    first, second = [entry for entry in fake.log if entry[0].startswith("kernel")]
    name, shape, stream, (source, middle) = first
    assert (name, shape, stream) == ("kernel0", (2, 1, 1, 128, 1, 1, 0), fake.streams[0].ptr)
    assert source == x.data.ptr and second[3] == (middle, y.data.ptr)
    assert middle % 512 == 0


def test_results_on_the_gpu_are_safe_to_keep(on_fake_gpu):
    run, _ = on_fake_gpu(chain(3))
    (first,) = run(array(numbers(64)))
    run(array(numbers(64) * 5))
    np.testing.assert_array_equal(first, numbers(64) + 3)


def test_temporaries_of_two_streams_do_not_share_memory(on_fake_gpu):
    run, fake = on_fake_gpu(chain(2))
    run(array(numbers(64)))
    with fake.cuda.Stream():
        run(array(numbers(64)))
    first, _, second, _ = [entry[3] for entry in fake.log if entry[0].startswith("kernel")]
    assert first[1] != second[1]


def test_external_calls_on_the_gpu(on_fake_gpu):
    steps = [external("matmul", "x", "x", out="buf0"), external("neg", "buf0", out="y")]
    run, _ = on_fake_gpu(
        program({"x": meta(4, 4)}, {"buf0": meta(4, 4)}, {"y": meta(4, 4)}, [], steps, ["y"])
    )
    (y,) = run(array(numbers(4, 4)))
    np.testing.assert_array_equal(y, -(numbers(4, 4) @ numbers(4, 4)))


def test_an_input_that_starts_in_the_middle_of_16_bytes_is_copied(on_fake_gpu):
    run, fake = on_fake_gpu(chain(1))
    x = array(numbers(65))[1:]
    (y,) = run(x)
    np.testing.assert_array_equal(y, numbers(65)[1:] + 1)
    (source, _) = next(entry[3] for entry in fake.log if entry[0] == "kernel0")
    assert source % 16 == 0 and x.data.ptr % 16 != 0


def test_a_host_array_for_a_program_on_the_gpu(on_fake_gpu):
    run, _ = on_fake_gpu(chain(1))
    with pytest.raises(TypeError, match=r"input x is a numpy.ndarray, expected a .*Array"):
        run(numbers(64))


def test_a_program_of_two_streams_that_nothing_orders_is_refused(on_fake_gpu):
    before = chain(2)
    steps = [Launch(s.kernel, s.buffers, stream=k) for k, s in enumerate(before.steps[:-1])]
    with pytest.raises(GraphError, match=r"expected stream 1 to wait first: add record_event\(n, stream=0\)"):
        on_fake_gpu(before.with_(steps=(*steps, before.steps[-1])))


def test_the_users_allocator_gives_all_memory(on_fake_gpu, monkeypatch):
    from stage4_runtime.runtime.cuda import cupy_library
    from stage4_runtime.tests.fake_cupy import empty

    asked = []

    def allocate(nbytes):
        asked.append(nbytes)
        return empty(nbytes)

    on_fake_gpu(chain(1))  # puts the fake in place
    of = chain(2)
    kernels = python_kernels(of)
    sys.modules["cupy"].kernels.update({n: (kernels[n], 2) for n in kernels})
    loaded = {name: loaded_kernel(name, 2) for name in of.kernels}
    run = launch(plan_memory(of.with_(device=CUDA)), loaded, {}, library=cupy_library(CUDA, allocate))
    run(array(numbers(64)))
    assert asked == [512, 256]  # the pool, the output


def test_what_a_call_of_one_kernel_calls(on_fake_gpu):
    """The host's cost is what this walks through: a further layer is a fifth of it."""
    run, fake = on_fake_gpu(chain(1))
    x = array(numbers(64))
    run(x)
    called = []

    def note(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and ("stage4_runtime/runtime" in name or "<cutaway" in name):
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        run(x)
    finally:
        sys.setprofile(None)
    # on_device, the generated function, its stream, its kernel; its output is made without a call of ours
    by_python = [] if fake.from_c else ["launch"]
    assert called == [
        "call",
        "forward",
        "ask",
        *by_python,
    ]  # of CuPy itself, no function of ours tells the stream
    text = run.source_text
    assert "address(" not in text and text.count("x.data.ptr") == 2  # the second for an array that was copied


def test_a_single_gpu_is_the_current_one(on_fake_gpu, monkeypatch):
    assert on_fake_gpu(chain(1))[0].__name__ == "call"
    monkeypatch.setattr(FakeCupy, "devices", 1)
    run, _ = on_fake_gpu(chain(1))
    assert run.__name__ == "forward" and run.source_text
    np.testing.assert_array_equal(run(array(numbers(64)))[0], numbers(64) + 1)


def test_arrays_are_prepared_once_and_made_anew(on_fake_gpu):
    run, fake = on_fake_gpu(chain(1))
    made = [run(array(numbers(64) + k))[0] for k in range(3)]
    assert len({a.data.ptr for a in made}) == 3
    assert [a[0] for a in made] == [1, 2, 3]


@pytest.mark.parametrize("strides", [None, (1, 8)])
@pytest.mark.parametrize("own_allocator", [False, True])
def test_a_new_array_has_the_strides_of_its_meta(monkeypatch, strides, own_allocator):
    fake = FakeCupy({})
    monkeypatch.setitem(sys.modules, "cupy", fake)
    library = cupy_library(CUDA, fake.empty if own_allocator else None)
    wanted = TensorMeta((8, 4), dt.float32, strides, CUDA)
    make = library.maker(wanted)
    one, two = make(), make()
    assert one.shape == (8, 4) and one.strides == tuple(4 * s for s in wanted.strides)
    assert one.data.ptr != two.data.ptr and library.empty(wanted).strides == one.strides


def test_the_architecture_of_the_device(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy({}))
    assert gpu_architecture(CUDA) == "sm_90"


def test_every_type_of_argument_is_packed():
    import ctypes

    seen = {}

    def launch_kernel(function, *rest):
        pointers = (ctypes.c_void_p * 8).from_address(rest[8])
        seen["float"] = ctypes.c_float.from_address(pointers[1]).value
        seen["int"] = ctypes.c_int64.from_address(pointers[2]).value
        seen["shape"] = rest[:8]

    fake = FakeCupy({}).cuda.driver
    fake.launchKernel = launch_kernel
    attributes = []
    fake.funcSetAttribute = lambda *call: attributes.append(call[1:])
    kernel = loaded_kernel(
        "k", 0, types=("*fp32", "fp32", "i64"), shared=100_000, num_warps=8, grid=(3, 2, 1)
    )
    launcher = kernel_launcher(fake, kernel)
    launcher(7, 0xDEAD0000, 1.5, -(1 << 40))
    assert seen == {"float": 1.5, "int": -(1 << 40), "shape": (3, 2, 1, 256, 1, 1, 100_000, 7)}
    assert attributes == [(8, 100_000)]
    with pytest.raises(TypeError, match="kernel k takes 3 arguments, got 1"):
        launcher(7, 0)


def test_a_kernel_that_needs_scratch_memory_is_refused():
    with pytest.raises(BuildError, match="needs 256 bytes of scratch"):
        kernel_launcher(FakeCupy({}).cuda.driver, loaded_kernel("k", 1, scratch=256))


def test_a_kernel_that_needs_more_shared_memory_than_a_block_has_is_refused():
    def refused(*call):
        raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")

    fake = FakeCupy({}).cuda.driver
    fake.funcSetAttribute = refused
    with pytest.raises(BuildError, match="needs 262144 bytes of shared memory"):
        kernel_launcher(fake, loaded_kernel("k", 1, shared=262_144))
