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
    for way, outputs in run_every_way(seam, graph, [x]).items():
        for output, wanted in zip(outputs, want, strict=True):
            assert_close(output, wanted, 1, way)  # added up in double, rounded once
    program = seam("schedule")(seam("fuse")(seam("lower")(graph)), CPP)
    text = "".join(unit.text for unit in seam("emit")(program, CPP).units)
    assert "sum_so_far" in text
    assert ("end_row" in text) is parts
    assert ("++r0)" in text.replace("r0_block + 4; ++r0)", "")) is left
