"""What stage 2's tests share: graphs as capture makes them, the way through the seams, and eager to compare.

Input: a Python function on tensors and example tensors. Every test takes the seams from the `seam` fixture.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stage0_eager import TABLE, Tensor, no_grad
from stage0_eager.core_interpreter import interpreter
from stage0_eager.functions import creation, inplace, pointwise, reductions, shape
from stage0_eager.functions.linalg import products
from stage0_eager.functions.nn import activations, dropout, losses, normalization
from stage0_eager.random.generator import manual_seed
from stage0_eager.state import interpreting
from stage0_eager.transforms.trace import Tracer, map_tensors
from stage2_autograd.runtime.runtime_wrapper import make_runtime_wrapper
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Graph
from stage_contracts.graph_reader import parse_graph
from stage_contracts.joint import FunctionalGraph, JointGraph, Partition
from stage_contracts.origin import Origin
from stage_contracts.pipeline import DEFAULT_SEAMS, load_seam

__all__ = [
    "activations",
    "dropout",
    "losses",
    "normalization",
    "creation",
    "inplace",
    "pointwise",
    "products",
    "reductions",
    "shape",
]

SEAMS = ("functionalize", "differentiate", "decompose", "partition")


def default(name: str) -> Callable:
    """A stand-in for the `seam` fixture where a test is about the default implementation."""
    return load_seam(DEFAULT_SEAMS[name])


def names_of(graph: Graph) -> list[str]:
    """The operators that a graph calls, in order; an item of several results counts as one."""
    return [getattr(n.target, "name", "item") for n in graph.calls]


def tensor(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0, grad: bool = True) -> Tensor:
    """float64, uniform, the same for the same seed."""
    return Tensor(np.random.default_rng(seed).uniform(low, high, shape), grad)


def integers(*shape: int, seed: int = 0, high: int = 4) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(0, high, shape))


class CaptureTracer(Tracer):
    """Keeps every public operator as one node, each with an origin of its own, as capture does."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, keep=lambda op: True)

    def process(self, op: Any, args: tuple) -> Any:
        line = len(self.graph.calls) + 1  # type: ignore[union-attr]
        self.origins = (Origin("program.py", line, f"{op.name}(...)"),)
        return super().process(op, args)


def capture(function: Callable, *tensors: Tensor) -> Graph:
    """The graph of public operators that `function` is on `tensors`."""
    graph = Graph()
    tracer = CaptureTracer(graph)
    inputs = [tracer.placeholder(f"x{i}", t.meta) for i, t in enumerate(tensors)]
    with no_grad(), interpreting(tracer):
        outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    graph.output([tracer.node_of(o) for o in outputs])
    return graph.verify()


@dataclass
class Compiled:
    """Every artifact of one program, and the wrapper that runs it."""

    captured: Graph
    functional: FunctionalGraph
    joint: JointGraph
    decomposed: JointGraph
    partition: Partition
    run: Callable[..., tuple]


def is_core(target: Any) -> bool:
    return target is operator.getitem or (target.namespace == "core" and target.name in CORE_OPS)


def reads_back(graph: Graph) -> None:
    """Printing, parsing and printing again gives the same text."""
    text = str(graph)
    assert str(parse_graph(text, TABLE, graph.attributes)) == text


def compile_with(seam: Any, function: Callable, *tensors: Tensor, text: bool = True) -> Compiled:
    """`function` through the four seams, each result verified and (`text`) read back, run by aot_eager."""
    graph = capture(function, *tensors)
    functional = seam("functionalize")(graph).verify()
    joint = seam("differentiate")(functional).verify()
    core = seam("decompose")(joint.graph).verify(allowed=is_core)
    decomposed = replace(joint, graph=core).verify()
    partition = seam("partition")(decomposed).verify()
    for made in (
        () if not text else (functional.graph, joint.graph, core, partition.forward, partition.backward)
    ):
        reads_back(made)
    partition.forward.verify(allowed=is_core)
    partition.backward.verify(allowed=is_core)
    halves = interpreter(partition.forward), interpreter(partition.backward)
    run = make_runtime_wrapper(functional, *halves, decomposed, partition)
    return Compiled(graph, functional, joint, decomposed, partition, run)


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Fresh leaves with the same values, layout and requires_grad."""
    return [Tensor(t._data.copy(order="K"), t.requires_grad) for t in tensors]


def directions(outputs: Sequence[Tensor]) -> list[Tensor]:
    """A fixed random cotangent for each output."""
    return [Tensor(np.random.default_rng(90 + i).normal(size=o.shape)) for i, o in enumerate(outputs)]


def run_and_differentiate(function: Callable, tensors: Sequence[Tensor]) -> tuple[tuple, list[Any]]:
    """The results of `function` on `tensors`, and the gradient array (or None) of each."""
    manual_seed(11)
    results = function(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    total = None
    for result, direction in zip(results, directions(results), strict=True):
        if result.requires_grad:
            part = TABLE["core.sum"](
                TABLE["core.mul"](result, TABLE["core.cast"](direction, result.dtype)),
                tuple(range(result.ndim)),
            )
            total = part if total is None else total + part
    if total is not None and total.requires_grad:
        total.backward()
    return results, [None if t.grad is None else t.grad.numpy() for t in tensors]


def assert_same(got: Any, wanted: Any, what: str, tolerance: float = 1e-12) -> None:
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, f"{what}: {got.dtype}{got.shape}"
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance, err_msg=what)


def check_against_eager(
    seam: Any, function: Callable, *tensors: Tensor, tolerance: float = 1e-12
) -> Compiled:
    """Compiled results, gradients, requires_grad and written inputs are eager's. Returns the artifacts."""
    compiled = compile_with(seam, function, *tensors)
    ours, theirs = copies(tensors), copies(tensors)
    results, gradients = run_and_differentiate(compiled.run, ours)
    expected, wanted = run_and_differentiate(function, theirs)
    assert len(results) == len(expected)
    for i, (a, b) in enumerate(zip(results, expected, strict=True)):
        assert a.requires_grad == b.requires_grad, f"output {i}: requires_grad is {a.requires_grad}"
        assert_same(a._data, b._data, f"output {i}", tolerance)
        assert a.stride() == b.stride(), f"output {i}: strides {a.stride()} against eager's {b.stride()}"
    for i, (g, w) in enumerate(zip(gradients, wanted, strict=True)):
        assert (g is None) == (w is None), f"gradient of input {i}: {g} against eager's {w}"
        if g is not None:
            assert_same(g, w, f"gradient of input {i}", tolerance)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert_same(a._data, b._data, f"input {i} afterwards", tolerance)
        assert (a.version > 0) == (b.version > 0), f"input {i}: version {a.version}, eager's {b.version}"
    return compiled


def check_finite_differences(compiled: Compiled, *tensors: Tensor, step: float = 1e-6) -> None:
    """The compiled gradients against central differences of the compiled forward, in float64."""
    _, gradients = run_and_differentiate(compiled.run, inputs := copies(tensors))

    def total() -> float:
        manual_seed(11)
        outputs = [o for o in compiled.run(*(Tensor(t._data) for t in inputs)) if o.dtype.is_floating_point]
        return sum(
            float((o._data * d._data).sum()) for o, d in zip(outputs, directions(outputs), strict=True)
        )

    for i, (t, gradient) in enumerate(zip(inputs, gradients, strict=True)):
        if gradient is None:
            continue
        flat = t._data.reshape(-1)
        for at in range(0, flat.size, max(1, flat.size // 4)):
            old = flat[at]
            flat[at] = old + step
            above = total()
            flat[at] = old - step
            below = total()
            flat[at] = old
            slope = (above - below) / (2 * step)
            assert abs(slope - gradient.reshape(-1)[at]) <= 2e-6 * (1 + abs(slope)), (
                f"input {i} at {at}: {slope}"
            )


def tensors_of(args: Sequence[Any]) -> list[Tensor]:
    found: list[Tensor] = []

    def keep(tensor: Any) -> Any:
        found.append(tensor)
        return tensor

    map_tensors(tuple(args), keep)
    return found


def call_on(op: Callable, args: tuple) -> Callable:
    """A function of the tensors in `args` alone that calls `op` with everything in its place."""

    def function(*tensors: Tensor) -> Any:
        left = iter(tensors)
        return op(*map_tensors(args, lambda _: next(left)))

    return function
