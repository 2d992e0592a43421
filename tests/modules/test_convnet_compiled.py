"""A small convolutional network, compiled: values, gradients and one training step are what eager gives.

Input: convolutions (grouped, strided, transposed), pools and enlarging in one module; seeded data.
"""

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway
from cutaway import nn


class Net(nn.Module):
    """Down by a strided convolution and a pool, up by a transposed one and by interpolation, then to classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.grouped = nn.Conv2d(8, 8, 3, padding=1, groups=4, bias=False)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(4, 5, 1)

    def forward(self, x):
        x = self.pool(F.relu(self.stem(x)))
        x = F.relu(self.grouped(x)) + F.interpolate(F.avg_pool2d(x, 2), scale_factor=2, mode="nearest")
        x = F.interpolate(self.up(x), size=(9, 9), mode="bilinear")
        return F.adaptive_avg_pool2d(self.out(x), 1).flatten(1)


def step(net, model, x, target):
    """The loss, the input's gradient and every parameter's."""
    for p in net.parameters():
        p.grad = None
    x = x.detach().clone()
    x.requires_grad = True
    loss = F.cross_entropy(model(x), target)
    loss.backward()
    return [t.detach().numpy().copy() for t in (loss, x.grad, *(p.grad for p in net.parameters()))]


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_convnet_is_eager(dynamic):
    cutaway.manual_seed(0)
    net = Net()
    target = cutaway.tensor([1, 4])
    compiled = cutaway.compile(net, fullgraph=True, dynamic=dynamic)
    for height, width in (
        (16, 16),
        (24, 16),
    ):  # the second shape compiles again, or runs with sizes as symbols
        x = cutaway.randn(2, 3, height, width)
        for ours, theirs in zip(step(net, compiled, x, target), step(net, net, x, target), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_backends(backend):
    cutaway.manual_seed(1)
    net, x = Net(), cutaway.randn(1, 3, 16, 16)
    with cutaway.no_grad():
        got = cutaway.compile(net, backend=backend)(x).numpy()
        np.testing.assert_allclose(got, net(x).numpy(), rtol=1e-6, atol=1e-7)
