"""Prints a Graph as runnable Python text.

Input: a Graph. Each call is one line with its type as a comment; a comment line above it quotes the user's expression.
graph_reader.py reads the text back.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DTYPES
from stage_contracts.memory_format import FORMATS
from stage_contracts.node import Node
from stage_contracts.node_meta import PRINTED
from stage_contracts.origin import Origin


def target_name(target: Any) -> str:
    """The name of an operator in the text of a graph: its `qualname` (`core.exp`, `cutaway.relu`)."""
    return getattr(target, "qualname", None) or f"{target.__module__}.{target.__qualname__}"


if TYPE_CHECKING:
    from stage_contracts.graph import Graph


def target_names(graph: Graph) -> dict[int, str]:
    """The name of each target in the text of `graph`, by the target's id: operators made for one call may share a
    name."""
    names: dict[int, str] = {}
    for node in graph.calls:
        if node.target is not operator.getitem and id(node.target) not in names:
            name = first = target_name(node.target)
            number = 0
            while name in names.values():
                number += 1
                name = f"{first}_{number}"
            names[id(node.target)] = name
    return names


def literal(value: Any) -> str:
    """An argument as Python source."""
    if isinstance(value, Node):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is ...:
        return "..."
    if isinstance(value, slice):
        return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


def _type_comment(node: Node) -> str:
    val = node.val
    parts = (
        [f"({', '.join(map(str, val))})" if isinstance(val, tuple) else str(val)] if val is not None else []
    )
    parts += [f"{key}={node.meta[key]}" for key in PRINTED if node.meta.get(key) is not None]
    return f"  # {'; '.join(parts)}" if parts else ""


def print_graph(graph: Graph) -> str:
    """The graph as a Python function."""
    names = target_names(graph)
    lines = [f"def {graph.name}("]
    lines += [f"    {n.name},{_type_comment(n)}" for n in graph.placeholders]
    lines += ["):"]
    previous: tuple[Origin, ...] = ()
    for node in graph.nodes:
        if node.op in ("call_function", "get_attr") and node.origins and node.origins != previous:
            # an expression of several lines is joined to one line, so that all of it is in the comment
            lines += [f"    # {' '.join(origin.describe().split())}" for origin in node.origins]
            previous = node.origins
        if node.op == "get_attr":
            lines.append(f"    {node.name} = self.{node.target}{_type_comment(node)}")
        elif node.op == "call_function":
            lines.append(f"    {node.name} = {_call(node, names)}{_type_comment(node)}")
        elif node.op == "output":
            lines.append(f"    return {literal(node.args[0])}")
    return "\n".join(lines) + "\n"


def _call(node: Node, names: Mapping[int, str]) -> str:
    if node.target is operator.getitem:
        return f"{literal(node.args[0])}[{literal(node.args[1])}]"
    words = [literal(a) for a in node.args] + [f"{k}={literal(v)}" for k, v in node.kwargs.items()]
    return f"{names[id(node.target)]}({', '.join(words)})"


def compile_graph(graph: Graph) -> Any:
    """The graph as a Python function, compiled from its printed text."""
    import linecache

    text = print_graph(graph)
    path = f"<cutaway graph {graph.name} {id(graph):x}>"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    names: dict[str, Any] = {"self": SimpleNamespace(**graph.attributes)}
    roots: dict[str, dict[str, Any]] = {"cutaway": {**DTYPES, **FORMATS, "device": Device}}
    known = target_names(graph)
    for node in graph.calls:
        if node.target is not operator.getitem:
            root, _, leaf = known[id(node.target)].rpartition(".")
            roots.setdefault(root, {})[leaf] = node.target
    roots["cutaway"]["device"] = device_of
    nested: dict[str, Any] = {}
    for root, members in sorted(roots.items()):
        first, *rest = root.split(".")
        holder = nested.setdefault(first, SimpleNamespace())
        for part in rest:
            if not hasattr(holder, part):
                setattr(holder, part, SimpleNamespace())
            holder = getattr(holder, part)
        vars(holder).update(members)
    names.update(nested)
    exec(compile(text, path, "exec"), names)
    return names[graph.name]
