"""Programs with modules and the user's own objects.

Input: the seam `capture`. Each program says how many operators its graph must hold.
"""

import dataclasses

import pytest

from stage0_eager import nn
from stage0_eager.nn import functional as F
from stage1_capture.tests.harness import check_program, registry, tensor

PROGRAMS, program = registry()


# ---- modules and objects -------------------------------------------------------------------------


class Block(nn.Module):
    ratio = 3

    def __init__(self, bias=True):
        super().__init__()
        self.fc = nn.Linear(4, 4, bias=bias)
        self.norm = nn.LayerNorm(4)
        self.scale = 0.5
        self.register_buffer("offset", tensor(4, seed=9))

    @property
    def gain(self):
        return self.scale * self.ratio

    def forward(self, x, residual=True):
        y = self.activation(self.norm(self.fc(x))) * self.gain + self.offset
        return x + y if residual and self.training else y

    def activation(self, x):
        return F.gelu(x)


class Deep(Block):
    def __init__(self):
        super().__init__(bias=False)
        self.blocks = nn.ModuleList([Block(), Block(bias=False)])
        self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 2))

    def forward(self, x):
        x = super().forward(x)
        for i, block in enumerate(self.blocks):
            x = block(x, residual=i > 0)
        return self.head(self.blocks[-1](x))


class Point:
    kind = "point"

    def __init__(self, x, n):
        self.x, self.n = x, n

    def scaled(self, by=2):
        return self.x * by * self.n

    @property
    def twice(self):
        return self.x + self.x

    @staticmethod
    def helper(x):
        return x - 1

    @classmethod
    def name(cls):
        return cls.kind

    def __call__(self, x):
        return x / self.n

    def __add__(self, other):
        return self.x + other

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.x[i]

    def __contains__(self, n):
        return n == self.n

    def __iter__(self):
        return iter([self.n, self.n + 1])


class Slotted:
    __slots__ = ("weight",)

    def __init__(self):
        self.weight = tensor(4, seed=3)


@program(Block, (3, 4), nodes=6)
def module(model, x):
    return model(x)


@program(lambda: Block(False).eval(), (3, 4), nodes=5)
def module_in_eval(model, x):
    return model(x)


@program(Deep, (3, 4), nodes=26)
def deep_module(model, x):
    return model(x)


program(Block, (3, 4), nodes=5, tier="full", name="method_of_a_module", residual=False)(Block.forward)
program(Block, (3, 4), nodes=6, name="call_of_a_module")(nn.Module.__call__)

LAYER = nn.Linear(4, 2)


@program((3, 4), nodes=1)
def global_module(x):
    return LAYER(x)


@program(Block, (3, 4), nodes=1)
def parameters_read(model, x):
    return x @ model.fc.weight, model.fc.weight is model.fc.weight, model.fc.bias, model.fc.in_features


@program(lambda: (lambda layer: nn.Sequential(layer, layer))(nn.Linear(4, 4)), (3, 4), nodes=2)
def tied_modules(model, x):
    return model(x)


@program(lambda: Point(tensor(3, 4), 2), nodes=7)
def objects(p):
    assert len(p) == 2 and 2 in p and p
    return p.scaled(3), p.twice, p.helper(p.x), p.name(), p(p.x), p + 1, p[0], list(p), p.kind, p


@program((3, 4), Slotted, nodes=1)
def slots(x, holder):
    return x * holder.weight


@program(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (3, 4), nodes=4)
def children_by_name(model, x):
    for name in ("0", "1"):
        x = getattr(model, name)(x)
    return x * model[0].weight[0, 0] if model[-1] is model[1] else x


@dataclasses.dataclass
class Config:
    width: int = 3
    act: str = "relu"
    inner: object = None


@program((3, 4), lambda: Config(4, "gelu", Config()), nodes=3)
def dataclass_argument(x, config):
    return getattr(F, config.act)(x) * config.width * config.inner.width, config.inner


class Scale(nn.Module):
    def __init__(self, k=1):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x * self.k


class PlusOne(Scale):
    def forward(self, x):
        return super().forward(x) + 1


class TimesThree(Scale):
    def forward(self, x):
        return super().forward(x) * 3


class Diamond(PlusOne, TimesThree):
    pass


@program(Diamond, (3, 4), nodes=3)
def super_in_a_diamond(model, x):
    return model(x)


class Number:
    def __init__(self, value=3):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    def __bool__(self):
        return self.value > 2

    def __rmul__(self, other):
        return other * self.value


@program((3, 4), Number, Number, nodes=3)
def special_methods(x, a, b):
    return x * (a == b), x + 1 if a else x, a in [b], 2 * a, not a, x - (a != b)


@pytest.mark.parametrize("name", PROGRAMS.cases())
def test_a_captured_program_does_what_the_call_does(seam, name):
    check_program(seam, PROGRAMS[name])
