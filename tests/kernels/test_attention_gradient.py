"""Where the row sums of attention's gradient are those of the result times its gradient, and that nothing is lost by it.

Input: core graphs of softmax(s) @ v and its gradient on a GPU, over widths and columns. On the tree before, every width was
written so; with weights that are 0 and 1 the gradient of the scores, which is 0, was the rounding of a sum over the width.
"""

import numpy as np
import pytest

from stage2_autograd.decompose.attention_gradient import attention_gradient
from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering import fuse, lower
from stage3_lowering.tests.graphs import meta_of_array, trace
from stage_contracts import dtype as dt
from stage_contracts.attention import largest_width
from stage_contracts.device import Device

CUDA = Device("cuda", 0)
WIDEST = largest_width(dt.float32)


def gradient_of_scores(c, s, v, g):
    """Weights, the result, and the gradient of the scores."""
    exp = c.exp(c.sub(s, c.amax(s, (1,), True)))
    p = c.div(exp, c.sum(exp, (1,), True))
    slopes = c.matmul(g, c.permute(v, (1, 0)))
    return c.matmul(p, v), c.mul(p, c.sub(slopes, c.sum(c.mul(slopes, p), (1,), True)))


def rewritten(rows, columns, width):
    draw = np.random.default_rng(0)
    one_hot = 1e5 * np.eye(rows, columns)
    arrays = [a.astype(np.float32) for a in (one_hot, *(draw.standard_normal(shape) for shape in
                                                        ((columns, width), (rows, width))))]  # fmt: skip
    graph = trace(gradient_of_scores, *(meta_of_array(a).with_(device=CUDA) for a in arrays))
    before = len(graph.calls)
    attention_gradient(graph)
    return graph, arrays, len(graph.calls) != before


@pytest.mark.parametrize(
    "columns, width, expected",
    [
        (16, 32, True),
        (16, WIDEST, True),
        (16, WIDEST + 1, False),
        (33, 4100, False),
        (5000, 4100, False),
    ],
)
def test_only_where_a_kernel_takes_the_matrices(columns, width, expected):
    assert rewritten(16, columns, width)[2] is expected


@pytest.mark.parametrize("columns", [16, 33, 100])
def test_weights_of_0_and_1_have_no_gradient(columns):
    graph, arrays, _ = rewritten(16, columns, 4100)
    _, slopes = interpret_program(fuse(lower(graph)), arrays)
    assert not slopes.any()
