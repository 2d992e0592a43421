"""Runs the captured graph operator by operator, as eager does, where compiled code cannot run.

Input: a captured graph; its sizes are known or open.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from stage0_eager.state import no_grad
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbol_bindings import (
    expression,
    open_sizes_in,
    size_reader,
    symbol_bindings,
    with_sizes,
)
from stage_contracts.symbolic import SymInt
from stage_contracts.unbacked import makers, symbol_made, value_made

_SILENTLY = ("no_grad", "writes_silently")  # keys in the meta of a call that the program made under no_grad


def ran_silently(node: Node) -> bool:
    return any(map(node.meta.get, _SILENTLY))


def as_captured(graph: Graph) -> Callable[..., tuple]:
    """A callable that runs the graph on tensors, operator by operator, recorded on the tape. The calls that the program
    made under no_grad run under no_grad."""
    metas = [n.val for n in graph.placeholders]
    made = makers(graph.nodes)
    if next(open_sizes_in(metas), None) is None and not made and not any(map(ran_silently, graph.calls)):
        return GraphModule(graph)
    read = size_reader(symbol_bindings(metas))
    numbers = {expression(size): i for i, size in enumerate(metas) if isinstance(size, SymInt)}

    def call(*tensors: Any) -> tuple:
        sizes = {**read(tensors), **{size: tensors[i] for size, i in numbers.items() if size.is_Symbol}}

        def run(node: Node, args: tuple, kwargs: dict) -> Any:
            with no_grad() if ran_silently(node) else nullcontext():
                result = node.target(*with_sizes(args, sizes), **with_sizes(kwargs, sizes))
            if made and (found := symbol_made(node)):
                sizes[found[0]] = value_made(result, found[1])
            return result

        return graph.interpret(tensors, run)

    return call
