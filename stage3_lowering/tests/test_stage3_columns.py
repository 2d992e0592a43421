"""Reductions across rows: groups of rows, the rows that no group holds, and parts of the rows, against NumPy.

Input: matrices whose number of rows a group or a part does not divide, and one that both divide.
"""

import numpy as np
import pytest

from stage3_lowering.tests.graphs import CPP, assert_close, run_every_way, trace

# rows, columns, whether threads share the rows, whether rows are left over
SHAPES = [
    (13, 40, False, True),
    (16, 2100, False, False),
    (1031, 2100, True, True),
    (1024, 2100, True, False),
]


@pytest.mark.parametrize(("rows", "columns", "parts", "left"), SHAPES)
def test_sums_maxima_and_counts_over_rows(seam, rows, columns, parts, left):
    x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    x[rows // 2, 3], x[-1, 4] = np.nan, np.inf

    def function(c, x):
        positive = c.gt(x, 0.0)
        return c.sum(x, (0,)), c.amax(x, (0,)), c.any(positive, (0,)), c.sum(positive, (0,))

    graph = trace(function, x)
    want = [x.astype(np.float64).sum(0).astype(np.float32), x.max(0), (x > 0).any(0), (x > 0).sum(0)]
    of_a_sum = 2.0**-23 * np.abs(x).sum(0)  # GROUP rows are added up in float32, groups in double
    for way, (total, *others) in run_every_way(seam, graph, [x]).items():
        with np.errstate(invalid="ignore"):
            near = (total == want[0]) | (np.abs(total - want[0].astype(np.float64)) <= of_a_sum)
        assert (near | (np.isnan(total) & np.isnan(want[0]))).all(), way
        for output, wanted in zip(others, want[1:], strict=True):
            assert_close(output, wanted, 1, way)
    program = seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP)
    text = "".join(unit.text for unit in seam("emit")(program, CPP).units)
    assert "sum_so_far" in text
    assert ("end_row" in text) is parts
    assert ("++r0)" in text.replace("r0_block + 4; ++r0)", "")) is left
