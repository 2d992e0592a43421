"""Slices, min, max, abs and asserts of numbers that only the data knows, in one graph on every backend.

Input: small programs of a vector and a number in a tensor, run on numbers within the vector, beyond it, below it and
negative: Python's rules for a slice are eager's. An assertion that fails raises Python's AssertionError.
"""

from __future__ import annotations

import pytest

import cutaway
from cutaway.torch_api import torch
from tests.dynamic.assert_programs import computed, of_a_tensor, said, unsaid

BACKENDS = ("eager", "aot_eager", "inductor")


def written(x, n):
    y = x.clone()
    y[: n.item()] = 0
    return y


def tail(x, n):
    k = n.item()
    return x[-k:] + 1


def window(x, n):
    k = n.item()
    return x[k - 1 : k + 1] * 2


def rows_and_columns(x, n):
    k = n.item()
    m = x.reshape(1, -1).repeat(5, 1)
    return m[:k, k:], m[1:k], m[None, :k].shape[1] + x


def least(x, n):
    a, b = n.item(), (n + 1).item()
    return x * min(a, b) + max(a, 1) + max(0, a, b) + min(a, x.shape[0]) + abs(a) + a**2


def least_as_a_size(x, n):
    k = max(min(n.item(), 4), 0)
    return torch.ones(k).sum() + x


def flag(x, n):
    positive = (n > 0).item()
    return x * positive


def from_two(x, n):
    return x[(n - 1).item() : n.item()] + 1


SLICES = {
    "up_to": lambda x, n: x[: n.item()] + 1,
    "from": lambda x, n: x[n.item() :] * 2,
    "up_to_half": lambda x, n: x[: n.item() // 2] + 1,
    "written": written,
    "tail": tail,
    "window": window,
    "rows_and_columns": rows_and_columns,
    "least": least,
    "least_as_a_size": least_as_a_size,
    "flag": flag,
    "from_two": from_two,
}


def _values(result):
    return [t.tolist() for t in result] if isinstance(result, tuple) else result.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SLICES)
def test_as_in_eager_for_every_number(name, backend):
    function = SLICES[name]
    compiled = cutaway.compile(function, backend=backend, fullgraph=True)
    x = torch.arange(5.0) + 1
    for number in (2, 0, 1, 5, 9, -1, -3, -9):
        n = torch.tensor(number)
        assert _values(compiled(x, n)) == _values(function(x, n)), number
    assert len(compiled.artifacts) == 1


@pytest.mark.parametrize("name", ["up_to", "tail", "written"])
def test_an_open_size(name):
    function = SLICES[name]
    compiled = cutaway.compile(function, fullgraph=True, dynamic=True)
    for size in (5, 3, 8):
        x = torch.arange(float(size))
        for number in (2, 6, -2):
            n = torch.tensor(number)
            assert _values(compiled(x, n)) == _values(function(x, n))
    assert len(compiled.artifacts) == 1


# the program, a number that passes, one that does not, and the message
ASSERTS = [
    (said, 3, 4, "out of range"),
    (said, 0, -1, "out of range"),
    (unsaid, 0, -2, ""),
    (of_a_tensor, 3, -1, "negative"),
    (of_a_tensor, 0, 4, ""),
    (computed, 1, -1, "k >= 0"),  # the text that is computed is not known: the condition stands for it
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "good", "bad", "message"), ASSERTS)
def test_an_assertion_is_a_check_in_the_graph(function, good, bad, message, backend):
    compiled = cutaway.compile(function, backend=backend, fullgraph=True)
    x = torch.arange(5.0)
    for _ in range(2):
        assert compiled(x, torch.tensor(good)).tolist() == function(x, torch.tensor(good)).tolist()
        with pytest.raises(AssertionError) as raised:
            compiled(x, torch.tensor(bad))
        assert str(raised.value) == message
    assert len(compiled.artifacts) == 1
