"""Small programs and inputs that the labs' checks share, and how to compile one with a part of yours in it.

Input: the function of a learner, for one seam. The inputs are such as a first version forgets: odd sizes, gaps and
transposed memory, one tensor given twice, NaN and infinity, no elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import cutaway
from stage_contracts.events import EVENT_LOG

from .checks import Wrong

F = cutaway.nn.functional
checkpoint = cutaway.utils.checkpoint.checkpoint


@dataclass(frozen=True)
class Program:
    """A function, and the NumPy arrays that it is called with."""

    function: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    says: str  # what is unusual about it

    def tensors(self, requires_grad: bool = True) -> list[Any]:
        """Fresh tensors with the arrays' own strides. An array that is given twice becomes one tensor, given twice."""
        made = {
            id(a): cutaway.from_numpy(a.copy(order="K")).requires_grad_(requires_grad) for a in self.arrays
        }
        return [made[id(a)] for a in self.arrays]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 between -2 and 2, the same for the same seed."""
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def product(x: Any, y: Any) -> Any:
    return x * y


def views(x: Any, y: Any) -> Any:
    return (x.t() * y).reshape(-1).exp() * y.reshape(-1)


def network(x: Any, w1: Any, b1: Any, w2: Any) -> Any:
    return F.gelu(F.linear(x, w1, b1)) @ w2


def softmax(x: Any) -> Any:
    return F.softmax(x, 1)


def twice(x: Any, y: Any) -> Any:
    return (x * y).tanh() + x


def chain(x: Any, y: Any) -> Any:
    return ((x + y).exp() * y).sum(0).sqrt()


def checkpointed(x: Any, w: Any) -> Any:
    return checkpoint(lambda v: (v @ w).exp().sin(), x, use_reentrant=False) * x


X = numbers(7, 5)
SPECIAL = np.array(
    [[0.0, -0.0, np.nan, 1.0, -1.0], [np.inf, 1.0, -np.inf, 3e38, 1e-40], [2.0] * 5], np.float32
)
PRODUCT = Program(product, (numbers(3), numbers(3, seed=1)), "two inputs, one operator")
VIEWS = Program(
    views, (numbers(14, 5)[::2, ::-1].T, numbers(7, 5, seed=1)), "strided inputs, read through views"
)
NETWORK = Program(
    network,
    (X, numbers(6, 5, seed=1), numbers(6, seed=2), numbers(6, 3, seed=3)),
    "a layer, an activation, a layer",
)
TWICE = Program(twice, (X, X), "one tensor as both arguments")
NANS = Program(softmax, (SPECIAL,), "NaN, infinities, a denormal number")
CHAIN = Program(chain, (numbers(9, 3) + 3, numbers(3, seed=1) + 3), "a sum over rows")
EMPTY = Program(chain, (numbers(0, 3), numbers(3)), "no rows")
CHECKPOINTED = Program(checkpointed, (numbers(5, 5), numbers(5, 5, seed=1)), "a checkpoint")
ALL = (PRODUCT, VIEWS, NETWORK, TWICE, NANS, CHAIN, EMPTY, CHECKPOINTED)


def compiled_with(program: Program, backend: str = "aot_eager", **seams: Callable) -> Any:
    """The program compiled as one graph by the real compiler, with these functions for their seams."""
    pipeline = replace(cutaway.DEFAULT_PIPELINE, **seams)
    return cutaway.compile(
        program.function, fullgraph=True, dynamic=False, backend=backend, pipeline=pipeline,
        options={"runtime.cache": False},
    )  # fmt: skip


def results_and_gradients(function: Callable, program: Program) -> list[Any]:
    """What the program returns, and the gradient of each of its inputs, as arrays."""
    tensors = program.tensors()
    result = function(*tensors)
    result.backward(cutaway.from_numpy(numbers(*result.shape, seed=9)))
    return [result.detach().numpy(), *(None if t.grad is None else t.grad.numpy() for t in tensors)]


def same_as_eager(program: Program, compiled: Callable, tolerance: float = 1e-5, read: str = "") -> None:
    """Raise Wrong unless results and gradients are eager's and no part of the program fell back to eager."""
    name = program.function.__name__
    mark = EVENT_LOG.mark()
    got, wanted = results_and_gradients(compiled, program), results_and_gradients(program.function, program)
    for event in EVENT_LOG.since(mark):
        if event.kind in ("internal_error", "fallback", "graph_break"):
            raise Wrong(f"{name} did not run compiled: {event}", "one compiled graph", read=read)
    for i, (g, w) in enumerate(zip(got, wanted)):
        what = f"{name} ({program.says}): " + ("the result" if i == 0 else f"the gradient of argument {i}")
        if (g is None) != (w is None):
            raise Wrong(f"{what} is {'missing' if g is None else 'there'}", "as in eager", read=read)
        if g is not None and not same(g, w, tolerance):
            raise Wrong(f"{what} is wrong", short(w), f"yours is {short(g)}", read)


def same(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    return got.shape == wanted.shape and np.allclose(got, wanted, tolerance, tolerance, equal_nan=True)


def short(array: np.ndarray) -> str:
    """An array's shape and first numbers, on one line."""
    flat = ", ".join(f"{v:.4g}" for v in array.reshape(-1)[:6])
    return f"{array.dtype}{list(array.shape)}: {flat}" + (", ..." if array.size > 6 else "")
