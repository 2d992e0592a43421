"""How few kernels the rows of every model become, and their C++, kept as text that is meant to be read.

Input: softmax, layer norm and cross entropy, forward and backward, and an optimizer's step over 200 parameters.
CUTAWAY_UPDATE_GOLDEN=1 writes the texts anew. On the tree before, cross entropy's backward is three kernels and AdamW ten.
"""

import os
from pathlib import Path

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from cutaway import nn, optim
from stage_contracts import config
from stage_contracts.program import Launch

GOLDEN = Path(__file__).parent / "golden"
ROWS, COLUMNS = 512, 1024


def x():
    return cutaway.ones(ROWS, COLUMNS, requires_grad=True)


def classes():
    return cutaway.tensor(np.arange(ROWS))


def weights():
    return cutaway.ones(COLUMNS, requires_grad=True), cutaway.zeros(COLUMNS, requires_grad=True)


def adamw():
    shapes = [(k % 5 + 1, k % 7 + 1) if k % 3 else (k % 11 + 1,) for k in range(200)]
    parameters = [nn.Parameter(cutaway.full(shape, 0.5)) for shape in shapes]
    for p in parameters:
        p.grad = cutaway.ones_like(p).detach()
    optimizer = optim.AdamW(parameters, lr=1e-2)
    return lambda: optimizer.step()


# name: the function, its arguments, the most launches of its forward and backward
CASES = {
    "softmax": (lambda: lambda x: F.softmax(x, -1), lambda: (x(),), 1, 1),
    "layer_norm": (
        lambda: lambda x, w, b: F.layer_norm(x, (COLUMNS,), w, b),
        lambda: (x(), *weights()),
        1,
        2,
    ),
    # the second of the forward is the mean over all rows
    "cross_entropy": (lambda: F.cross_entropy, lambda: (x(), classes()), 2, 1),
    "adamw": (adamw, tuple, 2, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_their_text(name):
    make, arguments, forward, backward = CASES[name]
    with config.patch({"lowering.comments": False, "cache": False}):
        compiled = cutaway.compile(make())
        compiled(*arguments())
    halves = {"forward": forward, "backward": backward}
    for half, most in halves.items():
        artifacts = getattr(compiled.artifacts[-1], half)
        if artifacts is None:
            assert not most
            continue
        program = artifacts.emitted["cpp"]
        launches = [step for step in program.steps if isinstance(step, Launch)]
        assert len(launches) <= most, [step.kernel for step in launches]
        text, _, _ = program.units[0].text.partition("// ---- run")
        golden(f"{name}_{half}.cpp.txt", text[text.index('extern "C" int64_t fused') :])


def golden(name, text):
    path = GOLDEN / name
    if os.environ.get("CUTAWAY_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{name} changed; if that is wanted: CUTAWAY_UPDATE_GOLDEN=1"
