"""Functionalize: mutation renamed, written inputs as outputs, random state as an input, aliasing refused.

Input: small programs with in-place operators. What comes out is compared with eager, written inputs included.
"""

from __future__ import annotations

import numpy as np
import pytest

from stage0_eager import TABLE, Tensor
from stage0_eager.core_interpreter import interpreter
from stage0_eager.random.generator import default_generator, manual_seed
from stage2_autograd.functionalize import functionalize
from stage2_autograd.runtime.runtime_wrapper import make_runtime_wrapper
from stage2_autograd.tests.helpers import (
    activations,
    capture,
    check_against_eager,
    compile_with,
    creation,
    dropout,
    pointwise,
    reads_back,
    shape,
    tensor,
)
from stage_contracts.breaks import Unsupported
from stage_contracts.dtype import float32
from stage_contracts.layouts import is_dense

functionalize_first = pytest.mark.conformance("functionalize", tier="first")
functionalize_core = pytest.mark.conformance("functionalize", tier="core")
functionalize_full = pytest.mark.conformance("functionalize")


def functional(seam, function, *tensors):
    made = seam("functionalize")(capture(function, *tensors)).verify()
    reads_back(made.graph)
    return made


# ---- writes ------------------------------------------------------------------------------------------------


def write_a_temporary(x):
    y = x * 2
    y.add_(1)
    return y * y


def write_twice(x):
    y = x.clone()
    y.add_(x)
    z = y + 1
    y.sub_(z)
    return y, z


def write_an_input(x, buffer):
    buffer.mul_(0.9)
    buffer.add_(x.detach() * 0.1)
    return x * buffer


def write_and_return_an_input(x, buffer):
    buffer.add_(1)
    return buffer, x + 1


def write_broadcast(x, buffer):
    buffer.copy_(x.sum())
    return x * 3


def exchange_inputs(x, a, b):
    old = a.clone()
    a.copy_(b)
    b.copy_(old)
    return x + 1


def write_with_other_dtype(x, buffer):
    buffer.copy_(x.to(float32))
    return x * 2


def zero_and_fill(x, buffer):
    buffer.zero_()
    y = x * 1
    y.fill_(2.0)
    return y * x


_buffer = tensor(2, 3, seed=5, grad=False)
_WRITES = {
    "temporary": (write_a_temporary, (tensor(2, 3),)),
    "twice": (write_twice, (tensor(2, 3),)),
    "input": (write_an_input, (tensor(2, 3), _buffer)),
    "return input": (write_and_return_an_input, (tensor(2, 3), _buffer)),
    "broadcast": (write_broadcast, (tensor(2, 3), _buffer)),
    "exchange": (exchange_inputs, (tensor(2, 3), _buffer, tensor(2, 3, seed=6, grad=False))),
    "dtype": (write_with_other_dtype, (tensor(2, 3), _buffer)),
    "zero and fill": (zero_and_fill, (tensor(2, 3), _buffer)),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n,
            marks={"temporary": functionalize_first, "input": functionalize_core}.get(n, functionalize_full),
        )
        for n in _WRITES
    ],
)
def test_writes_are_as_in_eager(seam, name):
    function, tensors = _WRITES[name]
    check_against_eager(seam, function, *tensors)


@functionalize_first
def test_written_inputs_are_extra_outputs(seam):
    """An input that is written becomes an extra output; no node of the graph writes."""
    made = functional(seam, write_an_input, tensor(2, 3), _buffer)
    assert made.writes == (1,) and made.num_outputs == 1 and len(made.graph.outputs) == 2
    assert not any(n.target.mutates for n in made.graph.calls)


@functionalize_full
def test_an_input_written_from_a_gradient_gets_a_gradient_itself(seam):
    """Where eager puts a written non-leaf on the tape, so does the pair."""

    def accumulate(x, total):
        total.add_(x * x)
        return x * 1.0

    def program(run):
        x, total = tensor(2, 3), tensor(2, 3, seed=1, grad=False)
        run(x, total)
        assert total.requires_grad and not total.is_leaf
        (total * 3).sum().backward()
        return x.grad.numpy()

    compiled = compile_with(seam, accumulate, tensor(2, 3), tensor(2, 3, seed=1, grad=False))
    np.testing.assert_allclose(program(compiled.run), program(accumulate), rtol=1e-12)


@functionalize_full
def test_a_written_leaf_raises_as_in_eager(seam):
    compiled = compile_with(seam, lambda x: x.add_(1) * 2, tensor(3))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        compiled.run(tensor(3))


# ---- refusals ----------------------------------------------------------------------------------------------


def write_through_a_view(x):
    y = x * 2
    y[0].add_(1)
    return y


def write_under_a_view(x):
    y = x * 2
    v = y.reshape(6)
    y.add_(1)
    return v * 1


def write_an_expanded(x):
    y = (x * 2).sum()
    return shape.expand(y, (3,)).add_(1)


_ALIASING = {
    "write through a view": write_through_a_view,
    "write under a view": write_under_a_view,
    "view of an input": lambda x: x.reshape(6),
    "detached input": lambda x: (x.detach(), x * 2),
    "view and its base": lambda x: (lambda y: (y, y.reshape(6)))(x * 2),
}


@functionalize_full
@pytest.mark.parametrize("name", _ALIASING)
def test_aliasing_the_user_could_see_is_as_in_eager_or_refused(seam, name):
    """The tiny seam refuses, and the frame runs eagerly; what an implementation accepts has to be right."""
    try:
        check_against_eager(seam, _ALIASING[name], tensor(2, 3))
    except Unsupported as refusal:
        assert refusal.graph_break.code == "GB0008"


@functionalize_full
def test_a_write_to_an_expanded_tensor_is_refused_at_the_users_line(seam):
    with pytest.raises(Unsupported) as caught:
        functional(seam, write_an_expanded, tensor(2, 3))
    assert caught.value.graph_break.code == "GB0008"
    assert caught.value.graph_break.origin.line == 4


@functionalize_full
def test_a_write_after_the_view_is_gone_is_no_aliasing(seam):
    def program(x):
        y = x * 2
        total = y.reshape(6).sum()
        y.add_(1)
        return y * total

    check_against_eager(seam, program, tensor(2, 3))


@functionalize_full
def test_a_write_to_a_constant_is_refused(seam):
    constant = Tensor(np.zeros(3))
    graph = capture(lambda x: x + constant, tensor(3))
    node = graph.calls[0]
    with graph.inserting_before(node):
        graph.call_function(TABLE["cutaway.add_"], (node.args[1], 1), val=node.args[1].val)
    with pytest.raises(Unsupported, match="constant"):
        seam("functionalize")(graph.verify())


# ---- results that are inputs, or one tensor twice ----------------------------------------------------------


@functionalize_first
def test_an_input_handed_back_is_that_tensor(seam):
    """An input that is returned is that input, not a copy."""
    compiled = compile_with(seam, lambda x, y: (y, x * 2, y), tensor(3), tensor(3, seed=1))
    x, y = tensor(3), tensor(3, seed=1)
    first, second, third = compiled.run(x, y)
    assert first is y and third is y and second is not x
    assert compiled.functional.results == (("input", 1), ("output", 0), ("input", 1))


@functionalize_full
def test_one_tensor_twice_is_one_tensor_twice(seam):
    def program(x):
        y = x * 2
        return y, y + 1, y

    a, _, b = compile_with(seam, program, tensor(3)).run(tensor(3))
    assert a is b


@functionalize_full
def test_tensors_apart_in_eager_do_not_share_memory(seam):
    def program(x):
        y = x * 2
        z = creation.zeros(3, dtype=x.dtype)
        z.copy_(y)
        w = creation.zeros(3, dtype=x.dtype)
        w.copy_(x)
        return y, z, w

    compiled = check_against_eager(seam, program, tensor(3))
    x = tensor(3)
    outputs = compiled.run(x)
    arrays = [x._data, *(o._data for o in outputs)]
    assert not any(np.may_share_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


# ---- random state ------------------------------------------------------------------------------------------


def two_masks(x):
    return dropout.dropout(dropout.dropout(x, 0.5) + 1, 0.3)


@functionalize_core
def test_the_random_state_is_the_last_input(seam):
    """The state of the random generator is the last input, and its next state the last output."""
    made = functional(seam, two_masks, tensor(8))
    assert made.rng_calls == 2
    assert [n.meta["role"] for n in made.graph.placeholders] == ["primal", "rng"]


@functionalize_core
def test_random_bits_are_eagers_and_the_generator_moves_on_alike(seam):
    """Random draws are those of eager, and the generator moves on by as much."""
    compiled = check_against_eager(seam, two_masks, tensor(50), tolerance=0)
    for run in (compiled.run, lambda x: (two_masks(x),)):
        manual_seed(5)
        first, second = run(tensor(50))[0], run(tensor(50))[0]
        assert not np.array_equal(first._data, second._data)
        assert default_generator().counter == 4


@functionalize_full
def test_inference_draws_the_same_bits(seam):
    made = seam("functionalize")(capture(two_masks, tensor(20, grad=False)))
    run = make_runtime_wrapper(made, interpreter(seam("decompose")(made.graph)))
    manual_seed(5)
    (got,) = run(tensor(20, grad=False))
    manual_seed(5)
    np.testing.assert_array_equal(got._data, two_masks(tensor(20, grad=False))._data)


# ---- origins -----------------------------------------------------------------------------------------------


@functionalize_core
def test_every_node_has_the_origin_of_what_it_came_from(seam):
    """Each node keeps the line of the program that it came from."""
    made = functional(seam, lambda x: pointwise.sin(activations.gelu(x)), tensor(3))
    texts = {n.name: n.origins[0].text for n in made.graph.calls}
    assert texts["sin"] == "sin(...)" and texts["erf"] == "gelu(...)" == texts["gelu"]


def test_a_result_with_gaps_or_overlaps_is_what_it_is_a_view_of():
    """What computes an output lays it out densely (seeds 949, 5649, 7849, 9549 with inductor): the views stay outside."""

    def program(x):
        y = x * 2
        return y[:, 0], x.sum().expand(3), (x + 1).unfold(-1, 2, 1), x.neg().mT

    found = functionalize(capture(program, tensor(2, 3)))
    assert all(is_dense(n.val.shape, n.val.strides) for n in found.graph.outputs)
    assert [[op.name for op, _ in views] for _, _, *views in found.results] == [
        ["slice", "reshape"],
        ["expand"],
        ["unfold"],
        [],
    ]
