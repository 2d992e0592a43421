"""Runs a graph under a Tracer: how every seam of this stage turns one graph into the next.

Input: any graph whose call targets are operators. The new nodes keep the old node's origins and marks, and the last of
them keeps its name, so you can follow a value through all graphs by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from stage0_eager.state import interpreting, no_grad
from stage0_eager.tensor import Tensor, is_traced
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule

_NOT_MARKS = ("val", "origins")


def retrace(graph: Graph, tracer: Tracer, inputs: Sequence[Tensor], **marks: Any) -> tuple[Any, ...]:
    """The traced results of `graph` on the traced `inputs`. Every new node gets `marks`."""
    assert tracer.graph is not None
    named = {tracer.node_of(t) for t in inputs}  # nodes that already have their names
    twin = graph.copy() if graph.attributes else graph  # which is only read; constants are put into the copy
    for name, value in graph.attributes.items():
        if isinstance(value, GraphModule):  # a subgraph: the operator that runs it adds it to the graph
            continue
        twin.attributes[name] = constant = _constant(tracer, name, value)
        named.add(tracer.node_of(constant))

    def run(node: Node, args: tuple, kwargs: dict) -> Any:
        tracer.origins, tracer.marks = node.origins, {**marks_of(node), **marks}
        with no_grad() if node.meta.get("no_grad") else nullcontext():
            out = node.target(*args, **kwargs)
        if isinstance(out, Tensor) and is_traced(out) and out._data.node not in named:
            tracer.graph.rename(out._data.node, node.name)  # type: ignore[union-attr]
            named.add(out._data.node)
        return out

    with interpreting(tracer):
        return twin.interpret(inputs, run)


def marks_of(node: Node) -> dict[str, Any]:
    """A node's meta, without the keys that tracing sets."""
    return {key: value for key, value in node.meta.items() if key not in _NOT_MARKS}


def placeholders_like(graph: Graph, tracer: Tracer, **marks: Any) -> list[Tensor]:
    """The inputs of `graph` made again, in order, as inputs of the graph that `tracer` records."""
    return [tracer.placeholder(n.name, n.val, **{**marks, **marks_of(n)}) for n in graph.placeholders]


def _constant(tracer: Tracer, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise Unsupported(f"the constant {name!r}, a {type(value).__name__} and not a tensor", code="GB0008")
    if value.requires_grad:
        # otherwise it would get no gradient, without an error
        raise Unsupported(f"the constant {name!r}, which requires grad and is not an input", code="GB0008")
    assert tracer.graph is not None
    return Tensor(TracedArray(value.meta, tracer.graph.get_attr(name, value, value.meta)))
