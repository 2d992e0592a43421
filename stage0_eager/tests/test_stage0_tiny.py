"""The one-screen stage: each operator against differences, gradients of gradients, its trace, and the real stage.

Input: stage0_eager/tiny.py.
"""

from pathlib import Path

import numpy as np
import pytest

from stage0_eager import tiny
from stage0_eager.functions.creation import tensor as real_tensor
from stage0_eager.tiny import TABLE, Tensor, backward, grad, relu, reshape, sin, tanh, total, trace

RNG = np.random.default_rng(0)
A, B = RNG.uniform(0.3, 1.4, (2, 3)), RNG.uniform(0.3, 1.4, (3,))
SAMPLES = {
    "add": (A, B), "mul": (A, B), "power": (A, 3), "exp": (A,), "log": (A,), "sin": (A,), "cos": (A,), "tanh": (A,),
    "relu": (A - 0.8,), "step": (A - 0.8,), "matmul": (A, A.T.copy()), "sum": (A, (1,)), "expand": (B, (4, 3)),
    "reshape": (A, (3, 2)), "transpose": (A,),
}  # fmt: skip


def run(name, arrays, weights):
    return float((TABLE[name].kernel(*arrays) * weights).sum())


@pytest.mark.parametrize("name", TABLE)
def test_each_operator(name):
    args = SAMPLES[name]
    weights = RNG.uniform(0.5, 1.5, TABLE[name].kernel(*args).shape)
    given = [Tensor(a, requires_grad=True) if isinstance(a, np.ndarray) else a for a in args]
    out = tiny.apply(name, *given)
    np.testing.assert_array_equal(out.data, TABLE[name].kernel(*args))
    backward(total(out * Tensor(weights)))
    for k, a in enumerate(args):
        if not isinstance(a, np.ndarray):
            continue
        want = np.zeros(a.shape)
        for i in np.ndindex(a.shape):
            up, down = a.copy(), a.copy()
            up[i] += 1e-6
            down[i] -= 1e-6
            ends = [run(name, [*args[:k], end, *args[k + 1 :]], weights) for end in (up, down)]
            want[i] = (ends[0] - ends[1]) / 2e-6
        found = np.zeros(a.shape) if given[k].grad is None else given[k].grad.data
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-8)


def test_gradients_of_gradients():
    x = Tensor([0.5, 2.0])
    first = grad(lambda v: total(v * sin(v)))
    second = grad(lambda v: total(first(v)))
    third = grad(lambda v: total(second(v)))
    d = x.data
    np.testing.assert_allclose(first(x).data, np.sin(d) + d * np.cos(d))
    np.testing.assert_allclose(second(x).data, 2 * np.cos(d) - d * np.sin(d))
    np.testing.assert_allclose(third(x).data, -3 * np.sin(d) - d * np.cos(d))
    assert grad(lambda v: total(v * 0 + 1))(x).data.tolist() == [0, 0] and grad(lambda v: Tensor(1.0))(
        x
    ).data.tolist() == [0, 0]


def test_a_tensor_used_twice_and_leaves_that_accumulate():
    x = Tensor([3.0], requires_grad=True)
    y = x * x
    backward(total(y * y + y))
    assert x.grad.data.tolist() == [4 * 27 + 6]
    backward(total(x * 2))
    assert x.grad.data.tolist() == [116] and y.grad is None


def test_the_trace_of_a_gradient_is_forward_and_backward():
    assert trace(grad(lambda x: total(sin(x) * x)), Tensor([1.0, 2.0])).splitlines() == [
        "v0 = sin(x0)",
        "v1 = mul(v0, x0)",
        "v2 = sum(v1, (0,))",
        "v3 = reshape(v2, ())",
        "v4 = reshape(tensor(1.0), (1,))",
        "v5 = expand(v4, (2,))",
        "v6 = mul(v5, x0)",
        "v7 = mul(v5, v0)",
        "v8 = cos(x0)",
        "v9 = mul(v6, v8)",
        "v10 = add(v7, v9)",
        "return v10",
    ]
    assert [tiny.evaluate] == tiny.INTERPRETERS
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: x * (1 / 0), Tensor(1.0))
    assert [tiny.evaluate] == tiny.INTERPRETERS


def test_it_learns():
    """Exclusive or, by a network of eight hidden units and plain gradient descent."""
    x, y = Tensor([[0, 0], [0, 1], [1, 0], [1, 1]]), Tensor([[0], [1], [1], [0]])
    rng = np.random.default_rng(1)
    weights = [Tensor(rng.normal(size=s), requires_grad=True) for s in ((2, 8), (8,), (8, 1), (1,))]
    for _ in range(1500):
        w1, b1, w2, b2 = weights
        error = tanh(x @ w1 + b1) @ w2 + b2 - y
        loss = total(error * error)
        backward(loss)
        weights = [Tensor(w.data - 0.02 * w.grad.data, requires_grad=True) for w in weights]
    assert loss.data < 1e-3


def test_it_says_what_the_real_stage_says():
    arrays = [RNG.normal(size=s) for s in ((4, 3), (3, 5), (5,), (4, 5))]

    def loss(x, w, b, y, relu, total):
        hidden = relu(x @ w + b)
        return total((hidden - y) * (hidden - y) / (hidden * hidden + 1))

    small = [Tensor(a, requires_grad=True) for a in arrays]
    real = [real_tensor(a, requires_grad=True) for a in arrays]
    one, other = loss(*small, relu, total), loss(*real, lambda v: v.relu(), lambda v: v.sum())
    backward(one)
    other.backward()
    assert abs(float(one.data) - other.item()) < 1e-12
    for a, b in zip(small, real, strict=True):
        np.testing.assert_allclose(a.grad.data, b.grad.numpy(), rtol=1e-10, atol=1e-12)
    assert reshape(one, (1,)).shape == (1,)


def test_it_stays_on_one_screen():
    text = Path(tiny.__file__).read_text(encoding="utf-8")
    tags = text.count("# lab: ")  # what lab 1 leaves to the learner
    assert text.count("\n") - tags <= 200 and "stage_contracts" not in text
