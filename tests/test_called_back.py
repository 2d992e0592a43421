"""Functions that C code or a module calls back are compiled though the frame that reaches them breaks there.

Input: small functions whose callback breaks in its middle. Frames with a graph are counted, not only results.
"""

import functools

import pytest

import cutaway
from cutaway import compiler, nn
from stage_contracts import events

LOG = []


def loud(*words):
    """A break."""
    LOG.append(print(*words, end=""))


def key(x):
    y = x * 2
    loud()
    return float((y + 1).sum().item())


def step(a, b):
    y = a * b
    loud()
    return y + 1


def hook(module, args, output):
    y = output * 3
    loud()
    return y + 1


class Adds:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        y = x * self.by
        loud()
        return y + 1


def hooked():
    layer = nn.ReLU()
    layer.register_forward_hook(hook)
    return layer


CALLERS = {
    "key": (lambda x, _: sorted([x, x * 3], key=key)[0] - 1, None),
    "step": (lambda x, _: functools.reduce(step, [x, x]) - 1, None),
    "mapped step": (lambda x, _: list(map(step, [x], [x]))[0] - 1, None),
    "hook": (lambda x, layer: layer(x) - 1, hooked),
    "Adds.__call__": (lambda x, adds: adds(x) - 1, lambda: Adds(2)),
}


@pytest.mark.parametrize("name", CALLERS)
def test_what_is_called_back_is_compiled(name, capsys):
    function, make = CALLERS[name]
    called = name.rpartition(" ")[2]
    given = make() if make else None
    counter = compiler.CompileCounter()
    compiled = cutaway.compile(function, backend=counter)
    x = cutaway.randn(3)
    mark = events.LEDGER.mark()
    for _ in range(2):
        assert cutaway.equal(compiled(x, given), function(x, given))
    graphs = [made.function_name for made in compiled.artifacts if made.frame.graph is not None]
    assert graphs.count(called) == 2, "the part before its break, and the part behind it"
    assert counter.frame_count == len(graphs)
    told = [event for event in events.LEDGER.since(mark) if event.kind == "compile" and event.name == called]
    assert len(told) >= 2, "the ledger knows them"
