"""A Graph as runnable Python text, and the way back.

Input: a Graph. Each call is one line with its type as a comment; a comment line above names the user's
expression. `parse_graph` takes the operator table as an argument and gives an equal graph: print it again and
the text is the same.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DTYPES, DType
from stage_contracts.graph import Graph, Node
from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import TensorMeta, parse_meta

_MARKS = {
    "region": str,
    "role": str,
    "checkpoint": int,
}  # the meta keys that print, in this order, and how they read


def target_name(target: Any) -> str:
    """How an operator is written in a graph: its `qualname` (`core.exp`, `cutaway.relu`)."""
    return getattr(target, "qualname", None) or f"{target.__module__}.{target.__qualname__}"


def target_names(graph: Graph) -> dict[int, str]:
    """The name of each target in the text of `graph`, by id: operators made for one call may have one name."""
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
    parts += [f"{key}={node.meta[key]}" for key in _MARKS if node.meta.get(key) is not None]
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
            # an expression of several lines is put on one, so that it stays a comment
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
    """The graph as a Python function object, run from its own printed text."""
    import linecache

    text = print_graph(graph)
    path = f"<cutaway graph {graph.name} {id(graph):x}>"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    names: dict[str, Any] = {"self": SimpleNamespace(**graph.attributes)}
    roots: dict[str, dict[str, Any]] = {"cutaway": {**DTYPES, "device": Device}}
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


# ---- reading back ------------------------------------------------------------------------------------------

_ONE_META = re.compile(r"\w+\[[^\]]*\](?: strides=\([^)]*\))?(?: device=\S+?)?(?: requires_grad)?(?=,|\)$)")
_ORIGIN = re.compile(r"# (?P<file>.+?):(?P<line>\d+)(?:: (?P<text>.*))?$")


def parse_graph(
    text: str,
    operators: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    symbols: dict[str, Any] | None = None,
) -> Graph:
    """Read back `str(graph)`.

    `operators` maps printed names (`"core.exp"`) to operators, `attributes` gives what `self.<name>` was,
    `symbols` the symbolic sizes by name. Raises ValueError with the line that could not be read.
    """
    lines = text.splitlines()
    function = ast.parse(text).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise ValueError("expected the text of one graph: a single def")
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
        if equals and key in _MARKS:
            node.meta[key] = _MARKS[key](value)
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
        case ast.Attribute(value=ast.Name(id="cutaway"), attr=name) if name in DTYPES:
            return DTYPES[name]
        case ast.Call(func=function, args=args) if ast.unparse(function) in _BUILTINS:
            return _BUILTINS[ast.unparse(function)](*map(again, args))  # type: ignore[operator]
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise ValueError(f"line {tree.lineno}: cannot read {ast.unparse(tree)!r}") from None


def describe_val(val: Any) -> str:
    """`float32[64, 10]` for a meta, a tuple of such for several."""
    if isinstance(val, tuple):
        return f"({', '.join(map(describe_val, val))})"
    return str(val) if isinstance(val, TensorMeta | DType) else repr(val)
