"""An index out of range and a target of another shape or dtype raise as in torch, in eager and on every backend.

Input: index_calls.py, and what torch did with each call. On the tree before these checks 660 of these 1848 calls did otherwise.
"""

import builtins
import json

import numpy as np
import pytest

import cutaway
from cutaway.torch_api import torch as ours
from stage_contracts import events
from tests.errors.index_calls import INDEXED, RECORD, asked, calls, function_of, outcome, result

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


@pytest.mark.parametrize("name", INDEXED)
def test_what_lies_behind_an_empty_index_is_not_read(name):
    """A kernel that loads an index before its loop of no steps gives a false alarm: embedding and embedding_bag did."""
    path, args, at, _ = INDEXED[name]
    function = function_of(ours, path)
    given = [ours.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    behind = np.full((2, *args[at].shape[1:]), 2**40)
    given[at] = ours.from_numpy(behind[:0])
    with events.no_internal_errors():
        check(result(function, given), name, "empty")
        check(result(cutaway.compile(lambda *a: function(*a), dynamic=False), given), name, "empty")


def test_the_record_is_what_torch_does():
    torch = pytest.importorskip("torch")
    assert asked(torch) == TORCH
