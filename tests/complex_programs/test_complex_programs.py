"""Complex programs on every backend: results, dtypes and gradients as in eager, one graph each, a guard on the dtype.

Input: programs.py, in both complex dtypes.
"""

import numpy as np
import pytest

import cutaway as ct
from stage_contracts import events
from tests.complex_programs.programs import PROGRAMS

BACKENDS = ("eager", "aot_eager", "inductor")


def operands(dtype, requires_grad=True):
    rng = np.random.default_rng(5)
    drawn = (rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3))).astype(dtype)
    return [ct.tensor(a, requires_grad=requires_grad) for a in drawn]


def run(function, dtype):
    """(results, gradients) of a program, the loss being the weighted sum of all parts."""
    x, y = operands(dtype)
    ct.manual_seed(3)
    out = function(x, y)
    results = out if isinstance(out, tuple) else (out,)
    loss = 0.0
    for k, part in enumerate(results):
        if part.requires_grad:
            part = ct.view_as_real(part) if part.is_complex() else part
            loss = loss + (part.double() * (1 + ct.arange(part.numel()).reshape(part.shape) * 0.1 + k)).sum()
    if isinstance(loss, ct.Tensor):
        loss.backward()
    return results, [t.grad for t in (x, y)]


def close(got, want):
    if want is None or got is None:
        assert got is want
        return
    assert got.dtype is want.dtype and got.shape == want.shape
    rough = want.dtype in (ct.complex64, ct.float32)
    np.testing.assert_allclose(
        got.detach().numpy(),
        want.detach().numpy(),
        rtol=2e-4 if rough else 1e-10,
        atol=1e-5 if rough else 1e-12,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_eagers(name, dtype, backend):
    function = PROGRAMS[name]
    want, slopes = run(function, dtype)
    ct.reset()
    with events.no_internal_errors():
        got, found = run(ct.compile(function, backend=backend, fullgraph=True), dtype)
    for mine, theirs in zip((*got, *found), (*want, *slopes), strict=True):
        close(mine, theirs)


def test_a_graph_is_for_its_dtype():
    ct.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    @ct.compile(backend=backend)
    def f(x):
        return x * 2

    x, _ = operands("complex64", False)
    f(x), f(x.real), f(x.to(ct.complex128)), f(x * 2)
    assert len(graphs) == 3


def test_an_open_size_keeps_its_graph():
    @ct.compile(dynamic=True, fullgraph=True)
    def f(x):
        return (ct.exp(x) * x.conj()).sum(0), ct.view_as_real(x) + 1

    for n in (3, 5, 7):
        x = ct.randn(n, 2, dtype=ct.complex128)
        for mine, theirs in zip(f(x), ((ct.exp(x) * x.conj()).sum(0), ct.view_as_real(x) + 1), strict=True):
            close(mine, theirs)
