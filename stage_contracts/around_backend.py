"""What stands around a backend: a function that sees each captured graph before it is compiled.

Input: `cutaway.distributed` sets it when the first DistributedDataParallel is made, to compile graphs in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage_contracts.graph import Graph

# (graph, example inputs) -> a callable on inputs like these
Compile = Callable[[Graph, Sequence[Any]], Callable[..., tuple]]
Around = Callable[[Compile, Graph, Sequence[Any]], Callable[..., tuple]]

AROUND: list[Around] = []  # none, or one: a list's append is atomic


def around_backend(compile_graph: Compile, graph: Graph, inputs: Sequence[Any]) -> Callable[..., tuple]:
    """The compiled graph, by way of what is set here."""
    return AROUND[0](compile_graph, graph, inputs) if AROUND else compile_graph(graph, inputs)
