"""Values of each column, computed once in a loop of their own: the same bits as in place, and where they are worth it.

Input: pointwise programs whose operands have a value for each column; constants, loads and results shared by both loops.
"""

import numpy as np
import pytest

from stage3_lowering.lowering import column_values
from stage3_lowering.tests.graphs import CPP, check, trace
from stage_contracts import dtype as dt
from stage_contracts.device import CPU

RNG = np.random.default_rng(5)


def normalise(c, x, mean, total):
    """Two divisions and a root for each column; the mean itself is read in the other loops too."""
    scale = c.add(c.sqrt(c.div(total, 7.0)), 1e-3)
    return c.add(c.div(c.sub(x, mean), scale), c.mul(mean, 2.0))


def inputs(rows, columns, dtype=np.float64):
    shapes = (rows, columns), (columns,), (columns,)
    return [(RNG.standard_normal(shape) ** 2 + 1).astype(dtype) for shape in shapes]


def text(seam, function, arrays):
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP)
    return seam("emit")(program, CPP).units[-1].text


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(16, 16), (40, 513), (300, 257)])
def test_every_way_gives_numpys_values(seam, shape, dtype):
    arrays = inputs(*shape, dtype)
    x, mean, total = arrays
    scale = np.sqrt(total / dtype(7)) + dtype(1e-3)
    check(seam, normalise, arrays, [(x - mean) / scale + mean * dtype(2)], ulps=2)
    assert "_columns[i1] = " in text(seam, normalise, arrays)


def test_the_bits_are_those_of_the_values_in_place(seam, monkeypatch):
    from stage3_lowering.tests.cpp_runner import run_cpp

    arrays = inputs(50, 100)
    found = []
    for worth in (column_values.WORTH, 10**9):
        monkeypatch.setattr(column_values, "WORTH", worth)
        program = seam("schedule")(seam("fuse")(seam("lower")(trace(normalise, *arrays))), CPP)
        emitted = seam("emit")(program, CPP)
        assert ("_columns[" in emitted.units[-1].text) == (worth < 10**9)
        found.append(run_cpp(emitted, arrays)[0].tobytes())
    assert found[0] == found[1]


def test_where_it_is_not_worth_a_loop(seam):
    few_rows, one_load = inputs(3, 100), inputs(50, 100)
    many_columns = inputs(20, column_values.MOST_COLUMNS + 1)
    assert "_columns[" not in text(seam, normalise, few_rows)
    assert "_columns[" not in text(seam, lambda c, x, y, z: c.add(c.mul(x, y), z), one_load)
    assert "_columns[" not in text(seam, normalise, many_columns)


def test_what_all_elements_share_is_no_value_of_a_column(seam):
    """Once it was kept for each column, and read where there is no column: the compiler refused that."""

    def shared_by_rows(c, x, mean, total, row, one):
        share = c.div(c.sqrt(one), 3.0)
        return c.mul(c.add(c.mul(share, row), normalise(c, x, mean, total)), c.div(mean, share))

    x, mean, total = inputs(40, 100)
    x = x + 100  # so that no difference is near 0
    row, one = RNG.random((40, 1)), np.array([[2.0]])
    share = np.sqrt(one) / 3
    scale = np.sqrt(total / 7) + 1e-3
    expected = (share * row + (x - mean) / scale + mean * 2) * (mean / share)
    check(seam, shared_by_rows, [x, mean, total, row, one], [expected], ulps=8)
    assert "_columns[i1] = " in text(seam, shared_by_rows, [x, mean, total, row, one])


def between_pixels(c, x):
    """Two neighbours of each column of the result, by where it lies between them, as when images are resized."""
    rows, size = x.val.shape
    at = c.div(c.add(c.cast(c.iota(2 * size - 1, 0, 1, dt.int64, CPU), x.val.dtype), 1.0), 2.1)
    low = c.cast(c.floor(at), dt.int64)
    picked = [
        c.gather(x, 1, c.expand(place, (rows, 2 * size - 1)))
        for place in (low, c.minimum(c.add(low, 1), size - 1))
    ]
    weight = c.sub(at, c.floor(at))
    return c.add(c.mul(picked[0], c.sub(1.0, weight)), c.mul(picked[1], weight))


@pytest.mark.parametrize("size", [40, 100, 200])  # of one tile, and of two
def test_what_gathered_columns_share(seam, monkeypatch, size):
    from stage3_lowering.tests.cpp_runner import run_cpp

    (x,) = arrays = [RNG.standard_normal((20, size))]
    at = (np.arange(2 * size - 1) + 1) / 2.1
    low, weight = np.floor(at).astype(int), at - np.floor(at)
    want = x[:, low] * (1 - weight) + x[:, np.minimum(low + 1, size - 1)] * weight
    check(seam, between_pixels, arrays, [want], ulps=2)
    found = []
    for worth in (column_values.WORTH, 10**9):
        monkeypatch.setattr(column_values, "WORTH", worth)
        program = seam("schedule")(seam("fuse")(seam("lower")(trace(between_pixels, *arrays))), CPP)
        emitted = seam("emit")(program, CPP)
        written = emitted.units[-1].text
        assert "Gathered<" in written and ("_columns[" in written) == (worth < 10**9)
        found.append(run_cpp(emitted, arrays)[0].tobytes())
    assert found[0] == found[1]


def test_a_bad_place_of_a_column_is_told(seam):
    from stage3_lowering.tests.cpp_runner import run_cpp

    def function(c, x, at):
        places = c.cast(c.floor(c.div(c.sqrt(at), 0.5)), dt.int64)
        return c.add(c.gather(x, 1, c.expand(places, (20, 100))), 1.0)

    arrays = [RNG.standard_normal((20, 50)), np.full(100, 4.0)]
    written = text(seam, function, arrays)
    assert "_columns[" in written and "Gathered<" in written
    check(seam, function, arrays, [np.repeat(arrays[0][:, 4:5], 100, 1) + 1])
    arrays[1][99] = 1e4
    emitted = seam("emit")(seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP), CPP)
    with pytest.raises(IndexError):
        run_cpp(emitted, arrays)
