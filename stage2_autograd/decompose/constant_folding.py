"""Constant folding: a pointwise call whose operands are all `full` becomes a `full`.

Input: core graphs. The eager kernel computes the one element, so it equals eager's to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager.kernels.eager import run_kernel
from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import arguments, core_name
from stage2_autograd.decompose.rewriting import Call, Rewrite, rewrite
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Graph, Node


def constant_folding(graph: Graph) -> None:
    """Fold pointwise operators over constants. A `full` stays a tensor: its rank and dtype decide promotion."""
    rewrite(graph, RULES)


def _folded(node: Node) -> Any:
    args = arguments(node)
    if not node.all_input_nodes or any(core_name(n) != "full" for n in node.all_input_nodes):
        return None
    try:
        element = run_kernel(node.target, [_element(a) if isinstance(a, Node) else a for a in args])
    except Exception:  # the call itself must raise this error, and it does not if it has no elements
        return None
    value = element.reshape(-1)[0].item()
    if not _exact(value, element):
        return None
    return Call(c.full, node.val.shape, value, node.val.dtype, node.val.device)


def _element(full: Node) -> Any:
    """One element of a constant, with the same number of dimensions, so that promotion is the same."""
    _, value, dtype, _ = arguments(full)
    return np.full((1,) * full.val.ndim, value, dtype.numpy)


def _exact(value: Any, element: Any) -> bool:
    """Whether the Python number is exactly the element. (For a NaN with a payload, it is not.)"""
    again = np.full(element.shape, value, element.dtype)
    return again.tobytes() == element.tobytes()


RULES: dict[str, Rewrite] = {row.name: _folded for row in CORE_OPS.values() if row.kind == "pointwise"}
