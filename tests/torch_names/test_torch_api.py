"""torch's module paths over Cutaway: a file written for torch runs as it is, and a real torch stays what it was.

Input: a small model file in plain published style, written into a temporary folder and imported under as_torch().
"""

import importlib
import sys
import textwrap
import threading
from types import ModuleType

import pytest

import cutaway
from cutaway.torch_api import as_torch, modules, torch

MODEL = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint as checkpointing
from torch import nn as again
from torch import Tensor, optim
from torch.autograd import Function
from torch.func import grad, vmap
from torch.nn import Linear, Parameter
from torch.nn.parameter import Parameter as SameParameter
from torch.utils.checkpoint import checkpoint


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 1)
        self.scale = nn.Parameter(torch.ones(4, dtype=torch.float))

    def forward(self, x: torch.Tensor) -> Tensor:
        x = checkpoint(lambda x: F.gelu(self.first(x)), x, use_reentrant=False)
        return self.second(Twice.apply(x) * self.scale)


def train(steps):
    torch.manual_seed(0)
    net = Net()
    opt = optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(8, 3)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = F.mse_loss(net(x), torch.ones(8, 1))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "plain_torch_model.py").write_text(textwrap.dedent(MODEL))
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda: importlib.import_module("plain_torch_model")
    sys.modules.pop("plain_torch_model", None)


def torch_modules():
    return {name: m for name, m in sys.modules.items() if name.split(".")[0] == "torch"}


def test_a_file_written_for_torch_trains(model):
    before = torch_modules()
    with as_torch():
        module = model()
    assert torch_modules() == before
    assert (
        module.Tensor is cutaway.Tensor and module.Parameter is module.SameParameter is cutaway.nn.Parameter
    )
    assert module.nn is module.again
    losses = module.train(5)
    assert losses[-1] < losses[0]


def test_a_real_torch_is_untouched_outside(monkeypatch):
    real, real_nn = ModuleType("torch"), ModuleType("torch.nn")
    extra = ModuleType("torch.export")
    for m in (real, real_nn, extra):
        monkeypatch.setitem(sys.modules, m.__name__, m)
    before = torch_modules()
    with pytest.raises(KeyError), as_torch() as mine:
        assert sys.modules["torch"] is mine is torch
        assert "torch.export" not in sys.modules
        with as_torch():
            pass
        assert sys.modules["torch"] is mine
        raise KeyError
    assert torch_modules() == before
    assert sys.modules["torch"] is real and sys.modules["torch.nn"] is real_nn


def test_what_is_missing_is_named_with_the_nearest():
    with pytest.raises(
        AttributeError, match=r"Cutaway has no torch\.matmull; the nearest it has is torch\.matmul"
    ):
        torch.matmull  # noqa: B018
    with pytest.raises(AttributeError, match=r"Cutaway has no torch\.nn\.Linearr; .* torch\.nn\.Linear"):
        torch.nn.Linearr  # noqa: B018
    with as_torch():
        with pytest.raises(ImportError, match="nonsense"):
            from torch.nn import nonsense  # noqa: F401
        with pytest.raises(ModuleNotFoundError, match="torch.export"):
            importlib.import_module("torch.export")


def test_the_same_objects_under_torchs_paths():
    assert torch.add is cutaway.add and torch.nn.Linear is cutaway.nn.Linear
    assert torch.compile is cutaway.compile and torch._dynamo.reset is cutaway.reset
    assert torch._dynamo.explain is cutaway.explain
    assert torch.float is torch.float32 and torch.long is torch.int64
    assert torch.func.grad is cutaway.func.grad and torch.autograd.Function is cutaway.autograd.Function
    assert all(m.__name__ == name for name, m in modules().items())
    assert isinstance(torch.cuda.is_available(), bool)
    assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2, 2]


def test_another_thread_waits_for_its_turn():
    order = []

    def other():
        with as_torch():
            order.append("other")

    with as_torch():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_cutaways_own_paths(tmp_path):
    from cutaway.autograd import Function, grad
    from cutaway.func import hessian
    from cutaway.utils.checkpoint import checkpoint

    cutaway.save({"x": cutaway.ones(2)}, tmp_path / "x.safetensors")
    assert cutaway.load(tmp_path / "x.safetensors")["x"].tolist() == [1, 1]
    assert cutaway.utils.checkpoint.checkpoint is checkpoint
    assert grad is cutaway.autograd.grad and hessian is cutaway.func.hessian
    assert Function is cutaway.autograd.Function
    with cutaway.inference_mode():
        assert cutaway.is_inference_mode_enabled()
