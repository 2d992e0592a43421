"""Partition: what is saved, once each and with a reason; the other partitioner; wrong ones, which must fail.

Input: joint graphs in core operators.
"""

from __future__ import annotations

import pytest

from stage2_autograd.partition import recompute_pointwise
from stage2_autograd.tests import wrong_partitioners
from stage2_autograd.tests.helpers import (
    activations,
    check_against_eager,
    compile_with,
    dropout,
    normalization,
    pointwise,
    products,
    reductions,
    tensor,
)
from stage2_autograd.tiny import partition as save_everything
from stage_contracts.graph import GraphError

partition_first = pytest.mark.conformance("partition", tier="first")
partition_core = pytest.mark.conformance("partition", tier="core")
partition_full = pytest.mark.conformance("partition")


def mlp(x, w1, b1, w2, b2):
    h = activations.gelu(products.linear(x, w1, b1))
    h = dropout.dropout(normalization.layer_norm(h, (6,)), 0.25)
    return products.linear(h, w2, b2)


MLP = (
    tensor(4, 3, grad=False),
    tensor(6, 3, seed=1),
    tensor(6, seed=2),
    tensor(2, 6, seed=3),
    tensor(2, seed=4),
)


def with_partition(seam, partitioner):
    """The seams of the test with one of them replaced."""
    return lambda name: partitioner if name == "partition" else seam(name)


@partition_first
def test_the_halves_fit_and_together_are_eager(seam):
    """Forward returns the outputs, then what is saved; backward takes what is saved, then the tangents."""
    compiled = check_against_eager(seam, mlp, *MLP)
    part = compiled.partition
    roles = [n.meta["role"] for n in part.backward.placeholders]
    assert roles == ["saved"] * len(part.saved) + ["tangent"]
    assert len(part.backward.outputs) == compiled.joint.num_primals
    assert [n.name for n in part.forward.placeholders] == [
        n.name for n in compiled.joint.graph.placeholders[: compiled.joint.num_primals]
    ]


@partition_first
def test_each_saved_value_is_described(seam):
    """Each saved value is listed once, with its meta, its reason and the lines it came from."""
    part = compile_with(seam, mlp, *MLP).partition
    assert len({s.name for s in part.saved}) == len(part.saved)
    for s, out in zip(part.saved, part.forward.outputs[part.num_outputs :], strict=True):
        assert s.reason and s.name == out.name
        assert (s.meta.shape, s.meta.dtype) == (out.val.shape, out.val.dtype)
        assert not s.meta.requires_grad
        assert s.origins == out.origins
    assert part.saved_bytes == sum(s.meta.nbytes for s in part.saved) > 0


@partition_core
def test_the_backward_reads_nothing_but_what_was_saved(seam):
    """Nothing is saved that the backward does not read."""
    part = compile_with(seam, mlp, *MLP).partition
    assert all(n.users or n in part.backward.outputs for n in part.backward.placeholders)


@partition_first
def test_an_input_that_the_backward_reads_is_saved(seam):
    """An input that the backward reads is saved as any other value."""
    compiled = check_against_eager(seam, lambda x, y: x * y, tensor(3), tensor(3, seed=1))
    assert {s.name for s in compiled.partition.saved} == {"x0", "x1"}


@partition_full
def test_several_outputs_and_no_gradients(seam):
    def program(x, unused, data):
        return pointwise.exp(x) * data, reductions.argmax(x), reductions.softmax(x, 0)

    check_against_eager(seam, program, tensor(5), tensor(5), tensor(5, grad=False))


@partition_full
def test_a_gradient_that_is_the_tangent_or_a_constant(seam):
    check_against_eager(seam, lambda x, y, z: x + y + pointwise.floor(z), tensor(3), tensor(3), tensor(3))


# ---- the two partitioners, whatever is swapped -------------------------------------------------------------


def test_save_everything_computes_nothing_twice_but_views_and_constants(seam):
    part = compile_with(with_partition(seam, save_everything), mlp, *MLP).partition
    again = [n.target.core.kind for n in part.backward.calls if n.meta.get("recomputed")]
    assert set(again) <= {"view", "creation"}


def test_recompute_pointwise_saves_less_and_gives_the_same_bits(seam):
    small = check_against_eager(with_partition(seam, recompute_pointwise), mlp, *MLP, tolerance=0)
    large = check_against_eager(with_partition(seam, save_everything), mlp, *MLP, tolerance=0)
    assert small.partition.saved_bytes < 0.7 * large.partition.saved_bytes
    kinds = {n.target.core.kind for n in small.partition.forward.outputs[1:] if n.op == "call_function"}
    assert kinds <= {"reduction", "contraction"}
    # dropout's bits are drawn again, from the state that was saved: 16 bytes instead of a mask
    assert "random_bits" in [n.target.name for n in small.partition.backward.calls]
    assert "rng" in {s.name for s in small.partition.saved}


def test_cutting_without_what_the_backward_reads_says_so(seam):
    from stage2_autograd.partition.split import split

    joint = compile_with(with_partition(seam, save_everything), mlp, *MLP).decomposed
    with pytest.raises(GraphError, match="the backward graph reads x0, which is neither its input nor saved"):
        split(joint, {})


# ---- wrong partitioners; test_stage2_seams.py runs them through --swap -------------------------------------


def test_planted_errors_are_really_wrong(seam):
    for planted in (wrong_partitioners.saves_the_wrong_value, wrong_partitioners.swaps_two_gradients):
        with pytest.raises(AssertionError):
            check_against_eager(with_partition(seam, planted), mlp, *MLP)
