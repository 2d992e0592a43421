"""The programs of torch.compile's guides about NumPy, written anew: each shows what the guide says of it.

Input: the FAQ's section on NumPy, torch.compiler.wrap_numpy's page, and the article on compiling NumPy code.
"""

import warnings

import numpy as np
import pytest

from cutaway.torch_api import torch
from stage_contracts.breaks import Unsupported


@pytest.fixture
def counter():
    return torch._dynamo.testing.CompileCounter()


def points(n=200):
    rng = np.random.default_rng(0)
    return np.repeat([[5.0, 5.0], [10.0, 10.0]], [n, n], axis=0) + rng.standard_normal((2 * n, 2))


def nearest(x, means):
    return np.argmin(np.linalg.norm(x - means[:, None], axis=2), axis=0)


MEANS = np.array([[5.0, 5.0], [10.0, 10.0]])


def test_one_step_of_k_means_is_one_graph_and_one_program():
    compiled = torch.compile(nearest)
    labels = compiled(points(), MEANS)
    assert type(labels) is np.ndarray and labels.dtype == np.int64
    np.testing.assert_array_equal(labels, nearest(points(), MEANS))
    (made,) = compiled.artifacts
    assert not compiled.breaks and made.frame.graph is not None
    assert len(made.forward.planned.kernels) <= 2, "the distances and their norms are not stored"


def test_k_means_under_fullgraph(counter):
    compiled = torch.compile(nearest, backend=counter, fullgraph=True)
    np.testing.assert_array_equal(compiled(points(), MEANS), nearest(points(), MEANS))
    assert counter.frame_count == 1
    assert torch._dynamo.explain(nearest)(points(), MEANS).graph_break_count == 0


def test_a_numpy_function_with_einsum(counter):
    @torch.compile(backend=counter)
    def contract(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1))

    x, y = np.random.default_rng(1).standard_normal((2, 64, 8))
    got = contract(x, y)
    assert isinstance(got, np.ndarray) and counter.frame_count == 1
    np.testing.assert_allclose(got, np.einsum("ni,nj->n", x, y), rtol=1e-12, atol=1e-12)


def test_numpy_code_on_tensors_with_gradients():
    @torch.compile(fullgraph=True)
    @torch.compiler.wrap_numpy
    def total(a):
        return np.sum(a * a)

    x = torch.arange(6, dtype=torch.float32).requires_grad_()
    out = total(x)
    assert isinstance(out, torch.Tensor) and out.item() == 55
    out.backward()
    assert x.grad.tolist() == [0, 2, 4, 6, 8, 10]


def test_a_mixed_program_between_tensors_and_arrays(counter):
    @torch.compile(backend=counter, fullgraph=True)
    def mixed(t):
        a = t.numpy()
        b = np.sin(a) + 1
        return torch.from_numpy(b) * t

    t = torch.ones(4)
    np.testing.assert_allclose(mixed(t).numpy(), np.full(4, np.sin(np.float32(1)) + 1), rtol=1e-6)
    assert counter.frame_count == 1


def test_array_to_tensor_and_back():
    def f(x):
        t = torch.from_numpy(x) * 2
        return t.numpy() + 1

    assert torch.compile(f, backend="eager", fullgraph=True)(np.ones(3, np.float32)).tolist() == [3, 3, 3]


def test_results_without_dimensions_are_arrays_not_scalars():
    total = torch.compile(lambda a: np.sum(a), backend="eager")(np.ones(3))
    assert type(total) is np.ndarray and total.shape == () and total == 3.0


def test_promotion_is_that_of_nep_50():
    f = torch.compile(
        lambda a: (a + 1.5, a * np.float64(1.5), np.arange(3) + 1), backend="eager", fullgraph=True
    )
    assert [x.dtype for x in f(np.ones(3, np.float32))] == [np.float32, np.float64, np.int64]


def test_what_is_not_supported_runs_in_numpy(counter):
    def f(names, x):
        return np.sort(names), np.add.reduce(x) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ordered, total = torch.compile(f, backend=counter)(np.array(["b", "a"]), np.ones(3))
    assert ordered.tolist() == ["a", "b"] and total == 4
    with pytest.raises(Unsupported, match="GB0030"):
        torch.compile(f, backend=counter, fullgraph=True)(np.array(["b", "a"]), np.ones(3))


def test_random_numbers_are_numpys_own(counter):
    def noisy(x):
        return x + np.random.randn(3)

    np.random.seed(7)
    want = [noisy(np.ones(3)), np.random.rand()]
    np.random.seed(7)
    compiled = torch.compile(noisy, backend=counter)
    got = [compiled(np.ones(3)), np.random.rand()]
    np.testing.assert_array_equal(got[0], want[0])
    assert got[1] == want[1] and counter.frame_count == 1


def test_looking_for_a_fault_with_tracing_off(counter):
    def f(x):
        return np.sin(x) ** 2 + np.cos(x) ** 2

    with torch._dynamo.config.patch(trace_numpy=False):
        np.testing.assert_array_equal(torch.compile(f, backend=counter)(np.ones(3)), f(np.ones(3)))
        assert counter.frame_count == 0
    assert torch._dynamo.config.trace_numpy is True
    torch.compile(f, backend=counter)(np.ones(3))
    assert counter.frame_count == 1


def test_the_log_shows_numpys_names():
    compiled = torch.compile(nearest, backend="eager")
    compiled(points(), MEANS)
    text = str(compiled.artifacts[0].frame.graph)
    assert "numpy.linalg.norm(" in text and "numpy.argmin(" in text and "means[:, None]" in text
