"""No compiler: the core graph runs op by op on NumPy, with the same kernels eager uses.

Input: a graph of core operators, as `lower` would get it. What comes out is called like a launched Program,
so cutaway/backends.py can put it in the same place when `build` raises CompilerMissing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stage0_eager import eager_kernel
from stage4_runtime.runtime.bind_arrays import array_of
from stage4_runtime.runtime.eager_call import eager_call
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule


def launch_on_numpy(graph: Graph) -> Callable[..., tuple]:
    """A callable: NumPy arrays, one per placeholder, to a tuple of arrays."""
    calls = {
        node.target: _call_of(node.target) for node in graph.calls if node.target is not operator.getitem
    }
    calls[operator.getitem] = operator.getitem

    def handler(node: Node, args: tuple, kwargs: dict) -> Any:
        return calls[node.target](*args, **kwargs)

    core = graph.copy()
    core.attributes = {
        name: launch_on_numpy(value.graph) if isinstance(value, GraphModule) else array_of(value)
        for name, value in graph.attributes.items()
    }

    def run(*arrays: Any) -> tuple:
        return core.interpret(arrays, handler)

    run.source_text = str(core)  # type: ignore[attr-defined]
    return run


def _call_of(op: Any) -> Callable[..., Any]:
    """An operator's kernel; an opaque one gives all its results in a tuple, as nodes that take one expect."""
    return eager_call(op.name, np) if op.core is not None else partial(eager_kernel(op.qualname), np)
