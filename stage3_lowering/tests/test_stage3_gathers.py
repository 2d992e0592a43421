"""Gathers in tiles: places found in lanes, elements loaded one by one; every way of running gives NumPy's values.

Input: gathers along the innermost loop, over sizes around a tile's; shared, nested and stored places; bad places in a
tile's beginning, its end and the short last tile.
"""

from dataclasses import replace

import numpy as np
import pytest

from stage3_lowering.lowering.gathers import TILE, gathers
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, check, run_every_way, trace
from stage_contracts import dtype as dt

RNG = np.random.default_rng(11)


def take(x, at):
    return np.take_along_axis(x, at, x.ndim - 1)


def cpp(seam, graph):
    """The scheduled and the emitted program."""
    scheduled = seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP)
    return scheduled, seam("emit")(scheduled, CPP)


def tiles(program):
    return [dict(kernel.schedule.tiles) for kernel in program.kernels.values()]


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("schedule", "emit")
@pytest.mark.parametrize("columns", [1, 63, 64, 255, 256, 257, 600])
def test_sizes_around_a_tile(seam, columns):
    x = RNG.standard_normal((3, 50)).astype(np.float32)
    at = RNG.integers(0, 50, (3, columns))
    check(seam, lambda c, x, at: c.add(c.mul(c.gather(x, 1, at), 2.0), 1.0), [x, at],
          [take(x, at) * np.float32(2) + np.float32(1)])  # fmt: skip


X, AT = RNG.standard_normal((2, 300)).astype(np.float32), RNG.integers(0, 300, (2, 300))
D, N = X.astype(np.float64), (X * 50).astype(np.int64)
KINDS = {  # name: (function, arrays, expected, how many loads are in tiles)
    "two of one place": (lambda c, x, d, at: (c.gather(x, 1, at), c.gather(d, 1, at)), [X, D, AT],
                         [take(X, AT), take(D, AT)], 2),
    "the place is used too": (lambda c, n, at: c.add(c.gather(n, 1, at), at), [N, AT], [take(N, AT) + AT], 1),
    "made of two": (lambda c, x, at, n: c.gather(x, 1, c.remainder(c.add(at, n), 300)), [X, AT, N],
                    [take(X, (AT + N) % 300)], 1),
    "a place of a place": (lambda c, x, at: c.gather(x, 1, c.gather(at, 1, at)), [X, AT],
                           [take(X, take(AT, AT))], 1),
    "the place is stored": (lambda c, x, at: (k := c.bitwise_xor(at, 1), c.gather(x, 1, k)), [X, AT],
                            [AT ^ 1, take(X, AT ^ 1)], 1),
    "booleans": (lambda c, n, at: c.logical_not(c.gather(n, 1, at)), [N > 0, AT], [~take(N > 0, AT)], 1),
    "halves": (lambda c, x, at: c.neg(c.gather(c.cast(x, dt.float16), 1, at)), [X, AT],
               [-take(X.astype(np.float16), AT)], None),
    "columns": (lambda c, x, at: c.neg(c.gather(x, 0, at)), [X, AT % 2],
                [-np.take_along_axis(X, AT % 2, 0)], 1),
}  # fmt: skip


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("schedule", "emit")
@pytest.mark.parametrize("kind", KINDS)
def test_values(seam, kind):
    function, arrays, expected, _ = KINDS[kind]
    check(seam, function, arrays, expected)


@pytest.mark.parametrize("kind", [name for name, row in KINDS.items() if row[3]])
def test_which_loads_are_in_tiles(seam, kind):
    function, arrays, _, count = KINDS[kind]
    program, emitted = cpp(seam, trace(function, *arrays))
    assert tiles(program) == [{"i1": TILE}]
    (kernel,) = program.kernels.values()
    found = gathers(kernel.nests[0], "i1")
    assert found is not None and len(found.loads) == count
    text = emitted.units[0].text
    assert text.count("const cutaway::Gathered<") == count
    places, rest = text.split("const cutaway::Gathered<", 1)
    assert "wrap_index(" in places
    assert ("wrap_index(" in rest.partition("return bad_index")[0]) is (kind == "a place of a place")


@pytest.mark.conformance("lower", "fuse", tier="core")
@pytest.mark.conformance("schedule", "emit")
@pytest.mark.parametrize("place", [0, 255, 256, 299])
@pytest.mark.parametrize("bad", [-1, 300, 1 << 40, -(1 << 63)])
def test_a_bad_place_is_told_wherever_it_is(seam, place, bad):
    at = AT.copy()
    at[1, place] = bad
    _, emitted = cpp(seam, trace(lambda c, x, at: c.neg(c.gather(x, 1, at)), X, at))
    if bad == -1:  # a negative place counts from the end
        np.testing.assert_array_equal(run_cpp(emitted, [X, at])[0], -take(X, at % 300))
        return
    with pytest.raises(IndexError, match="out of (range|bounds)"):
        run_cpp(emitted, [X, at])


def test_a_short_row_and_a_turned_one_have_no_tiles(seam):
    short = trace(lambda c, x, at: c.neg(c.gather(x, 1, at)), X[:, :20], AT[:, :20] % 20)
    by_rows = trace(lambda c, x, at: c.neg(c.gather(x, 0, c.expand(at, (2, 300)))), X, AT[:, :1] % 2)
    for graph in (short, by_rows):
        program, emitted = cpp(seam, graph)
        assert tiles(program) == [{}] and "Gathered" not in emitted.units[0].text


def test_a_place_that_its_own_kernel_writes_is_not_read_ahead(seam):
    """The first loop of a tile runs before the third, which stores the place."""
    function, arrays, _, _ = KINDS["the place is used too"]
    program, _ = cpp(seam, trace(function, *arrays))
    (nest,) = next(iter(program.kernels.values())).nests
    assert gathers(nest, "i1") is not None
    stored = replace(nest.body[-1], args=("y", *nest.body[-1].args[1:]))
    assert gathers(replace(nest, body=(*nest.body, stored)), "i1") is None


def test_bits_do_not_depend_on_tiles(seam):
    graph = trace(lambda c, x, at: c.exp(c.sin(c.gather(x, 1, at))), X, AT)
    scheduled, emitted = cpp(seam, graph)
    kernels = {n: replace(k, schedule=replace(k.schedule, tiles=())) for n, k in scheduled.kernels.items()}
    plain = seam("emit")(scheduled.with_(kernels=kernels), CPP)
    assert "Gathered" in emitted.units[0].text and "Gathered" not in plain.units[0].text
    np.testing.assert_array_equal(run_cpp(emitted, [X, AT])[0], run_cpp(plain, [X, AT])[0])
    assert set(run_every_way(seam, graph, [X, AT])) >= {"nests", "cpp"}


def by_columns(c, x, at, y):
    """Each column has a root and a division, in a loop of their own."""
    return c.div(c.gather(x, 1, at), c.sqrt(c.div(c.abs(y), 7.0)))


SMALL, PLACES, ROW = X[:, :20].repeat(10, 0), AT[:, :20].repeat(10, 0) % 20, X[0, :20]
SUMMED, ITS_ROWS = RNG.standard_normal((20, 40)).astype(np.float32), RNG.integers(0, 20, (30, 1))
LANES = {  # name: (function, arrays, the array of places)
    "a pointwise loop": (lambda c, x, at: c.neg(c.gather(x, 1, at)), [SMALL, PLACES], 1),
    "beside values of columns": (by_columns, [SMALL, PLACES, ROW], 1),
    "a row": (lambda c, x, at: c.sum(c.gather(x, 1, at), (1,)), [X, AT], 1),
    "across rows": (lambda c, x, at: c.sum(c.gather(x, 0, c.expand(at, (30, 40))), (1,)), [SUMMED, ITS_ROWS], 1),
    "after a sum across rows": (lambda c, x, at, y: c.add(c.sum(x, (0,)), c.gather(y, 0, at)),
                                [SMALL, PLACES[0], ROW], 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", LANES)
def test_lanes_that_check_places_share_what_they_tell(seam, kind):
    """OpenMP's lanes may write one variable only where the loop says how what they write becomes one."""
    function, arrays, places = LANES[kind]
    _, emitted = cpp(seam, trace(function, *arrays))
    lines = emitted.units[0].text.splitlines()
    checks = 0
    for k, line in enumerate(lines):
        if line.strip().startswith("#pragma omp simd"):
            end = lines.index(lines[k + 1].partition("for")[0] + "}", k)
            checked = any("wrap_index(" in inside for inside in lines[k + 2 : end])
            assert checked == ("bad_index)" in line), "\n".join(lines[k : end + 1])
            checks += checked
    assert checks
    bad = [array.copy() for array in arrays]
    bad[places][..., -1] = 1 << 40
    with pytest.raises(IndexError, match="out of (range|bounds)"):
        run_cpp(emitted, bad)
