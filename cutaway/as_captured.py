"""The captured graph, run as it is: what eager does, wherever compiled code will not do.

Input: a captured graph on tensors, its sizes known or open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.shown_sizes import open_sizes_in, shown_sizes, size_reader, with_sizes


def as_captured(graph: Graph) -> Callable[..., tuple]:
    """A callable on tensors, operator by operator, on the tape."""
    sizes_open = next(open_sizes_in([n.val for n in graph.placeholders]), None) is not None
    return with_its_sizes(graph) if sizes_open else GraphModule(graph)


def with_its_sizes(graph: Graph) -> Callable[..., tuple]:
    """The captured graph as it is, each open size as the number that the tensors of a call show."""
    read = size_reader(shown_sizes([n.val for n in graph.placeholders]))

    def call(*tensors: Any) -> tuple:
        sizes = read(tensors)
        run = lambda node, args, kwargs: node.target(*with_sizes(args, sizes), **with_sizes(kwargs, sizes))  # noqa: E731
        return graph.interpret(tensors, run)

    return call
