"""Computed parameters: parametrize, weight and spectral norm, orthogonal weights; beside torch, compiled, saved.

Input: small layers with the same numbers here and in torch.
"""

import numpy as np
import pytest

from cutaway.torch_api import as_torch
from cutaway.torch_api import torch as ours

VALUES = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def layer(torch, values=VALUES):
    made = torch.nn.Linear(values.shape[1], values.shape[0])
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(values.copy()))
        made.bias.zero_()
    return made


def languages():
    yield ours
    try:
        import torch
        import torch.nn.utils.parametrize
    except ImportError:
        return
    yield torch


def symmetric(torch):
    class Symmetric(torch.nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).transpose(-1, -2)

        def right_inverse(self, A):
            return A.triu()

    return Symmetric()


def steps(torch, kind):
    """What a layer gives and holds, before and after a step of training, and when the norm is removed."""
    utils, module = torch.nn.utils, layer(torch, VALUES[:, :3] if kind == "own" else VALUES)
    if kind == "own":
        utils.parametrize.register_parametrization(module, "weight", symmetric(torch))
    elif kind == "old weight norm":
        utils.weight_norm(module)
    elif kind == "weight norm":
        utils.parametrizations.weight_norm(module)
    elif kind == "weight norm of all":
        utils.parametrizations.weight_norm(module, dim=None)
    found = [sorted(module.state_dict()), sorted(name for name, _ in module.named_parameters())]
    x = torch.from_numpy(VALUES[:, : module.in_features].copy())
    (module(x) ** 2).sum().backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.1 * parameter.grad
    found.append(module(x).detach().numpy())
    if kind == "old weight norm":
        utils.remove_weight_norm(module)
    else:
        assert utils.parametrize.is_parametrized(module, "weight")
        utils.parametrize.remove_parametrizations(module, "weight")
    assert type(module) is torch.nn.Linear and isinstance(module.weight, torch.nn.Parameter)
    return [*found, module(x).detach().numpy(), sorted(module.state_dict())]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["own", "weight norm", "weight norm of all", "old weight norm"])
def test_a_computed_weight_trains_as_in_torch(kind):
    mine, *theirs = (steps(torch, kind) for torch in languages())
    assert np.allclose(mine[2], mine[3], atol=1e-6)
    for expected in theirs:
        for got, wanted in zip(mine, expected, strict=True):
            assert np.allclose(got, wanted, atol=1e-5) if isinstance(got, np.ndarray) else got == wanted


@pytest.mark.parametrize("old", [False, True])
def test_spectral_norm_is_one(old):
    utils, module = ours.nn.utils, layer(ours)
    (utils.spectral_norm if old else utils.parametrizations.spectral_norm)(module)
    for _ in range(30):
        module(ours.ones(1, 4))
    assert np.isclose(np.linalg.norm(module.weight.detach().numpy(), 2), 1, atol=1e-4)
    names = sorted(module.state_dict())
    assert names == (
        ["bias", "weight_orig", "weight_u", "weight_v"]
        if old
        else [
            "bias",
            "parametrizations.weight.0._u",
            "parametrizations.weight.0._v",
            "parametrizations.weight.original",
        ]
    )
    module.eval()
    before = module(ours.ones(1, 4))
    if old:
        utils.remove_spectral_norm(module)
        assert ours.allclose(module(ours.ones(1, 4)), before, atol=1e-5)


@pytest.mark.parametrize("map_", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal_weights(shape, map_):
    values = np.linalg.qr(np.random.default_rng(1).normal(size=[max(shape)] * 2))[0][
        : shape[0], : shape[1]
    ].astype(np.float32)
    module = layer(ours, values)
    ours.nn.utils.parametrizations.orthogonal(module, orthogonal_map=map_)
    (module(ours.ones(2, shape[1])) ** 3).sum().backward()
    with ours.no_grad():
        original = module.parametrizations.weight.original
        original -= 0.05 * original.grad
    weight = module.weight.detach().numpy()
    product = weight @ weight.T if shape[0] <= shape[1] else weight.T @ weight
    assert np.allclose(product, np.eye(min(shape)), atol=1e-5)
    if shape[0] == shape[1]:
        module.weight = ours.from_numpy(values)
        assert np.allclose(module.weight.detach().numpy(), values, atol=1e-5)


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm"])
def test_it_is_compiled_and_saved(norm):
    module, x = layer(ours).eval(), ours.randn(2, 4)
    getattr(ours.nn.utils.parametrizations, norm)(module)
    compiled = ours.compile(module, backend="aot_eager", fullgraph=True)
    assert ours.allclose(compiled(x), module(x), atol=1e-6)
    twin = layer(ours).eval()
    getattr(ours.nn.utils.parametrizations, norm)(twin)
    with ours.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    twin.load_state_dict(module.state_dict())
    assert ours.allclose(twin(x), module(x)) and ours.allclose(compiled(x), module(x), atol=1e-6)


def test_what_cannot_be_computed():
    with as_torch():
        from torch.nn.utils import parametrize

    class Longer(ours.nn.Module):
        def forward(self, X):
            return ours.cat([X, X])

    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(layer(ours), "weight", Longer())
    with pytest.raises(
        ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'w'"
    ):
        parametrize.register_parametrization(layer(ours), "w", ours.nn.Identity())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer(ours), "weight")
    with pytest.raises(RuntimeError, match="Cannot register two WeightNorm hooks"):
        ours.nn.utils.weight_norm(ours.nn.utils.weight_norm(layer(ours)))
    twice = layer(ours)
    for _ in range(2):
        parametrize.register_parametrization(twice, "weight", ours.nn.Tanh())
    with parametrize.cached():
        assert twice.weight is twice.weight
    assert ours.allclose(twice.weight, ours.tanh(ours.tanh(twice.parametrizations.weight.original)))
