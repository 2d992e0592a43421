"""Compiled modules: the same class, state, names and pickles; hooks, in-place compiling, what a change recompiles.

Input: small modules with a backend that counts graphs.
"""

import copy
import pickle

import numpy as np
import pytest

import cutaway
from cutaway import compiler, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("offset", cutaway.ones(3))

    def forward(self, x):
        """What forward says."""
        return self.drop(self.fc(x)) + self.offset


@pytest.fixture
def counter():
    return compiler.CompileCounter()


def same(a, b):
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_it_is_an_object_of_its_own_class_with_the_same_state(counter):
    net = Net().eval()
    compiled = cutaway.compile(net, backend=counter, fullgraph=True)
    assert isinstance(compiled, Net) and compiled.__class__ is Net and repr(compiled) == repr(net)
    assert type(compiled).__name__ == "Net" and compiled.forward.__doc__ == "What forward says."
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert {*net.state_dict()} == {"fc.weight", "fc.bias", "offset"}
    assert [n for n, _ in compiled.named_parameters()] == [n for n, _ in net.named_parameters()]
    x = cutaway.randn(2, 4)
    same(compiled(x), net(x))
    compiled.fc = nn.Linear(4, 3)
    assert net.fc is compiled.fc
    same(compiled(x), net(x))
    assert counter.frame_count == 2


@pytest.mark.parametrize(
    "copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_copies_are_plain_modules_with_the_same_numbers(copied, counter):
    for make in (lambda m: cutaway.compile(m, backend=counter), in_place(counter)):
        net = make(Net().eval())
        x = cutaway.randn(2, 4)
        want, twin = net(x), copied(net)
        assert type(twin) is Net and list(twin.state_dict()) == list(net.state_dict())
        same(twin(x), want)


def in_place(counter):
    def make(net):
        assert net.compile(backend=counter) is None
        return net

    return make


def test_compile_in_place(counter):
    net, plain = Net().eval(), Net().eval()
    plain.load_state_dict(net.state_dict())
    net.compile(backend=counter, fullgraph=True)
    assert (
        net.__class__ is Net and isinstance(net, Net) and list(net.state_dict()) == list(plain.state_dict())
    )
    x = cutaway.randn(2, 4)
    same(net(x), plain(x))
    same(net(x), plain(x))
    assert counter.frame_count == 1
    net.compile(backend=counter)
    net(x)
    assert counter.frame_count == 2
    outer = nn.Sequential(net, nn.ReLU())
    whole = cutaway.compile(outer, backend=counter, fullgraph=True)
    same(whole(x), nn.Sequential(plain, nn.ReLU())(x))
    assert counter.frame_count == 3


def test_hooks_run_and_a_new_one_recompiles(counter):
    net = Net().eval()
    compiled = cutaway.compile(net, backend=counter, fullgraph=True)
    x = cutaway.randn(2, 4)
    want = net(x)
    same(compiled(x), want)
    handle = net.register_forward_hook(lambda module, args, output: output * 2)
    same(compiled(x), want * 2)
    assert counter.frame_count == 2
    getattr(handle, "remove", handle)()
    same(compiled(x), want)
    assert counter.frame_count == 2


def test_parameters_are_read_again_when_one_is_put_in_its_place(counter):
    net = Net().eval()
    compiled = cutaway.compile(net, backend=counter, fullgraph=True)
    x = cutaway.randn(2, 4)
    for _ in range(2):
        same(compiled(x), net(x))
        net.fc.weight = nn.Parameter(cutaway.randn(3, 4))
        same(compiled(x), net(x))
        net.fc.weight.data = cutaway.randn(3, 4)
        same(compiled(x), net(x))
        with cutaway.no_grad():
            net.fc.bias.add_(1)
            same(compiled(x), net(x))
    net.load_state_dict(Net().state_dict())
    same(compiled(x), net(x))
    assert counter.frame_count == 2  # one more for no_grad


def test_training_mode_and_frozen_parameters_are_other_cases(counter):
    net = Net().eval()
    compiled = cutaway.compile(net, backend=counter, fullgraph=True)
    x = cutaway.randn(2, 4)
    compiled(x)
    net.train()
    compiled(x)
    net.eval()
    compiled(x)
    assert counter.frame_count == 2
    net.fc.weight.requires_grad_(False)
    net.fc.bias.requires_grad_(False)
    assert compiled(x).requires_grad is False and counter.frame_count == 3


def test_an_attribute_of_a_child_is_one_however_often_the_child_is_reached():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.fc.count = 0

        def forward(self, x):
            self.fc.count = self.fc.count + 1
            self.fc.count = self.fc.count + 1
            return x * self.fc.count

    model = Counting()
    compiled = cutaway.compile(model, backend="eager", fullgraph=True)
    assert [compiled(cutaway.ones(1)).item() for _ in range(3)] == [2, 4, 6] and model.fc.count == 6


class Doubling(nn.Module):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) * 2

    def forward(self, x):
        return x + 1


class Direct(nn.Module):
    def __call__(self, x):
        return x * 3


class Slotted(nn.Module):
    __slots__ = ("by",)

    def __init__(self):
        super().__init__()
        self.by = 3

    def forward(self, x):
        return x * self.by


@pytest.mark.parametrize("make", [Doubling, Direct])
def test_a_call_of_its_own_is_what_is_compiled(make, counter):
    x, want = cutaway.randn(3), make()(cutaway.ones(1))
    plain, twin, there = make(), cutaway.compile(make(), backend=counter, fullgraph=True), make()
    there.compile(backend=counter, fullgraph=True)
    for module in (twin, there):
        same(module(x), plain(x))
    assert counter.frame_count == 2

    def outer(x):
        return twin(x) + there(x)

    whole = cutaway.compile(outer, backend=counter, fullgraph=True)
    same(whole(x), plain(x) * 2)
    assert counter.frame_count == 3 and cutaway.explain(make())(x).graph_count == 1
    call, make.__call__ = make.__call__, lambda self, x: x * 7
    try:
        same(whole(x), x * 14)
    finally:
        make.__call__ = call
    same(twin(cutaway.ones(1)), want)


def test_slots_are_those_of_the_module(counter):
    module = Slotted()
    twin = cutaway.compile(module, backend=counter)
    x = cutaway.randn(3)
    same(twin(x), x * 3)
    twin.by = 5
    assert module.by == 5 and twin.by == 5
    same(twin(x), x * 5)
    del twin.by
    assert not hasattr(module, "by")
