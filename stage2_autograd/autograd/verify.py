"""A wrong pass has a name: interpret the graph before and after it on the same inputs, and compare every bit.

Input: two graphs that should compute the same. Inputs are drawn by the placeholders' metas, special values among them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, GraphError, Node, meta_of
from stage_contracts.tensor_meta import TensorMeta

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-310, -1e-40)


def verify_pass(name: str, before: Graph, after: Graph, seed: int = 0) -> None:
    """Raise GraphError naming the pass when the graphs differ in a bit of any output (two NaNs count as equal)."""
    inputs = [example(meta_of(n), seed + i) for i, n in enumerate(before.placeholders)]
    try:
        wanted = interpret(before, inputs)
    except (RuntimeError, IndexError, ValueError):
        return  # what these inputs are to the program (an index out of range, say) is nothing a pass can be asked about
    got = interpret(after, inputs)
    for i, (a, b) in enumerate(zip(wanted, got, strict=True)):
        if not same_bits(a, b):
            raise GraphError(
                f"pass {name} changed output {i} ({before.outputs[i]}): {_difference(a, b)}. Turn it off with "
                f'config.patch(disabled_passes="{name}"); the graphs are what it was given and what it made:\n'
                f"{before}\n{after}"
            )


def interpret(graph: Graph, inputs: list[Any]) -> tuple[Any, ...]:
    """The graph's outputs as arrays, operator by operator, whatever kind its operators are of."""
    tensors = [Tensor(a.copy()) for a in inputs]

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        return node.target(*args, **kwargs)

    with no_grad():
        outputs = graph.interpret(tensors, call)
    return tuple(o._data if isinstance(o, Tensor) else o for o in outputs)


def example(meta: TensorMeta, seed: int) -> Any:
    """An array as `meta` describes it: numbers around 0 with special values among them; zeros and ones as integers."""
    rng = np.random.default_rng(seed)
    shape = tuple(s if isinstance(s, int) else s.hint for s in meta.shape)
    if meta.dtype.is_floating_point:
        values = rng.normal(size=shape)
        flat = values.reshape(-1)
        if flat.size >= 2 * len(SPECIAL):
            flat[rng.permutation(flat.size)[: len(SPECIAL)]] = SPECIAL
        data = values.astype(meta.dtype.numpy)
    else:
        data = rng.integers(0, 2, shape).astype(meta.dtype.numpy)
    order = sorted(range(meta.ndim), key=lambda d: -int(meta.strides[d]))
    laid_out = np.ascontiguousarray(data.transpose(order)).transpose(np.argsort(order)) if shape else data
    return arrays.move(laid_out, meta.device)


def same_bits(a: Any, b: Any) -> bool:
    """One dtype, shape, layout, and the same bits but for what kind of NaN."""
    if a is None or b is None:
        return a is b
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    a, b = arrays.move(a, arrays.CPU), arrays.move(b, arrays.CPU)
    nan = a != a
    return (
        bool(((a == b) & (np.signbit(a) == np.signbit(b)) | nan & (b != b)).all())
        if _is_float(a)
        else bool((a == b).all())
    )


def _is_float(a: Any) -> bool:
    return a.dtype.kind not in "biu"


def _difference(a: Any, b: Any) -> str:
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{_words(a)} became {_words(b)}"
    at = tuple(int(i[0]) for i in np.nonzero(~((a == b) & (np.signbit(a) == np.signbit(b)))))
    return f"at {at} {a[at]!r} became {b[at]!r}"


def _words(a: Any) -> str:
    return "None" if a is None else f"{a.dtype}{list(a.shape)}"
