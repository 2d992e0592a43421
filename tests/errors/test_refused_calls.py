"""What torch refuses, Cutaway refuses with the same type of error: calls that would go on with a mistake in silence.

Input: a table of calls and the type each raises. With torch installed, torch is asked as well.
"""

import pytest

from cutaway.torch_api import as_torch

REFUSED = """
ValueError   | torch.optim.SGD([w * 2], 0.1)
TypeError    | torch.optim.SGD([1.0], 0.1)
ValueError   | torch.optim.SGD([w], 0.1, momentum=-1)
ValueError   | torch.optim.SGD([w], 0.1, weight_decay=-1)
ValueError   | torch.optim.Adam([w]).add_param_group({"params": w * 2})
RuntimeError | torch.nn.Parameter(torch.tensor([1]))
TypeError    | torch.nn.Sequential(3)
TypeError    | torch.nn.ModuleList([1])
KeyError     | torch.nn.Module().add_module("a.b", torch.nn.ReLU())
KeyError     | torch.nn.Module().add_module("", torch.nn.ReLU())
KeyError     | torch.nn.Module().register_buffer("a.b", w)
KeyError     | torch.nn.Linear(2, 2).register_buffer("training", w)
TypeError    | torch.nn.Module().register_buffer("a", 3)
TypeError    | torch.nn.Module().register_buffer(3, w)
TypeError    | torch.nn.Module().register_parameter("a", w)
KeyError     | torch.nn.Linear(2, 2).register_parameter("forward", torch.nn.Parameter(v))
ValueError   | int(v)
ValueError   | float(v)
RuntimeError | torch.stack([])
RuntimeError | torch.split(v, 0)
RuntimeError | torch.split(v, -1)
RuntimeError | setattr(w, "grad", torch.ones(3))
RuntimeError | setattr(w, "grad", torch.ones(2, dtype=torch.float64))
RuntimeError | setattr(w, "grad", torch.ones(2, dtype=torch.float16))
RuntimeError | setattr(w, "grad", torch.ones(2, device="meta"))
RuntimeError | setattr(w, "grad", w)
TypeError    | setattr(w, "grad", 3)
RuntimeError | setattr(torch.nn.Parameter(v), "grad", torch.ones(3))
RuntimeError | setattr(w * 2, "requires_grad", False)
RuntimeError | setattr(w * 2, "requires_grad", True)
RuntimeError | setattr(torch.tensor([1]), "requires_grad", True)
RuntimeError | setattr(v, "requires_grad", 3)
RuntimeError | torch.multinomial(torch.zeros(3), 1)
RuntimeError | torch.multinomial(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), 1)
RuntimeError | torch.multinomial(torch.tensor([-1.0, 2.0]), 1)
RuntimeError | torch.multinomial(torch.tensor([float("nan"), 2.0]), 1)
RuntimeError | torch.multinomial(torch.tensor([float("inf"), 2.0]), 1, True)
RuntimeError | torch.bernoulli(torch.tensor([2.0]))
RuntimeError | torch.bernoulli(torch.tensor([-1.0]))
RuntimeError | torch.bernoulli(torch.tensor([float("nan")]))
RuntimeError | v.bernoulli_(torch.tensor([2.0, 1.0]))
RuntimeError | v.bernoulli(2.0)
NotImplementedError | torch.bernoulli(torch.tensor([1]))
NotImplementedError | torch.tensor([1]).bernoulli()
NotImplementedError | torch.poisson(torch.tensor([1]))
RuntimeError | torch.normal(v, -v)
NotImplementedError | torch.softmax(torch.tensor([1]), 0)
NotImplementedError | torch.log_softmax(torch.tensor([1]), 0)
NotImplementedError | F.softmin(torch.tensor([1]), 0)
NotImplementedError | F.glu(torch.tensor([1, 2]))
RuntimeError | F.layer_norm(m, (3,), torch.ones(3, dtype=torch.float16))
RuntimeError | F.layer_norm(m, (3,), None, torch.ones(3, dtype=torch.float64))
RuntimeError | F.layer_norm(m.bfloat16(), (3,), torch.ones(3), torch.ones(3, dtype=torch.bfloat16))
RuntimeError | F.layer_norm(m, ())
NotImplementedError | F.layer_norm(m.long(), (3,))
RuntimeError | F.rms_norm(m, ())
NotImplementedError | F.rms_norm(m.long(), (3,))
RuntimeError | F.group_norm(x, 2, torch.ones(4, dtype=torch.float64))
RuntimeError | F.group_norm(x, 2, torch.ones(4, 1))
NotImplementedError | F.group_norm(x.long(), 2)
ValueError   | F.group_norm(torch.ones(1, 2), 2)
RuntimeError | F.instance_norm(x, weight=torch.ones(4, dtype=torch.float64))
RuntimeError | F.batch_norm(x, torch.ones(4), torch.ones(4), torch.ones(4, dtype=torch.float64))
RuntimeError | F.batch_norm(x, torch.ones(4, dtype=torch.float16), torch.ones(4, dtype=torch.float16))
RuntimeError | F.batch_norm(x, None, None, torch.ones(4, dtype=torch.float64), training=True)
NotImplementedError | F.batch_norm(x.long(), torch.ones(4), torch.ones(4))
RuntimeError | torch.nn.BatchNorm1d(4)(x.double())
RuntimeError | torch.nn.LayerNorm(5).bfloat16()(x)
RuntimeError | F.linear(m, torch.ones(2, 3), torch.ones(2, dtype=torch.float64))
RuntimeError | F.linear(m[0], torch.ones(2, 3), torch.ones(2, dtype=torch.int64))
RuntimeError | F.linear(m, torch.tensor(1.0))
RuntimeError | F.linear(torch.tensor(1.0), m)
RuntimeError | F.linear(m, torch.ones(1, 2, 3))
RuntimeError | F.bilinear(m, m.double(), torch.ones(2, 3, 3))
RuntimeError | torch.bmm(x, torch.ones(1, 5, 2))
RuntimeError | torch.dot(v, v.double())
RuntimeError | torch.vdot(v, v.double())
RuntimeError | torch.addmm(torch.ones(2, dtype=torch.float64), m, m.T)
RuntimeError | torch.addmv(v.double(), m, m[0])
RuntimeError | torch.baddbmm(torch.ones(2, 4, 2, dtype=torch.float64), x, torch.ones(2, 5, 2))
RuntimeError | torch.cross(m[0], m[0].double(), dim=0)
RuntimeError | torch.cdist(m, m.double())
RuntimeError | torch.trapezoid(v, m[0])
RuntimeError | torch.where(m, m, m)
RuntimeError | torch.where(m.long(), m, m)
RuntimeError | torch.add(torch.tensor([1]), torch.tensor([1]), alpha=0.5)
RuntimeError | torch.sub(torch.tensor([1]), 1, alpha=0.5)
RuntimeError | torch.tensordot(m, m, dims=-1)
RuntimeError | torch.addcdiv(v, torch.tensor([1, 2]), torch.tensor([1, 2]))
RuntimeError | torch.renorm(v, 2, 0, 1)
RuntimeError | torch.renorm(m, -1, 0, 1)
NotImplementedError | torch.tensor([1]).normal_()
NotImplementedError | torch.tensor([1]).uniform_()
NotImplementedError | torch.tensor([1]).log_normal_()
RuntimeError | torch.nn.init.normal_(v, std=-1)
RuntimeError | torch.nn.init.uniform_(v, 2, 1)
NotImplementedError | F.softplus(torch.tensor([1]))
NotImplementedError | F.gelu(torch.tensor([1]))
NotImplementedError | F.silu(torch.tensor([1]))
NotImplementedError | F.mish(torch.tensor([1]))
NotImplementedError | F.leaky_relu(torch.tensor([1]))
RuntimeError | F.cross_entropy(m, torch.tensor([0, 1]), label_smoothing=1.5)
RuntimeError | F.smooth_l1_loss(v, v, beta=-1)
RuntimeError | F.triplet_margin_loss(m, m, m[0])
RuntimeError | F.pad(x, (1, 1), mode="reflect", value=3)
NotImplementedError | F.max_pool2d(x.bool(), 2)
NotImplementedError | F.adaptive_max_pool2d(x.long(), 2)
NotImplementedError | F.unfold(x.long(), 2)
TypeError    | F.interpolate(x, size=3.5)
RuntimeError | F.scaled_dot_product_attention(v, v, v)
RuntimeError | F.embedding_bag(torch.tensor([0, 1]), m, torch.tensor([1]))
RuntimeError | F.embedding_bag(torch.tensor([0, 1]), m, torch.tensor([0, 3]))
RuntimeError | F.embedding_bag(torch.tensor([0, 1]), m, torch.tensor([0.0]))
RuntimeError | F.ctc_loss(x, torch.ones(4, 2).long(), [2] * 4, [3] * 4)
RuntimeError | F.ctc_loss(x, torch.ones(4, 2).long(), [2] * 4, [1] * 4, blank=5)
RuntimeError | F.ctc_loss(x, torch.ones(4, 2).long(), torch.tensor([2.0] * 4), torch.tensor([1] * 4))
RuntimeError | F.ctc_loss(x, torch.ones(4, 2).long(), torch.tensor([-2] * 4), torch.tensor([1] * 4))
"""
ROWS = [[part.strip() for part in line.split("|")] for line in REFUSED.strip().splitlines()]


def raised(torch, call):
    names = {
        "torch": torch,
        "F": torch.nn.functional,
        "w": torch.ones(2, requires_grad=True),
        "v": torch.ones(2),
    }
    names |= {"m": torch.ones(2, 3), "x": torch.ones(2, 4, 5)}
    with pytest.raises(Exception) as error:
        eval(call, names)
    return type(error.value).__name__


@pytest.mark.parametrize(("wanted", "call"), ROWS, ids=[call for _, call in ROWS])
def test_the_call_is_refused(wanted, call):
    with as_torch():
        import torch

        assert raised(torch, call) == wanted


@pytest.mark.parametrize(("wanted", "call"), ROWS, ids=[call for _, call in ROWS])
def test_torch_refuses_it(wanted, call):
    assert raised(pytest.importorskip("torch"), call) == wanted


def test_a_parameter_that_is_there_twice_is_warned_of():
    with as_torch():
        import torch

        w = torch.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="duplicate parameters"):
            torch.optim.SGD([w, w], 0.1)


def test_an_optimizer_saves_no_empty_states():
    """Plain SGD keeps nothing; after a load, a parameter without a state still has an empty one to read."""
    with as_torch():
        import torch

        w = torch.ones(2, requires_grad=True)
        w.grad = torch.ones(2)
        optimizer = torch.optim.SGD([w], 0.1)
        optimizer.step()
        saved = optimizer.state_dict()
        assert saved["state"] == {}
        optimizer.load_state_dict(saved)
        assert optimizer.state[w] == {}
