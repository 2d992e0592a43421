"""`__torch_function__`: objects and subclasses of Tensor that answer calls themselves, and modes; beside torch.

Input: classes made for either torch.
"""

import threading

import pytest

from cutaway.torch_api import torch as ours


def languages():
    yield ours
    try:
        import torch
        import torch.overrides
    except ImportError:
        return
    yield torch


def answers(torch):
    """What calls with objects of a program's classes give, in a form that both torchs share."""
    F, overrides, out = torch.nn.functional, torch.overrides, []

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "asked", func.__name__

    out.append([torch.add(Duck(), 2), torch.stack([Duck()])[0], F.relu(Duck())[0], torch.mean(Duck())])
    out.append([overrides.has_torch_function((a,)) for a in (Duck(), torch.ones(1), 3)])
    out.append([overrides.is_tensor_like(a) for a in (Duck(), torch.ones(1), 3)])

    def mine(x):
        return overrides.handle_torch_function(mine, (x,), x) if overrides.has_torch_function((x,)) else x

    out.append([mine(Duck()), mine(3)])

    class Plain(torch.Tensor):
        pass

    leaf = torch.ones(3, requires_grad=True)
    p = torch.ones(3).as_subclass(Plain)
    found = [
        p,
        p + 1,
        torch.ones(3) + p,
        p.sum(),
        p.view(3, 1),
        torch.max(p, 0)[0],
        torch.nn.Parameter(leaf) * p,
    ]
    (leaf.as_subclass(Plain) * 2).sum().backward()
    p.note = "kept"
    out.append([[type(a) is Plain for a in found], leaf.grad.tolist(), (p + 1).tolist(), p.note])
    out.append(type(torch.Tensor._make_subclass(Plain, torch.ones(2))) is Plain)
    with torch._C.DisableTorchFunctionSubclass():
        out.append(type(p + 1) is torch.Tensor)

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    seen = []
    out.append(type(torch.sin(torch.ones(2).as_subclass(Logged))) is Logged)
    with Mode():
        torch.exp(torch.ones(2))
    torch.cos(torch.ones(2))
    out.append([name in seen for name in ("sin", "exp", "cos")])
    return out


def test_classes_answer_as_in_torch():
    mine, *theirs = map(answers, languages())
    assert all(mine == expected for expected in theirs)
    assert mine[0][0] == ("asked", "add") and mine[-1] == [True, True, False]


def test_nobody_answers():
    class Silent:
        @classmethod
        def __torch_function__(cls, *question, **words):
            return NotImplemented

    for torch in languages():
        with pytest.raises(TypeError):
            torch.add(Silent(), 1)
    with pytest.raises(TypeError, match=r"no implementation found for 'add' .* \[Silent\]"):
        ours.add(Silent(), 1)
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        ours.ones(1).as_subclass(Silent)
    with pytest.raises(TypeError, match="argument 'input' must be Tensor"):
        ours.relu("x")


def test_a_mode_is_one_threads():
    seen = []

    class Mode(ours.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(threading.get_ident())
            return func(*args, **(kwargs or {}))

    with Mode():
        other = threading.Thread(target=lambda: ours.exp(ours.ones(1)))
        other.start(), other.join()
        assert not seen
        ours.exp(ours.ones(1))
    assert {*seen} == {threading.get_ident()}


def test_compiled_code_takes_tensors_after_classes_were_made():
    """From the first such class on every operator asks; compiled code and its gradients stay the same."""
    answers(ours)
    x = ours.randn(4, requires_grad=True)
    out = ours.compile(lambda x: (ours.sin(x) * 2).relu().sum(), fullgraph=True, backend="aot_eager")(x)
    out.backward()
    assert ours.allclose(x.grad, ours.where(ours.sin(x) > 0, 2 * ours.cos(x), 0.0))


CALLS_OF_PYTORCH = {
    "a function": lambda torch, x: torch.add(x, x),
    "a function of nn": lambda torch, x: torch.nn.functional.gelu(x),
    "a function written in Python": lambda torch, x: torch.nn.functional.layer_norm(x, (3,)),
    "a module": lambda torch, x: torch.nn.Linear(3, 2)(x),
    "a list": lambda torch, x: torch.stack([x, x]),
    "a method": lambda torch, x: torch.ones(2, 3).add(x),
}


@pytest.mark.parametrize("call", CALLS_OF_PYTORCH)
def test_a_function_of_pytorch_says_what_it_was_given(call):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="PyTorch's own `.*` was given a tensor of Cutaway"):
        CALLS_OF_PYTORCH[call](torch, ours.ones(2, 3))
