"""Launching a program on NumPy arrays: values, memory that is safe to keep, errors that say what to do."""

import threading

import numpy as np
import pytest

from stage4_runtime.runtime.eager_call import eager_call
from stage4_runtime.tests.programs import (
    HERE,
    chain,
    cpp_unit,
    external,
    meta,
    program,
    python_kernels,
    sum_kernel,
)
from stage_contracts.breaks import Unsupported
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.dtype import bfloat16, bool_, float64, int64
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Copy, HostCallback, Launch, RecordEvent, WaitEvent

first = pytest.mark.conformance("launch", tier="first")
core = pytest.mark.conformance("launch", tier="core")
full = pytest.mark.conformance("launch", tier="full")


@pytest.fixture
def launched(seam):
    """`launched(program, constants)`: planned by the default, launched by the seam, kernels in Python."""
    from stage4_runtime.runtime import plan_memory

    def make(of, constants=None, kernels=None):
        planned = plan_memory(of)
        return seam("launch")(planned, kernels or python_kernels(planned), constants or {})

    return make


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@first
def test_a_chain_of_kernels(seam, launched):
    """The program runs its steps in order, each on the buffers it names."""
    (y,) = launched(chain(3))(numbers(64))
    np.testing.assert_array_equal(y, numbers(64) + 3)


@first
def test_compiled_kernels(seam, launched):
    """Kernels that build made are called with the addresses of their buffers."""
    from stage4_runtime.runtime import build

    (y,) = launched(chain(1), kernels=build(cpp_unit()))(numbers(64))
    np.testing.assert_array_equal(y, numbers(64) + 1)


@first
def test_results_are_safe_to_keep(seam, launched):
    """A later call does not write over the results of an earlier one."""
    run = launched(chain(3))
    (first,) = run(numbers(64))
    (second,) = run(numbers(64) + 10)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, numbers(64) + 3)


@core
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (np.zeros(3, np.float32), r"input x is float32\[3\], expected float32\[64\]"),
        (np.zeros(64), r"input x is float64\[64\], expected float32\[64\]"),
        (np.zeros(128, np.float32)[::2], r"strides \(8,\) in bytes, expected float32\[64\]"),
        ([1.0] * 64, "input x is a builtins.list, expected a numpy.ndarray"),
    ],
)
def test_an_input_the_program_was_not_compiled_for_is_refused(seam, launched, wrong, says):
    """An input of another shape, dtype or type is refused before any kernel runs."""
    with pytest.raises(TypeError, match=says):
        launched(chain(1))(wrong)


@core
def test_an_index_out_of_range_names_the_users_line(seam, launched):
    """A kernel that meets an index out of range raises IndexError with your line."""
    failing = {"kernel0": lambda *addresses: 1}
    with pytest.raises(IndexError, match=r'File "model.py", line 31') as raised:
        launched(chain(1), kernels=failing)(numbers(64))
    assert "index out of range" in str(raised.value).splitlines()[-1]


@first
def test_external_calls_run_eager_kernels(seam, launched):
    """An external step runs its operator on the buffers it names."""
    steps = [
        external("matmul", "x", "x", out="buf0"),
        external("sum", "buf0", (0, 1), out="y", keepdim=False),
    ]
    run = launched(program({"x": meta(4, 4)}, {"buf0": meta(4, 4)}, {"y": meta()}, [], steps, ["y"]))
    (y,) = run(numbers(4, 4))
    assert isinstance(y, np.ndarray) and y.shape == () and y.dtype == np.float32
    np.testing.assert_allclose(y, (numbers(4, 4) @ numbers(4, 4)).sum())


@core
def test_views_of_buffers(seam, launched):
    """A transposed operand, and two results that are views of one buffer."""
    transposed = BufferRef("x", (3, 2), (1, 3), 0)
    steps = [external("matmul", "x", transposed, out="y")]
    returns = ["y", BufferRef("y", (2,), (3,), 0), BufferRef("y", (1, 2), (2, 1), 2)]
    (y, diagonal, row) = launched(program({"x": meta(2, 3)}, {}, {"y": meta(2, 2)}, [], steps, returns))(
        numbers(2, 3)
    )
    np.testing.assert_array_equal(y, numbers(2, 3) @ numbers(2, 3).T)
    np.testing.assert_array_equal(diagonal, np.diag(y))
    np.testing.assert_array_equal(row, y[1:])
    assert np.shares_memory(y, row)


@full
def test_a_view_of_an_input_that_is_not_contiguous(seam, launched):
    strided = meta(4, 3, strides=(6, 2))
    returns = [BufferRef("x", (3, 4), (2, 6), 0), BufferRef("x", (2,), (2,), 6)]
    base = numbers(4, 6)
    (turned, part) = launched(program({"x": strided}, {}, {}, [], [], returns))(base[:, ::2])
    np.testing.assert_array_equal(turned, base[:, ::2].T)
    np.testing.assert_array_equal(part, base[1, :4:2])


@full
def test_views_of_bfloat16(seam, launched):
    x = numbers(4, 6).astype(bfloat16.numpy)
    strided = meta(4, 3, dtype=bfloat16, strides=(6, 2))
    returns = [BufferRef("x", (3, 4), (2, 6), 0), BufferRef("x", (3,), (2,), 6)]
    (turned, row) = launched(program({"x": strided}, {}, {}, [], [], returns))(x[:, ::2])
    assert turned.dtype == bfloat16.numpy
    np.testing.assert_array_equal(turned, x[:, ::2].T)
    np.testing.assert_array_equal(row, x[1, ::2])


@core
def test_constants_and_plain_values_are_returned(seam, launched):
    """The program may return constants and plain Python values."""
    kernels = [sum_kernel("k0", "y", ["x", "c"], 4)]
    of = program(
        {"x": meta(4)}, {}, {"y": meta(4)}, kernels, [Launch("k0", ("x", "c", "y"))],
        ["y", "c", None, 3, 2.5, True, float("inf")], constants={"c": meta(4)},
    )  # fmt: skip
    y, c, *rest = launched(of, {"c": numbers(4) * 100})(numbers(4))
    np.testing.assert_array_equal(y, 1 + numbers(4) * 101)
    np.testing.assert_array_equal(c, numbers(4) * 100)
    assert rest == [None, 3, 2.5, True, float("inf")]


@full
def test_a_constant_may_be_a_tensor(seam, launched):
    import stage0_eager

    steps = [external("mul", "x", "c", out="y")]
    of = program({"x": meta(4)}, {}, {"y": meta(4)}, [], steps, ["y"], constants={"c": meta(4)})
    (y,) = launched(of, {"c": stage0_eager.Tensor(numbers(4))})(numbers(4))
    np.testing.assert_array_equal(y, numbers(4) ** 2)


@first
def test_empty_arrays(seam, launched):
    """An array without elements is an array: it is not a null pointer to look at."""
    kernels = [sum_kernel("k0", "buf0", ["x"], 0), sum_kernel("k1", "y", ["buf0"], 0)]
    steps = [Launch(k.name, k.params) for k in kernels]
    of = program({"x": meta(0)}, {"buf0": meta(0)}, {"y": meta(0)}, kernels, steps, ["y"])
    (y,) = launched(of)(numbers(0))
    assert y.shape == (0,) and y.dtype == np.float32


@full
def test_arguments_of_external_calls(seam, launched):
    """Infinities, dtypes, devices, bools, tuples, lists of buffers."""
    from stage_contracts.device import CPU

    steps = [
        external("full", (3,), float("-inf"), float64, CPU, out="a"),
        external("cast", "x", int64, out="b"),
        external("cat", (BufferRef("x"), BufferRef("x")), 0, out="c"),
        external("any", "x", (0,), True, out="d"),
    ]
    outputs = {
        "a": meta(3, dtype=float64),
        "b": meta(3, dtype=int64),
        "c": meta(6),
        "d": meta(1, dtype=bool_),
    }
    a, b, c, d = launched(program({"x": meta(3)}, {}, outputs, [], steps, list("abcd")))(numbers(3))
    assert (a == -np.inf).all() and a.dtype == np.float64
    np.testing.assert_array_equal(b, [0, 1, 2])
    np.testing.assert_array_equal(c, [0, 1, 2, 0, 1, 2])
    assert d.tolist() == [True]


@full
def test_an_external_result_gets_the_strides_its_meta_promises(seam, launched):
    steps = [external("permute", "x", (1, 0), out="y")]
    (y,) = launched(program({"x": meta(2, 3)}, {}, {"y": meta(3, 2)}, [], steps, ["y"]))(numbers(2, 3))
    assert y.strides == (8, 4)
    np.testing.assert_array_equal(y, numbers(2, 3).T)


@full
def test_outputs_with_strides(seam, launched):
    kernels = [sum_kernel("k0", "y", ["x"], 6)]
    column_major = meta(2, 3, strides=(1, 2))
    of = program({"x": meta(6)}, {}, {"y": column_major}, kernels, [Launch("k0", ("x", "y"))], ["y"])
    (y,) = launched(of)(numbers(6))
    assert y.strides == (4, 8)
    np.testing.assert_array_equal(y.ravel(order="F"), numbers(6) + 1)


@full
@pytest.mark.parametrize(
    "name", ["view", "address", "arena", "p_x", "float32_dtype", "kernel0", "eager_neg", "forward"]
)
def test_a_users_name_hides_none_of_ours(seam, launched, name):
    of = chain(3)
    rename = {"x": name, "buf0": f"p_{name}"}
    kernels = [
        sum_kernel("kernel0", rename["buf0"], [name], 64),
        sum_kernel("kernel1", "y", [rename["buf0"]], 64),
    ]
    steps = [*(Launch(k.name, k.params) for k in kernels), external("neg", "y", out="z")]
    of = program(
        {name: meta(64)}, {rename["buf0"]: meta(64)}, {"y": meta(64), "z": meta(64)}, kernels, steps, ["z"]
    )
    (z,) = launched(of)(numbers(64))
    np.testing.assert_array_equal(z, -(numbers(64) + 2))


@full
def test_a_misaligned_input_is_copied(seam, launched):
    raw = np.zeros(64 * 4 + 1, np.uint8)
    x = raw[1:].view(np.float32)
    x[...] = numbers(64)
    seen = []

    def kernel0(source, out):
        seen.append(source % 4)
        return python_kernels(chain(1))["kernel0"](source, out)

    (y,) = launched(chain(1), kernels={"kernel0": kernel0})(x)
    np.testing.assert_array_equal(y, numbers(64) + 1)
    assert seen == [0]


@full
def test_copies_and_events_on_one_device(seam, launched):
    steps = [Copy("x", "buf0"), RecordEvent(0, 0), WaitEvent(0, 0), Copy("buf0", "y")]
    (y,) = launched(program({"x": meta(5)}, {"buf0": meta(5)}, {"y": meta(5)}, [], steps, ["y"]))(numbers(5))
    np.testing.assert_array_equal(y, numbers(5))


@full
def test_threads_may_call_at_once(seam, launched):
    gate = threading.Barrier(4)
    plain = python_kernels(chain(2))

    def slow(kernel):
        def run(*addresses):
            gate.wait(timeout=30)  # all four are inside before any goes on: they need memory of their own
            return kernel(*addresses)

        return run

    run = launched(chain(2), kernels={name: slow(kernel) for name, kernel in plain.items()})
    results = {}

    def work(k):
        (results[k],) = run(numbers(64) * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        np.testing.assert_array_equal(results[k], numbers(64) * k + 2)


def test_the_launch_code_can_be_read(launched, seam):
    run = launched(chain(2))
    assert "def forward(x):" in run.source_text
    assert f"# {HERE.describe()}" in run.source_text


def test_a_step_tiny_launch_does_not_know_is_refused(launched, seam):
    of = chain(1)
    with pytest.raises(Unsupported, match="HostCallback"):
        launched(of.with_(steps=(*of.steps[:-1], HostCallback("log", ("y",)), of.steps[-1])))


def test_an_eager_kernel_that_breaks_its_meta_is_an_error(launched, seam):
    steps = [external("neg", "x", out="y")]
    run = launched(program({"x": meta(3)}, {}, {"y": meta(4)}, [], steps, ["y"]))
    with pytest.raises(TypeError, match=r"yields float32\[3\] for y, expected float32\[4\]"):
        run(numbers(3))


# The operators that give a view, each with arguments after the operand for which it does.
VIEWS = {
    "reshape": ((9,),), "permute": ((1, 0),), "expand": ((2, 3, 3),), "slice": (0, 0, 2), "diagonal": (0, 0, 1),
    "unfold": (0, 2, 1), "as_strided": ((2, 2), (3, 1), 0), "detach": (), "contiguous": (), "clone": (),
}  # fmt: skip


def test_every_operator_that_gives_a_view_is_there():
    assert {op.name for op in CORE_OPS.values() if op.kind in ("view", "identity")} == {
        "average_gradient", "to_device", "view_as_real", "view_as_complex", *VIEWS
    }  # fmt: skip


def test_an_external_call_gives_the_parts_of_complex_numbers_in_memory_of_their_own():
    pairs = np.ones((3, 2))
    numbers = eager_call("view_as_complex", np)(pairs)
    assert not np.shares_memory(numbers, pairs)
    assert not np.shares_memory(eager_call("view_as_real", np)(numbers), numbers)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name, args", VIEWS.items())
def test_an_external_call_gives_memory_of_its_own(name, args, half):
    """Of an operator whose kernel gives a view too: a clone of it is no step, as every buffer is apart from the inputs."""
    x = np.ones((3, 3), np.float16 if half else np.float64)
    assert not np.shares_memory(eager_call(name, np)(x, *args), x)
