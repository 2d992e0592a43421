"""A compiled training step whose units are built in pieces: no piece is refused, and the results keep their bits.

Input: a small network with kernels that share a body, vector functions, tiles and reductions, cut at a few characters.
"""

import numpy as np
import pytest

import cutaway
from cutaway import nn
from stage4_runtime.runtime import unit_parts
from stage_contracts import config, events


def step(dtype):
    """The gradients and the updated weights of one step of a model with layers of two sizes."""
    cutaway.manual_seed(0)
    layers = [
        nn.Linear(96, 160),
        nn.LayerNorm(160),
        nn.GELU(),
        nn.Linear(160, 96),
        nn.Softmax(-1),
        nn.Linear(96, 7),
    ]
    model = nn.Sequential(*layers).to(dtype)
    optimizer = cutaway.optim.AdamW(model.parameters(), lr=0.1)
    x = cutaway.from_numpy(np.random.default_rng(0).standard_normal((64, 96))).to(dtype)
    loss = cutaway.compile(lambda x: cutaway.sum(cutaway.log(cutaway.sigmoid(model(x)))))(x)
    loss.backward()
    cutaway.compile(optimizer.step)()
    return [loss.detach().numpy(), *(p.detach().numpy() for p in model.parameters())]


@pytest.mark.parametrize("dtype", [cutaway.float32, cutaway.float64])
def test_a_training_step(dtype, monkeypatch):
    with config.patch(cache=False):
        whole = step(dtype)
        monkeypatch.setattr(unit_parts, "SMALLEST", 300)
        monkeypatch.setattr(unit_parts, "_cores", lambda: 4)
        cut, pieces_of = [], unit_parts.pieces_of
        monkeypatch.setattr(
            "stage4_runtime.runtime.compiler.pieces_of", lambda text: cut.append(pieces_of(text)) or cut[-1]
        )
        mark = events.EVENT_LOG.mark()
        with config.patch({"lowering.comments": False}):  # units that this process has not built yet
            parts = step(dtype)
    assert max(map(len, cut)) > 1
    assert not [e for e in events.EVENT_LOG.since(mark, "fallback") if e.name == "one piece"]
    assert [a.tobytes() for a in parts] == [b.tobytes() for b in whole]
