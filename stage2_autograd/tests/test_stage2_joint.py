"""Differentiate: the joint graph's conventions, which gradients exist, and where backward nodes came from.

Input: functional graphs made by the seam before it.
"""

from __future__ import annotations

import pytest

from stage0_eager import Tensor
from stage2_autograd.tests.helpers import (
    activations,
    capture,
    check_against_eager,
    integers,
    pointwise,
    products,
    reads_back,
    reductions,
    shape,
    tensor,
)
from stage_contracts.layouts import is_dense

differentiate_first = pytest.mark.conformance("differentiate", tier="first")
differentiate_core = pytest.mark.conformance("differentiate", tier="core")
differentiate_full = pytest.mark.conformance("differentiate")


def joint_of(seam, function, *tensors):
    joint = seam("differentiate")(seam("functionalize")(capture(function, *tensors)).verify()).verify()
    reads_back(joint.graph)
    return joint


def gradients_of(joint):
    return joint.graph.outputs[joint.num_outputs :]


@differentiate_first
def test_primals_then_tangents_outputs_then_gradients(seam):
    """The joint graph takes primals, then tangents, and returns outputs, then gradients."""
    joint = joint_of(seam, products.linear, tensor(4, 3), tensor(5, 3), tensor(5))
    assert [n.meta["role"] for n in joint.graph.placeholders] == ["primal"] * 3 + ["tangent"]
    assert (joint.num_primals, joint.num_outputs, joint.tangent_outputs) == (3, 1, (0,))
    output, *gradients = joint.graph.outputs
    assert joint.graph.placeholders[3].val == output.val
    for primal, gradient in zip(joint.graph.placeholders, gradients, strict=False):
        assert gradient.val.shape == primal.val.shape and gradient.val.dtype is primal.val.dtype


@differentiate_first
def test_no_gradient_is_none(seam):
    """An input without a gradient has None in its place."""

    def program(x, unused, data, ids):
        return x * data + shape.gather(x, 0, ids)

    joint = joint_of(seam, program, tensor(3), tensor(3), tensor(3, grad=False), integers(3, high=3))
    assert [g is not None for g in gradients_of(joint)] == [True, False, False, False]


@differentiate_full
def test_zeros_where_eager_gives_zeros(seam):
    check_against_eager(seam, lambda x, y: pointwise.floor(x) + y, tensor(3), tensor(3))


@differentiate_full
def test_only_floating_outputs_that_depend_get_a_tangent(seam):
    def program(x, data):
        return reductions.argmax(x, 0), x * 2, data + 1, x.detach() * 3

    joint = joint_of(seam, program, tensor(4), tensor(4, grad=False))
    assert joint.tangent_outputs == (1,)
    check_against_eager(seam, program, tensor(4), tensor(4, grad=False))


@differentiate_full
def test_nothing_to_differentiate(seam):
    joint = joint_of(seam, lambda x: x.detach() * 2, tensor(3))
    assert joint.tangent_outputs == () and gradients_of(joint) == (None,)


@differentiate_core
def test_several_outputs(seam):
    """Each floating output that depends on a parameter has a tangent of its own."""

    def program(x, w):
        h = pointwise.tanh(products.matmul(x, w))
        return h, h.sum(), pointwise.exp(x)

    compiled = check_against_eager(seam, program, tensor(2, 3), tensor(3, 4))
    assert compiled.joint.tangent_outputs == (0, 1, 2)


@differentiate_full
def test_a_value_read_twice_adds_its_gradients(seam):
    check_against_eager(seam, lambda x: x * x + pointwise.sin(x) * x, tensor(3))


@differentiate_core
def test_backward_nodes_have_the_origin_of_the_forward_call_they_differentiate(seam):
    """A node of the backward names the line whose derivative it is."""

    def program(x, w):
        return activations.gelu(products.linear(x, w))

    joint = joint_of(seam, program, tensor(4, 3), tensor(5, 3))
    backward = [n for n in joint.graph.calls if n.meta["region"] == "backward"]
    assert backward and all(n.origins for n in backward)
    texts = {n.target.name: n.origins[0].text for n in backward}
    assert texts["exp"] == "gelu(...)" and texts["matmul"] == "linear(...)"


@differentiate_full
def test_a_composite_with_its_own_derivative_stays_one_call_with_it(seam):
    joint = joint_of(seam, lambda x: reductions.softmax(x, 1), tensor(2, 3))
    assert [n.target.qualname for n in joint.graph.calls if n.meta["region"] == "forward"] == [
        "cutaway.softmax"
    ]


@differentiate_full
def test_dead_code_is_gone(seam):
    def program(x):
        pointwise.exp(x)
        return pointwise.sin(x)

    names = [n.target.name for n in joint_of(seam, program, tensor(3)).graph.calls]
    assert names == ["sin", "cos", "mul"]


@differentiate_full
def test_a_tangent_of_an_expanded_output_is_dense(seam):
    def program(x):
        return shape.expand(reductions.sum(x, 0, True), (4, 3)) * 1.0, shape.expand(x.sum(), (2, 2))

    joint = joint_of(seam, program, tensor(2, 3))
    tangent = joint.graph.placeholders[-1].val
    assert is_dense(tangent.shape, tangent.strides)
    check_against_eager(seam, program, tensor(2, 3))


@differentiate_full
def test_constants_of_the_graph_stay_constants(seam):
    constant = Tensor(tensor(3, seed=9)._data)
    compiled = check_against_eager(seam, lambda x: x * constant, tensor(3))
    assert list(compiled.joint.graph.attributes.values()) == [constant]
