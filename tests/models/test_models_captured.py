"""The model files captured whole: one graph each, no break, and results that are those of eager.

Input: tests/models at their small size, in evaluation and, for the loss with its gradients, in training mode.
"""

import numpy as np
import pytest

import cutaway
from cutaway import compiler
from cutaway.torch_api import torch
from tests.models.cases import TINY, load_file, tensors


@pytest.fixture(scope="module")
def modules():
    return {case.file: load_file(case.file, True) for case in TINY}


@pytest.mark.parametrize("case", TINY, ids=lambda case: case.name)
def test_one_graph_without_a_break(case, modules):
    module = modules[case.file]
    cutaway.manual_seed(0)
    model = case.build(module).eval()
    batch = tensors(torch, case.batch(np.random.default_rng(case.seed)), "float32")
    counter = compiler.CompileCounter()
    compiled = cutaway.compile(model, backend=counter, fullgraph=True)
    for _ in range(2):
        for got, want in zip(case.run(module, compiled, batch), case.run(module, model, batch), strict=True):
            np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
    assert counter.frame_count == 1 and not compiled.compiled.breaks


def test_a_training_step_gives_eagers_gradients(modules):
    (case,) = [c for c in TINY if c.name == "gpt2"]
    module = modules[case.file]
    batch = tensors(torch, case.batch(np.random.default_rng(case.seed)), "float32")
    gradients = []
    for backend in (None, compiler.CompileCounter()):
        cutaway.manual_seed(0)
        model = case.build(module).train()
        called = cutaway.compile(model, backend=backend, fullgraph=True) if backend else model
        cutaway.manual_seed(1)
        case.run(module, called, batch)[1].backward()
        gradients.append([p.grad.numpy() for p in model.parameters()])
    assert backend.frame_count == 1
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_array_equal(a, b)


def trained(case, module, compiled, steps):
    """(losses, parameters and gradients after some steps as users write them, the step)."""
    cutaway.manual_seed(0)
    model = case.build(module).train()
    batch = tensors(torch, case.batch(np.random.default_rng(case.seed)), "float32")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step():
        optimizer.zero_grad()
        results = case.run(module, model, batch)
        loss = results[-1] if results[-1].ndim == 0 else (results[0] * results[0]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss

    counter = compiler.CompileCounter()
    run = cutaway.compile(step, backend=counter, fullgraph=True) if compiled else step
    cutaway.manual_seed(1)
    losses = [run().item() for _ in range(steps)]
    state = [p.detach().numpy() for p in model.parameters()] + [b.numpy() for b in model.buffers()]
    state += [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    assert counter.frame_count == (steps if compiled else 0)  # the first step makes the optimizer's state
    return losses, state, step


@pytest.mark.parametrize("case", [c for c in TINY if c.name != "resnext"], ids=lambda case: case.name)
def test_the_whole_training_step_is_one_graph(case, modules):
    module = modules[case.file]
    steps = 2 if case.name == "bert" else 1
    want_losses, want, _ = trained(case, module, False, steps)
    losses, got, step = trained(case, module, True, steps)
    assert losses == want_losses and len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    if case.name == "gpt2":
        found = cutaway.explain(step)()
        assert (found.graph_count, found.graph_break_count) == (1, 0)
