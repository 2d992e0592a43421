"""The promise of the guide: a network's loss and a language model's at batches 64, 3, 2, 1, 0: two compiles at most.

Input: an MLP and the GPT-2 file at a small size, with and without gradients, on each backend. The first call compiles
for its size, the second for every batch; results and gradients are eager's.
"""

import numpy as np
import pytest

import cutaway
from cutaway import nn
from cutaway.torch_api import torch
from stage_contracts import events
from tests.models.cases import load_file, tensors

BATCHES = (64, 3, 2, 1, 0)


def network():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def draw(batch, length):
        rng = np.random.default_rng(batch)
        return rng.standard_normal((batch, 8)), rng.integers(0, 4, batch)

    return model, lambda x, y: torch.nn.functional.cross_entropy(model(x), y), draw


def language_model():
    file = load_file("gpt2", True)
    config = file.GPT2Config(block_size=16, vocab_size=33, n_layer=1, n_head=2, n_embd=8, dropout=0.0)
    model = file.GPT2(config)

    def draw(batch, length):
        rng = np.random.default_rng([batch, length])
        return rng.integers(0, 33, (batch, length)), rng.integers(0, 33, (batch, length))

    return model, lambda x, y: model(x, y)[1], draw


def results(model, loss, batch, gradients):
    """The loss, and each parameter's gradient if it is asked for."""
    if not gradients:
        with torch.no_grad():
            return [loss(*batch).numpy()]
    model.zero_grad()
    value = loss(*batch)
    value.backward()
    return [value.detach().numpy(), *(p.grad.numpy().copy() for p in model.parameters())]


def check_calls(make, backend, gradients, calls, **options):
    cutaway.manual_seed(0)
    model, loss, draw = make()
    compiled = cutaway.compile(loss, backend=backend, fullgraph=True, **options)
    mark = events.EVENT_LOG.mark()
    for call in calls:
        batch = tensors(torch, draw(*call), "float32")
        with np.errstate(invalid="ignore"):  # the mean of nothing
            want, got = (results(model, f, batch, gradients) for f in (loss, compiled))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-6, err_msg=str(call))
    assert not list(events.EVENT_LOG.since(mark, "fallback"))
    return len(compiled.entries)


@pytest.mark.parametrize("gradients", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("make", [network, language_model])
def test_five_batches_are_at_most_two_compiles(make, backend, gradients):
    calls = [(batch, 8) for batch in BATCHES]
    assert check_calls(make, backend, gradients, calls) <= 2


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_batch_and_length_at_once_are_one_compile_when_all_is_open(backend):
    calls = [(3, 8), (2, 16), (1, 5), (5, 1), (0, 7)]
    assert check_calls(language_model, backend, True, calls, dynamic=True) == 1
