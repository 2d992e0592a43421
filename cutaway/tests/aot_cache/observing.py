"""What a call of a compiled function shows, beside eager's, and whether stage 2 ran for it.

Input: a function, and what makes its arguments. Each compile() is a new one, which shares nothing but the disk cache
with those before.
"""

import contextlib

import numpy as np

import cutaway
from stage_contracts import events


def tensor(*shape, grad=False, dtype=cutaway.float32, k=1):
    values = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float64).reshape(shape) * k / 7
    return cutaway.tensor(values, dtype=dtype).requires_grad_(grad)


def leaves(out):
    return [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, cutaway.Tensor)]


def observed(function, make, mode=contextlib.nullcontext):
    """Results, gradients, inputs afterwards, and how they share memory."""
    cutaway.manual_seed(5)
    inputs = make()
    with mode():
        out = leaves(function(*inputs))
        wanted = [t for t in out if t.requires_grad]
        if wanted:
            sum((t * t).sum() for t in wanted).backward()
    seen = [*out, *inputs, *(t.grad for t in inputs if t.grad is not None)]
    return [(t.tolist(), t.dtype, tuple(t.shape), t.stride(), t.requires_grad) for t in seen], [
        [np.shares_memory(a.detach().numpy(), b.detach().numpy()) for b in inputs] for a in out
    ]


def stage_two_ran(function, make, mode=contextlib.nullcontext, **options):
    """Whether stage 2 ran for a call, whose results must be eager's. Nothing in the machine may fail."""
    mark = events.EVENT_LOG.mark()
    compiled = cutaway.compile(function, **options)
    got = observed(compiled, make, mode)
    since = events.EVENT_LOG.since(mark)
    assert close(got, observed(function, make, mode))
    assert not [e for e in since if e.kind == "internal_error"]
    return any(e.kind == "pass" and e.name == "functionalize" for e in since)


def close(got, wanted):
    rows = zip(got[0], wanted[0], strict=True)
    return got[1] == wanted[1] and all(
        a[1:] == b[1:] and np.allclose(a[0], b[0], rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in rows
    )


def one():
    return (tensor(3, 4),)


def one_grad():
    return (tensor(3, 4, grad=True),)


def twice(x):
    return x.sin().exp(), x.cos() * x
