"""Passes over fx graphs, here and, where torch is installed, there: shapes, splitting, patterns.

Input: small modules, written for either torch.
"""

import importlib

import pytest

from cutaway.torch_api import as_torch, torch


def both():
    yield pytest.param(torch, id="ours")
    try:
        yield pytest.param(importlib.import_module("torch"), id="torch")
    except ImportError:
        pass


def module(torch, name):
    """A module below torch.fx of this torch."""
    if torch.__version__.endswith("cutaway"):
        with as_torch():
            return importlib.import_module(f"torch.fx.{name}")
    return importlib.import_module(f"torch.fx.{name}")


def net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
            self.scale = torch.nn.Parameter(torch.ones(2))
            for parameter in self.parameters():
                parameter.data.fill_(0.5)

        def forward(self, x, y):
            a = self.first(x)
            b = torch.relu(a)
            return self.second(b) * self.scale + a.sum(), y + 1

    return Net()


@pytest.mark.parametrize("torch", [*both()])
def test_shapes_are_written_down(torch):
    traced = torch.fx.symbolic_trace(net(torch))
    module(torch, "passes.shape_prop").ShapeProp(traced).propagate(torch.ones(5, 3), torch.ones(1))
    known = {n.name: n.meta["tensor_meta"] for n in traced.graph.nodes if n.op != "output"}
    assert tuple(known["second"].shape) == (5, 2) and known["second"].dtype == torch.float32
    assert tuple(known["relu"].stride) == (4, 1) and tuple(known["sum_1"].shape) == ()


@pytest.mark.parametrize("torch", [*both()])
def test_a_module_is_split(torch):
    whole = net(torch)
    traced = torch.fx.symbolic_trace(whole)
    names = {}
    split = module(torch, "passes.split_module").split_module(
        traced, whole, lambda n: 0 if n.name in ("first", "relu", "add_1") else 1, names
    )
    x, y = torch.ones(5, 3), torch.ones(1)
    assert [tuple(a.shape) for a in split(x, y)] == [(5, 2), (1,)]
    for a, b in zip(split(x, y), whole(x, y), strict=True):
        assert torch.equal(a, b)
    assert sorted(n.target for n in split.graph.nodes if n.op == "call_module") == ["submod_0", "submod_1"]
    assert names["submod_0.first"] == "first"
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        module(torch, "passes.split_module").split_module(traced, whole, lambda n: int(n.name == "relu"))


@pytest.mark.parametrize("torch", [*both()])
def test_a_pattern_is_replaced(torch):
    def f(x, w):
        a = torch.cat([w, w]).sum() + torch.relu(x) * 2
        b = torch.relu(a) * 2
        return b + torch.relu(b) * 3

    traced = torch.fx.symbolic_trace(f)
    matches = torch.fx.replace_pattern(traced, lambda x: torch.relu(x) * 2, lambda x: torch.sigmoid(x) - 1)
    assert len(matches) == 2 and "relu" in traced.code and traced.code.count("torch.sigmoid") == 2
    traced.graph.lint()
    x, w = torch.tensor([0.5, -2.0]), torch.ones(2)
    a = torch.sigmoid(w.sum() * 2 + torch.sigmoid(x) - 1) - 1
    assert torch.allclose(traced(x, w), a + torch.relu(a) * 3)
    kept = torch.fx.symbolic_trace(lambda x: (torch.relu(x), torch.relu(x) * 2, torch.neg(torch.abs(x))))
    read_elsewhere = torch.fx.symbolic_trace(lambda x: (lambda r: (r, r * 2))(torch.relu(x)))
    assert len(torch.fx.replace_pattern(kept, lambda x: torch.relu(x) * 2, lambda x: x)) == 1
    assert not torch.fx.replace_pattern(read_elsewhere, lambda x: torch.relu(x) * 2, lambda x: x)
