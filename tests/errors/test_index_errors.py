"""An index out of range and a target of another shape or dtype raise as in torch, in eager and on every backend.

Input: index_calls.py, and what torch did with each call. On the tree before these checks 660 of these 1848 calls did otherwise.
"""

import builtins
import json

import pytest

import cutaway
from cutaway.torch_api import torch as ours
from stage_contracts import events
from tests.errors.index_calls import RECORD, asked, calls, function_of, outcome

TORCH = json.loads(RECORD.read_text(encoding="utf-8"))
# Where we do otherwise, and why.
OTHERWISE = {
    ("embedding_bag", "bool"): "as embedding: RuntimeError, where torch has no kernel: NotImplementedError"
}
CASES = [c for c in calls() if (c[0], c[1]) not in OTHERWISE]


def check(got, name, way):
    wanted = TORCH[name][way]
    if wanted == "value":
        assert got[0] == "value", (name, way, got)
    else:
        assert got[0] == "raises", (name, way, got, wanted)
        assert isinstance(got[1], getattr(builtins, wanted)), (name, way, repr(got[1]), wanted)


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", dict.fromkeys(c[0] for c in CASES))
def test_it_raises_as_in_torch(name, backend):
    with events.no_internal_errors():
        for _, way, path, args in (c for c in CASES if c[0] == name):
            function = function_of(ours, path)
            if backend:
                call = lambda *a, f=function: f(*a)  # noqa: E731
                function = cutaway.compile(call, backend=backend, options={"runtime.cxx_flags": "-O0"})
            check(outcome(ours, function, args), name, way)


def test_the_record_is_what_torch_does():
    torch = pytest.importorskip("torch")
    assert asked(torch) == TORCH
