"""replace_pattern: every place in a graph that computes what a pattern computes computes it by a replacement instead.

Input: a GraphModule, and two functions (or modules, or graphs) with the same parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cutaway.fx.graph import Graph
from cutaway.fx.graph_module import GraphModule, _copy_attr
from cutaway.fx.node import Node
from cutaway.fx.tracer import symbolic_trace


class Match(NamedTuple):
    """`anchor`: the last node of the place; `nodes_map`: each node of the pattern -> what it stands for."""

    anchor: Node
    nodes_map: dict[Node, Any]


def replace_pattern(
    gm: GraphModule, pattern: Callable | GraphModule | Graph, replacement: Callable | GraphModule | Graph
) -> list[Match]:
    """Replace every place of `pattern` that overlaps no other. Returns the places, and recompiles the module.

    Values inside a place must be read nowhere else.
    """
    wanted = _graph(pattern)
    new = replacement if isinstance(replacement, GraphModule) else None
    by = new.graph if new is not None else _graph(replacement)
    matches = list(_matches(gm.graph, wanted))
    replaced: dict[Any, Any] = {}
    for match in matches:
        _replace(gm.graph, wanted, by, match, replaced)
    for node in by.nodes if new is not None and matches else ():
        if node.op in ("call_module", "get_attr"):
            _copy_attr(new, gm, str(node.target))  # type: ignore[arg-type]
    gm.recompile()
    return matches


def _graph(what: Any) -> Graph:
    if isinstance(what, GraphModule):
        return what.graph
    return what if isinstance(what, Graph) else symbolic_trace(what).graph


def _results(graph: Graph) -> list[Node]:
    """The nodes that a graph returns."""
    return list(graph.nodes[-1].all_input_nodes)


def _matches(graph: Graph, pattern: Graph) -> Iterator[Match]:
    results = _results(pattern)
    taken: set[Any] = set()
    for anchor in graph.nodes:
        found: dict[Any, Any] = {}
        if not _same(results[-1], anchor, found) or not all(result in found for result in results):
            continue
        inside = {node for of, node in found.items() if of.op not in ("placeholder", "get_attr")}
        outer = {found[result] for result in results}
        alone = all(user in inside for node in inside - outer for user in node.users)
        if alone and not inside & taken:
            taken |= inside
            yield Match(anchor, found)


def _same(of: Any, value: Any, found: dict[Any, Any]) -> bool:
    """Whether `value` is what an argument of the pattern asks for; `found` gets what its nodes stand for."""
    if isinstance(of, Node):
        return _same_node(of, value, found)
    if type(of) is not type(value):
        return False
    if isinstance(of, dict):
        return of.keys() == value.keys() and _same([*of.values()], [value[k] for k in of], found)
    if isinstance(of, (tuple, list)):
        return len(of) == len(value) and all(_same(a, b, found) for a, b in zip(of, value, strict=True))
    return bool(of == value)


def _same_node(of: Node, value: Any, found: dict[Any, Any]) -> bool:
    if of in found:
        return found[of] is value
    if of.op == "placeholder":
        found[of] = value
        return True
    if not isinstance(value, Node) or (of.op, of.target) != (value.op, value.target):
        return False
    found[of] = value
    return _same(of.args, value.args, found) and _same(of.kwargs, value.kwargs, found)


def _replace(graph: Graph, pattern: Graph, by: Graph, match: Match, replaced: dict[Any, Any]) -> None:
    found = match.nodes_map
    given = [found.get(node) for node in pattern.nodes if node.op == "placeholder"]
    given = [replaced.get(node, node) for node in given]  # an earlier replacement may have made it
    inputs = [node for node in by.nodes if node.op == "placeholder"]
    if len(given) != len(inputs):
        raise ValueError(f"the pattern has {len(given)} parameters, but the replacement has {len(inputs)}")
    with graph.inserting_before(match.anchor):
        made = graph.graph_copy(by, dict(zip(inputs, given, strict=True)))
    new = list(made) if isinstance(made, (tuple, list)) else [made]
    for old, result in zip(_results(pattern), new, strict=True):
        found[old].replace_all_uses_with(result)
        replaced[found[old]] = result
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output") and not found[node].users:
            graph.erase_node(found[node])
