"""A graph as JSON: a custom backend writes what it gets, and another program or tool loads it, without pickle.

Input: the GraphModule that a backend gets, or its graph. Every node is an object with its name, op, target, arguments,
type and the user's lines; operators are named as in the graph's text, and are looked up in the operator table.
"""

from __future__ import annotations

import base64
import json
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.debug.runnable import known_operators
from stage0_eager.functions.creation import from_numpy
from stage0_eager.tensor import Tensor
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DTYPES, DType
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.graph_text import target_name
from stage_contracts.memory_format import FORMATS, MemoryFormat
from stage_contracts.node_meta import PRINTED
from stage_contracts.origin import Origin
from stage_contracts.size_text import read_size
from stage_contracts.symbolic import ShapeEnv, SymBool, SymInt
from stage_contracts.tensor_meta import TensorMeta, parse_meta

FORMAT = "cutaway graph 1"
GETITEM = "operator.getitem"
# What a node is marked with that its line in the graph's text does not say.
MARKS = ("no_grad", "writes_silently", "stands_for_no_grad")


def save_graph(graph: Any, path: str | Path) -> None:
    """Write a graph, or the GraphModule of one, to a file of JSON. Raises ValueError for what JSON cannot name."""
    Path(path).write_text(json.dumps(as_json(graph), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load_graph(path: str | Path) -> GraphModule:
    """The graph of such a file: call it, or give it to a backend. Raises ValueError for a file of another kind."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        seen = record.get("format") if isinstance(record, dict) else type(record).__name__
        raise ValueError(f"{path}: expected the format {FORMAT!r}, but got {seen!r}; save_graph writes it")
    try:
        return of_json(record)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}; save it again") from error


# ---- writing -----------------------------------------------------------------------------------------------------


def as_json(graph: Any) -> dict[str, Any]:
    """A graph as dictionaries, lists, texts and numbers."""
    graph = graph.graph if isinstance(graph, GraphModule) else graph
    known = known_operators()
    sizes: dict[str, int | None] = {}
    for node in graph.nodes:
        for size in _sizes_of(node.val):
            sizes |= {str(symbol): size.env.hints.get(symbol) for symbol in size.expr.free_symbols}
    return {
        "format": FORMAT,
        "name": graph.name,
        "sizes": sizes,  # open ones, with the value of the call that was compiled
        "nodes": [_node(node, known) for node in graph.nodes],
        "attributes": {name: _attribute(name, value) for name, value in graph.attributes.items()},
    }


def _node(node: Node, known: dict[str, Any]) -> dict[str, Any]:
    target = node.target
    if node.op == "call_function":
        target = GETITEM if target is operator.getitem else target_name(target)
        if target != GETITEM and known.get(target) is not node.target:
            raise ValueError(f"{target} at {node.name} was made for this call, so a file cannot name it")
    return {
        "name": node.name,
        "op": node.op,
        "target": target,
        "args": [_written(value) for value in node.args],
        "kwargs": {name: _written(value) for name, value in node.kwargs.items()},
        "type": _type(node.val),
        "meta": {key: str(node.meta[key]) for key in PRINTED if node.meta.get(key) is not None},
        "marks": [key for key in MARKS if node.meta.get(key)],
        "lines": [[o.file, o.line, o.text, o.column, o.end_column] for o in node.origins],
    }


def _type(val: Any) -> Any:
    """`float32[4, s0]`; of several results, a list; of a size or a number, its text. A type whose sizes are computed is
    written field by field: Max(s0, 3) has a comma of its own."""
    if isinstance(val, tuple):
        return [_type(item) for item in val]
    if isinstance(val, TensorMeta) and not all(map(_is_word, (*val.shape, *val.strides))):
        fields = {"shape": [*map(str, val.shape)], "strides": [*map(str, val.strides)]}
        return {"scalar": str(val.with_(shape=())), **fields}
    return None if val is None else str(val)


def _is_word(size: Any) -> bool:
    return isinstance(size, int) or str(size).isidentifier()


def _sizes_of(val: Any) -> list[Any]:
    """The open sizes in a node's type."""
    if isinstance(val, tuple):
        return [size for item in val for size in _sizes_of(item)]
    found = (*val.shape, *val.strides) if isinstance(val, TensorMeta) else (val,)
    return [size for size in found if hasattr(size, "env")]


def _written(value: Any) -> Any:
    """An argument: what JSON has no word for is an object with one key."""
    if (
        value is None
        or isinstance(value, (bool, int, str))
        or (type(value) is float and math.isfinite(value))
    ):
        return value
    if isinstance(value, list):
        return [_written(item) for item in value]
    for cls, (key, write, _) in KINDS.items():
        if isinstance(value, cls):
            return {key: write(value)}
    raise ValueError(f"a graph's argument {value!r} ({type(value).__name__}) cannot be written as JSON")


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, GraphModule):
        return {"graph": as_json(value)}
    if isinstance(value, Tensor):
        array = np.ascontiguousarray(value.detach().numpy())
        data = base64.b64encode(array.tobytes()).decode()
        return {"dtype": value.dtype.name, "shape": list(value.shape), "base64": data}
    raise ValueError(f"the constant {name} is {type(value).__name__}, expected a tensor or a graph")


# ---- reading -----------------------------------------------------------------------------------------------------


def of_json(record: dict[str, Any], sizes: ShapeEnv | None = None) -> GraphModule:
    """The graph that as_json wrote. `sizes` has its open sizes, if more is known of them than their hints."""
    operators = {**known_operators(), GETITEM: operator.getitem}
    env = sizes or ShapeEnv()
    known = {str(symbol) for symbol in env.hints}
    for name, hint in record["sizes"].items():
        if name not in known:
            env.dimension(name, hint)
    graph = Graph(record["name"])
    graph.attributes = {name: _read_attribute(value, env) for name, value in record["attributes"].items()}
    nodes: dict[str, Node] = {}
    for row in record["nodes"]:
        nodes[row["name"]] = node = _read_node(graph, row, nodes, operators)
        node.meta |= {key: PRINTED[key](text) for key, text in row["meta"].items()}
        node.meta |= dict.fromkeys(row.get("marks", ()), True)
        node.meta["val"] = _read_type(row["type"], env)
        node.meta["origins"] = tuple(Origin(*line) for line in row["lines"])
    return GraphModule(graph)


def _read_node(graph: Graph, row: dict[str, Any], nodes: dict[str, Node], operators: dict[str, Any]) -> Node:
    args = tuple(_read(value, nodes) for value in row["args"])
    kwargs = {name: _read(value, nodes) for name, value in row["kwargs"].items()}
    match row["op"]:
        case "placeholder":
            return graph.placeholder(row["name"])
        case "get_attr":
            return Graph.get_attr(graph, row["target"], graph.attributes[row["target"]])
        case "call_function":
            if row["target"] not in operators:
                raise ValueError(
                    f"unknown operator {row['target']!r} at {row['name']}; import what defines it"
                )
            return graph.call_function(operators[row["target"]], args, kwargs, name=row["name"])
    return graph.output(args[0])


def _read_type(text: Any, env: ShapeEnv) -> Any:
    if isinstance(text, list):
        return tuple(_read_type(item, env) for item in text)
    if isinstance(text, dict):
        shape, strides = (tuple(_size(size, env) for size in text[part]) for part in ("shape", "strides"))
        return parse_meta(text["scalar"]).with_(shape=shape, strides=strides)
    if text is None or "[" not in text:
        return None if text is None else _size(text, env)
    return parse_meta(text, {str(symbol): SymInt(symbol, env) for symbol in env.hints})


def _size(text: str, env: ShapeEnv) -> Any:
    """A number, or an expression of open sizes, or a condition on them."""
    if text.lstrip("-").isdigit():
        return int(text)
    expr = read_size(text, {str(symbol): symbol for symbol in env.hints})
    return SymBool(expr, env) if expr.is_Boolean else SymInt(expr, env)


def _read(value: Any, nodes: dict[str, Node]) -> Any:
    if isinstance(value, list):
        return [_read(item, nodes) for item in value]
    if isinstance(value, dict):
        ((key, inner),) = value.items()
        return READ[key](inner, nodes)
    return value


def _read_attribute(record: dict[str, Any], env: ShapeEnv) -> Any:
    if "graph" in record:
        return of_json(record["graph"], env)
    dtype = DTYPES[record["dtype"]]
    array = np.frombuffer(base64.b64decode(record["base64"]), dtype.numpy).reshape(record["shape"])
    return from_numpy(array.copy())


# class -> (key in JSON, how it is written, how it is read)
KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any, dict[str, Node]], Any]]] = {
    Node: ("node", lambda node: node.name, lambda name, nodes: nodes[name]),
    tuple: (
        "tuple", lambda items: [_written(i) for i in items],
        lambda items, nodes: tuple(_read(i, nodes) for i in items)),
    slice: (
        "slice", lambda s: [_written(v) for v in (s.start, s.stop, s.step)],
        lambda items, nodes: slice(*(_read(i, nodes) for i in items))),
    dict: (
        "dict", lambda table: [[_written(k), _written(v)] for k, v in table.items()],
        lambda rows, nodes: {_read(k, nodes): _read(v, nodes) for k, v in rows}),
    DType: ("dtype", lambda dtype: dtype.name, lambda name, nodes: DTYPES[name]),
    MemoryFormat: ("memory_format", lambda layout: layout.name, lambda name, nodes: FORMATS[name]),
    Device: ("device", str, lambda text, nodes: device_of(text)),
    float: ("float", str, lambda text, nodes: float(text)),  # not finite
    type(...): ("ellipsis", lambda value: True, lambda value, nodes: ...),
}  # fmt: skip
READ = {key: read for key, _, read in KINDS.values()}
