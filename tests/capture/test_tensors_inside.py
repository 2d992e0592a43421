"""`tensor([...])` inside compiled functions: a constant of the graph that each call gets anew, and open numbers.

Input: small functions, on the backends eager, aot_eager and inductor; NumPy or the function without compile says what comes out.
"""

import numpy as np
import pytest

import cutaway
from cutaway import func

BACKENDS = ("eager", "aot_eager", "inductor")
COMPILED_TO_CODE = ("list", "nested", "index", "alone")  # the others on the backends without a C++ compiler
X = [0.5, -1.5]

FUNCTIONS = {
    "list": lambda x: x + cutaway.tensor([1.0, 2.0]),
    "number": lambda x: x * cutaway.tensor(3),
    "complex": lambda x: x * cutaway.tensor([1 + 2j]),  # asked whether it is finite, an internal error
    "dtype": lambda x: x.double() * cutaway.tensor([1, 2], dtype=cutaway.float64),
    "nested": lambda x: cutaway.as_tensor([[1.0, 2.0], [3.0, 4.0]]) @ x,
    "index": lambda x: x[cutaway.tensor([1, 0, 0])],
    "vmap": lambda x: func.vmap(lambda v: v * cutaway.tensor([2.0, 3.0]))(cutaway.stack([x, x])),
    "grad": lambda x: func.grad(lambda v: (v * v * cutaway.tensor([2.0, 3.0])).sum())(x),
    "cond": lambda x: cutaway.cond(x.sum() > 0, lambda v: v + cutaway.tensor([1.0, 2.0]), lambda v: -v, (x,)),
    "not finite": lambda x: cutaway.tensor([float("nan"), float("inf")]) * x,
    "of elements": lambda x: cutaway.tensor([v * 2 for v in x]),
    "alone": lambda x: cutaway.tensor([1.0, 2.0]),
}


@pytest.mark.parametrize(
    ("name", "backend"),
    [(name, b) for name in FUNCTIONS for b in BACKENDS if b != "inductor" or name in COMPILED_TO_CODE],
)
def test_eager_values_from_one_graph(name, backend):
    function, x = FUNCTIONS[name], cutaway.tensor(X)
    compiled = cutaway.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        got, expected = compiled(x), function(x)
        assert got.dtype is expected.dtype
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_caller_writes_is_gone_at_the_next_call(backend):
    compiled = cutaway.compile(
        lambda x: (x + 1, cutaway.tensor([1.0, 2.0]), cutaway.tensor(4)), backend=backend
    )
    for _ in range(2):
        _, row, number = compiled(cutaway.tensor(X))
        assert row.tolist() == [1.0, 2.0] and number.item() == 4
        row.add_(5)
        number.add_(5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("others", (0, 1))
def test_a_clone_that_is_returned_has_memory_of_its_own(others, backend):
    x = cutaway.tensor(X)
    compiled = cutaway.compile(lambda x: ([x + 1] * others, x.clone()), backend=backend)
    compiled(x)[1].add_(5)
    assert x.tolist() == X


def test_a_number_that_changes_does_not_compile_again():
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph

    compiled = cutaway.compile(
        lambda x, scale, n: x * cutaway.tensor(scale) + cutaway.tensor(n), backend=backend
    )
    for scale, n in ((0.1, 3), (0.2, 4), (0.3, 5), (1e30, 6)):
        expected = np.float32(X) * np.float32(scale) + np.float32(n)
        np.testing.assert_allclose(compiled(cutaway.tensor(X), scale, n).numpy(), expected, rtol=1e-6)
    assert len(graphs) == 1


def test_the_default_dtype_is_asked_at_each_call():
    compiled = cutaway.compile(lambda: cutaway.tensor([1.0, 2.0]), backend="eager")
    assert compiled().dtype is cutaway.float32
    cutaway.set_default_dtype(cutaway.float64)
    try:
        assert compiled().dtype is cutaway.float64
    finally:
        cutaway.set_default_dtype(cutaway.float32)
