"""Layers that stage 0 adds as composites, compiled: the same values and gradients as eager.

Input: small modules and float32 tensors, through the default backend.
"""

import numpy as np
import pytest

import cutaway
from cutaway import nn

CASES = {
    "encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    "batch norm": (lambda: nn.BatchNorm2d(3), (4, 3, 5, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "rms norm": (lambda: nn.RMSNorm(6), (3, 6)),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_equals_eager_in_eval(name):
    build, shape = CASES[name]
    cutaway.manual_seed(3)
    module = build().eval()
    x = cutaway.randn(*shape)
    np.testing.assert_allclose(
        cutaway.compile(module)(x).detach().numpy(), module(x).detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_batch_norm_trains_compiled():
    x = cutaway.randn(4, 3, 5, 5)
    eager, compiled = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    step = cutaway.compile(compiled)
    for _ in range(2):
        out, expected = step(x), eager(x)
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    for name, state in eager.state_dict().items():
        np.testing.assert_allclose(compiled.state_dict()[name].numpy(), state.numpy(), rtol=1e-5, atol=1e-6)


def test_batch_norm_in_training_is_one_graph_without_a_break():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True))
    twin = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True))
    twin.load_state_dict(net.state_dict())
    compiled = cutaway.compile(net, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        x = cutaway.randn(16, 4)
        np.testing.assert_allclose(
            compiled(x).detach().numpy(), twin(x).detach().numpy(), rtol=1e-5, atol=1e-6
        )
    for name, value in twin.state_dict().items():
        np.testing.assert_allclose(net.state_dict()[name].numpy(), value.numpy(), rtol=1e-5, err_msg=name)
