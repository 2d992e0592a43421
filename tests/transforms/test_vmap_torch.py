"""vmap beside torch.func.vmap: the same results, or the same exception, for functions that only name public things.

Input: two float64 arrays, a function, dims. Skipped where torch is not installed.
"""

import numpy as np
import pytest

import cutaway

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(3, 4, 5)), RNG.normal(size=(5, 3))


def written(x, y):
    x[0] = x[1]
    return x.add_(1).mul_(y.sum())


# name: (function of (library, x, y), in_dims, out_dims)
CASES = {
    "product": (lambda L, x, y: x * y.sum(), (0, 1), 0),
    "matmul": (lambda L, x, y: x @ x.T, (0, None), 1),
    "last dims": (lambda L, x, y: x.sum(0) + y[0], (-1, 0), -1),
    "index": (lambda L, x, y: x[[0, 1], 1:], (0, 1), 0),
    "where": (lambda L, x, y: L.where(x > 0, x, 0.0), (1, None), 0),
    "std": (lambda L, x, y: x.std(0), (1, None), 0),
    "topk": (lambda L, x, y: tuple(x.topk(2)), (1, None), 0),
    "write": (lambda L, x, y: written(x, y), (0, None), 0),
    "einsum": (lambda L, x, y: L.einsum("ij,jk->ik", x, y), (0, None), 0),
    "layer_norm": (lambda L, x, y: L.nn.functional.layer_norm(x, (5,)), (0, None), 0),
    "softmax": (lambda L, x, y: L.softmax(x, 1), (0, None), 0),
    "convolution": (lambda L, x, y: L.nn.functional.conv1d(x[None], x[:2, None, :3].expand(2, 4, 3)), (0, None), 0),
    "inverse": (lambda L, x, y: L.linalg.inv(x @ x.T + L.eye(4, dtype=L.float64)), (0, None), 0),
    "cat": (lambda L, x, y: L.cat([x, y.T]), (0, None), 0),
    "pad": (lambda L, x, y: L.nn.functional.pad(x, (1, 1)), (0, None), 0),
    "gather": (lambda L, x, y: x.gather(0, L.zeros(1, 5, dtype=L.int64)), (0, None), 0),
    "promotion": (lambda L, x, y: L.tensor([1.0, 2.0]) * x[0, 0], (0, None), 0),
    "sizes differ": (lambda L, x, y: x, (0, 0), 0),
    "nothing mapped": (lambda L, x, y: x, (None, None), 0),
    "item": (lambda L, x, y: x.sum().item(), (0, None), 0),
    "if": (lambda L, x, y: x if x.sum() > 0 else -x, (0, None), 0),
    "nonzero": (lambda L, x, y: x.nonzero(), (0, None), 0),
    "mask": (lambda L, x, y: x[x > 0], (0, None), 0),
    "random": (lambda L, x, y: x + L.rand(4, 5), (0, None), 0),
    "out_dims None": (lambda L, x, y: x, (0, None), None),
    "no tensor": (lambda L, x, y: 3, (0, None), 0),
    "write to what is not batched": (lambda L, x, y: y.add_(x[0, 0]), (0, None), 0),
    "dim out of range": (lambda L, x, y: x.sum(3), (0, None), 0),
    "in_dim out of range": (lambda L, x, y: x, (7, None), 0),
}  # fmt: skip


def outcome(library, transform, name):
    function, in_dims, out_dims = CASES[name]
    x, y = library.from_numpy(A.copy()), library.from_numpy(B.copy())
    try:
        out = transform(lambda x, y: function(library, x, y), in_dims, out_dims)(x, y)
    except Exception as error:
        return type(error)
    return [np.array(t) for t in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_as_torch(name):
    got, want = outcome(cutaway, cutaway.func.vmap, name), outcome(torch, torch.func.vmap, name)
    if isinstance(want, type):
        assert got is want
        return
    assert len(got) == len(want)
    for ours, theirs in zip(got, want):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
