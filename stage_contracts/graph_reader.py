"""Reads a Graph from its printed text: the graph prints to the same text again.

Input: the text from graph_text.py, and the operator table, which the caller passes.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping
from typing import Any

from stage_contracts.device import device_of
from stage_contracts.dtype import DTYPES
from stage_contracts.graph import Graph
from stage_contracts.memory_format import FORMATS
from stage_contracts.node import Node
from stage_contracts.node_meta import PRINTED
from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import parse_meta

_ONE_META = re.compile(r"\w+\[[^\]]*\](?: strides=\([^)]*\))?(?: device=\S+?)?(?: requires_grad)?(?=,|\)$)")
_ORIGIN = re.compile(r"# (?P<file>.+?):(?P<line>\d+)(?:: (?P<text>.*))?$")


def parse_graph(
    text: str,
    operators: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    symbols: dict[str, Any] | None = None,
) -> Graph:
    """Read back `str(graph)`.

    `operators` maps printed names (`"core.exp"`) to operators, `attributes` has the objects behind `self.<name>`, and
    `symbols` the symbolic sizes by name. Raises ValueError with the line that could not be read.
    """
    lines = text.splitlines()
    function = ast.parse(text).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise ValueError("expected the text of one graph, which is a single def")
    graph = Graph(function.name)
    graph.attributes = dict(attributes or {})
    nodes: dict[str, Node] = {}
    for arg in function.args.args:
        nodes[arg.arg] = node = graph.placeholder(arg.arg)
        _read_comment(node, lines[arg.lineno - 1], symbols)
    origins: tuple[Origin, ...] = ()
    previous_line = max([function.lineno, *(a.lineno for a in function.args.args)])
    for statement in function.body:
        above = _origins_above(lines, previous_line, statement.lineno - 1)
        origins, previous_line = above or origins, statement.lineno
        if isinstance(statement, ast.Return):
            assert statement.value is not None
            graph.output(_value(statement.value, nodes, operators))
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            nodes[name] = node = _statement(graph, name, statement.value, nodes, operators)
            if node.op == "call_function":
                node.meta["origins"] = origins
            _read_comment(node, lines[statement.lineno - 1], symbols)
        else:
            raise ValueError(
                f"line {statement.lineno}: not a graph statement: {lines[statement.lineno - 1]!r}"
            )
    return graph


def _origins_above(lines: list[str], start: int, stop: int) -> tuple[Origin, ...]:
    found = [_ORIGIN.match(lines[i].strip()) for i in range(max(start, 0), stop)]
    return tuple(Origin(m["file"], int(m["line"]), m["text"] or "") for m in found if m)


def _read_comment(node: Node, line: str, symbols: dict[str, Any] | None) -> None:
    _, _, comment = line.rpartition("  # ") if "  # " in line else ("", "", "")
    for part in filter(None, comment.split("; ")):
        key, equals, value = part.partition("=")
        if equals and key in PRINTED:
            node.meta[key] = PRINTED[key](value)
        elif part.startswith("("):
            node.meta["val"] = tuple(parse_meta(p, symbols) for p in _ONE_META.findall(part))
        elif "[" in part:
            node.meta["val"] = parse_meta(part, symbols)
        elif symbols and part in symbols:
            node.meta["val"] = symbols[part]


def _statement(graph: Graph, name: str, value: ast.expr, nodes: dict, operators: Mapping[str, Any]) -> Node:
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
        return graph.get_attr(value.attr, graph.attributes.get(value.attr))
    if isinstance(value, ast.Subscript):
        args = (_value(value.value, nodes, operators), _value(value.slice, nodes, operators))
        return graph.call_function(operator.getitem, args, name=name)
    if isinstance(value, ast.Call):
        printed = ast.unparse(value.func)
        if printed not in operators:
            raise ValueError(f"line {value.lineno}: unknown operator {printed!r}")
        args = tuple(_value(a, nodes, operators) for a in value.args)
        kwargs = {k.arg: _value(k.value, nodes, operators) for k in value.keywords if k.arg}
        return graph.call_function(operators[printed], args, kwargs, name=name)
    raise ValueError(f"line {value.lineno}: expected a call, got {ast.unparse(value)!r}")


_NAMED = {**DTYPES, **FORMATS}
_BUILTINS = {"slice": slice, "float": float, "cutaway.device": device_of}


def _value(tree: ast.expr, nodes: dict[str, Node], operators: Mapping[str, Any]) -> Any:
    def again(t: ast.expr) -> Any:
        return _value(t, nodes, operators)

    match tree:
        case ast.Name(id=name) if name in nodes:
            return nodes[name]
        case ast.Tuple(elts=elts):
            return tuple(map(again, elts))
        case ast.List(elts=elts):
            return list(map(again, elts))
        case ast.Dict(keys=keys, values=values):
            return {again(k): again(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.Attribute(value=ast.Name(id="cutaway"), attr=name) if name in _NAMED:
            return _NAMED[name]
        case ast.Call(func=function, args=args) if ast.unparse(function) in _BUILTINS:
            return _BUILTINS[ast.unparse(function)](*map(again, args))  # type: ignore[operator]
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise ValueError(f"line {tree.lineno}: cannot read {ast.unparse(tree)!r}") from None
