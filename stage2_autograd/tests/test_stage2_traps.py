"""Known traps of functionalisation, each a program that compilers have got wrong, against eager.

Input: programs of a few lines. Same checks as the matrix of test_stage2_aliasing.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from stage0_eager import TABLE
from stage0_eager.functions import gather_scatter, indexing
from stage0_eager.nn import functional as F
from stage2_autograd.decompose import decompose
from stage2_autograd.differentiate import differentiate
from stage2_autograd.functionalize import functionalize
from stage2_autograd.partition import partition
from stage2_autograd.tests.helpers import (
    check_finite_differences,
    compile_with,
    copies,
    default,
    dropout,
    integers,
    pointwise,
    tensor,
)
from stage2_autograd.tests.test_stage2_aliasing import same_as_eager
from stage_contracts.graph import Graph

c = {name.removeprefix("core."): op for name, op in TABLE.items() if name.startswith("core.")}
X, W, BUFFER = tensor(3, 4), tensor(3, 4, seed=1), tensor(3, 4, seed=2, grad=False)


def repeated_column(x, w, buffer):
    y = x * w
    for _ in range(3):
        y[:, 0] += y[:, 1]
    return y


def columns_of_an_input(x, w, buffer):
    for i in range(4):
        buffer[:, i] = buffer[:, (i + 1) % 4] * 2
    return x * buffer


def dropout_in_eval(x, w, buffer):
    y = dropout.dropout(buffer, 0.5, False)
    y.add_(1)
    return y, x * buffer


def contiguous_then_write(x, w, buffer):
    y = buffer.contiguous()
    y.mul_(2)
    return y * x, y


def cast_to_itself_then_write(x, w, buffer):
    y = buffer.to(buffer.dtype)
    y.add_(1)
    return y, buffer * x


def reshape_to_itself_then_write(x, w, buffer):
    y = buffer.reshape(3, 4)
    y.zero_()
    return buffer + x, y


def rebound_not_written(x, w, buffer):
    y = buffer
    y = y + 1
    buffer.add_(y)
    return y * x


def old_value_before_the_write(x, w, buffer):
    old = buffer * 1.0
    buffer.copy_(x.detach())
    return old * x, buffer * x


def view_of_what_was_written(x, w, buffer):
    buffer.add_(1)
    return buffer[0], buffer.transpose(0, 1), x + buffer


def views_of_two_inputs(x, w, buffer):
    return x[0], w[0], buffer[0], x * w


def view_of_a_view_made_before(x, w, buffer):
    y = x * w
    part = y[1:]
    row = part[0]
    y.mul_(2)
    return row, part, y


def running_statistics(x, w, buffer):
    mean, var = buffer[0], buffer[1]
    out = F.batch_norm(x, mean, var, training=True, momentum=0.1)
    return out * w


def unused_write(x, w, buffer):
    y = x * w
    y.detach().zero_()
    return x + w


def swapped_rows(x, w, buffer):
    y = x * 1.0
    top = y[0].clone()
    y[0] = y[2]
    y[2] = top
    return y * w


def overlapping_reads(x, w, buffer):
    y = x * w
    y[1:] = y[:-1] * 1.0
    return y


def written_twice_through_two_views(x, w, buffer):
    y = (x * w).reshape(-1)
    y.reshape(3, 4)[0].add_(1)
    y.reshape(4, 3)[:, 1].mul_(w.sum())
    return y


def two_results_one_tensor(x, w, buffer):
    y = x * w
    return y, y, y[0], y


TRAPS = [
    repeated_column, columns_of_an_input, dropout_in_eval, contiguous_then_write, cast_to_itself_then_write,
    reshape_to_itself_then_write, rebound_not_written, old_value_before_the_write, view_of_what_was_written,
    views_of_two_inputs, view_of_a_view_made_before, running_statistics, unused_write, swapped_rows, overlapping_reads,
    written_twice_through_two_views, two_results_one_tensor,
]  # fmt: skip


@pytest.mark.parametrize("program", TRAPS, ids=lambda f: f.__name__)
def test_trap(program):
    assert same_as_eager(default, program, X, W, BUFFER, what=program.__name__)


# ---- gradients that are easily wrong -------------------------------------------------------------------------

DUPLICATES = integers(5, seed=3, high=3)  # of three rows
GRADIENTS = {
    "write to a diagonal": lambda x, w: (lambda y: (c["diagonal"](y, 0, 0, 1).copy_(w[:, 0]), y * y)[1])(
        x * 1.0
    ),
    "write to a row": lambda x, w: (lambda y: (y[1].copy_(w[0]), y * y)[1])(x * 1.0),
    "index_put with repeats": lambda x, w: (
        gather_scatter.index_put(x, (DUPLICATES,), w[:1].expand(5, 4), True) * x
    ),
    "gather with repeats": lambda x, w: c["gather"](x, 0, DUPLICATES.reshape(5, 1).expand(5, 4)) * 2.0,
    "index with repeats": lambda x, w: indexing.getitem(x, DUPLICATES) * 1.5,
    "as_strided overlapping": lambda x, w: c["as_strided"](x, (3, 3), (2, 1), 0) * 2.0,
    "unfold overlapping": lambda x, w: c["unfold"](x, 1, 3, 1) * 2.0,
    "expand": lambda x, w: x.reshape(1, 3, 4).expand(2, 3, 4) * w,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    program = GRADIENTS[name]
    assert same_as_eager(default, program, X, W, what=name)
    check_finite_differences(compile_with(default, program, X, W), X, W)


# ---- no_grad inside the function -----------------------------------------------------------------------------


def under_no_grad(graph: Graph, names: set[str]) -> Graph:
    for node in graph.calls:
        if node.target.name in names:
            node.meta["no_grad"] = True
    return graph


def functional_of(program, names, *tensors):
    from stage2_autograd.tests.helpers import capture

    return functionalize(under_no_grad(capture(program, *tensors), names))


def run_of(functional):
    from dataclasses import replace

    from stage0_eager.core_interpreter import interpreter
    from stage2_autograd.runtime.runtime_wrapper import make_runtime_wrapper

    joint = differentiate(functional)
    joint = replace(joint, graph=decompose(joint.graph)).verify()
    halves = partition(joint)
    return make_runtime_wrapper(
        functional, interpreter(halves.forward), interpreter(halves.backward), joint, halves
    )


def test_what_is_computed_under_no_grad_has_no_gradient():
    functional = functional_of(lambda x: x * pointwise.sin(x), {"sin"}, X)
    (x,) = copies((X,))
    (y,) = run_of(functional)(x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.sin(X._data), rtol=1e-12)


def test_a_write_under_no_grad_changes_the_data_and_not_the_history():
    def program(x):
        y = x * 2
        y.mul_(3)
        return y * y

    functional = functional_of(program, {"mul_"}, X)
    (x,) = copies((X,))
    (y,) = run_of(functional)(x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (6 * X._data) * 2, rtol=1e-12)


def test_a_leaf_may_be_written_under_no_grad_and_stays_a_leaf():
    def program(p, g):
        p.sub_(g / 10)
        return p * 2

    functional = functional_of(program, {"sub_", "div"}, X, BUFFER)
    assert functional.writes == functional.silent == (0,)
    p, g = copies((X, BUFFER))
    (y,) = run_of(functional)(p, g)
    assert p.is_leaf and p.requires_grad and p.version == 1
    np.testing.assert_allclose(p.detach().numpy(), X._data - BUFFER._data / 10)
    y.sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), np.full(p.shape, 2.0))


def test_writing_what_requires_grad_through_detach_is_refused():
    from stage_contracts.breaks import Unsupported

    def program(x, w):
        y = x * 2
        y.detach().copy_(w)
        return y

    with pytest.raises(Unsupported, match="through detach"):
        compile_with(default, program, X, W)
