"""Writes to views of one tensor, on the tape or off it: values, sharing, identity, counters and gradients are eager's.

Input: programs that write to an argument without the tape seeing it, and ways in which two arguments are views.
"""

import itertools

import numpy as np
import pytest

import cutaway
from stage_contracts import events


def one_silently(x, y, w):
    with cutaway.no_grad():
        x.mul_(2)
    return (x * y * w).sum(), x, y[0]


def both_silently(x, y, w):
    with cutaway.no_grad():
        x.add_(1)
        y.mul_(3)
        x[0].zero_()
    return (x * w).sum() + (y * 1.0).sum(), x[1:], y


def through_detach(x, y, w):
    x.detach().mul_(2)
    return ((x * y * w).sum(),)


def without_gradients(x, y, w):
    x.mul_(2)
    y.add_(x.sum())
    return (x * y).sum(), x[0], y


VIEWS = {
    "the whole and itself reshaped": lambda b: (b, b.reshape(4, 4)),
    "the whole and its transpose": lambda b: (b, b.transpose(0, 1)),
    "rows that overlap": lambda b: (b[:3], b[1:]),
    "rows apart": lambda b: (b[0], b[1]),
    "columns apart": lambda b: (b[:, 0], b[:, 1]),
    "views of views": lambda b: (b[1:].transpose(0, 1)[1:], b[1:, 1:].reshape(3, 3).transpose(0, 1)),
}


def base_of(kind):
    leaf = cutaway.tensor(np.linspace(-1, 1, 16).reshape(4, 4), dtype=cutaway.float64)
    leaf.requires_grad = kind != "plain"
    return leaf, leaf * 1 if kind == "computed" else leaf


def run(function, views, kind):
    leaf, base = base_of(kind)
    x, y = views(base)
    whole = cutaway.full((5, 5), 1.5, dtype=cutaway.float64, requires_grad=kind != "plain")
    w = whole[tuple(slice(n) for n in x.shape)] if x.ndim == 2 else whole[0, : x.shape[0]]
    results = function(x, y, w)
    tensors = [*results, x, y, base]
    seen = [
        [t.tolist() for t in tensors],
        [[np.shares_memory(a._data, b._data) for a in tensors] for b in tensors],
        [[a is b for a in tensors] for b in tensors],
        [(t.stride(), t.requires_grad) for t in tensors],
        [t.version for t in tensors[1:]],  # a result of the compiled function counts from 0, as torch's
    ]
    if results[0].requires_grad:
        (results[0] + (x * x).sum() + sum((r * 2).sum() for r in results[1:] if r.requires_grad)).backward()
        seen += [leaf.grad.tolist(), whole.grad.tolist()]
    return seen


PROGRAMS = (one_silently, both_silently, through_detach)
CASES = [*itertools.product(PROGRAMS, VIEWS, ("leaf", "computed", "plain"))]
CASES += [(without_gradients, views, "plain") for views in VIEWS]


def agrees(program, views, kind, backend):
    compiled = cutaway.compile(program, backend=backend, fullgraph=True)
    mark = events.EVENT_LOG.mark()
    wanted = run(program, VIEWS[views], kind)
    for _ in range(2):
        for found, want in zip(run(compiled, VIEWS[views], kind), wanted, strict=True):
            if want and isinstance(want[0], list) and isinstance(want[0][0], (float, list)):
                for f, e in zip(found, want, strict=True):
                    np.testing.assert_allclose(f, e, rtol=1e-12)
            else:
                assert found == want
    assert not [e for e in events.EVENT_LOG.since(mark) if e.kind == "fallback"]


@pytest.mark.parametrize("program, views, kind", CASES, ids=lambda v: getattr(v, "__name__", v))
def test_written_views(program, views, kind):
    agrees(program, views, kind, "aot_eager")


@pytest.mark.parametrize("kind", ["computed", "plain"])
def test_written_views_in_kernels(kind):
    agrees(both_silently, "rows that overlap", kind, "inductor")


def test_a_write_on_the_tape_is_a_break():
    """What the views are of gets a new history, which residual code leaves to eager."""

    def program(x, y):
        x.mul_(2)
        return (x * y).sum()

    def gradient(function):
        leaf, base = base_of("computed")
        function(base[:3], base[1:]).backward()
        return leaf.grad.tolist()

    compiled = cutaway.compile(program, backend="aot_eager")
    np.testing.assert_allclose(gradient(compiled), gradient(program), rtol=1e-12)
    assert [b.code for b in compiled.breaks] == ["GB0090"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_that_was_plain_is_on_the_tape_now(backend):
    """The guards hold what the write relied on: that nothing behind the view requires grad."""

    def program(x):
        x.mul_(2)
        return x + 1

    compiled = cutaway.compile(program, backend=backend)
    plain = cutaway.ones(4, 4)
    compiled(plain[0])
    assert not compiled.breaks and plain[0].tolist() == [2.0] * 4
    with cutaway.no_grad():
        hidden = cutaway.ones(4, 4, requires_grad=True)[0]
    with pytest.raises(RuntimeError, match="view was created in no_grad mode"):
        program(hidden)
    with pytest.raises(RuntimeError, match="view was created in no_grad mode"):
        compiled(hidden)
    whole = cutaway.ones(4)
    compiled(whole)  # no view at all
    assert whole.tolist() == [2.0] * 4


def test_a_result_written_after_the_call_is_refused():
    """The backward reads it, and the function itself had written to it before."""
    x = cutaway.ones(3, requires_grad=True)
    out = cutaway.compile(lambda x: (x * 1).exp_(), backend="aot_eager")(x)
    with cutaway.no_grad():
        out.mul_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_saved_input_may_have_gaps():
    whole = cutaway.full((4, 4), 3.0, requires_grad=True)
    x = cutaway.ones(3, 3, requires_grad=True)
    cutaway.compile(lambda x, w: (x * 2 * w).sum())(x, whole[:3, :3]).backward()
    assert x.grad.tolist() == [[6.0] * 3] * 3 and whole.grad[0].tolist() == [2.0, 2.0, 2.0, 0.0]
