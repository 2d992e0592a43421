"""Activation modules, in-place forms, embeddings with padding, and the parts of Module that published code calls.

Input: one table row per activation module: how it is made, and the function it stands for, written in NumPy.
"""

import copy

import numpy as np
import pytest

from stage0_eager import nn
from stage0_eager.functions.creation import ones, randn, tensor, zeros
from stage0_eager.nn import functional as F
from stage0_eager.random.generator import manual_seed
from stage_contracts import dtype as dt

X = np.array([[-4.0, -0.75, -0.25, 0.0], [0.25, 1.5, 3.5, 7.0]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x)
    return e / e.sum(1, keepdims=True)


# module, what it computes, how it prints
ACTIVATIONS = {
    "ReLU": (nn.ReLU(), lambda x: np.maximum(x, 0), "ReLU()"),
    "ReLU6": (nn.ReLU6(), lambda x: np.clip(x, 0, 6), "ReLU6()"),
    "LeakyReLU": (nn.LeakyReLU(0.1), lambda x: np.where(x > 0, x, 0.1 * x), "LeakyReLU(negative_slope=0.1)"),
    "PReLU": (nn.PReLU(), lambda x: np.where(x > 0, x, 0.25 * x), "PReLU(num_parameters=1)"),
    "ELU": (nn.ELU(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x)), "ELU(alpha=2.0)"),
    "CELU": (nn.CELU(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), "CELU(alpha=2.0)"),
    "SELU": (nn.SELU(), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), "SELU()"),
    "SiLU": (nn.SiLU(), lambda x: x * sigmoid(x), "SiLU()"),
    "Mish": (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x))), "Mish()"),
    "Hardswish": (nn.Hardswish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Hardswish()"),
    "Hardsigmoid": (nn.Hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1), "Hardsigmoid()"),
    "Hardtanh": (nn.Hardtanh(-2, 1.5), lambda x: np.clip(x, -2, 1.5), "Hardtanh(min_val=-2, max_val=1.5)"),
    "Threshold": (nn.Threshold(1.0, 9.0), lambda x: np.where(x > 1, x, 9), "Threshold(threshold=1.0, value=9.0)"),
    "Softplus": (nn.Softplus(), lambda x: np.log1p(np.exp(x)), "Softplus(beta=1.0, threshold=20.0)"),
    "Hardshrink": (nn.Hardshrink(), lambda x: np.where(np.abs(x) > 0.5, x, 0), "Hardshrink(0.5)"),
    "Softshrink": (nn.Softshrink(), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), "Softshrink(0.5)"),
    "LogSigmoid": (nn.LogSigmoid(), lambda x: np.log(sigmoid(x)), "LogSigmoid()"),
    "Softsign": (nn.Softsign(), lambda x: x / (1 + np.abs(x)), "Softsign()"),
    "Tanhshrink": (nn.Tanhshrink(), lambda x: x - np.tanh(x), "Tanhshrink()"),
    "Softmin": (nn.Softmin(1), lambda x: softmax(-x), "Softmin(dim=1)"),
    "LogSoftmax": (nn.LogSoftmax(1), lambda x: np.log(softmax(x)), "LogSoftmax(dim=1)"),
    "GLU": (nn.GLU(), lambda x: x[:, :2] * sigmoid(x[:, 2:]), "GLU(dim=-1)"),
}  # fmt: skip
IN_PLACE = [n for n, (module, _, _) in ACTIVATIONS.items() if "inplace" in module.__dict__]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_module_is_its_function(name):
    module, wanted, printed = ACTIVATIONS[name]
    got = copy.deepcopy(module).double()(tensor(X))
    np.testing.assert_allclose(got.detach().numpy(), wanted(X), rtol=1e-12, atol=1e-12)
    assert repr(module) == printed


def test_those_that_work_in_place_are_torchs():
    assert set(IN_PLACE) == set("ReLU ReLU6 LeakyReLU ELU CELU SELU SiLU Mish Hardswish Hardsigmoid Hardtanh Threshold".split())  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_writes_into_the_input_and_keeps_the_gradient(name):
    module, wanted, _ = ACTIVATIONS[name]
    changed = copy.deepcopy(module)
    changed.inplace = True
    leaf = tensor(X, requires_grad=True)
    x = leaf * 1
    out = changed(x)
    assert out is x and "inplace=True" in repr(changed)
    np.testing.assert_allclose(x.detach().numpy(), wanted(X), rtol=1e-12, atol=1e-12)
    out.sum().backward()
    plain = tensor(X, requires_grad=True)
    module(plain).sum().backward()
    assert leaf.grad.tolist() == plain.grad.tolist()


def test_dropout_in_place():
    x = ones(100)
    out = F.dropout(x, 0.5, True, True)
    assert out is x and set(x.tolist()) == {0.0, 2.0}
    assert F.dropout(x, 0.5, False, True) is x


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dropout_of_channels_keeps_or_drops_them_whole(rank):
    manual_seed(rank)
    module = getattr(nn, f"Dropout{rank}d")(0.25)
    x = ones(40, 50, *([2] * rank)).requires_grad_()
    out = module(x)
    channels = out.detach().numpy().reshape(2000, -1)
    assert (channels == channels[:, :1]).all() and set(np.unique(channels)) == {0.0, np.float32(1 / 0.75)}
    assert abs((channels[:, 0] == 0).mean() - 0.25) < 0.05
    out.sum().backward()
    assert x.grad.tolist() == out.tolist()  # the input was 1
    assert module.eval()(x) is x and getattr(F, f"dropout{rank}d")(x[0], 1.0).abs().sum().item() == 0
    with pytest.raises(RuntimeError, match=f"dropout{rank}d: Expected"):
        module.train()(ones(2))


def test_alpha_dropout_keeps_mean_and_variance():
    manual_seed(0)
    x = randn(200_000, dtype=dt.float64)
    out = nn.AlphaDropout(0.3)(x).numpy()
    assert abs(out.mean()) < 0.01 and abs(out.std() - 1) < 0.01
    low = -1.0507009873554805 * 1.6732632423543772
    scale = 1 / np.sqrt(0.7 * (1 + 0.3 * low**2))
    dropped = np.isclose(out, scale * low * 0.7)
    assert abs(dropped.mean() - 0.3) < 0.01
    np.testing.assert_allclose(out[~dropped], x.numpy()[~dropped] * scale - scale * low * 0.3)
    assert nn.AlphaDropout(0.3).eval()(x) is x and F.alpha_dropout(x, 1.0, True).abs().sum().item() == 0


PADS = {
    "Constant": "constant",
    "Zero": "constant",
    "Reflection": "reflect",
    "Replication": "edge",
    "Circular": "wrap",
}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", PADS)
def test_pads(kind, rank):
    make = getattr(nn, f"{kind}Pad{rank}d")
    x = np.arange(2.0 * 4**rank).reshape(1, 2, *([4] * rank))
    widths = (1, 2, 0, 3, 2, 1)[: 2 * rank]
    pairs = [(0, 0), (0, 0), *[(widths[2 * i], widths[2 * i + 1]) for i in range(rank)][::-1]]
    options = {"constant_values": 7.0 if kind == "Constant" else 0.0} if PADS[kind] == "constant" else {}
    module = make(widths, 7.0) if kind == "Constant" else make(widths)
    assert module(tensor(x)).tolist() == np.pad(x, pairs, PADS[kind], **options).tolist()
    assert (make(2, 7.0) if kind == "Constant" else make(2)).padding == (2,) * (2 * rank)
    with pytest.raises(ValueError, match=f"expects an int or {2 * rank} ints"):
        make((1,), *([7.0] if kind == "Constant" else []))


def test_rearranging():
    x = np.arange(24.0).reshape(2, 6, 2)
    assert nn.Unflatten(1, (2, -1))(tensor(x)).tolist() == x.reshape(2, 2, 3, 2).tolist()
    wanted = x.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).reshape(2, 6, 2)
    assert nn.ChannelShuffle(2)(tensor(x)).tolist() == wanted.tolist()
    assert repr(nn.Sequential(nn.Unflatten(1, (2, 3)), nn.ChannelShuffle(2))) == (
        "Sequential(\n  (0): Unflatten(dim=1, unflattened_size=(2, 3))\n  (1): ChannelShuffle(groups=2)\n)"
    )
    maps = tensor(x.reshape(2, 3, 2, 2))
    np.testing.assert_allclose(nn.Softmax2d()(maps).sum(1).numpy(), np.ones((2, 2, 2)))


def test_the_row_of_padding_is_zero_and_has_no_gradient():
    table = nn.Embedding(4, 3, padding_idx=-2)
    assert table.padding_idx == 2 and table.weight.tolist()[2] == [0, 0, 0]
    assert repr(table) == "Embedding(4, 3, padding_idx=2)"
    table(tensor([[2, 1], [1, 2]])).sum().backward()
    assert table.weight.grad.tolist() == [[0, 0, 0], [2, 2, 2], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(AssertionError, match="Padding_idx must be within"):
        nn.Embedding(4, 3, padding_idx=4)
    given = nn.Embedding.from_pretrained(ones(2, 3))
    assert not given.weight.requires_grad and given(tensor([1])).tolist() == [[1, 1, 1]]


def test_kaiming_uniform_takes_mode_and_nonlinearity():
    weight = zeros(64, 256)
    for options, bound in (({}, np.sqrt(6 / 256)), ({"mode": "fan_out", "nonlinearity": "relu"}, np.sqrt(6 / 64)),
                           ({"a": np.sqrt(5)}, np.sqrt(1 / 256))):  # fmt: skip
        nn.init.kaiming_uniform_(weight, **options)
        largest = np.abs(weight.numpy()).max()
        assert 0.99 * bound < largest <= bound


# ---- Module ------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        self.head = nn.Linear(3, 2, bias=False)
        self.tied = self.head

    def forward(self, x):
        return self.head(self.body(x))


def test_lookup_by_path():
    net = Net()
    assert net.get_submodule("body.1") is net.body[1] and net.get_submodule("") is net
    assert net.get_parameter("body.0.weight") is net.body[0].weight
    assert net.get_buffer("body.1.running_mean") is net.body[1].running_mean
    with pytest.raises(AttributeError, match="Net has no module 'body.x.y' \\(at 'x'\\)"):
        net.get_submodule("body.x.y")
    with pytest.raises(AttributeError, match="Net has no parameter 'body.0.gain'"):
        net.get_parameter("body.0.gain")


def test_names_with_prefix_without_children_and_with_repeats():
    net = Net()
    assert [n for n, _ in net.body[0].named_parameters(prefix="a")] == ["a.weight", "a.bias"]
    assert list(net.parameters(recurse=False)) == []
    assert [n for n, _ in net.named_parameters()][-1] == "head.weight"
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)][-1] == "tied.weight"
    assert [n for n, _ in net.named_buffers()] == [f"body.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")]  # fmt: skip
    # a tied weight stands under both names
    assert list(net.state_dict())[-2:] == ["head.weight", "tied.weight"]
    assert list(net.head.state_dict(prefix="x.")) == ["x.weight"]
    assert net.state_dict(keep_vars=True)["head.weight"] is net.head.weight


def test_apply_visits_children_before_their_parent():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    # as torch: a tied one twice
    assert seen == ["Linear", "BatchNorm1d", "Sequential", "Linear", "Linear", "Net"]


def test_load_state_dict_says_what_it_left_out_and_can_take_the_storage():
    net, other = Net(), Net()
    state = other.state_dict()
    del state["body.0.bias"]
    state["extra"] = zeros(1)
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["body.0.bias"] and result.unexpected_keys == ["extra"]
    assert net.head.weight.tolist() == other.head.weight.tolist()
    net.load_state_dict(other.state_dict(), assign=True)
    other.head.weight.data.fill_(5)
    assert net.head.weight.tolist() == [[5, 5, 5], [5, 5, 5]]


def test_casting_a_module_casts_what_is_floating():
    net = Net()
    for cast, dtype in ((net.double, dt.float64), (net.half, dt.float16), (net.bfloat16, dt.bfloat16),
                        (net.float, dt.float32), (lambda: net.type(dt.float64), dt.float64)):  # fmt: skip
        assert cast() is net
        assert {p.dtype for p in net.parameters()} == {dtype}
        assert net.body[1].num_batches_tracked.dtype is dt.int64
    assert net.cpu() is net and net.to("cpu", dt.float32, non_blocking=True).head.weight.dtype is dt.float32
    with pytest.raises(TypeError, match="only accepts floating point dtypes"):
        net.to(dt.int64)


def test_a_hook_is_a_context_too_and_a_clone_shares_nothing():
    layer = nn.Linear(2, 2)
    with layer.register_forward_hook(lambda m, args, out: out * 0):
        assert layer(ones(2)).tolist() == [0, 0]
    assert layer(ones(2)).tolist() != [0, 0]
    twin = copy.deepcopy(layer)
    twin.weight.data.zero_()
    assert layer.weight.tolist() != twin.weight.tolist()


def test_data_is_the_storage_without_the_tape():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    assert not y.data.requires_grad and y.data.tolist() == [2, 4]
    x.data = tensor([5.0, 6.0])
    assert x.tolist() == [5, 6] and x.requires_grad


def test_to_takes_torchs_options():
    x = ones(2)
    assert x.to("cpu", non_blocking=True) is x and x.to("cpu", True) is x
    for copied in (x.to(x.dtype, False, True), x.to("cpu", x.dtype, True, True)):  # non_blocking, copy
        assert copied is not x and copied.tolist() == x.tolist()
    assert x.to(dt.float32, copy=True) is not x
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtyp'"):
        x.to(dtyp=dt.float64)
