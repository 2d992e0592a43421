"""Every kernel that a GPU would run of random programs compiles for sm_90, within the memory that a block may have, and
its loops compute what float64 does.

Input: the programs of benchmarks/gpu/compiled.py and networks.py, which `make gpu-compiled` runs on a GPU, by seed.
"""

import numpy as np
import pytest

import cutaway as ct
from benchmarks.gpu import attentions, compiled, networks
from cutaway import Tensor
from stage3_lowering.interpret import interpret_program
from stage3_lowering.triton_interpreter import compile_to_ptx
from tests.kernels.gpu_programs import emitted, inference_graph, program_of, training_graphs

# Found by `make gpu-compiled` on an H200: a load of one element under a mask that is known (1983, 3984, 4281, 4872), a
# value of a loop read after it (networks 0 and 56), attention that needs more shared memory than a block has (1310, 1806).
FOUND = [1310, 1806, 1983, 3984, 4281, 4872]
FOUND_NETWORKS = [0, 56]
# There too: a backward of heads of 256 halves, which needed more shared memory than a block has.
FOUND_ATTENTIONS = [92]
# There too: attention of a scaled matrix with itself lost one of the two scales.
FOUND_VALUES = [1427]
# Found by the same programs, interpreted: a product of one row, turned, was taken for a product of many; a column for a row.
FOUND_GRADIENTS = [1599, 3768]


def graphs_of(function, tensors):
    if not any(t.requires_grad for t in tensors):
        return [inference_graph(function, tensors)[0]]
    partition, _ = training_graphs(function, tensors)
    return [partition.forward, partition.backward]


def compiles(graph):
    for name, kernel in compile_to_ptx(emitted(program_of(graph))).items():
        assert ".entry" in kernel["ptx"], name


def given(seed):
    dtype, ((_, rows), (_, columns)), function = compiled.random_program(seed)
    draws = np.random.default_rng(seed).standard_normal((2, rows, columns)).astype(np.float32)
    return dtype, function, [Tensor(d).to(getattr(ct, dtype)).requires_grad_(seed % 3 == 0) for d in draws]


@pytest.mark.parametrize("seed", [*FOUND, *range(8)])
def test_a_program(seed):
    _, function, tensors = given(seed)
    try:
        function(*tensors)
    except (RuntimeError, ValueError, IndexError):
        return  # eager has none
    for graph in graphs_of(function, tensors):
        compiles(graph)


@pytest.mark.parametrize("seed", [*FOUND_ATTENTIONS, *range(2)])
def test_an_attention(seed):
    _, function, tensors = attentions.given(seed, "cpu")
    tensors = [t.requires_grad_() for t in tensors]
    for graph in graphs_of(lambda *given: function(*given).float().sum(), tensors):
        compiles(graph)


@pytest.mark.parametrize("seed", [*FOUND_VALUES, *(k for k in range(24) if k % 3)])  # without gradients
def test_what_it_computes(seed):
    dtype, function, tensors = given(seed)
    try:
        wanted = function(*[t.double() for t in tensors])
        rounded = function(*tensors)
    except (RuntimeError, ValueError, IndexError):
        return  # eager has none
    graph, inputs = inference_graph(function, tensors)
    got = interpret_program(program_of(graph), [t.numpy() for t in inputs])
    assert not compiled.difference([*got], compiled.flat(rounded), compiled.flat(wanted), dtype)


@pytest.mark.parametrize("seed", [*FOUND_GRADIENTS, *range(0, 45, 3)])  # with gradients
def test_what_its_gradients_are(seed):
    dtype, function, tensors = given(seed)
    try:
        wanted, rounded = (gradients(function, [t.detach().to(to) for t in tensors])
                           for to in (ct.float64, tensors[0].dtype))  # fmt: skip
    except (RuntimeError, ValueError, IndexError):
        return  # eager has none
    cut, inputs = training_graphs(function, tensors)
    forward, backward = program_of(cut.forward), program_of(cut.backward)
    by_name = dict(zip((p.name for p in cut.forward.placeholders), inputs, strict=True))
    made = interpret_program(forward, [by_name[name].detach().numpy() for name in forward.inputs])
    saved = {node.name: array for node, array in zip(cut.forward.outputs, made, strict=True)}
    tangents = [np.ones(n.val.shape, n.val.dtype.numpy) for n in cut.backward.placeholders[len(cut.saved) :]]
    got = interpret_program(backward, [*(saved[s.name] for s in cut.saved), *tangents])
    given_to = {id(t): grad for t, grad in zip(inputs, got, strict=True)}
    ours = [g for t in tensors if (g := given_to.get(id(t))) is not None]
    assert not compiled.difference(ours, compiled.flat(rounded), compiled.flat(wanted), dtype)


def gradients(function, leaves):
    """Of the sum of the results, those apart that are inputs, or views of them: the graph does not give these."""
    leaves = [t.requires_grad_() for t in leaves]
    out = [o for o in function(*leaves) if all(o is not t and o._base is not t for t in leaves)]
    return [g for g in ct.autograd.grad([o.sum() for o in out], leaves, allow_unused=True) if g is not None]


@pytest.mark.parametrize("seed", FOUND_NETWORKS)
def test_a_network(seed):
    _, function, tensors = networks.given(seed, "cpu")
    for graph in graphs_of(function, [t.requires_grad_() for t in tensors]):
        compiles(graph)
