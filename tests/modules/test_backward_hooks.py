"""Full backward hooks and their pre-hooks: what they see and replace, beside torch, and under compile.

Input: a small module with two inputs.
"""

import numpy as np
import pytest

from cutaway.torch_api import torch as ours


def languages():
    yield ours
    try:
        import torch
    except ImportError:
        return
    yield torch


def net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            for parameter in self.parameters():
                parameter.data.fill_(0.5)

        def forward(self, x, y):
            return self.linear(x).relu() * y, x.sum()

    return Net()


def seen(torch, kind):
    """The gradients that hooks get and that are left behind."""
    module, said = net(torch), []

    def note(name, gradients):
        said.append((name, [None if g is None else g.detach().numpy().tolist() for g in gradients]))

    def full(m, grad_input, grad_output):
        note("input", grad_input), note("output", grad_output)
        return tuple(None if g is None else g * 2 for g in grad_input) if kind == "replaced" else None

    def before(m, grad_output):
        note("before", grad_output)
        return tuple(None if g is None else g * 3 for g in grad_output) if kind == "replaced" else None

    handles = [module.register_full_backward_hook(full), module.register_full_backward_pre_hook(before)]
    handles.append(module.linear.register_full_backward_hook(lambda m, i, o: note("inner", (*i, *o))))
    x, y = torch.ones(2, 3, requires_grad=kind != "no inputs"), torch.ones(2, 2)
    for both in (True, False):
        first, second = module(x, y)
        (first.sum() + second if both else first.sum()).backward()
    with torch.no_grad():
        module(x, y)
    for handle in handles:
        handle.remove()
    count = len(said)
    module(x, y)[0].sum().backward()
    assert len(said) == count
    left = [p.grad.numpy().tolist() for p in module.parameters()]
    return said, left, None if x.grad is None else x.grad.numpy().tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["watched", "replaced", "no inputs"])
def test_hooks_see_what_they_see_in_torch(kind):
    mine, *theirs = (seen(torch, kind) for torch in languages())
    assert mine[0]
    for expected in theirs:
        assert mine == expected


def test_a_wrong_number_of_gradients():
    module = net(ours)
    module.register_full_backward_hook(lambda m, i, o: i[:1])
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 1, but expected 2"):
        module(ours.ones(1, 3, requires_grad=True), ours.ones(1, 2))[0].sum().backward()


def test_beside_compiled_code():
    """A hook on a part of a compiled module is called, with the same gradients."""
    found = []
    for compiled in (False, True):
        module, said = net(ours), []
        module.linear.register_full_backward_hook(
            lambda m, i, o, said=said: said.append(i[0].detach().numpy().tolist())
        )
        run = ours.compile(module, backend="aot_eager") if compiled else module
        x = ours.ones(2, 3, requires_grad=True)
        run(x, ours.ones(2, 2))[0].sum().backward()
        found.append((said, x.grad.numpy()))
    assert found[0][0] == found[1][0] and np.allclose(found[0][1], found[1][1])
