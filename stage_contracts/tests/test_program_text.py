"""Programs print as Python, save as JSON, and come back the same, whatever steps and values are in them."""

import ast
import copy
import dataclasses
import json
import pickle
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stage_contracts import program as p
from stage_contracts.device import Device
from stage_contracts.dtype import DTYPES, bool_, float32, int64
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef, Instr, LoopNest, Value
from stage_contracts.origin import Origin
from stage_contracts.program_json import decode, encode, load_program, program_of, record_of, save_program
from stage_contracts.program_text import parse_program, print_program
from stage_contracts.scheduler_ir import FusionDecision
from stage_contracts.tensor_meta import TensorMeta

ORIGIN = Origin("model.py", 31, "cutaway.sin(x)")
I0, R0 = symbol("i0"), symbol("r0")
ROW_SUM = LoopNest(
    "buf0", (64,), (10,),
    (
        Instr("v", "load", ("x", 10 * I0 + R0), float32),
        Instr("s", "reduction", ("sum", Value("v")), float32),
        Instr("", "store", ("buf0", I0, Value("s")), None),
    ),
    (ORIGIN, Origin("model.py", 32, "y.sum(1)")),
)  # fmt: skip
DOUBLE = LoopNest(
    "buf1", (64,), (),
    (
        Instr("v", "load", ("buf0", I0), float32),
        Instr("inf", "constant", (float("-inf"),), float32),
        Instr("m", "maximum", (Value("v"), Value("inf")), float32),
        Instr("", "store", ("buf1", I0, Value("m")), None),
    ),
)  # fmt: skip
SOURCE = 'extern "C" int64_t kernel0() {\n    // "quotes", \'\'\' """ and \\n \\ stay\n    return 0;\n}\n'


def example():
    f = TensorMeta((64,), float32)
    buffers = [
        p.Buffer("x", TensorMeta((64, 10), float32, requires_grad=True), "input"),
        p.Buffer("w", TensorMeta((10, 64), float32, (1, 10)), "input"),
        p.Buffer("c", TensorMeta((), int64), "constant"),
        p.Buffer("buf0", f, "temporary", p.PoolSlot(0, 64, 256)),
        p.Buffer("hidden", f, "temporary"),
        p.Buffer("buf1", f, "output"),
        p.Buffer("buf2", TensorMeta((64, 64), float32), "output"),
    ]
    kernels = [
        p.Kernel("kernel0", (ROW_SUM, DOUBLE), ("x", "buf1"), ("hidden",), "unit", {"num_warps": 4}),
        p.Kernel("kernel1", (DOUBLE,), ("buf0", "buf1")),
    ]
    view = BufferRef("w", (64, 10), (10, 1), 3)
    steps = [
        p.Allocate("buf0"),
        p.Launch("kernel0", ("x", "buf0")),
        p.Allocate("buf2"),
        p.External("matmul", (BufferRef("x"), view), {}, ("buf2",), True, (ORIGIN,)),
        p.RecordEvent(3, 1),
        p.WaitEvent(3, 0),
        p.Allocate("buf1"),
        p.Launch("kernel1", ("buf0", "buf1"), stream=1),
        p.Free("buf0"),
        p.Return((BufferRef("buf1"), view, None, 2, 0.5, float("inf"), True)),
    ]
    grids = {"kernel0": {"num_warps": 4}}
    target = p.Target("cpp", Device("cuda", 1), "sm_90", {"fast": False})
    return p.Program(
        "forward", Device("cpu"), ("x", "w"), {b.name: b for b in buffers}, {k.name: k for k in kernels},
        tuple(steps), (512,), (p.SourceUnit("unit", "cpp", SOURCE, ("kernel0",), target, grids),),
        (FusionDecision("buf0", "buf1", True, "the same 64 rows", 512.0),),
    )  # fmt: skip


def test_the_text_reads_as_a_program():
    assert (
        print_program(example(), sources=False) == (Path(__file__).parent / "golden/program.txt").read_text()
    )


def test_the_text_is_python_and_reads_back():
    text = str(example())
    ast.parse(text)
    assert parse_program(text) == example()
    assert str(parse_program(text)) == text


def test_without_sources_the_rest_reads_back():
    text = print_program(example(), sources=False)
    assert parse_program(text) == example().with_(units=())


def test_saved_and_loaded(tmp_path):
    path = save_program(example(), tmp_path / "a folder" / "of programs")
    assert load_program(path.parent) == example()
    assert (path.parent / "unit.cpp").read_text() == SOURCE
    assert sorted(f.name for f in path.parent.iterdir()) == ["program.json", "unit.cpp"]


def test_saved_again_in_the_same_place(tmp_path):
    save_program(example(), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    save_program(example().with_(name="backward"), tmp_path)
    assert load_program(tmp_path).name == "backward"
    assert (tmp_path / "notes.txt").read_text() == "mine"


DAMAGE = {
    "no json": lambda folder: (folder / "program.json").unlink(),
    "half a json": lambda folder: (folder / "program.json").write_text("{"),
    "a json of something else": lambda folder: (folder / "program.json").write_text("[]"),
    "another format": lambda folder: (folder / "program.json").write_text('{"format": 99}'),
    "a source of another save": lambda folder: (folder / "unit.cpp").write_text("int main() {}"),
    "no source": lambda folder: (folder / "unit.cpp").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused(tmp_path, damage):
    save_program(example(), tmp_path)
    DAMAGE[damage](tmp_path)
    with pytest.raises(ValueError, match="does not hold a saved program .*; save the program again"):
        load_program(tmp_path)


def test_origins_keep_their_columns_on_disk(tmp_path):
    origin = Origin("/home/me/model.py", 3, "a + b", 4, 9)
    steps = (p.External("neg", (BufferRef("x"),), {}, ("buf1",), origins=(origin,)), example().steps[-1])
    save_program(example().with_(steps=steps), tmp_path)
    assert load_program(tmp_path).steps == steps


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "line 1: not a part of a program: 'x = 1'"),
        ("@program(device='cpu')\ndef f():\n    y = 3\n    return ()\n", "line 3: not a step: 'y = 3'"),
        ("@kernel(params=())\ndef k():\n    pass\n", "expected the text of a program"),
        ("@program(device='cpu')\ndef f():\n    return (a + b,)\n", r"line 3: cannot read 'a \+ b'"),
    ],
)
def test_text_that_is_no_program(text, says):
    with pytest.raises(ValueError, match=says):
        parse_program(text)


def test_nothing_in_a_text_is_run():
    text = str(example()).replace('device="cpu"', "device=__import__('os').abort()")
    with pytest.raises(ValueError, match="cannot read"):
        parse_program(text)


# ---- any program -----------------------------------------------------------------------------------------

NAMES = ("x", "w", "buf0", "buf1", "buf2")
names = st.sampled_from(NAMES)
sizes = st.integers(0, 9)
refs = st.builds(BufferRef, names) | st.builds(
    BufferRef, names, st.tuples(sizes, sizes), st.tuples(sizes, sizes), st.integers(0, 99)
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
constants = (
    scalars | st.text(max_size=5) | st.sampled_from([float32, bool_, Device("cuda", 1), slice(1, None, 2)])
)
arguments = st.recursive(
    refs | constants,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
origins = st.lists(
    st.builds(
        Origin, st.just("m.py"), st.integers(1, 99), st.sampled_from(["", "a + b", "f(': ')", "x[1:2]"])
    ),
    max_size=2,
).map(tuple)
steps = st.one_of(
    st.builds(p.Launch, st.just("kernel0"), st.lists(names, max_size=3).map(tuple), st.integers(0, 2)),
    st.builds(
        p.External, st.sampled_from(["matmul", "cat"]), st.lists(arguments, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["dim", "keepdim"]), arguments, max_size=2),
        st.lists(names, min_size=1, max_size=2, unique=True).map(tuple), st.booleans(), origins, st.integers(0, 2),
    ),
    st.builds(p.Copy, names, names, st.integers(0, 1)),
    st.builds(p.RecordEvent, st.integers(0, 9), st.integers(0, 2)),
    st.builds(p.WaitEvent, st.integers(0, 9), st.integers(0, 2)),
    st.builds(p.Collective, st.integers(0, 9), st.text(max_size=5), names, names, st.tuples(st.text(max_size=5))),
    st.builds(p.Await, st.integers(0, 9), names, names),
    st.builds(p.HostCallback, st.text(max_size=5), st.lists(names, max_size=2).map(tuple)),
    st.builds(p.Free, names),
)  # fmt: skip


@st.composite
def metas(draw):
    shape = tuple(draw(st.lists(sizes, max_size=3)))
    strides = tuple(draw(sizes) for _ in shape) if draw(st.booleans()) else None
    device = draw(st.sampled_from([Device("cpu"), Device("cuda"), Device("cuda", 3)]))
    return TensorMeta(
        shape, draw(st.sampled_from(list(DTYPES.values()))), strides, device, draw(st.booleans())
    )


@st.composite
def programs(draw):
    buffers = {"x": p.Buffer("x", draw(metas()), "input"), "w": p.Buffer("w", draw(metas()), "input")}
    allocates = []
    for name in NAMES[2:]:
        slot = draw(
            st.none() | st.builds(p.PoolSlot, st.integers(0, 1), st.integers(0, 999), st.integers(0, 999))
        )
        role = draw(st.sampled_from(["temporary", "output", "constant"]))
        buffers[name] = p.Buffer(name, draw(metas()), role, slot)
        allocates += [p.Allocate(name)] if role != "constant" and draw(st.booleans()) else []
    middle = draw(st.permutations([*allocates, *draw(st.lists(steps, max_size=6))]))
    returned = p.Return(tuple(draw(st.lists(refs | scalars, max_size=3))))
    text = draw(st.text(max_size=20) | st.just(SOURCE) | st.just('ends with "'))
    unit = p.SourceUnit("unit", "triton", text, ("kernel0",), p.Target("triton", Device("cuda"), "sm_90"))
    kernel = p.Kernel("kernel0", (ROW_SUM,), ("x", "buf0"))
    return p.Program(
        "forward", draw(st.sampled_from([Device("cpu"), Device("cuda", 1)])), ("x", "w"), buffers,
        {"kernel0": kernel}, (*middle, returned), tuple(draw(st.lists(sizes, max_size=2))), (unit,),
    )  # fmt: skip


@settings(max_examples=200, derandomize=True, deadline=None)
@given(program=programs())
def test_any_program_reads_back(program):
    text = str(program)
    read = parse_program(text)
    assert str(read) == text
    assert read == program


@settings(max_examples=100, derandomize=True, deadline=None)
@given(program=programs())
def test_any_program_is_saved_exactly(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    path = save_program(program, folder)
    json.loads(path.read_text())
    assert load_program(folder) == program


@pytest.mark.parametrize(
    "ask",
    [
        lambda nest: nest == ROW_SUM,
        lambda nest: ROW_SUM == nest,  # noqa: SIM300 - the other side asks
        lambda nest: hash(nest) == hash(ROW_SUM),
        lambda nest: dataclasses.replace(nest, name="other").body == ROW_SUM.body,
        lambda nest: copy.copy(nest) == ROW_SUM,
        lambda nest: copy.deepcopy(nest) == ROW_SUM,
        lambda nest: pickle.loads(pickle.dumps(nest)) == ROW_SUM,
        lambda nest: repr(nest) == repr(ROW_SUM),
    ],
)
def test_a_record_s_nests_are_read_when_something_asks_for_more_than_their_buffers(ask):
    """Whatever asks first finds a LoopNest."""
    nest = program_of(json.loads(json.dumps(record_of(example())))).kernels["kernel0"].nests[0]
    assert (nest.reads, nest.writes, nest.sizes) == (ROW_SUM.reads, ROW_SUM.writes, ROW_SUM.sizes)
    assert isinstance(nest, LoopNest) and type(nest) is not LoopNest
    assert ask(nest)


def test_a_stored_nest_knows_its_lines_before_anything_else_is_read():
    """A field with a default is found on the class, so that a nest once had no lines until its body was asked for."""
    stored = program_of(json.loads(json.dumps(record_of(example()))))
    for name, kernel in example().kernels.items():
        assert stored.kernels[name].origins == kernel.origins


VIEW = BufferRef("buf0", (symbol("rows"), 64), (64, 1), 64 * symbol("first_row") + 8192 * symbol("batch0"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda view: view.shape == VIEW.shape,
        lambda view: view.strides == VIEW.strides,
        lambda view: view.offset == VIEW.offset,
        lambda view: view == VIEW,
        lambda view: VIEW == view,  # noqa: SIM300 - the other side asks
        lambda view: view == decode(json.loads(json.dumps(encode(VIEW)))),
        lambda view: hash(view) == hash(VIEW),
        lambda view: dataclasses.replace(view, name="other") == dataclasses.replace(VIEW, name="other"),
        lambda view: copy.copy(view) == VIEW,
        lambda view: copy.deepcopy(view) == VIEW,
        lambda view: pickle.loads(pickle.dumps(view)) == VIEW,
        lambda view: repr(view) == repr(VIEW) and str(view) == str(VIEW),
        lambda view: encode(view) == encode(VIEW),
    ],
)
def test_a_record_s_views_are_read_when_something_asks_for_their_place(ask):
    """Only C++ reads the places of row blocks' products. The first sum that sympy makes imports a part of it."""
    view = decode(json.loads(json.dumps(encode(VIEW))))
    assert view.name == "buf0" and isinstance(view, BufferRef) and type(view) is not BufferRef
    assert ask(view)
    assert decode(encode(view)) == VIEW


def test_a_stored_view_is_a_buffer_ref_once_it_is_read():
    view = decode(encode(VIEW))
    assert view.offset == VIEW.offset and type(view) is BufferRef and vars(view) == vars(VIEW)
    assert type(decode(encode(BufferRef("buf0")))) is BufferRef


def test_a_stored_nest_knows_its_open_sizes_without_its_text():
    """A launch asks each kernel for them, and to read the text took longer than all the rest of it."""
    n = symbol("n")
    load, store = (
        Instr("v", "load", ("x", I0 + n), float32),
        Instr("", "store", ("buf0", I0, Value("v")), None),
    )
    nest = LoopNest("buf0", (n,), (), (load, store))
    stored = decode(encode(nest))
    assert stored.sizes == nest.sizes == ("n",) and type(stored) is not LoopNest
