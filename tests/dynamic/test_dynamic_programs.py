"""Programs about sizes, each compiled once with every size open: what it gives at other sizes is what eager gives.

Input: a table of functions of tensors with their shapes, and sizes to call them at: primes, multiples of a vector's
width, 1 and 0. Whatever a program asks of its sizes is a guard, so a few need a second compile.
"""

import builtins
import math

import numpy as np
import pytest

import cutaway
from cutaway.torch_api import torch
from stage_contracts import events

F = torch.nn.functional
SIZES = ((3, 5), (8, 16), (1, 7), (13, 1), (4, 4))


def causal(x):
    t = x.shape[1]
    mask = torch.ones(t, t, dtype=torch.bool).tril()
    scores = x.unsqueeze(2) * x.unsqueeze(1)
    return scores.masked_fill(~mask, float("-inf")).softmax(-1)


def branch(x):
    return x * 2 if x.shape[0] + x.shape[1] > 2 else x


def resized(x):
    b, t = x.shape
    return x.reshape(b * t), x.view(-1, t) + 1, x.reshape(b, 1, t).expand(b, 3, t)


def halves(x):
    n = x.shape[0] // 2
    return x[:n] + 1, x[n:], x[-1:], x[:, 1:]


def with_numbers(x):
    return x / x.shape[0] + len(x) * 0.5 - x.numel(), x * (x.shape[1] - 1), x.sum(0) / float(x.numel())


def anothers_size(x, y):
    """The graph has no x, and of n it is only told -n, n // 2 and a difference."""
    n = x.shape[0]
    return y[-n:] * 2, y.flatten()[n // 2 :] + 1, F.pad(y.flatten(), (0, 20 - n))


def one_for_all(x):
    """One size where a tuple may be given: for each dimension, or a list of counts."""
    n, planes = x.shape[0], x[None, None]
    return (
        x.repeat_interleave(n, 0),
        F.conv2d(planes, torch.ones(1, 1, 1, 1), padding=n),
        F.conv2d(planes[..., :1], torch.ones(1, 1, 1, 1), stride=n),
    )


def shapes_compared(x, y):
    assert x.shape == (len(x), y.shape[-1]) and [x.shape, 1] != [y.shape, 2]
    return x + y if x.shape[1:] == y.shape[1:] else x


def bits(x):
    n = x.shape[1]
    return (
        x * (n & 3) + (n | 2) - (5 ^ n) + ~n,
        x[:, : n & ~1].sum(),
        x[:, : (n >> 1) + 1] * (n << 2),
        x + (-n & +n),
    )


def of_floats(x):
    n = x.shape[1]
    half, left = divmod(n, 2)
    return (
        x[:, : math.ceil(n / 2)],
        x[:, : int(n * 0.7)] * half + left,
        x[:, : round(n / 3)],
        x * abs(n - 6) + abs(-n),
    )


def places(x):
    b, t = x.shape
    y = x.clone()
    y[[b - 1, 0]] = 7.0
    y[:, [[0], [t - 1]]] *= 2
    return x[:, [0, t - 1]], x[[0], [t - 1]], torch.tensor([t * 0.5, b]), x.new_tensor([[b, 2]]), y


def names_of_builtins(x, float, len, abs, int=2):
    n = x.shape[1]
    return x * math.sqrt(n) + abs.shape[0] + builtins.len(x) * 0.5, x[
        :, : builtins.int(n * 0.5)
    ] * builtins.float(n)


# name: the function of (s0, s1), the shapes of its arguments, how many compiles are enough
PROGRAMS = {
    "pointwise": (lambda x, y: (x * y + 1).tanh(), ["bt", "bt"], 1),
    "broadcast": (lambda x, y, z: x + y * z, ["bt", "t", "b1"], 1),
    "views": (resized, ["bt"], 1),
    "transposed": (lambda x: x.t().contiguous() + x.t(), ["bt"], 1),
    "arange": (lambda x: x + torch.arange(x.shape[1]) - torch.arange(0, x.shape[1], 1), ["bt"], 1),
    "countdown": (lambda x: x + torch.arange(x.shape[1], 0, -1) + torch.arange(x.shape[0] - 9, x.shape[0] * 9, x.shape[0] + 1)[:1], ["bt"], 3),
    "slices": (halves, ["bt"], 1),
    "cat": (lambda x, y: torch.cat([x, y, x[:, :1]], 1).sum(1), ["bt", "bt"], 2),
    "stack": (lambda x, y: torch.stack([x, y]).permute(1, 2, 0), ["bt", "bt"], 1),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1)), ["bt"], 1),
    "expand": (lambda x: x.unsqueeze(0).expand(4, -1, -1) * torch.ones(x.shape[0], 1), ["bt"], 1),
    "causal": (causal, ["bt"], 1),
    "reductions": (lambda x: (x.sum(0), x.mean(1), x.amax(1), x.var(), (x > 0).any(0)), ["bt"], 1),
    "softmax": (lambda x: F.log_softmax(x, 1) + x.softmax(0), ["bt"], 1),
    "matmul": (lambda x, y: (x @ y.t()).relu() @ y, ["bt", "bt"], 1),
    "linear": (lambda x, w: F.linear(x, w).sigmoid(), ["bt", "tt"], 1),
    "gather": (lambda x, i: torch.gather(x, 1, i % x.shape[1]) + F.embedding(i, x[:, :1] * 0 + 1)[..., 0] * 0, ["bt", "i"], 2),
    "branch": (branch, ["bt"], 2),
    "numbers": (with_numbers, ["bt"], 1),
    "another's size": (anothers_size, ["bt", "bt"], 1),
    "pieces of another's size": (lambda x, y: y.split(max(1, x.shape[1] // 2), 1)[-1] + 1, ["bt", "bt"], 3),
    "one for all": (one_for_all, ["bt"], 1),
    "normalised": (lambda x: F.layer_norm(x, (x.shape[1],)), ["bt"], 1),
    "cumsum": (lambda x: x.cumsum(1).flip(0), ["bt"], 1),
    "masked": (lambda x: torch.where(x > 0, x, torch.zeros_like(x)).clamp(max=1), ["bt"], 1),
    "chunk": (lambda x: [p * 2 for p in torch.cat([x, x], 1).split(x.shape[1], 1)], ["bt"], 1),
    "shapes compared": (shapes_compared, ["bt", "bt"], 1),
    "int beside a size": (lambda x, k: torch.arange(40.0)[k : k + x.shape[1]] * x + (x.shape[0] - k), ["bt", "k"], 1),
    "bits": (bits, ["bt"], 1),
    "of floats": (of_floats, ["bt"], 1),
    "places": (places, ["bt"], 1),
    "names of builtins": (names_of_builtins, ["bt", "k", "k", "bt"], 1),
    "filled": (lambda x, s: (torch.full_like(x, s), x.new_full((x.shape[0], 2), s), torch.arange(x.shape[1]) * s - (x > 0) / s), ["bt", "f"], 1),
    "scaled": (lambda x: (F.interpolate(x[None, None], scale_factor=1.5), F.interpolate(x[None], scale_factor=2.25, mode="linear")), ["bt"], 3),
    "new": (lambda x: torch.zeros(x.shape[0], 2) + torch.full((x.shape[0], 1), 3.0), ["bt"], 1),
}  # fmt: skip


def arguments(kinds, b, t, seed=0):
    rng = np.random.default_rng([seed, b, t])
    shapes = {"bt": (b, t), "t": (t,), "b1": (b, 1), "tt": (t, t)}
    made = []
    for kind in kinds:
        if kind in ("k", "f"):
            made.append(b + t if kind == "k" else 0.1 * (b + t))
        elif kind == "i":
            made.append(torch.from_numpy(rng.integers(0, max(b, 1), (b, t))))
        else:
            made.append(torch.from_numpy(rng.standard_normal(shapes[kind]).astype("float32")))
    return made


def leaves(value):
    if isinstance(value, cutaway.Tensor):
        return [value]
    return [leaf for item in value for leaf in leaves(item)]


def check_calls(program, compiled, kinds, sizes):
    for b, t in sizes:
        args = arguments(kinds, b, t)
        want, got = leaves(program(*args)), leaves(compiled(*args))
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape and g.dtype is w.dtype, (b, t, g.shape, w.shape)
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=2e-5, atol=2e-6, err_msg=str((b, t)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compile_for_all_sizes(name, backend):
    program, kinds, compiles = PROGRAMS[name]
    mark = events.EVENT_LOG.mark()
    compiled = cutaway.compile(program, backend=backend, dynamic=True, fullgraph=True)
    check_calls(program, compiled, kinds, SIZES)
    assert not list(events.EVENT_LOG.since(mark, "fallback"))
    assert len(compiled.entries) <= compiles


NEEDS_ELEMENTS = (
    "causal",
    "reductions",
    "softmax",
    "gather",
    "slices",
    "normalised",
    "one for all",
    "places",
    "scaled",
)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in NEEDS_ELEMENTS])
def test_empty_tensors_too(name):
    program, kinds, compiles = PROGRAMS[name]
    compiled = cutaway.compile(program, backend="aot_eager", dynamic=True, fullgraph=True)
    check_calls(program, compiled, kinds, ((3, 5), (0, 5), (4, 6)))
    assert len(compiled.entries) <= compiles + 1


@pytest.mark.parametrize("name", ["slices", "cat", "causal", "numbers", "gather", "chunk"])
def test_kernels_for_all_sizes(name):
    program, kinds, compiles = PROGRAMS[name]
    mark = events.EVENT_LOG.mark()
    compiled = cutaway.compile(program, dynamic=True, fullgraph=True)
    check_calls(program, compiled, kinds, SIZES)
    assert not list(events.EVENT_LOG.since(mark, "fallback"))
    assert len(compiled.entries) <= compiles


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_sizes_without_a_compiler(name):
    program, kinds, compiles = PROGRAMS[name]
    options = {"runtime.cxx": "/nowhere/g++"}
    compiled = cutaway.compile(program, dynamic=True, fullgraph=True, options=options)
    check_calls(program, compiled, kinds, SIZES)
    assert len(compiled.entries) <= compiles
