"""What a GPU would compute of random convolutional networks and their gradients, interpreted here: layouts, products in
place of convolutions, halves kept as halves.

Input: the networks of benchmarks/gpu/networks.py, as one graph with the gradients inside, its tensors said to be on a
GPU. The oracle is the graph, operator by operator, by the eager kernels.
"""

import numpy as np
import pytest

import cutaway as ct
from benchmarks.gpu import networks
from stage0_eager.kernels.eager import eager_kernel
from stage3_lowering.interpret import interpret_program
from stage_contracts.device import CPU
from tests.kernels.gpu_programs import CUDA, check_alike, on, program_of


def core_graph(seed):
    """(dtype, the graph of core operators)."""
    dtype, function, tensors = networks.given(seed, "cpu")

    def whole(*leaves):
        return networks.with_gradients(function, leaves)

    compiled = ct.compile(whole, backend="aot_eager", fullgraph=True)
    compiled(*[t.requires_grad_() for t in tensors])
    made = compiled.artifacts[-1]
    return dtype, made.partition.forward


@pytest.mark.parametrize("seed", range(10))
def test_a_network(seed):
    dtype, graph = core_graph(seed)
    draw = np.random.default_rng(seed)
    arrays = [draw.standard_normal(n.val.shape).astype(n.val.dtype.numpy) for n in graph.placeholders]
    arrays = [np.lib.stride_tricks.as_strided(a, a.shape) for a in arrays]
    eager = graph.interpret(
        arrays, lambda node, args, kwargs: eager_kernel(node.target.name)(np, *args, **kwargs)
    )
    got = interpret_program(program_of(on(CUDA, graph)), arrays)
    on(CPU, graph)
    check_alike(got, eager, dtype)
