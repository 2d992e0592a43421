"""Modules: registration, state by name, modes, hooks, printing, and when the structure epoch moves.

Input: small modules. The epoch is what compiled code's guards rely on, so that both directions are tested.
"""

import copy
from collections import OrderedDict

import numpy as np
import pytest

from stage0_eager import nn
from stage0_eager.functions.creation import ones, tensor, zeros
from stage0_eager.nn.module import structure_epoch
from stage0_eager.random.generator import manual_seed
from stage0_eager.state import no_grad


class Block(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, width, bias=False))
        self.scale = nn.Parameter(ones(1))
        self.register_buffer("steps", zeros(1))
        self.register_buffer("scratch", zeros(2), persistent=False)
        self.note = "text"

    def forward(self, x):
        return x + self.layers(self.norm(x)) * self.scale


NAMES = ["scale", "norm.weight", "norm.bias", "layers.0.weight", "layers.0.bias", "layers.2.weight"]


def test_registration_and_walking():
    block = Block()
    assert [n for n, _ in block.named_parameters()] == NAMES
    assert [n for n, _ in block.named_buffers()] == ["steps", "scratch"]
    assert [n for n, _ in block.named_modules()] == ["", "norm", "layers", "layers.0", "layers.1", "layers.2"]
    assert [n for n, _ in block.named_children()] == ["norm", "layers"]
    block.tied = block.layers[0].weight  # one parameter under two names is listed once
    assert len(list(block.parameters())) == len(NAMES)
    assert block.scale.is_leaf and block.scale.requires_grad and isinstance(block.scale, nn.Parameter)


def test_assignment_moves_between_registries_and_refuses_what_is_no_parameter():
    block = Block()
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter or module 'scale'"):
        block.scale = zeros(1)
    with pytest.raises(TypeError, match="as parameter or module 'norm'"):
        block.norm = 3
    block.scale = None
    assert block.scale is None and "scale" not in dict(block.named_parameters())
    block.steps = ones(1)
    assert dict(block.named_buffers())["steps"].tolist() == [1]
    block.norm = nn.Identity()
    assert [n for n, _ in block.named_parameters()] == NAMES[3:]
    del block.layers
    with pytest.raises(AttributeError, match="'Block' object has no attribute 'layers'"):
        block.layers  # noqa: B018

    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_state_dict_round_trip():
    manual_seed(1)
    one, other = Block(), Block()
    x = tensor([[1.0, 2.0, 4.0]])
    assert one(x).tolist() != other(x).tolist()
    state = one.state_dict()
    assert list(state) == ["scale", "steps", *NAMES[1:]]
    other.load_state_dict(state)
    assert one(x).tolist() == other(x).tolist()
    with no_grad():
        one.scale.add_(1)
    # state shares with its module, not further
    assert state["scale"].tolist() == [2] and other.scale.tolist() == [1]
    assert not state["scale"].requires_grad


def test_load_state_dict_names_all_that_is_wrong():
    block = Block()
    state = block.state_dict()
    state["layers.0.bias"] = zeros(9)
    state["extra"] = zeros(1)
    del state["scale"]
    before = block.layers[2].weight.tolist()
    state["layers.2.weight"] = zeros(3, 4)
    with pytest.raises(RuntimeError) as error:
        block.load_state_dict(state)
    for part in (
        "loading state_dict for Block",
        "size mismatch for layers.0.bias",
        "(9,)",
        "(4,)",
        "'scale'",
        "'extra'",
    ):
        assert part in str(error.value)
    assert block.layers[2].weight.tolist() == before  # nothing was loaded
    state["layers.0.bias"] = zeros(4)
    block.load_state_dict(state, strict=False)
    assert block.layers[0].bias.tolist() == [0] * 4


def test_train_and_eval_reach_every_module():
    model = nn.Sequential(nn.Dropout(0.5), Block())
    assert model.eval() is model and not any(m.training for m in model.modules())
    x = tensor([[1.0, 2.0, 3.0]])
    assert model[0](x) is x
    model.train()
    assert all(m.training for m in model.modules())
    model.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())


def test_to_and_casts_change_floats_only():
    block = Block()
    block.register_buffer("ids", tensor([1, 2]))
    weight = block.layers[0].weight
    assert block.double() is block and weight is block.layers[0].weight and weight.dtype.name == "float64"
    assert block.steps.dtype.name == "float64" and block.ids.dtype.name == "int64"
    block.to("float32")
    assert weight.dtype.name == "float32" and weight.requires_grad and weight.is_leaf


def test_apply_and_zero_grad():
    block, seen = Block(), []
    block.apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Block" and sorted(seen) == [
        "Block",
        "LayerNorm",
        "Linear",
        "Linear",
        "ReLU",
        "Sequential",
    ]
    block(ones(1, 3)).sum().backward()
    assert block.scale.grad is not None
    block.zero_grad()
    assert all(p.grad is None for p in block.parameters())


def test_hooks():
    layer, seen = nn.Linear(2, 2), []
    remove_pre = layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    remove = layer.register_forward_hook(lambda m, args, out: seen.append(args[0].tolist()) or out + 1)
    x = tensor([1.0, 2.0])
    plain = layer.forward(x * 2) + 1
    assert layer(x).tolist() == plain.tolist() and seen == [[2, 4]]
    remove_pre.remove(), remove.remove()
    assert layer(x).tolist() == layer.forward(x).tolist() and len(seen) == 1


def test_repr_is_a_tree():
    assert repr(Block()) == (
        "Block(\n"
        "  (norm): LayerNorm((3,), eps=1e-05, elementwise_affine=True)\n"
        "  (layers): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=4, bias=True)\n"
        "    (1): ReLU()\n"
        "    (2): Linear(in_features=4, out_features=3, bias=False)\n"
        "  )\n"
        ")"
    )
    assert (
        repr(nn.GELU()) == "GELU(approximate='none')"
        and repr(nn.Dropout(0.1)) == "Dropout(p=0.1, inplace=False)"
    )
    assert repr(nn.Parameter(ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_containers():
    named = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), second=nn.ReLU()))
    assert [n for n, _ in named.named_children()] == ["first", "second"] and len(named) == 2
    assert (
        type(named[0:1]) is nn.Sequential
        and named[-1] is named.second
        and [*named] == [named.first, named.second]
    )
    several = nn.ModuleList([nn.ReLU()]).append(nn.GELU())
    several[0] = nn.Identity()
    assert [type(m).__name__ for m in several] == ["Identity", "GELU"] and len(several[1:]) == 1


def test_copies_are_independent():
    one = Block()
    other = copy.deepcopy(one)
    assert one.state_dict().keys() == other.state_dict().keys() and other.scale is not one.scale
    with no_grad():
        other.scale.fill_(5.0)
    assert one.scale.tolist() == [1]


def test_initial_values_have_torchs_distributions():
    manual_seed(0)
    layer = nn.Linear(100, 200)
    for p in (layer.weight, layer.bias):
        assert abs(p.detach().numpy()).max() <= 0.1 and abs(p.detach().numpy().std() - 0.1 / 3**0.5) < 0.01
    assert abs(nn.Embedding(200, 50).weight.detach().numpy().std() - 1) < 0.05
    w = zeros(50, 100)
    assert abs(nn.init.xavier_uniform_(w).numpy()).max() <= (6 / 150) ** 0.5
    assert abs(nn.init.kaiming_uniform_(w, a=5**0.5).numpy()).max() <= 0.1 + 1e-6
    assert nn.init.ones_(w).numpy().min() == 1 and nn.init.zeros_(w).numpy().max() == 0
    assert abs(nn.init.normal_(w, 3, 2).numpy().mean() - 3) < 0.1
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.kaiming_uniform_(zeros(3))


# ---- the structure epoch ---------------------------------------------------------------------------------------

MOVES = {
    "a new attribute": lambda m: setattr(m, "width", 4),
    "an attribute changed": lambda m: setattr(m, "note", "other"),
    "an attribute deleted": lambda m: delattr(m, "note"),
    "a submodule replaced": lambda m: setattr(m, "norm", nn.Identity()),
    "a submodule deleted": lambda m: delattr(m, "norm"),
    "a parameter replaced": lambda m: setattr(m, "scale", nn.Parameter(ones(2))),
    "a parameter dropped": lambda m: setattr(m, "scale", None),
    "a parameter added": lambda m: m.register_parameter("extra", nn.Parameter(ones(1))),
    "a buffer added": lambda m: m.register_buffer("more", zeros(1)),
    "a buffer replaced": lambda m: setattr(m, "steps", zeros(2)),
    "a module added": lambda m: m.add_module("more", nn.ReLU()),
    "eval": lambda m: m.eval(),
    "requires_grad of one parameter": lambda m: m.scale.requires_grad_(False),
    "requires_grad of all": lambda m: m.requires_grad_(False),
    "a parameter's data": lambda m: setattr(m.scale, "data", zeros(2)),
    "double": lambda m: m.double(),
    "a hook": lambda m: m.register_forward_hook(lambda *a: None),
    "a pre-hook": lambda m: m.register_forward_pre_hook(lambda *a: None),
    "an item of a list": lambda m: m.list.__setitem__(0, nn.GELU()),
    "a class attribute of an instance": lambda m: setattr(m, "forward", lambda x: x),
}
STAYS = {
    "a call": lambda m: m(ones(1, 3)),
    "backward": lambda m: m(ones(1, 3)).sum().backward(),
    "a gradient": lambda m: setattr(m.scale, "grad", ones(1)),
    "zero_grad": lambda m: m.zero_grad(),
    "an in-place update": lambda m: no_grad()(lambda: m.scale.add_(1))(),
    "state_dict": lambda m: m.state_dict(),
    "load_state_dict": lambda m: m.load_state_dict(m.state_dict()),
    "reading": lambda m: (m.scale, m.norm.weight.shape, list(m.parameters()), repr(m)),
    "a tensor that is no parameter": lambda m: ones(2).requires_grad_(),
}


def model_with_list():
    model = Block()
    model.list = nn.ModuleList([nn.ReLU()])
    return model


@pytest.mark.parametrize("name", MOVES)
def test_the_epoch_moves(name):
    model = model_with_list()
    before = structure_epoch()
    MOVES[name](model)
    assert structure_epoch() > before


@pytest.mark.parametrize("name", STAYS)
def test_the_epoch_stays(name):
    model = model_with_list()
    before = structure_epoch()
    STAYS[name](model)
    assert structure_epoch() == before


def test_hooks_that_go_move_the_epoch_too():
    remove = nn.ReLU().register_forward_hook(lambda *a: None)
    before = structure_epoch()
    remove.remove()
    assert structure_epoch() > before


def test_losses_and_activations_are_their_functions():
    x, y = tensor([[0.5, -1.0], [2.0, 0.0]]), tensor([[1.0, 0.0], [0.0, 1.0]])
    for module, function in (
        (nn.ReLU(), nn.functional.relu), (nn.GELU("tanh"), lambda v: nn.functional.gelu(v, "tanh")),
        (nn.SiLU(), nn.functional.silu), (nn.Sigmoid(), nn.functional.sigmoid), (nn.Tanh(), nn.functional.tanh),
        (nn.Softmax(1), lambda v: nn.functional.softmax(v, 1)), (nn.LogSoftmax(1), lambda v: nn.functional.log_softmax(v, 1)),
        (nn.Flatten(0), nn.functional.flatten),
    ):  # fmt: skip
        assert module(x).tolist() == function(x).tolist()
    assert nn.MSELoss()(x, y).item() == np.mean((np.array(x.tolist()) - np.array(y.tolist())) ** 2)
    weighted = nn.CrossEntropyLoss(weight=tensor([1.0, 3.0]), label_smoothing=0.1)
    target = tensor([0, 1])
    want = nn.functional.cross_entropy(x, target, tensor([1.0, 3.0]), label_smoothing=0.1)
    assert weighted(x, target).item() == want.item() and "weight" in dict(weighted.named_buffers())
    table = nn.Embedding(4, 2)
    assert table(tensor([[1, 3]])).tolist() == [[table.weight.tolist()[1], table.weight.tolist()[3]]]
