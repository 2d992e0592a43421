"""scatter and scatter_add on a CPU: a loop in the order of its places. Bits, and the places of rows without elements.

Input: all dtypes that a loop does it of, each dimension, rows longer than a tile, many values to one place. The oracle
is NumPy's assignment and its `add.at`.
"""

import operator

import numpy as np
import pytest

from stage3_lowering.interpret import interpret_program
from stage3_lowering.tests.cpp_runner import FLAGS, run_cpp
from stage3_lowering.tests.graphs import CPP, trace
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta

DRAW = np.random.default_rng(9)


def cpp(seam, graph):
    return seam("emit")(seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP), CPP).verify()


def calls(program):
    return [step.target for step in program.steps if hasattr(step, "target")]


IN_ORDER = {  # how values come to places -> NumPy's way, and the dtypes that a loop does it of
    "scatter_add": (np.add.at, ["float32", "float64", "int32", "int64"]),
    "scatter": (operator.setitem, [name for name, of in dt.DTYPES.items() if not of.is_complex]),
}


@pytest.mark.parametrize("flags", [FLAGS, FLAGS.replace("-O1", "-O3 -march=native")])
@pytest.mark.parametrize(("way", "of"), [(way, of) for way, (_, dtypes) in IN_ORDER.items() for of in dtypes])
def test_on_a_cpu_values_come_to_places_in_order(seam, way, of, flags):
    """To tensors that are there, along each dimension, many to one element: each order has other bits."""
    kind = dt.DTYPES[of].numpy
    numbers = lambda *shape: DRAW.standard_normal(shape) * 1000  # noqa: E731
    draw = lambda *shape: numbers(*shape) > 0 if of == "bool" else numbers(*shape).astype(kind)  # noqa: E731
    where, values = DRAW.integers(-3, 3, (4, 5, 300)), draw(4, 5, 300)
    starts = [draw(3, 5, 300), draw(4, 4, 300), draw(4, 5, 5)]
    function = lambda c, p, s, *xs: [getattr(c, way)(x, d, p, s) for d, x in enumerate(xs)]  # noqa: E731
    arrays = [where, values, *starts]
    program = seam("fuse")(seam("lower")(trace(function, *arrays))).verify()
    emitted = seam("emit")(seam("schedule")(program, CPP).verify(), CPP).verify()
    assert not calls(emitted)
    for dim, want in enumerate(wanted := [start.copy() for start in starts]):
        places = list(np.ix_(*map(np.arange, where.shape)))
        places[dim] = where
        IN_ORDER[way][0](want, tuple(places), values)
    for found in (run_cpp(emitted, arrays, flags=flags), interpret_program(program, arrays)):
        assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]


def test_on_a_gpu_what_replaces_elements_stays_a_call(seam):
    function = lambda c, x, p, s: c.scatter(x, 0, p, c.neg(s))  # noqa: E731
    metas = [TensorMeta((300, 24), of, None, Device("cuda", 0)) for of in (dt.float32, dt.int64, dt.float32)]
    program = seam("fuse")(seam("lower")(trace(function, *metas)))
    assert calls(program) == ["scatter"]


def test_nothing_is_added_where_an_open_size_is_0(seam):
    """Compiled without optimisations, a place that no loop decides was looked at before the loops, which have no step:
    seed 12171 of fuzz-kernels."""
    env = ShapeEnv()
    size = env.dimension("s0", 0)
    assert size == 0
    metas = [TensorMeta([size, 3], of) for of in (dt.float64, dt.int64)]
    graph = trace(lambda c, x, p: c.scatter_add(x, 0, p, x), *metas)
    program = cpp(seam, graph)
    assert calls(program) == ["scatter_add"]


AT_ROWS = {  # how rows named by places are read and written
    "gather": lambda c, x, p, s: c.gather(x, 0, p),
    "scatter": lambda c, x, p, s: c.scatter(x, 0, p, s),
    "scatter_add": lambda c, x, p, s: c.scatter_add(x, 0, p, s),
}


@pytest.mark.parametrize("way", AT_ROWS)
def test_a_bad_place_of_rows_without_elements_is_not_told(seam, way):
    """Eager has no element to look for there. The place of a row stands outside the loop over its columns."""
    env = ShapeEnv()
    s, t = env.dimension("s0", 5), env.dimension("s1", 7)
    metas = [TensorMeta((4, t), dt.float64), TensorMeta((s,), dt.int64), TensorMeta((s, t), dt.float64)]
    graph = trace(lambda c, x, p, y: AT_ROWS[way](c, x, c.expand(c.reshape(p, (s, 1)), (s, t)), y), *metas)
    program = cpp(seam, graph)
    assert not calls(program)
    for columns in (0, 3):
        arrays = [np.ones((4, columns)), np.array([3, 4]), np.ones((2, columns))]
        if not columns:
            assert run_cpp(program, arrays)[0].size == 0
            continue
        with pytest.raises(IndexError, match="out of range"):
            run_cpp(program, arrays)
