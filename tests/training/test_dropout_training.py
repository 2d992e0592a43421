"""Training with dropout: eager, aot_eager and every partition draw the same bits, forward and backward, step after step.

Input: a small network with two dropouts. A recomputed mask is drawn again, from the state that was saved.
"""

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway
from cutaway import nn
from stage_contracts import config

STEPS = 3
PARTITIONS = [
    {"autograd.partitioner": "save_everything"},
    {"autograd.partitioner": "recompute_pointwise"},
    {"autograd.partitioner": "min_cut"},
    {"autograd.activation_memory_budget": 0.5},
    {"autograd.activation_memory_budget": 0.0},
]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        h = F.dropout(F.relu(self.first(x)), 0.5, self.training)
        return F.dropout(F.gelu(self.second(h)), 0.25, self.training)


def train(wrap, patch=None):
    """Every loss, output, gradient and parameter of a few steps."""
    cutaway.manual_seed(11)
    net = Net()
    call = wrap(net)
    optimizer = cutaway.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = cutaway.tensor(np.random.default_rng(0).normal(size=(6, 8)), dtype=cutaway.float32)
    seen = []
    with config.patch(patch or {}):
        for _ in range(STEPS):
            out = call(x)
            optimizer.zero_grad()
            (out * out).sum().backward()
            seen += [out.detach().numpy(), *(p.grad.numpy().copy() for p in net.parameters())]
            optimizer.step()
    partition = getattr(call, "artifacts", [None])[0]
    return [*seen, *(p.detach().numpy() for p in net.parameters()), cutaway.rand(3).numpy()], partition


@pytest.mark.parametrize("patch", PARTITIONS, ids=lambda p: str(next(iter(p.values()))))
def test_every_partition_gives_eagers_bits(patch):
    wanted, _ = train(lambda net: net)
    found, artifact = train(lambda net: cutaway.compile(net, backend="aot_eager", fullgraph=True), patch)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    draws = [n for n in artifact.partition.backward.calls if n.target.name == "random_bits"]
    assert bool(draws) == (patch.get("autograd.partitioner") != "save_everything")


@pytest.mark.parametrize("patch", PARTITIONS[:3], ids=lambda p: str(next(iter(p.values()))))
def test_the_kernels_draw_the_same_bits(patch):
    """What dropout zeroes is zero in both, forward and backward; the rest agrees to rounding."""
    wanted, _ = train(lambda net: net)
    found, _ = train(lambda net: cutaway.compile(net, backend="inductor", fullgraph=True), patch)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a == 0, b == 0)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert (wanted[0] == 0).any() and (wanted[0] != 0).any()
