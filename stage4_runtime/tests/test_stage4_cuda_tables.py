"""Tables of pointers on a GPU that is not here: what stands in them, when they are written, and how long they stay.

Input: a kernel of two columns that adds a number to each row of one and stores it in the other, as a Python function of
addresses, in programs as lowering makes them.
"""

import ctypes

import numpy as np
import pytest

from stage4_runtime.runtime import launch, plan_memory
from stage4_runtime.runtime.cuda_tables import KEPT, TableLauncher
from stage4_runtime.runtime.launch import plain_launch
from stage4_runtime.runtime.triton_units import TritonKernel
from stage4_runtime.tests.fake_cupy import FakeCupy, array
from stage_contracts.device import Device
from stage_contracts.dtype import float32
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef, Instr, LoopNest, Value
from stage_contracts.program import Buffer, Kernel, Launch, Program, Return
from stage_contracts.tensor_meta import TensorMeta

CUDA = Device("cuda", 0)
SIZES = (5, 64, 3)
STARTS = (0, 1, 2)


def floats(place, count):
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(place))


def add_one(table):
    """What the kernel does: starts, sizes, pointers of x, pointers of y, three of each."""
    numbers = np.ctypeslib.as_array((ctypes.c_int64 * 12).from_address(table))
    assert tuple(numbers[:6]) == (*STARTS, *SIZES)
    for size, x, y in zip(SIZES, numbers[6:9], numbers[9:], strict=True):
        floats(int(y), size)[:] = floats(int(x), size) + 1


KERNEL = TritonKernel(
    b"cubin", "", "k", 0, 4, 0, ("*i64",), (3, 1, 1), table=(*STARTS, *SIZES), columns=2
)  # fmt: skip


def program():
    size = symbol("n0")
    body = (
        Instr("v", "load", ("x0", symbol("i0")), float32),
        Instr("one", "constant", (1.0,), float32),
        Instr("w", "add", (Value("v"), Value("one")), float32),
        Instr("", "store", ("y0", symbol("i0"), Value("w")), None),
    )
    nest = LoopNest("y0", (size,), (), body, ())
    kernel = Kernel("k", (nest,), ("x0", "y0"), rows=3, columns=("x0", "y0"), row_sizes={"n0": SIZES})
    names = [f"{letter}{k}" for k in range(3) for letter in "xy"]
    metas = {
        f"{letter}{k}": TensorMeta((n,), float32, device=CUDA) for k, n in enumerate(SIZES) for letter in "xy"
    }
    roles = {"x": "input", "y": "output"}
    buffers = {name: Buffer(name, meta, roles[name[0]]) for name, meta in metas.items()}
    steps = (Launch("k", tuple(names)), Return(tuple(BufferRef(f"y{k}") for k in range(3))))
    return plan_memory(Program("forward", CUDA, ("x0", "x1", "x2"), buffers, {"k": kernel}, steps))


@pytest.fixture
def fake(monkeypatch, put_cupy):
    fake = FakeCupy({"k": (add_one, 1)})
    put_cupy(fake)
    monkeypatch.setattr("stage4_runtime.runtime.cuda.import_cupy", lambda: fake)
    return fake


def drawn(seed):
    return [array(np.random.default_rng(seed + n).standard_normal(n)) for n in SIZES]


def test_the_table_has_the_addresses_of_this_call(fake):
    from stage4_runtime.runtime.cuda import cupy_library

    run = plain_launch(program(), {"k": KERNEL}, {}, cupy_library(CUDA))
    for seed in range(3):
        given = drawn(seed)
        for x, y in zip(given, run(*given), strict=True):
            np.testing.assert_array_equal(np.asarray(y), np.asarray(x) + np.float32(1))
    assert len([entry for entry in fake.log if entry[0] == "k"]) == 3


def test_a_captured_program_has_its_tables(fake):
    run, given = launch(program(), {"k": KERNEL}, {}, cuda_graph=True), drawn(0)
    held = []
    for call in range(5):
        for x in given:
            x[...] = np.asarray(x) + np.float32(call)
        held.append((run(*given), [np.asarray(x) + np.float32(1) for x in given]))
    for results, want in held:
        for y, right in zip(results, want, strict=True):
            np.testing.assert_array_equal(np.asarray(y), right)
    assert len([entry for entry in fake.log if entry[0] == "graph"]) == 4


def test_tables_of_the_last_addresses_are_kept_and_those_of_graphs_stay(fake):
    launched = []
    launcher = TableLauncher(fake, lambda stream, *addresses: launched.append(addresses), KERNEL)
    sets = [(tuple(range(k, k + 3)), tuple(range(k + 3, k + 6))) for k in range(0, 600, 6)]
    stream = fake.streams[-1]
    launcher(stream.ptr, 77, *sets[0])
    launcher(stream.ptr, 77, *sets[0])
    assert launched[0] == launched[1] and launched[0][0] == 77 and len(launcher.tables) == 1
    stream.begin_capture()
    launcher(stream.ptr, 77, *sets[0])
    launcher(stream.ptr, 77, *sets[1])  # in spare memory, which is written when the capture has ended
    (memory, whole), *others = launcher.unwritten
    with pytest.raises(RuntimeError, match="kernel k: two tables are new in one capture"):
        launcher(stream.ptr, 77, *sets[2])
    stream.end_capture()
    memory[...] = 0
    launcher.write_tables()
    np.testing.assert_array_equal(np.asarray(memory), whole)
    assert not others and not launcher.unwritten
    for columns in sets[1:]:
        launcher(stream.ptr, 77, *columns)
    kept = [columns for _, *columns in launcher.tables]
    assert len(kept) == KEPT + 2 and [*sets[0]] in kept and [*sets[-1]] in kept
