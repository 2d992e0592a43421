"""The one-screen capture: programs of its language, what it guards, and what it leaves to eager.

Input: stage1_capture.tiny.capture. Its frames run as those of the full capture do, through the same harness.
"""

from pathlib import Path

import numpy as np
import pytest

from stage0_eager import nn
from stage0_eager.functions.pointwise import sin
from stage0_eager.nn import functional as F
from stage1_capture import tiny
from stage1_capture.tests.harness import described, guards_hold, residual_function, tensor

SCALE = 2.0
SHIFT = tensor(3, 4, seed=7)
CALLS = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU()
        self.gain = 0.5

    def forward(self, x):
        return self.act(self.fc(x)) * self.gain


NET = Net()


def helper(x, y):
    return x * y + SCALE


def make_closure(k, t):
    return lambda x: x * k + t


def with_while(x):
    CALLS.append(1)
    while x.sum() > 0:
        x = x - 1
    return x


def with_print(x):
    y = x + 1
    print(y)
    return y


def with_try(x):
    try:
        return x + 1
    except ValueError:
        return x


X, Y = tensor(3, 4), tensor(3, 4, seed=1)


def chain(x):
    y = sin(x)
    z = y + x
    return z / 2, y


PROGRAMS = {
    "add": (lambda x, y: x + y * 2 - 1, (X, Y)),
    "reflected": (lambda x: 1 - x, (X,)),
    "divide": (lambda x: 2 / x + 2**x, (X,)),
    "compare": (lambda x, y: (x < y, x <= 0), (X, Y)),
    "negative": (lambda x: -x, (X,)),
    "matmul": (lambda x, y: x @ y.transpose(0, 1), (X, Y)),
    "operators": (lambda x: F.relu(sin(x)), (X,)),
    "python_module": (lambda x: F.softmax(x, dim=-1), (X,)),
    "methods": (lambda x: x.exp().sum(dim=1, keepdim=True).log(), (X,)),
    "scalar_argument": (lambda x, k: x * (k + 1), (X, 3)),
    "global": (lambda x: x * SCALE + SHIFT, (X,)),
    "closure": (make_closure(3.0, Y), (X,)),
    "inlined": (lambda x, y: helper(y=x, x=y) + 1, (X, Y)),
    "locals": (chain, (X,)),
    "returned_input": (lambda x, y: [x, x + y, (y, 2)], (X, Y)),
    "net": (lambda x: NET(x), (X,)),
    "method_of_net": (Net.forward, (NET, X)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    function, args = PROGRAMS[name]
    frame = tiny.capture(function, args, {})
    assert frame.breaks == (), str(frame.breaks[0])
    frame.graph.verify()
    assert [n.meta["source"] for n in frame.graph.placeholders] == list(frame.inputs)
    assert all(n.origins[0].file == __file__ for n in frame.graph.calls)
    assert guards_hold(frame, function, args)
    assert described(residual_function(frame, function)(*args)) == described(function(*args))


def test_an_input_comes_back_as_itself():
    frame = tiny.capture(PROGRAMS["returned_input"][0], (X, Y), {})
    assert residual_function(frame, PROGRAMS["returned_input"][0])(X, Y)[0] is X


def test_guards_on_arguments():
    function, args = PROGRAMS["scalar_argument"]
    frame = tiny.capture(function, args, {})
    assert not guards_hold(frame, function, (X, 4))
    assert not guards_hold(frame, function, (tensor(2, 4), 3))
    assert not guards_hold(frame, function, (tensor(3, 4, dtype=np.float64), 3))


def test_guards_on_globals(monkeypatch):
    function, args = PROGRAMS["inlined"]
    frame = tiny.capture(function, args, {})
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert not guards_hold(frame, function, args)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert guards_hold(frame, function, args)
    monkeypatch.setitem(globals(), "helper", lambda x, y: x)
    assert not guards_hold(frame, function, args)


def test_guards_on_modules():
    net = Net()
    frame = tiny.capture(Net.forward, (net, X), {})
    assert guards_hold(frame, Net.forward, (net, X))
    assert not guards_hold(frame, Net.forward, (Net(), X))
    net.gain = 0.25
    assert not guards_hold(frame, Net.forward, (net, X))
    net.gain = 0.5
    assert guards_hold(frame, Net.forward, (net, X))
    net.act = nn.Tanh()
    assert not guards_hold(frame, Net.forward, (net, X))


@pytest.mark.parametrize("function", [with_while, with_print, with_try, lambda x: x.item(), lambda x: x @ X])
def test_what_it_leaves_out_is_one_break(function, capsys):
    frame = tiny.capture(function, (X,), {})
    assert len(frame.breaks) == 1 and frame.graph is None and frame.residual is None
    assert frame.breaks[0].origin.file == __file__
    assert capsys.readouterr().out == "" and CALLS == []
    assert guards_hold(frame, function, (X,))


def test_it_stays_small():
    assert len(Path(tiny.__file__).read_text().splitlines()) <= 290
