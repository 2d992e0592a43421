"""split_module: a module cut in parts, each a submodule with a graph of its own, and a graph that calls them.

Input: a GraphModule, and a function that gives each call's part. A part must not need what comes from itself by way of
another part.
"""

from __future__ import annotations

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from operator import getitem
from typing import Any

from cutaway.fx.graph import Graph
from cutaway.fx.graph_module import GraphModule
from stage0_eager.nn import Module

_NOT_CALLS = ("placeholder", "get_attr", "output")


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Any], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
) -> GraphModule:
    """The module whose submodules submod_<part> are the parts. split_callback(node) names the part of a call.

    qualname_map is filled: a path in the new module -> the path in the old. Raises RuntimeError if two parts need each
    other.
    """
    part_of = {n: str(split_callback(n)) for n in m.graph.nodes if n.op not in _NOT_CALLS}
    base, held = Graph(), {}
    images: dict[Any, Any] = {n: base.node_copy(n) for n in m.graph.nodes if n.op == "placeholder"}
    for part in _in_order(part_of):
        inner, inputs, outputs = _graph_of(part, m.graph, part_of)
        name = f"submod_{part}"
        held[name] = GraphModule(m, inner, name)
        if qualname_map is not None:
            qualname_map.update({f"{name}.{path}": path for path in _paths(inner)})
        call = base.call_module(name, tuple(images[n] for n in inputs))
        for i, node in enumerate(outputs):
            images[node] = call if len(outputs) == 1 else base.call_function(getitem, (call, i))
    last = m.graph.nodes[-1]
    for node in last.all_input_nodes:
        if node.op == "get_attr":
            images[node] = base.node_copy(node)
    base.node_copy(last, images.__getitem__)
    attributes = {str(n.target): _at(m, str(n.target)) for n in base.nodes if n.op == "get_attr"}
    return GraphModule({**held, **attributes}, base, type(m).__name__)


def _paths(graph: Graph) -> set[str]:
    """The paths of the attributes that a graph reads or calls."""
    return {str(n.target) for n in graph.nodes if n.op in ("call_module", "get_attr")}


def _in_order(part_of: dict[Any, str]) -> list[str]:
    """The parts, each after those that it reads."""
    needs: dict[str, set[str]] = {part: set() for part in part_of.values()}
    for node, part in part_of.items():
        needs[part] |= {part_of[used] for used in node.all_input_nodes if used in part_of} - {part}
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise RuntimeError(f"cycle exists between partitions! {' -> '.join(error.args[1])}") from error


def _graph_of(part: str, graph: Graph, part_of: dict[Any, str]) -> tuple[Graph, list[Any], list[Any]]:
    """The graph of one part, the nodes that it reads from outside, and those that are read outside."""
    own = [n for n in graph.nodes if part_of.get(n) == part]
    read = list(dict.fromkeys(used for n in own for used in n.all_input_nodes if part_of.get(used) != part))
    inputs = [n for n in read if n.op != "get_attr"]
    outputs = [n for n in own if any(part_of.get(user) != part for user in n.users)]
    inner = Graph()
    images = {n: inner.placeholder(n.name) for n in inputs}
    for node in read:
        if node.op == "get_attr":
            images[node] = inner.node_copy(node)
    for node in own:
        images[node] = inner.node_copy(node, images.__getitem__)
    returned = tuple(images[n] for n in outputs)
    inner.output(returned[0] if len(returned) == 1 else returned)
    return inner, inputs, outputs


def _at(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module
