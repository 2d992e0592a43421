"""Composites of the language through the whole compiler: what compiled code gives is what eager gives.

Input: a table of functions of a (3, 4) tensor. Draws start from one seed; named tuples keep their names.
"""

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway as ct

CASES = {
    "rectifiers": lambda x: F.hardswish(x) + F.selu(x) + F.hardtanh(x, -0.5, 0.5) + F.mish(x),
    "glu": lambda x: F.glu(x),
    "isclose": lambda x: ct.isclose(x, x + 1e-9),
    "special values": lambda x: ct.nan_to_num(x / 0) + ct.fmax(x, -x),
    "logarithms": lambda x: ct.xlogy(x, x) + ct.logaddexp(x, x * 2) + ct.hypot(x, x + 1),
    "max along": lambda x: x.sin().max(1),
    "max's fields": lambda x: x.max(1).values + x.min(dim=1)[0],
    "max unpacked": lambda x: [*x.max(0, keepdim=True)],
    "aminmax": lambda x: x.aminmax(dim=1),
    "norms": lambda x: ct.norm(x, dim=1) + x.norm(3) + F.normalize(x).sum(),
    "statistics": lambda x: (ct.corrcoef(x), ct.var_mean(x, 1), x.std(1, False)),
    "sequences": lambda x: (
        ct.linspace(0, 1, 5),
        ct.trapezoid(x),
        ct.diff(x),
        ct.meshgrid(x[0], x[1])[1] * 2,
    ),
    "in place": lambda x: x.clone().clip_(0, 1).sinc_(),
    "out": lambda x: ct.add(x, x, out=ct.zeros(3, 4, dtype=ct.float64)) + ct.exp(x, out=None),
    "factorizations": lambda x: (
        ct.linalg.svd(x, full_matrices=False).S,
        ct.linalg.solve(x[:, :3], x[:, 3]),
        ct.linalg.qr(x)[1].abs(),
        ct.linalg.pinv(x),
    ),
    "norms of matrices": lambda x: ct.linalg.matrix_norm(x, "nuc") + ct.linalg.cond(x) + ct.cdist(x, x).sum(),
    "special functions": lambda x: (
        ct.lgamma(x) + ct.special.erfcx(x) + ct.special.log_ndtr(x) + ct.polygamma(1, x * x + 1)
    ),
    "running reductions": lambda x: (x.cumprod(1), x.cummax(0), ct.logcumsumexp(x, 1), ct.mode(x, 1)),
    "draws": lambda x: (x.clone().uniform_(-1, 1), ct.normal(x, 2.0), ct.multinomial(x.softmax(1), 2)),
}


def leaves(tree):
    return [leaf for t in tree for leaf in leaves(t)] if isinstance(tree, (tuple, list)) else [tree]


@pytest.mark.parametrize("name", CASES)
def test_compiled_gives_what_eager_gives(name):
    x = ct.tensor(np.random.default_rng(0).normal(size=(3, 4)))
    ct.manual_seed(1)
    want = CASES[name](x)
    ct.manual_seed(1)
    out = ct.compile(CASES[name], fullgraph=True)(x)
    assert type(out) is type(want)
    for one, other in zip(leaves(out), leaves(want), strict=True):
        assert one.dtype is other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-12, 1e-14)


def test_a_write_into_out_is_compiled():
    x, out = ct.tensor(np.ones((2, 3))), ct.tensor(np.zeros((2, 3)))
    found = ct.compile(lambda x, out: ct.mul(x, 3, out=out) + 1, fullgraph=True)(x, out)
    assert out.tolist() == [[3.0] * 3] * 2 and found.tolist() == [[4.0] * 3] * 2
    grown = ct.compile(lambda x, out: ct.mul(x, 3, out=out) + 1)(x, empty := ct.tensor(np.zeros(0)))
    assert empty.tolist() == out.tolist() and grown.tolist() == found.tolist()  # eager resizes


def test_gradients_through_the_compiler():
    def loss(x):
        values, _ = x.max(1)
        spectrum = ct.linalg.svd(x, full_matrices=False).S.sum() + ct.linalg.solve(x[:, :3], x[:, 3]).sum()
        return (
            (values * F.elu(x).norm(dim=1) + ct.logaddexp(x, x * x).sum(1)).sum()
            + spectrum
            + x.cumprod(1).sum()
        )

    x = ct.tensor(np.random.default_rng(0).normal(size=(3, 4)))
    found = []
    for function in (loss, ct.compile(loss)):
        leaf = x.clone().requires_grad_()
        function(leaf).backward()
        found.append(leaf.grad.numpy())
    np.testing.assert_allclose(*found, 1e-10)
