"""What capture recorded as an fx.GraphModule, for a backend written for torch, and such a module as our Graph again.

Input: a Graph of calls, or a GraphModule that a backend may have edited: new calls of functions and methods get their
metas here, and calls of modules and plain functions are followed.
"""

from __future__ import annotations

from typing import Any

from cutaway.fx.graph import Graph
from cutaway.fx.graph_module import GraphModule
from stage0_eager.state import interpreting
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer, map_tensors
from stage_contracts.graph import Graph as BaseGraph
from stage_contracts.node import map_args
from stage_contracts.tensor_meta import TensorMeta


def as_module(graph: BaseGraph) -> GraphModule:
    """The graph with torch.fx's ways to read and edit it. Names, targets of calls and metas are those of the graph."""
    twin = Graph()
    twin.name = graph.name
    images: dict[Any, Any] = {}
    for node in graph.nodes:
        args, kwargs = map_args((node.args, node.kwargs), images.__getitem__)
        target = (
            node.name if node.op == "placeholder" else node.target
        )  # the inputs of one source share a target
        images[node] = made = twin.create_node(node.op, target, args, kwargs, name=node.name)
        made.name = node.name
        made.meta = {**node.meta, "example_value": node.val}
    twin.attributes = dict(graph.attributes)
    return GraphModule(dict(graph.attributes), twin)


def as_graph(module: Any) -> BaseGraph:
    """The module's graph as the stages take it: calls of operators only, each with its meta."""
    if not isinstance(module.graph, Graph):
        return module.graph
    graph = BaseGraph(module.graph.name)
    values: dict[Any, Any] = {}
    for node in module.graph.nodes:
        args, kwargs = map_args((node.args, node.kwargs), values.__getitem__)
        if node.op == "output":
            graph.output(args[0] if isinstance(args[0], (tuple, list)) else (args[0],))
            return graph
        values[node] = _KINDS[node.op](graph, module, node, args, kwargs)
        if hasattr(values[node], "meta"):
            values[node].meta.update(
                {k: v for k, v in node.meta.items() if k not in ("val", "example_value")}
            )
    return graph


def _placeholder(graph: BaseGraph, module: Any, node: Any, args: tuple, kwargs: dict) -> Any:
    return graph.placeholder(node.name, node.val)


def _get_attr(graph: BaseGraph, module: Any, node: Any, args: tuple, kwargs: dict) -> Any:
    value = module
    for part in node.target.split("."):
        value = getattr(value, part)
    known = node.val if node.val is not None else value.meta if isinstance(value, Tensor) else None
    return graph.get_attr(node.name, value, known)


def _call_function(graph: BaseGraph, module: Any, node: Any, args: tuple, kwargs: dict) -> Any:
    if node.val is not None and isinstance(node.target, Operator):
        return graph.call_function(node.target, args, kwargs, val=node.val, name=node.name)
    return _followed(graph, node.target, args, kwargs)


def _call_method(graph: BaseGraph, module: Any, node: Any, args: tuple, kwargs: dict) -> Any:
    return _followed(
        graph, lambda self, *rest, **words: getattr(self, node.target)(*rest, **words), args, kwargs
    )


def _call_module(graph: BaseGraph, module: Any, node: Any, args: tuple, kwargs: dict) -> Any:
    return _followed(graph, module.get_submodule(node.target), args, kwargs)


_KINDS = {
    "placeholder": _placeholder, "get_attr": _get_attr, "call_function": _call_function, "call_method": _call_method,
    "call_module": _call_module,
}  # fmt: skip


def _followed(graph: BaseGraph, function: Any, args: tuple, kwargs: dict) -> Any:
    """The node, or the nodes, of what a function gives, traced on metas into the graph."""

    def tensor(node: Any) -> Any:
        meta = node.val
        if not isinstance(meta, TensorMeta):
            return node
        return Tensor(
            TracedArray(meta.with_(requires_grad=False, strides=meta.strides), node), meta.requires_grad
        )

    words, named = map_args((args, kwargs), tensor)
    with interpreting(Tracer(graph, keep=lambda op: True)) as tracer:
        result = function(*words, **named)
    return map_tensors(result, tracer.node_of)
