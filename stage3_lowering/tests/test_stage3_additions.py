"""Additions at places that the data decides, in a kernel that also computes what is added and where: values, and when.

Input: scatter_add into zeros as on a GPU, over dimensions, layouts, repeated and negative places. The oracle is NumPy's
`add.at`; values are small whole numbers, whose sums have the same bits in any order. Triton's interpreter checks bounds.
"""

import importlib.util
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_lowered, interpret_program
from stage3_lowering.lowering.additions_in_place import additions_in_place
from stage3_lowering.lowering.merge import build_kernel
from stage3_lowering.tests.cpp_runner import FLAGS, run_cpp
from stage3_lowering.tests.graphs import CPP, TRITON, meta_of_array, trace
from stage3_lowering.verify import verify_pass
from stage_contracts import config
from stage_contracts import dtype as dt
from stage_contracts.device import CPU, Device
from stage_contracts.graph import GraphError
from stage_contracts.kernel import Kernel
from stage_contracts.loop_ir import AT_PLACES, Instr, LoopNest, Value, symbol
from stage_contracts.loop_text import parse_nest, print_nest
from stage_contracts.program import External, Launch
from stage_contracts.program_json import program_of, record_of
from stage_contracts.program_text import parse_program, print_program
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta

CUDA = Device("cuda", 0)
HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
DRAW = np.random.default_rng(8)


def whole(*shape, dtype="float32"):
    return DRAW.integers(-8, 8, shape).astype(dtype)


def at(size, *shape):
    return DRAW.integers(-size, size, shape)


def zeros(c, *shape, value=0.0, dtype=dt.float32):
    return c.full(shape, value, dtype, CUDA)


def added(shape, dim, index, source, value=0.0):
    out = np.full(shape, value, source.dtype)
    places = list(np.ix_(*map(np.arange, index.shape)))
    places[dim] = index
    np.add.at(out, tuple(places), source[tuple(map(slice, index.shape))])
    return out


def graph_on_gpu(function, arrays):
    """The graph, its inputs said to be on a GPU."""
    return trace(function, *(meta_of_array(a).with_(device=CUDA) for a in arrays))


def programs(seam, graph):
    lowered = seam("lower")(graph).verify()
    program = seam("fuse")(lowered).verify()
    return lowered, program, seam("emit")(seam("schedule")(program, TRITON).verify(), TRITON).verify()


def adding(program):
    """The kernels that add, or store, at places."""
    return [k for k in program.kernels.values() if any(i.op in AT_PLACES for n in k.nests for i in n.body)]


def calls(program):
    return [step.target for step in program.steps if hasattr(step, "target")]


ROWS, PLACES = whole(300, 24), at(40, 300)
TURNED = np.ascontiguousarray(whole(24, 300)).T
CASES = {
    "rows of a table": (
        lambda c, s, p: c.scatter_add(zeros(c, 40, 24), 0, c.expand(c.reshape(p, (300, 1)), (300, 24)), c.mul(s, 2.0)),
        [ROWS, PLACES], lambda s, p: added((40, 24), 0, np.repeat(p[:, None], 24, 1), s * 2)),
    "places are computed too": (
        lambda c, s, p: c.scatter_add(
            zeros(c, 40, 24), 0, c.expand(c.reshape(c.remainder(c.mul(p, 3), 40), (300, 1)), (300, 24)), s),
        [ROWS, PLACES], lambda s, p: added((40, 24), 0, np.repeat((p * 3 % 40)[:, None], 24, 1), s)),
    "a place for each element": (
        lambda c, s, p: c.scatter_add(zeros(c, 40, 24), 0, p, c.neg(s)), [ROWS, at(40, 300, 24)],
        lambda s, p: added((40, 24), 0, p, -s)),
    "along columns": (
        lambda c, s, p: c.scatter_add(zeros(c, 300, 7), 1, p, s), [ROWS, at(7, 300, 24)],
        lambda s, p: added((300, 7), 1, p, s)),
    "a turned source": (
        lambda c, s, p: c.scatter_add(zeros(c, 40, 24), 0, p, c.add(s, 1.0)), [TURNED, at(40, 300, 24)],
        lambda s, p: added((40, 24), 0, p, s + 1)),
    "a sliced source, turned places": (
        lambda c, s, p: c.scatter_add(zeros(c, 24, 40), 1, c.permute(p, (1, 0)), c.slice(c.permute(s, (1, 0)), 0, 1, 9)),
        [ROWS, at(40, 300, 8)], lambda s, p: added((24, 40), 1, p.T, s.T[1:9])),
    "fewer places than elements": (
        lambda c, s, p: c.scatter_add(zeros(c, 40, 24), 0, p, s), [ROWS, at(40, 99, 17)],
        lambda s, p: added((40, 24), 0, p, s)),
    "one place for all": (
        lambda c, s, p: c.scatter_add(zeros(c, 3), 0, c.expand(p, (300,)), c.reshape(c.slice(s, 1, 0, 1), (300,))),
        [ROWS, np.array([-1])], lambda s, p: added((3,), 0, np.repeat(p, 300), s[:, 0])),
    "one number, all to one place": (
        lambda c, p: c.scatter_add(zeros(c, 3), 0, c.expand(p, (77,)), zeros(c, 77, value=2.0)),
        [np.array([1])], lambda p: added((3,), 0, np.repeat(p, 77), np.full(77, 2, "float32"))),
    "a single place": (
        lambda c, s, p: c.scatter_add(zeros(c, 3), 0, p, s), [whole(1), np.array([2])],
        lambda s, p: added((3,), 0, p, s)),
    "three dimensions": (
        lambda c, s, p: c.scatter_add(zeros(c, 5, 6, 7), 1, p, c.exp(c.sub(s, s))), [whole(5, 9, 7), at(6, 5, 9, 7)],
        lambda s, p: added((5, 6, 7), 1, p, np.ones_like(s))),
    "long rows of computed values": (
        lambda c, s, p: c.scatter_add(zeros(c, 3, 40), 1, p, c.exp(c.sub(s, s))),
        [whole(3, 300), at(40, 3, 300)], lambda s, p: added((3, 40), 1, p, np.ones_like(s))),
    "a start that is not zero": (
        lambda c, s, p: c.scatter_add(zeros(c, 40, 24, value=3.0), 0, p, s), [ROWS, at(40, 300, 24)],
        lambda s, p: added((40, 24), 0, p, s, 3)),
    "halves that were made wide": (
        lambda c, s, p: c.scatter_add(zeros(c, 40, 24), 0, p, c.cast(s, dt.float32)),
        [ROWS.astype("float16"), at(40, 300, 24)], lambda s, p: added((40, 24), 0, p, s.astype("float32"))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values(seam, case):
    function, arrays, oracle = CASES[case]
    graph = graph_on_gpu(function, arrays)
    lowered, program, emitted = programs(seam, graph)
    assert len(adding(emitted)) == 1 and "scatter_add" not in calls(emitted)
    ways = {
        "nests": interpret_lowered(lowered, arrays),
        "program": interpret_program(program, arrays),
        "scheduled": interpret_program(emitted, arrays),
    }
    if HAS_TRITON:
        from stage3_lowering.triton_interpreter import run_in_interpreter

        ways["triton"] = run_in_interpreter(emitted, arrays)
    for way, (got,) in ways.items():
        np.testing.assert_array_equal(got, oracle(*arrays), err_msg=way)


def test_on_a_cpu_the_place_of_a_row_is_written_once(seam):
    def function(c, s, p):
        places = c.where(c.lt(p, 0), 40, p)
        start = c.full((40, 24), 0.0, dt.float16, CPU)
        return c.scatter_add(start, 0, c.expand(c.reshape(places, (300, 1)), (300, 24)), s)

    program = seam("fuse")(seam("lower")(trace(function, ROWS.astype("float16"), at(40, 300))))
    (call,) = (step for step in program.steps if isinstance(step, External))
    index = call.args[2]
    assert index.strides == (1, 0) and program.buffers[index.name].meta.numel == 300


def test_only_the_zeros_and_the_kernel_that_adds_are_left(seam):
    function, arrays, _ = CASES["places are computed too"]
    _, program, emitted = programs(seam, graph_on_gpu(function, arrays))
    zeros, add = (step for step in program.steps if isinstance(step, Launch))
    (kernel,) = adding(program)
    assert len(program.steps) == 3 and add.kernel == kernel.name
    assert zeros.buffers == (out := kernel.nests[0].writes) and kernel.params == ("x", "y", *out)
    assert kernel.accesses == ({"x", "y", *out}, {*out})  # what is added to is read as well
    text = emitted.units[-1].text
    assert text.count("tl.atomic_add(") == 1 and "tl.store(" not in text


def test_what_reads_the_sum_runs_after_it(seam):
    """Two sums of the same things, each read as a whole: nothing joins the kernels that add, nor are two taken for one."""

    def function(c, s, p):
        one = c.scatter_add(zeros(c, 40, 24), 0, p, s)
        two = c.scatter_add(zeros(c, 40, 24), 0, p, s)
        return c.mul(c.add(one, two), 2.0), c.mul(s, 2.0)

    arrays = [ROWS, at(40, 300, 24)]
    _, program, emitted = programs(seam, graph_on_gpu(function, arrays))
    assert len(adding(program)) == 2
    assert [d.code for d in program.decisions if d.first in ("x", "buf0")][:1] == ["added_to"]
    total = added((40, 24), 0, arrays[1], ROWS)
    got, other = interpret_program(emitted, arrays)
    np.testing.assert_array_equal(got, total * 4)
    np.testing.assert_array_equal(other, ROWS * 2)


@needs_triton
@pytest.mark.parametrize(("arch", "instruction"), [(80, "add.f32"), (90, "add.v4.f32"), (100, "add.v4.f32")])
def test_four_floats_of_a_row_are_added_at_once(seam, arch, instruction):
    from stage3_lowering.triton_interpreter import compile_to_ptx

    graph = graph_on_gpu(*CASES["rows of a table"][:2])
    _, _, emitted = programs(seam, graph)
    (kernel,) = adding(emitted)
    text = compile_to_ptx(emitted, arch)[kernel.name]["ptx"]
    assert f"gpu.relaxed.{instruction}" in text and f".target sm_{arch}" in text


BAD = [40, -41, 1 << 40, -(1 << 63)]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_place_is_told(seam, bad):
    function, _, _ = CASES["a place for each element"]
    arrays = [ROWS, at(40, 300, 24)]
    arrays[1][299, 23] = bad
    _, program, emitted = programs(seam, graph_on_gpu(function, arrays))
    with pytest.raises(IndexError, match="out of range"):
        interpret_program(program, arrays)
    (kernel,) = adding(emitted)
    assert kernel.grid["asserts"]  # on a GPU it stops the device


@needs_triton
def test_triton_tells_a_bad_place(seam):
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, _, _ = CASES["a place for each element"]
    arrays = [ROWS, at(40, 300, 24)]
    arrays[1][299, 23] = 40
    _, _, emitted = programs(seam, graph_on_gpu(function, arrays))
    with pytest.raises(RuntimeError, match="out of range|out of bounds"):
        run_in_interpreter(emitted, arrays)


CALLS = {  # what stays a call: function, arrays, configuration
    "adds in the order of places": (lambda c, s, p: c.scatter_add(zeros(c, 40, 24), 0, p, s),
                                    [ROWS, at(40, 300, 24)], {"runtime.deterministic": True}),
    "adds to what is there": (lambda c, s, p, x: c.scatter_add(x, 0, p, s), [ROWS, at(40, 300, 24), whole(40, 24)], {}),
    "integers": (lambda c, s, p: c.scatter_add(zeros(c, 40, 24, value=0, dtype=dt.int64), 0, p, s),
                 [whole(300, 24, dtype="int64"), at(40, 300, 24)], {}),
    "halves": (lambda c, s, p: c.scatter_add(zeros(c, 40, 24, dtype=dt.float16), 0, p, s),
               [ROWS.astype("float16"), at(40, 300, 24)], {}),
    "no places": (lambda c, s, p: c.scatter_add(zeros(c, 40, 24), 0, p, s), [ROWS[:0], at(40, 0, 24)], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_what_stays_a_call(seam, case):
    function, arrays, changes = CALLS[case]
    with config.patch(changes):
        _, program, emitted = programs(seam, graph_on_gpu(function, arrays))
    assert calls(program) == ["scatter_add"] and not adding(program)
    start = arrays[2] if len(arrays) == 3 else np.zeros((40, 24), arrays[0].dtype)
    want = start + added((40, 24), 0, arrays[1], arrays[0])
    np.testing.assert_array_equal(interpret_program(emitted, arrays)[0], want)


# ---- on a CPU: one after the other ---------------------------------------------------------------------------


def on_cpu(seam, monkeypatch, function, arrays):
    monkeypatch.setattr(sys.modules[__name__], "CUDA", CPU)
    lowered = seam("lower")(graph_on_gpu(function, arrays)).verify()
    program = seam("fuse")(lowered).verify()
    return lowered, program, seam("emit")(seam("schedule")(program, CPP).verify(), CPP).verify()


@pytest.mark.parametrize("case", CASES)
def test_on_a_cpu_a_loop_adds(seam, monkeypatch, case):
    function, arrays, oracle = CASES[case]
    lowered, program, emitted = on_cpu(seam, monkeypatch, function, arrays)
    assert len(adding(emitted)) == 1 and not calls(emitted)
    want = oracle(*arrays)
    for found in (
        interpret_lowered(lowered, arrays),
        interpret_program(program, arrays),
        run_cpp(emitted, arrays),
    ):
        np.testing.assert_array_equal(found[0], want)


@pytest.mark.parametrize("case", CASES)
def test_a_fusion_and_a_schedule_of_a_users_own_need_not_know(seam, monkeypatch, case):
    """Those of `tiny` leave the tensor that is added to apart, and call each last loop one of lanes."""
    from stage3_lowering.tiny import fuse, schedule

    monkeypatch.setattr(sys.modules[__name__], "CUDA", CPU)
    function, arrays, oracle = CASES[case]
    lowered = seam("lower")(graph_on_gpu(function, arrays))
    flags = FLAGS.replace("-O1", "-O3 -march=native")
    for program in (
        seam("schedule")(fuse(lowered), CPP), schedule(seam("fuse")(lowered), CPP)
    ):  # fmt: skip
        np.testing.assert_array_equal(
            run_cpp(seam("emit")(program, CPP), arrays, flags=flags)[0], oracle(*arrays)
        )


def test_cpp_adds_in_place_only(seam, monkeypatch):
    from stage3_lowering.tiny import fuse, schedule

    monkeypatch.setattr(sys.modules[__name__], "CUDA", CPU)
    lowered = seam("lower")(graph_on_gpu(*CASES["a place for each element"][:2]))
    with pytest.raises(ValueError, match=r"C\+\+ adds in place"):
        seam("emit")(schedule(fuse(lowered), CPP), CPP)


@pytest.mark.parametrize("case", ["rows of a table", "long rows of computed values"])
@pytest.mark.parametrize("bad", BAD)
def test_on_a_cpu_a_bad_place_is_told(seam, monkeypatch, bad, case):
    function, (values, places), _ = CASES[case]
    arrays = [values, places.copy()]
    arrays[1].flat[-1] = bad
    _, _, emitted = on_cpu(seam, monkeypatch, function, arrays)
    with pytest.raises(IndexError, match="out of range"):
        run_cpp(emitted, arrays)


def test_zeros_of_several_sums_are_written_by_one_kernel(seam, monkeypatch):
    """A table of fillings, each where a sum will be."""
    function = lambda c, s, p: [c.scatter_add(zeros(c, n, 24), 0, p, c.mul(s, n)) for n in (40, 50, 60)]  # noqa: E731
    arrays = [ROWS, at(40, 300, 24)]
    arrays[1] %= 40
    _, program, emitted = on_cpu(seam, monkeypatch, function, arrays)
    assert len(program.kernels) < 6
    for n, found in zip((40, 50, 60), run_cpp(emitted, arrays), strict=True):
        np.testing.assert_array_equal(found, added((n, 24), 0, arrays[1], ROWS * n))


# ---- the artifacts -------------------------------------------------------------------------------------------


def test_it_prints_and_reads_back(seam):
    lowered, program, emitted = programs(seam, graph_on_gpu(*CASES["rows of a table"][:2]))
    nest = lowered.nodes[-1]
    assert parse_nest(print_nest(nest)).body == nest.body
    assert nest.body[-1].op == "atomic_add" and nest.reads[-1] == lowered.nodes[0].name
    for artifact in (program, emitted):
        assert str(parse_program(print_program(artifact))) == print_program(artifact)
        stored = program_of(json.loads(json.dumps(record_of(artifact))))
        assert print_program(stored) == print_program(artifact)
        assert stored.kernels.keys() == artifact.kernels.keys() and stored.steps == artifact.steps


def nest_of(*body):
    return LoopNest("out", (5,), (), body)


I0 = symbol("i0")
LOADED = Instr("v", "load", ("x", I0), dt.float32)
PLACE = [
    Instr("p", "load", ("y", I0), dt.int64),
    Instr("k", "indirect_index", (Value("p"), symbol("n")), dt.int64),
]


def test_a_kernel_may_not_read_what_it_adds_to():
    added_to = Instr("", "atomic_add", ("out", symbol("k"), Value("v"), "out"), None)
    read = Instr("w", "load", ("out", I0), dt.float32)
    kept = Instr("", "store", ("z", I0, Value("w")), None)
    Kernel("k", (nest_of(LOADED, *PLACE, added_to),), ("x", "y", "out")).verify()
    with pytest.raises(GraphError, match="out is added to by any point"):
        Kernel("k", (nest_of(LOADED, *PLACE, added_to, read, kept),), ("x", "y", "out", "z")).verify()


def test_twice_is_twice():
    """Two equal instructions that add are not one, as two that compute are."""
    added_to = Instr("", "atomic_add", ("out", symbol("k"), Value("v"), "zeros"), None)
    kernel = build_kernel(0, [nest_of(LOADED, *PLACE, added_to, added_to)], {"out"}, {})
    assert [i.op for i in kernel.nests[0].body].count("atomic_add") == 2
    assert (kernel.name, kernel.params) == ("fused_atomic_add_0", ("x", "y", "zeros", "out"))


def test_open_sizes(seam):
    """One text for any number of rows and of columns; the call needs them known."""
    env = ShapeEnv()
    s, t = env.dimension("s0", 5), env.dimension("s1", 7)
    metas = [TensorMeta((s, t), dt.float32, None, CUDA), TensorMeta((s, t), dt.int64, None, CUDA)]
    graph = trace(
        lambda c, x, p: c.scatter_add(c.full((s, t), 0.0, dt.float32, CUDA), 0, p, c.mul(x, 2.0)), *metas
    )
    _, program, emitted = programs(seam, graph)
    assert len(adding(program)) == 1 and not calls(program)
    for rows, columns in ((5, 7), (1, 1), (13, 2), (64, 40)):
        x, p = whole(rows, columns), at(rows, rows, columns)
        want = added((rows, columns), 0, p, x * 2)
        np.testing.assert_array_equal(interpret_program(program, [x, p])[0], want)
        if HAS_TRITON:
            from stage3_lowering.triton_interpreter import run_in_interpreter

            np.testing.assert_array_equal(run_in_interpreter(emitted, [x, p])[0], want)


def test_what_is_added_to_has_no_other_reader(seam):
    """The pass says so, instead of giving the other reader a sum."""
    function, arrays, _ = CASES["a place for each element"]
    lowered = seam("lower")(graph_on_gpu(function, arrays))
    zeros_name = lowered.nodes[0].name
    program = seam("fuse")(lowered)
    out = program.return_step.values[0].name
    apart = apart_again(program, zeros_name, out)
    assert additions_in_place(apart) == program
    verify_pass("additions_in_place", apart, program)
    read_too = apart.with_(
        steps=(*apart.steps[:-1], replace(apart.steps[0]), apart.steps[-1]),
    )
    with pytest.raises(GraphError, match="no other step reads"):
        additions_in_place(read_too)


def apart_again(program, start, out):
    """The program as it was before its last pass: two buffers."""
    fill, add = (program.kernels[step.kernel] for step in program.steps[:2])

    def to_start(nest):
        body = (replace(i, args=tuple(start if a == out else a for a in i.args)) for i in nest.body)
        return replace(nest, name=start, body=tuple(body))

    def from_start(nest):
        *before, last = nest.body
        return replace(nest, body=(*before, replace(last, args=(*last.args[:3], start))))

    fill = replace(fill, nests=tuple(map(to_start, fill.nests)), params=(start,))
    add = replace(add, nests=tuple(map(from_start, add.nests)), params=(*add.params[:-1], start, out))
    return program.with_(
        kernels={fill.name: fill, add.name: add},
        steps=(Launch(fill.name, fill.params), Launch(add.name, add.params), program.steps[-1]),
        buffers=program.buffers | {start: replace(program.buffers[out], name=start, role="temporary")},
    ).verify()


def test_triton_adds_in_place_only(seam):
    function, arrays, _ = CASES["a place for each element"]
    lowered = seam("lower")(graph_on_gpu(function, arrays))
    program = seam("fuse")(lowered)
    apart = apart_again(program, lowered.nodes[0].name, program.return_step.values[0].name)
    with pytest.raises(ValueError, match="Triton adds in place"):
        seam("emit")(apart, TRITON)


def test_layers_share_the_kernel_that_adds(seam):
    """Two tables alike: their kernels are equal up to names, and one is built. What may be told apart by its lines is
    not shared, so both additions come from one line."""

    def function(c, s, t, p):
        both = [c.scatter_add(zeros(c, 40, 24), 0, p, x) for x in (s, t)]
        both[1].meta["origins"] = both[0].meta["origins"]
        return both

    arrays = [ROWS, whole(300, 24), at(40, 300, 24)]
    _, program, emitted = programs(seam, graph_on_gpu(function, arrays))
    assert (len(adding(program)), len(adding(emitted))) == (2, 1)
    first, second = interpret_program(emitted, arrays)
    np.testing.assert_array_equal(first, added((40, 24), 0, arrays[2], arrays[0]))
    np.testing.assert_array_equal(second, added((40, 24), 0, arrays[2], arrays[1]))
