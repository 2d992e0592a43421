"""Graphs run operator by operator, their inputs held to what each graph says of them: shape, dtype and strides.

Input: a core graph, in place of the interpreter of `aot_eager`. Kernels read raw memory and so check this themselves;
NumPy takes any layout, which hid a saved value of other strides from all but the few programs that are built (seed 299).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.core_interpreter import interpreter
from stage_contracts.graph import Graph
from stage_contracts.symbol_bindings import open_sizes_in
from stage_contracts.tensor_meta import TensorMeta


def checking_interpreter(core: Graph) -> Callable[..., tuple]:
    """`interpreter(core)`, which raises TypeError for an input that is not as compiled for. Open sizes are not asked."""
    run = interpreter(core)
    said = [
        (i, node.name, node.val)
        for i, node in enumerate(core.placeholders)
        if isinstance(node.val, TensorMeta) and next(open_sizes_in([node.val]), None) is None
    ]

    def call(*arrays: Any) -> tuple:
        for i, name, meta in said:
            if not _is_as_said(arrays[i], meta):
                raise TypeError(f"input {name} has strides {arrays[i].strides} in bytes, expected {meta}")
        return run(*arrays)

    return call


def _is_as_said(array: Any, meta: TensorMeta) -> bool:
    if array.shape != meta.shape or array.dtype != meta.dtype.numpy:
        return False
    steps = zip(array.strides, meta.strides, meta.shape, strict=True)
    return not array.size or all(size == 1 or have == step * array.itemsize for have, step, size in steps)
