"""Schedules: every one gives the same values, prints and reads back; and the default chooses what strides ask for.

Input: kernels of small programs whose values are whole numbers, so that sums are exact in every order. The seed is
fixed; hypothesis draws loop orders, tiles, vector loops, threads and parts for each kernel.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering.accesses import stride
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, trace
from stage_contracts.graph import GraphError
from stage_contracts.kernel_schedule import KernelSchedule, parse_schedule
from stage_contracts.program_json import decode, encode
from stage_contracts.program_text import parse_program, print_program


def whole(*shape):
    return (np.arange(np.prod(shape), dtype=int) * 7 % 23 - 11).astype(np.float32).reshape(shape)


X, Y, LONG = whole(6, 9, 5), whole(5, 9, 6), whole(1000)
ROWS = np.array([3, 0, 5, 5])
PROGRAMS = {
    "transposed": (lambda c, x, y: c.add(c.permute(x, (2, 1, 0)), y), (X, Y)),
    "softmax_like": (lambda c, x: c.sub(x, c.amax(x, (2,), True)), (X,)),
    "columns": (lambda c, x: c.sub(c.sum(c.mul(x, x), (0,)), c.amax(x, (0,))), (X,)),
    "two_passes": (lambda c, x: c.sum(c.sub(x, c.amax(x, (1,), True)), (1,)), (X,)),
    "rows_by_index": (
        lambda c, x, i: c.mul(c.gather(x, 0, c.expand(c.reshape(i, (4, 1, 1)), (4, 9, 5))), 2.0),
        (X, ROWS),
    ),
    "everything": (lambda c, x: c.sum(c.mul(x, x), (0,)), (LONG,)),
}


def turnable(kernel, order):
    """The loads whose tiles may be turned: those that walk along the last loop but one."""
    loads = [i for i in kernel.nests[0].body if i.op == "load"]
    names = {i.name for i in kernel.nests[0].body}
    return [i.name for i in loads if len(order) > 1 and stride(i.args[1], order[-2]) == 1
            and stride(i.args[1], order[-1]) not in (None, 0) and not {str(s) for s in i.args[1].free_symbols} & names]  # fmt: skip


def along(kernel, loop):
    """What a pointwise kernel writes one after the other in the loop."""
    return [i.args[0] for i in kernel.nests[0].body if i.op == "store" and stride(i.args[1], loop) == 1]


@st.composite
def schedules(draw, kernel):
    """Any schedule that verify() lets pass."""
    outer = [str(v) for v in kernel.nests[0].loop_variables]
    inner = next(([str(v) for v in n.reduction_variables] for n in kernel.nests if n.reduction_ranges), [])
    order = tuple(draw(st.permutations(outer)))
    parallel = order[: draw(st.integers(0, len(order)))]
    size = st.integers(1, 7)
    if not inner:
        tiles = tuple((v, draw(size)) for v in order[draw(st.integers(0, len(order))) :])
        loads = turnable(kernel, order) if len(tiles) == 2 else []
        turned = draw(st.lists(st.sampled_from(loads), unique=True)) if loads else []
        last = bool(tiles) and draw(st.booleans())
        streamed = tuple(along(kernel, order[-1])) if last else ()
        return KernelSchedule(
            order, tiles, order[-1] if order else "", parallel, turned=tuple(turned), streamed=streamed
        )
    across = draw(st.booleans()) and outer and not kernel.row_buffers
    if across:
        return KernelSchedule(order, ((order[-1], draw(size)),), order[-1], parallel)
    split = draw(st.sampled_from([0, 2, 5])) if not outer else 0
    return KernelSchedule(order, (), inner[-1], parallel, split)


@pytest.mark.conformance("emit")
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_schedule_gives_the_same_values(seam, name):
    function, arrays = PROGRAMS[name]
    program = seam("fuse")(seam("lower")(trace(function, *arrays)))
    wanted = interpret_program(program, arrays)

    @settings(max_examples=6, derandomize=True, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def holds(data):
        kernels = {
            key: replace(kernel, schedule=data.draw(schedules(kernel)))
            for key, kernel in program.kernels.items()
        }
        drawn = program.with_(kernels=kernels).verify()
        for got, want in zip(run_cpp(seam("emit")(drawn, CPP), arrays), wanted, strict=True):
            np.testing.assert_array_equal(got, want)

    holds()


@pytest.mark.conformance("schedule", tier="first")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_schedule_prints_and_reads_back(seam, name):
    """Each kernel has a schedule, which prints and reads back as it was."""
    function, arrays = PROGRAMS[name]
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP).verify()
    for kernel in program.kernels.values():
        assert parse_schedule(str(kernel.schedule)) == kernel.schedule == decode(encode(kernel.schedule))
    assert print_program(parse_program(print_program(program))) == print_program(program)
    for got, want in zip(interpret_program(program, arrays), interpret_program(program, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def scheduled(seam, function, *arrays):
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP)
    return [str(kernel.schedule) for kernel in program.kernels.values()]


def test_what_the_default_chooses(seam):
    big, wide = np.zeros((64, 128), np.float32), np.zeros((64, 8192), np.float32)
    assert scheduled(seam, lambda c, x: c.sum(x, (1,)), big) == ["order=i0 vector=r0"]
    assert scheduled(seam, lambda c, x: c.sum(x, (0,)), big) == ["order=i0 tiles=i0:128 vector=i0"]
    transposed = scheduled(
        seam, lambda c, x, y: c.add(c.permute(x, (1, 0)), y), big, np.zeros((128, 64), "f4")
    )
    assert transposed == ["order=i0,i1 tiles=i0:64,i1:64 vector=i1 turned=x_val"]
    (softmax,) = scheduled(
        seam,
        lambda c, x: (lambda e: c.div(e, c.sum(e, (1,), True)))(c.exp(c.sub(x, c.amax(x, (1,), True)))),
        wide,
    )
    # no buffer as large as the input
    assert softmax == "order=i0 vector=r0 parallel=i0 scratch=buf1 prefetch=x"


def of_rows(c, x):
    return c.sum(c.exp(c.sub(x, c.amax(x, (1,), True))), (1,))


def of_sums(c, x):
    """A pass that adds up, and one that only writes."""
    return c.mul(x, c.sum(x, (1,), True))


def of_largest(c, x):
    """No pass adds up, block by block."""
    return c.mul(x, c.amax(x, (1,), True))


@pytest.mark.parametrize(
    ("function", "shape", "steps", "asked"),
    [
        (of_rows, (3, 1100), None, True),
        (of_rows, (1, 1024), None, False),  # no next row
        (of_rows, (3, 1023), None, False),  # short rows
        (of_rows, (2, 1 << 17), None, False),  # rows that would drive one another out of the cache
        (of_rows, (5, 2200), np.s_[:, ::2], False),  # rows whose elements lie apart
        (of_sums, (513, 2048), None, True),
        (of_sums, (3, 1100), None, False),  # near
        (of_largest, (513, 2048), None, False),
    ],
)
def test_the_next_row_is_asked_for_where_a_pass_reads_again(seam, function, shape, steps, asked):
    """It is a wish: with it and without it the values are the same bits, the last row's too."""
    x = np.random.default_rng(3).random(shape, np.float32)
    x = x if steps is None else x[steps]
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, x))), CPP)
    (kernel,) = program.kernels.values()
    assert (kernel.schedule.prefetch == ("x",)) is asked
    plain = {kernel.name: replace(kernel, schedule=replace(kernel.schedule, prefetch=()))}
    with_it = seam("emit")(program, CPP)
    assert ("cutaway::prefetch(&x[" in with_it.units[-1].text) is asked
    (got,), (want,) = run_cpp(with_it, (x,)), run_cpp(seam("emit")(program.with_(kernels=plain), CPP), (x,))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(got, interpret_program(program, (x,))[0], rtol=1e-5)


def test_a_wrong_schedule_is_refused(seam):
    program = seam("fuse")(seam("lower")(trace(PROGRAMS["transposed"][0], X, Y)))
    (kernel,) = program.kernels.values()
    for wrong in ("order=i0", "order=i0,i1,i2 vector=r0", "order=i0,i1,i2 parallel=i1", "order=i0,i1,i2 split=4",
                  "order=i0,i1,i2 tiles=i0:4 vector=i2", "order=i0,i1,i2 scratch=buf9", "order=i0,i1,i2 prefetch=x",
                  "order=i0,i1,i2 tiles=i1:4,i2:4 turned=x_val", "order=i2,i1,i0 tiles=i0:4 turned=x_val",
                  "order=i1,i2,i0 tiles=i2:4,i0:4 turned=buf0", "order=i0,i1,i2 streamed=buf0",
                  "order=i0,i1,i2 tiles=i2:4 streamed=x", "order=i2,i1,i0 tiles=i0:4 streamed=buf0"):  # fmt: skip
        with pytest.raises(GraphError, match="schedule `"):
            replace(kernel, schedule=parse_schedule(wrong)).verify()


def test_rows_are_asked_for_where_there_are_rows(seam):
    """Such a schedule was verified, and the C++ for it could not be written."""
    program = seam("fuse")(seam("lower")(trace(lambda c, x: c.neg(x), X[0, 0])))
    (kernel,) = program.kernels.values()
    (stored,) = (i.args[0] for i in kernel.nests[0].body if i.op == "store")
    plain = f"order=i0 tiles=i0:4 vector=i0 streamed={stored}"
    replace(kernel, schedule=parse_schedule(plain)).verify()
    with pytest.raises(GraphError, match="reads by rows"):
        replace(kernel, schedule=parse_schedule(plain.replace(" streamed", " prefetch=x streamed"))).verify()


def test_parts_of_rows_are_of_one_pass(seam):
    """Lanes hand one pass's values to the next in arrays of a block. In parts no block is around both: the C++ used
    names that it did not declare."""
    spread = lambda c, x: c.sum(c.abs(c.sub(x, c.amax(x, (0,), True))), (0,))  # noqa: E731
    matrix = whole(64, 40)
    program = seam("fuse")(seam("lower")(trace(spread, matrix)))
    two_passes = next(kernel for kernel in program.kernels.values() if len(kernel.nests) > 1)
    across = "order=i0 tiles=i0:8 vector=i0"
    replace(two_passes, schedule=parse_schedule(across)).verify()
    with pytest.raises(GraphError, match="one pass"):
        replace(two_passes, schedule=parse_schedule(f"{across} split=16")).verify()
