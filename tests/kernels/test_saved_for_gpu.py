"""What the two graphs of a network pass on a GPU: nothing is turned or computed again between them, and values are right.

Input: a residual block, and the random networks of benchmarks/gpu/networks.py. Their joint graphs are said to be on a
GPU, cut, and both halves interpreted here. The oracle is the joint graph, operator by operator, by the eager kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway as ct
from benchmarks.gpu import networks
from stage0_eager.kernels.eager import eager_kernel
from stage2_autograd.partition import partition
from stage3_lowering.interpret import interpret_program
from stage3_lowering.triton_interpreter import run_in_interpreter
from stage_contracts.device import CPU
from stage_contracts.graph import meta_of
from stage_contracts.program import External, Launch
from tests.kernels.gpu_programs import CUDA, UNITS, check_alike, emitted, on, program_of


def joint_of(function, tensors, device=CPU):
    """The joint graph in core operators, as for tensors of that device."""
    compiled = ct.compile(function, backend="aot_eager", fullgraph=True)
    compiled(*tensors)
    functional, pipeline = compiled.artifacts[-1].functional, ct.DEFAULT_PIPELINE
    on(device, functional.graph)
    joint = pipeline.differentiate(functional)
    return replace(joint, graph=pipeline.decompose(joint.graph)).verify()


def residual_block(x, w1, g1, b1, w2, g2, b2, w3, g3, b3):
    norm = lambda y, gain, shift: F.batch_norm(y, None, None, 1 + gain, shift, True)  # noqa: E731
    y = F.relu(norm(F.conv2d(x, w1), g1, b1))
    y = F.relu(norm(F.conv2d(y, w2, padding=1), g2, b2))
    return F.relu(x + norm(F.conv2d(y, w3), g3, b3))


def block_tensors(images=32, channels=64, side=28):
    inner = channels // 4
    weights = (inner, channels, 1, 1), (inner, inner, 3, 3), (channels, inner, 1, 1)
    shapes = [(images, channels, side, side)]
    shapes += [s for w in weights for s in (w, w[:1], w[:1])]
    return [ct.randn(*s).to(ct.bfloat16).requires_grad_() for s in shapes]


@pytest.fixture(scope="module")
def block():
    return joint_of(residual_block, block_tensors(), CUDA)


def test_what_is_saved_lies_as_the_forward_laid_it_out(block):
    images = [s for s in partition(block).saved if s.meta.ndim == 4 and s.meta.shape[0] == 32]
    kept = [s for s in images if s.name.endswith("_rows")]
    # three results of convolutions, and the two that a convolution reads; the block's input is what it is
    assert len(kept) == 5 and len(images) == 6
    assert all(s.meta.is_contiguous and s.meta.shape[1:3] == (28, 28) for s in kept)


def test_the_kernels_of_a_residual_block(block):
    cut = partition(block)
    counts = {}
    for half in (cut.forward, cut.backward):
        program = program_of(half)
        names = Counter(
            re.sub(r"_\d+", "", step.kernel) for step in program.steps if isinstance(step, Launch)
        )
        copies = [
            program.buffers[step.buffers[-1]].meta
            for step in program.steps
            if isinstance(step, Launch) and step.kernel.startswith("fused_copy")
        ]
        counts[half.name] = sum(names.values()), sum(m.shape[0] == 32 for m in copies)
        assert sum(isinstance(step, External) for step in program.steps) == (3 if half is cut.forward else 6)
    # two levels of sums and what follows them for each norm; of the images only the input is turned, for each half
    assert counts == {"forward": (11, 1), "backward": (14, 1)}


def test_nothing_of_it_on_a_cpu():
    cut = partition(joint_of(residual_block, block_tensors(2, 16, 5)))
    assert not [s for s in cut.saved if s.name.endswith("_rows")]
    assert not [s for s in cut.saved if s.name.startswith("relu")]


def test_statistics_of_channels_are_saved_and_not_computed_again(block):
    cut = partition(block)
    again = Counter(n.target.name for n in cut.recomputed)
    assert "rsqrt" not in again
    reasons = {s.reason for s in cut.saved}
    assert "a few numbers that the forward reduced" in reasons
    assert "in memory for a call of the forward, and a call of the backward reads it" in reasons


def stem(x, w, gain, shift, w1):
    y = F.batch_norm(F.conv2d(x, w, None, 2, 3), None, None, 1 + gain, shift, True)
    return F.conv2d(F.max_pool2d(F.relu(y), 3, 2, 1), w1).float().mean((2, 3))


def test_a_pool_is_never_turned():
    shapes = (8, 3, 64, 64), (64, 3, 7, 7), (64,), (64,), (64, 64, 1, 1)
    cut = partition(joint_of(stem, [ct.randn(*s).to(ct.bfloat16).requires_grad_() for s in shapes], CUDA))
    for half in (cut.forward, cut.backward):
        program = program_of(half)
        images = [b for b in program.buffers.values() if b.meta.ndim == 4 and b.meta.shape[0] == 8]
        own = [b for b in images if b.role == "temporary"]
        assert len(own) > 1 and all(b.meta.strides[1] == 1 for b in own)
        assert "scatter_add" not in {step.target for step in program.steps if isinstance(step, External)}
        assert not {b.meta.dtype.name for b in images} & {"int64", "float32"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("pool", [(3, 2, 1), (2, 2, 0), (3, 1, 1), (2, 3, 0)], ids=str)
def test_the_kernels_of_a_pool(pool, dtype):
    run = lambda x: F.max_pool2d(F.relu(x * 2), *pool)  # noqa: E731
    x = ct.from_numpy(np.random.default_rng(0).integers(-3, 4, (2, 8, 9, 7)).astype(np.float32))
    x = x.to(getattr(ct, dtype)).requires_grad_()
    cut = partition(joint_of(run, [x], CUDA))
    made = run_in_interpreter(emitted(program_of(cut.forward)), [x.detach().numpy()])
    y = run(x)
    g = ct.randn(*y.shape).to(x.dtype)
    np.testing.assert_array_equal(made[0], y.detach().numpy())
    (got,) = run_in_interpreter(emitted(program_of(cut.backward)), [*made[1:], g.numpy()])
    wide = x.detach().float().requires_grad_()  # halves are rounded once, at the end
    (wanted,) = ct.autograd.grad(run(wide), wide, g.float())
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.numpy().astype(np.float64), rtol=UNITS[dtype], atol=UNITS[dtype]
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_network_in_two_halves(seed):
    dtype, function, tensors = networks.given(seed, "cpu")

    def loss(*leaves):
        out, pooled = function(*leaves)
        return (pooled * pooled).sum() + out.float().sum()

    leaves = [t.detach().requires_grad_() for t in tensors]
    joint, on_gpu = joint_of(loss, leaves), joint_of(loss, leaves, CUDA)
    draw = np.random.default_rng(seed)
    arrays = [
        np.array(draw.standard_normal(n.val.shape), n.val.dtype.numpy) for n in joint.graph.placeholders
    ]
    primals, tangents = arrays[: joint.num_primals], arrays[joint.num_primals :]
    eager = joint.graph.interpret(
        arrays, lambda node, args, kwargs: eager_kernel(node.target.name)(np, *args, **kwargs)
    )
    cut = partition(on_gpu)
    made = interpret_program(program_of(cut.forward), primals)
    saved = made[cut.num_outputs :]
    for array, node in zip(saved, cut.backward.placeholders, strict=False):
        assert array.shape == tuple(meta_of(node).shape)
    got = (*made[: cut.num_outputs], *interpret_program(program_of(cut.backward), [*saved, *tangents]))
    check_alike(got, eager, dtype)
