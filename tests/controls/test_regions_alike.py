"""Regions whose arguments differ in something that they read: each is followed anew, equal ones only once.

Input: a block for each way of reading something, and a change to the second of three blocks. Equal blocks must be one
follow of the bytecode; after the change the results must still be eager's, and so must those of a compiled model that
is changed after its first call.
"""

import dataclasses
import enum
import functools

import numpy as np
import pytest

from cutaway.torch_api import torch
from stage1_capture.higher_order import regions

nn = torch.nn
region = torch.compiler.nested_compile_region


class Kind(enum.Enum):
    ADDS = 1
    TIMES = 2


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    names: tuple = ("a", "b")


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


class Plus(nn.Module):
    def forward(self, x):
        return x + 1


class Minus(nn.Module):
    def forward(self, x):
        return x - 1


SPECIAL, TABLE, SHARED = [None], {}, nn.Parameter(torch.ones(4))


class Block(nn.Module):
    """Has something of each kind; `read` says what of it the call reads."""

    by_class = 2.0

    def __init__(self, read):
        super().__init__()
        self.number, self.flag, self.word, self.nothing, self.kind = 2.0, True, "abc", None, Kind.ADDS
        self.row, self.table, self.settings, self.slotted = (
            [1, 2],
            {"a": 1.5, "b": 2},
            Settings(),
            Slotted(3.0),
        )
        self.inner, self.part = Plus(), functools.partial(torch.add, alpha=2)
        self.children_ = nn.ModuleList([Plus(), Plus()])
        self.weight, self.other = nn.Parameter(torch.ones(4)), nn.Parameter(torch.full((4,), 2.0))
        self.register_buffer("buffer", torch.full((4,), 3.0))
        self.function, self.array, self.read = torch.sin, np.float32(2), read

    @property
    def doubled(self):
        return self.number * 2

    def named(self):
        return self.by_class

    @region
    def forward(self, x):
        return self.read(self, torch.cos(x))


def _set(name, value):
    return lambda block: setattr(block, name, value)


def _walks(block, x):
    for child in block.children_:
        x = child(x)
    return x


def _keys(block, x):
    for place, key in enumerate(block.table, 1):
        x = x + place * (3 if key == "a" else 7)
    return x


def _hook(block):
    block.inner.register_forward_hook(lambda module, args, out: out * 5)


# what the block reads, and the change to one
READS = {
    "a_number": (lambda b, x: x * b.number, _set("number", 3.0)),
    "an_int_for_a_float": (lambda b, x: (x > 9) + b.number, _set("number", 2)),
    "minus_zero": (lambda b, x: x * 0 + torch.tensor(np.copysign(1, b.number)), _set("number", -0.0)),
    "a_flag": (lambda b, x: x + 1 if b.flag else x - 1, _set("flag", False)),
    "a_word": (lambda b, x: x + len(b.word) if b.word.startswith("a") else x, _set("word", "bcd")),
    "none": (lambda b, x: x if b.nothing is None else x + b.nothing, _set("nothing", 2)),
    "an_enum": (lambda b, x: x + 1 if b.kind is Kind.ADDS else x * 3, _set("kind", Kind.TIMES)),
    "an_item": (lambda b, x: x * b.row[1], lambda b: b.row.__setitem__(1, 5)),
    "a_length": (lambda b, x: x * len(b.row), lambda b: b.row.append(5)),
    "an_entry": (lambda b, x: x * b.table["a"], lambda b: b.table.update(a=5)),
    "an_entry_that_is_not_there": (lambda b, x: x * b.table.get("c", 2), lambda b: b.table.update(c=5)),
    "the_order_of_keys": (_keys, lambda b: setattr(b, "table", {"b": 2, "a": 1.5})),
    "a_field": (lambda b, x: x * b.settings.scale, lambda b: setattr(b.settings, "scale", 5.0)),
    "a_deep_item": (lambda b, x: x + ("b" in b.settings.names), lambda b: setattr(b.settings, "names", ("a",))),
    "a_slot": (lambda b, x: x * b.slotted.scale, lambda b: setattr(b.slotted, "scale", 5.0)),
    "a_property": (lambda b, x: x * b.doubled, _set("number", 3.0)),
    "of_the_class": (lambda b, x: x * b.by_class, _set("by_class", 5.0)),
    "by_a_method": (lambda b, x: x * b.named(), _set("by_class", 5.0)),
    "a_method_of_the_object": (lambda b, x: x * b.named(), _set("named", lambda: 7.0)),
    "not_there": (lambda b, x: x * getattr(b, "missing", 2), _set("missing", 5)),
    "has_it": (lambda b, x: x + 1 if hasattr(b, "missing") else x, _set("missing", 5)),
    "the_mode": (lambda b, x: x + 1 if b.training else x, lambda b: b.eval()),
    "a_child_s_mode": (lambda b, x: x + 1 if b.inner.training else x, lambda b: b.inner.eval()),
    "a_child_s_class": (lambda b, x: b.inner(x), _set("inner", Minus())),
    "which_class": (lambda b, x: x + isinstance(b.inner, Minus), _set("inner", Minus())),
    "a_hook": (lambda b, x: b.inner(x), _hook),
    "children": (_walks, lambda b: b.children_.append(Plus())),
    "another_child": (_walks, lambda b: b.children_.__setitem__(0, Minus())),
    "a_function": (lambda b, x: b.function(x), _set("function", torch.tanh)),
    "a_partial": (lambda b, x: b.part(x, x), _set("part", functools.partial(torch.add, alpha=3))),
    "a_numpy_scalar": (lambda b, x: x * b.array, _set("array", np.float32(3))),
    "a_shape": (lambda b, x: x * b.weight.numel(), _set("weight", nn.Parameter(torch.ones(1)))),
    "a_dtype": (lambda b, x: x * b.weight, _set("weight", nn.Parameter(torch.ones(4, dtype=torch.float64)))),
    "no_parameter": (lambda b, x: x if b.weight is None else x * b.weight, _set("weight", None)),
    "requires_grad": (lambda b, x: x + b.weight.requires_grad, lambda b: b.weight.requires_grad_(False)),
    "a_buffer_s_shape": (lambda b, x: x * 2 + b.buffer, lambda b: b._buffers.update(buffer=torch.ones(2, 1))),
    "the_same_parameter": (lambda b, x: x + (b.weight is b.other), lambda b: setattr(b, "other", b.weight)),
    "a_shared_parameter": (lambda b, x: x + (b.weight is SHARED), _set("weight", SHARED)),
    "which_object": (lambda b, x: x + (b is SPECIAL[0]), lambda b: SPECIAL.__setitem__(0, b)),
    "a_key": (lambda b, x: x * TABLE.get(b, 2), lambda b: TABLE.update({b: 5})),
    "its_id": (lambda b, x: x + (id(b) in TABLE), lambda b: TABLE.update({id(b): 5})),
    "its_names": (lambda b, x: x * len(list(b.named_parameters())), _set("more", nn.Parameter(torch.ones(4)))),
    "its_dict": (lambda b, x: x + ("missing" in vars(b)), _set("missing", 5)),
    "its_text": (lambda b, x: x * len(f"{b.word}{b.number}"), _set("number", 12.5)),
    "the_function_itself": (lambda b, x: b.read.__defaults__ is None and x + 1, _set("read", lambda b, x, y=2: x * y)),
    "of_a_parameter": (lambda b, x: x * getattr(b.weight, "mark", 2), lambda b: setattr(b.weight, "mark", 5)),
}  # fmt: skip


class Model(nn.Module):
    def __init__(self, read):
        super().__init__()
        self.blocks, self.first = nn.ModuleList([Block(read) for _ in range(3)]), nn.Parameter(torch.ones(4))

    def forward(self, x):
        x = x * self.first  # an argument of the frame has facts of its own
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def follows(monkeypatch):
    """The regions that were followed, instruction by instruction."""
    made = []
    plain = regions.follow_call
    monkeypatch.setattr(regions, "follow_call", lambda *args: made.append(args) or plain(*args))
    return made


def _compare(model, compiled, x):
    wanted, found = model(x), compiled(x)
    assert found.dtype is wanted.dtype
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-6)


# A region whose blocks are told apart by which object each is cannot stand for another.
BY_IDENTITY = ("a_key", "its_id", "which_object", "a_shared_parameter")


@pytest.mark.parametrize("name", READS)
def test_what_a_region_reads(name, follows):
    read, change = READS[name]
    x = torch.randn(2, 4)
    SPECIAL[0] = None
    TABLE.clear()
    model = Model(read)
    compiled = torch.compile(model, backend="eager")
    _compare(model, compiled, x)
    if name not in BY_IDENTITY:
        assert len(follows) == 1
    change(model.blocks[1])
    _compare(model, compiled, x)  # the guards on the second block tell
    follows.clear()
    again = torch.compile(model, backend="eager")
    torch._dynamo.reset()
    _compare(model, again, x)
    assert len(follows) >= 2
