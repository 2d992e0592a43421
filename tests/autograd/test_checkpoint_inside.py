"""utils.checkpoint inside compiled functions: no break, eager's bits, and nothing saved from inside.

Input: blocks that would save a product and more each, against eager and against the same without checkpoints.
"""

from dataclasses import replace

import numpy as np
import pytest
from cutaway.utils.checkpoint import checkpoint

import cutaway
from stage2_autograd import tiny
from stage_contracts import config
from stage_contracts.graph_reader import parse_graph

LAYERS, SIZE, BATCH = 3, 16, 48


def block(x, w, v):
    """A product whose results the derivatives need, a normalisation and a random mask."""
    h = cutaway.softmax(cutaway.tanh(x @ w), 1)
    return x + cutaway.dropout(h, 0.5, True) @ v


def plain(x, *weights):
    for w, v in zip(weights[::2], weights[1::2], strict=True):
        x = block(x, w, v)
    return (x * x).sum()


def checkpointed(x, *weights):
    for w, v in zip(weights[::2], weights[1::2], strict=True):
        x = checkpoint(block, x, w, v, use_reentrant=False)
    return (x * x).sum()


def by_keyword(x, *weights):
    for w, v in zip(weights[::2], weights[1::2], strict=True):
        x = checkpoint(
            lambda y, w=w, v=None: block(y, w, v), x, v=v, preserve_rng_state=True, use_reentrant=False
        )
    return (x * x).sum()


def nested(x, *weights):
    return checkpoint(lambda y: checkpointed(y, *weights), x, use_reentrant=False)


def inputs():
    rng = np.random.default_rng(0)
    shapes = [(BATCH, SIZE)] + [(SIZE, 4 * SIZE), (4 * SIZE, SIZE)] * LAYERS
    return [cutaway.tensor(rng.normal(size=s) / 4, dtype=cutaway.float64, requires_grad=True) for s in shapes]


def gradients(function):
    cutaway.manual_seed(5)
    tensors = inputs()
    out = function(*tensors)
    out.backward()
    return out.item(), [t.grad.numpy() for t in tensors]


def saved(function):
    """The compiled function, and the values its forward saves."""
    compiled = cutaway.compile(function, backend="aot_eager", fullgraph=True)
    found = gradients(compiled)
    (artifact,) = compiled.artifacts
    return found, artifact.partition


@pytest.mark.parametrize("program", [checkpointed, by_keyword, nested])
def test_bits_are_eagers_and_less_is_saved(program):
    (value, found), partition = saved(program)
    wanted_value, wanted = gradients(program)
    assert value == wanted_value
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(g, w)
    assert partition.saved_bytes < saved(plain)[1].saved_bytes


def test_only_inputs_and_the_results_of_checkpoints_are_saved():
    _, partition = saved(checkpointed)
    wide = [s for s in partition.saved if s.meta.shape == (BATCH, 4 * SIZE)]
    assert wide == []
    narrow = [s for s in partition.saved if s.meta.shape == (BATCH, SIZE)]
    assert len(narrow) == LAYERS + 1  # the input of each block, and of the loss
    products = [n for n in partition.recomputed if n.target.name == "matmul"]
    assert len(products) == LAYERS  # x @ w of each; no rule reads the second product


def test_the_kernels_compute_the_same():
    value, found = gradients(cutaway.compile(checkpointed, backend="inductor", fullgraph=True))
    wanted_value, wanted = gradients(checkpointed)
    assert value == pytest.approx(wanted_value, rel=1e-12)
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-12)


def test_a_budget_may_still_repeat_more():
    with config.patch(activation_memory_budget=0.5):
        (value, found), partition = saved(checkpointed)
    wanted_value, wanted = gradients(checkpointed)
    assert value == wanted_value and partition.saved_bytes <= saved(checkpointed)[1].saved_bytes
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(g, w)


def test_a_break_inside_runs_the_checkpoint_eagerly():
    def inside(x):
        print("", end="")
        return cutaway.sin(x) * x

    def program(x, *weights):
        return checkpoint(inside, x, use_reentrant=False).sum() + plain(x, *weights)

    assert gradients(cutaway.compile(program, backend="aot_eager"))[0] == pytest.approx(
        gradients(program)[0], rel=1e-12
    )


@pytest.mark.parametrize("partitioner", ["min_cut", "recompute_pointwise", "save_everything", "tiny"])
def test_every_partitioner_computes_it_again(partitioner):
    """Products inside a checkpoint are of a kind that none of them would repeat."""
    pipeline = cutaway.DEFAULT_PIPELINE
    if partitioner == "tiny":
        pipeline = replace(pipeline, partition=tiny.partition)
    with config.patch({"autograd.partitioner": "min_cut" if partitioner == "tiny" else partitioner}):
        compiled = cutaway.compile(checkpointed, backend="aot_eager", fullgraph=True, pipeline=pipeline)
        value, found = gradients(compiled)
    wanted_value, wanted = gradients(checkpointed)
    assert value == wanted_value
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(g, w)
    (artifact,) = compiled.artifacts
    products = [n for n in artifact.partition.recomputed if n.target.name == "matmul"]
    assert len(products) >= LAYERS
    assert [s for s in artifact.partition.saved if s.meta.shape == (BATCH, 4 * SIZE)] == []


def test_the_mark_is_in_the_text_of_every_graph_and_reads_back():
    _, partition = saved(checkpointed)
    compiled = cutaway.compile(checkpointed, backend="aot_eager", fullgraph=True)
    gradients(compiled)
    (artifact,) = compiled.artifacts
    for graph in (artifact.captured, artifact.functional.graph, artifact.joint.graph, partition.backward):
        text = str(graph)
        again = parse_graph(text, cutaway.TABLE, graph.attributes)
        assert str(again) == text
        marks = [n.meta.get("checkpoint") for n in graph.calls]
        assert [n.meta.get("checkpoint") for n in again.calls] == marks
        assert len({*marks} - {None}) == LAYERS and 0 in marks
        assert "checkpoint=0" in text
