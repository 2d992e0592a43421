"""The reference interpreter of core graphs: operator by operator with the eager kernels.

Input: a graph in core operators (forward, backward or inference). The backend "aot_eager" runs these; tests
compare every later stage with it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from stage0_eager.kernels import run_kernel
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, Node


def aot_eager(graph: Graph) -> Callable[..., tuple]:
    """A callable: arrays, one per placeholder, to the tuple of the graph's outputs (arrays or None).

    As in eager, a result that is a view shares memory with what it views.
    """
    twin = graph.copy()  # so that later edits of `graph` do not change what runs
    twin.attributes = {k: v._data if isinstance(v, Tensor) else v for k, v in graph.attributes.items()}

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        if node.target is operator.getitem:  # one result of several
            return args[0][args[1]]
        return run_kernel(node.target, list(node.target.bind(*args, **kwargs)))

    def run(*arrays: Any) -> tuple:
        return twin.interpret(arrays, call)

    return run
