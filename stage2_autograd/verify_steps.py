"""Finds a wrong functionalize or differentiate: runs its input graph eagerly, and compares with its result.

Input: the input and the result of the seam. Inputs are made from the placeholders' metas. If the program cannot take
such inputs, or draws random numbers, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stage0_eager.autograd.backward_pass import grad
from stage0_eager.core_comparison import NOT_FOR_MADE_UP_DATA, example, first_difference, made_by, same_bits
from stage0_eager.core_interpreter import at_sizes
from stage0_eager.state import enable_grad, no_grad
from stage0_eager.tensor import Tensor
from stage2_autograd.runtime.runtime_wrapper import make_runtime_wrapper
from stage2_autograd.verify import interpret, line_of, may_not_end
from stage_contracts.graph import Graph, GraphError, Node, meta_of
from stage_contracts.joint import FunctionalGraph, JointGraph
from stage_contracts.symbolic import same_size


def verify_functional(name: str, graph: Graph, functional: FunctionalGraph) -> None:
    """Raise GraphError if a bit of the results, or of the inputs after the call, differs."""
    if functional.rng_calls or may_not_end(graph):
        return
    run = make_runtime_wrapper(functional, lambda *arrays: interpret(functional.graph, list(arrays)))
    for special in (True, False):
        before, after = (_tensors(graph, special) for _ in range(2))
        with no_grad():
            try:
                wanted = at_sizes(graph, _call)(*before)
            except NOT_FOR_MADE_UP_DATA:
                continue
            made = made_by(f"step {name}", run, *after)
        exact = not any(map(_repeats, graph.placeholders))
        _compare(name, [*wanted, *before], [*made, *after], exact, [*graph.outputs, *graph.placeholders])


def verify_joint(name: str, functional: FunctionalGraph, joint: JointGraph) -> None:
    """Raise GraphError if a bit of an output differs from the functional graph's, or a gradient from the tape's."""
    if functional.rng_calls or may_not_end(functional.graph):
        return
    inputs = _tensors(functional.graph, special=False)
    for tensor, node in zip(inputs, functional.graph.placeholders, strict=True):
        tensor.requires_grad = node.val.requires_grad
    tangents = [Tensor(example(meta_of(n), 99 + i, False)) for i, n in enumerate(_tangents(joint))]
    wanted = [t for t in inputs if t.requires_grad]
    with enable_grad():
        try:
            outputs = at_sizes(functional.graph, _call_on_tape)(*inputs)
        except NOT_FOR_MADE_UP_DATA:
            return
        roots = made_by(f"step {name}", lambda: [outputs[i] for i in joint.tangent_outputs])
        try:
            slopes = grad(roots, wanted, tangents, allow_unused=True)
        except NOT_FOR_MADE_UP_DATA:
            return
    made = made_by(f"step {name}", interpret, joint.graph, [t._data for t in (*inputs, *tangents)])
    exact = not any(map(_repeats, functional.graph.placeholders))
    _compare(name, outputs, made[: joint.num_outputs], exact, functional.graph.outputs)
    found = [g for g, t in zip(made[joint.num_outputs :], inputs, strict=True) if t.requires_grad]
    slots = [n for n, t in zip(functional.graph.placeholders, inputs, strict=True) if t.requires_grad]
    for i, (a, b) in enumerate(zip(slopes, found, strict=True)):
        if not _close(a, b):
            first = next(iter(slots[i].users), None)
            raise GraphError(
                f"step {name} changed gradient {i}, of {slots[i]}: it differs from the gradient of the eager run"
                f"{line_of(first)}"
            )


def _tensors(graph: Graph, special: bool) -> list[Tensor]:
    return [Tensor(example(meta_of(n), i, special)) for i, n in enumerate(graph.placeholders)]


def _tangents(joint: JointGraph) -> list[Node]:
    return joint.graph.placeholders[joint.num_primals :]


def _call(node: Node, args: tuple, kwargs: dict) -> Any:
    return node.target(*args, **kwargs)


def _call_on_tape(node: Node, args: tuple, kwargs: dict) -> Any:
    if node.meta.get("no_grad"):
        with no_grad():
            return node.target(*args, **kwargs)
    return node.target(*args, **kwargs)


def _repeats(node: Node) -> bool:
    """Whether a made-up input has the same memory at several indices. NumPy's sums add such elements in another order
    than those of a copy, so they round differently."""
    meta = meta_of(node)
    return any(
        same_size(step, 0) and not same_size(n, 1) for n, step in zip(meta.shape, meta.strides, strict=True)
    )


def _compare(
    name: str, wanted: Sequence[Any], made: Sequence[Any], exact: bool = True, nodes: Sequence[Any] = ()
) -> None:
    """`nodes`: what makes each result."""
    if len(wanted) != len(made):
        raise GraphError(f"step {name} made {len(made)} results, expected {len(wanted)}")
    for i, (a, b) in enumerate(zip(map(_array, wanted), map(_array, made), strict=True)):
        if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
            continue
        if not same_bits(a, b) and (exact or not _close(a, b)):
            raise GraphError(
                f"step {name} changed result {i}: {first_difference(a, b)}; expected the same bits"
                f"{line_of(nodes[i] if i < len(nodes) else None)}"
            )


def _array(value: Any) -> Any:
    return value._data if isinstance(value, Tensor) else value


def _close(a: Any, b: Any) -> bool:
    """Whether two gradients are close. None means zeros."""
    a, b = (0.0 if v is None else np.asarray(_array(v), np.float64) for v in (a, b))
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True))
