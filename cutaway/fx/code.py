"""An fx.Graph as the Python text of a `forward`, in torch.fx's form, and the function that this text makes.

Input: a graph. Values are set to None after their last reader, so that their memory goes when it can.
"""

from __future__ import annotations

import enum
import itertools
import linecache
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

from cutaway.fx import naming
from cutaway.fx.naming import IN_PLACE, INFIX, Namespace
from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.graph_text import _type_comment as comment_of
from stage_contracts.memory_format import MemoryFormat
from stage_contracts.node import Node as BaseNode

if TYPE_CHECKING:
    from cutaway.fx.graph import Graph

_NUMBERS = itertools.count()


@dataclass
class PythonCode:
    """`src` is the text; `globals` the objects that it names."""

    src: str
    globals: dict[str, Any]


class _Text:
    """The globals of one text."""

    def __init__(self) -> None:
        self.globals: dict[str, Any] = {}
        self.namespace = Namespace()
        self.wrapped: list[str] = []

    def name_of(self, obj: Any, hint: str | None = None) -> str:
        """What the text calls an object: torch.relu, or a global of its own."""
        known = naming.public_name(obj)
        if known is not None and known.partition(".")[0] == naming.root():
            return known
        name = hint or naming.qualified_name(obj)
        if "." not in name and name in vars(
            __builtins__ if not isinstance(__builtins__, dict) else _Builtins
        ):
            return name
        for other, value in self.globals.items():
            if value is obj:
                return other
        name = self.namespace.create(name.replace(".", "_"))
        self.globals[name] = obj
        return name

    def literal(self, value: Any) -> str:
        """An argument as Python source."""
        if isinstance(value, BaseNode):
            return value.name
        for kind, write in _WRITERS.items():
            if isinstance(value, kind):
                return write(self, value)
        if value is Ellipsis or isinstance(value, (str, int, complex, bytes, NoneType)):
            return repr(value)
        if isinstance(value, type) or callable(value):
            return self.name_of(value)
        text = repr(value)
        return text if not text.startswith("<") else self.name_of(value, type(value).__name__)

    def annotation(self, kind: Any) -> str:
        return repr(kind) if isinstance(kind, str) else self.literal(kind)


class _Builtins:
    """So that `vars` finds the builtins in either form in which Python gives them."""

    locals().update(__builtins__ if isinstance(__builtins__, dict) else vars(__builtins__))


def _sequence(text: _Text, value: Any) -> str:
    parts = [text.literal(v) for v in value]
    if hasattr(value, "_fields"):
        return f"{text.name_of(type(value))}({', '.join(parts)})"
    if isinstance(value, list):
        return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


_WRITERS: dict[type, Callable[[_Text, Any], str]] = {
    tuple: _sequence,
    list: _sequence,
    dict: lambda text, d: "{" + ", ".join(f"{k!r}: {text.literal(v)}" for k, v in d.items()) + "}",
    slice: lambda text, s: f"slice({', '.join(map(text.literal, (s.start, s.stop, s.step)))})",
    DType: lambda text, dtype: f"{naming.root()}.{dtype.name}",
    Device: lambda text, device: (
        f"device(type={device.type!r}" + (")" if device.type == "cpu" else f", index={device.index})")
    ),
    MemoryFormat: lambda text, layout: f"{naming.root()}.{layout.name}",
    enum.Enum: lambda text, value: f"{text.name_of(type(value))}.{value.name}",
    float: lambda text, x: repr(x) if math.isfinite(x) else f"float({str(x)!r})",
}


def python_code(graph: Graph, root_module: str = "self", verbose: bool = False) -> PythonCode:
    """The text and its globals. verbose: with the type of each value and the user's lines, as comments."""
    text = _Text()
    text.globals.update(naming.environment())
    parameters = [_parameter(text, n, verbose) for n in graph.nodes if n.op == "placeholder"]
    body = list(_body(text, graph, root_module, verbose)) or ["pass\n"]
    kind = next((n.type for n in graph.nodes if n.op == "output"), None)
    returns = f" -> {text.annotation(kind)}" if kind is not None else ""
    wraps = "".join(f'torch.fx._symbolic_trace.wrap("{name}")\n' for name in text.wrapped if naming.MODULES)
    head = _head(parameters, root_module, verbose)
    lines = "".join(f"    {line}" for line in body)
    return PythonCode(f"\n{wraps}\n\ndef forward({head}){returns}:\n{lines}    ", text.globals)


def _body(text: _Text, graph: Graph, root_module: str, verbose: bool) -> Iterator[str]:
    """The lines of the function."""
    dead = _last_uses(graph)
    said: Any = ()
    for node in graph.nodes:
        if node.op == "placeholder":
            plain = str(node.target).replace("*", "")
            yield from [f"{node.name} = {plain}\n"] if plain != node.name else []
        elif node.op == "output":
            yield f"return {text.literal(node.args[0])}\n"
        else:
            if verbose and node.origins and node.origins != said:
                said = node.origins
                yield from (f"# {' '.join(origin.describe().split())}\n" for origin in said)
            gone = dead.get(node, []) + ([] if node.users else [node])
            drop = f";  {' = '.join([*(n.name for n in gone), 'None'])}" if gone else ""
            yield f"{_statement(text, node, root_module)}{drop}{comment_of(node) if verbose else ''}\n"


def _head(parameters: list[str], root_module: str, verbose: bool) -> str:
    if not verbose:
        return ", ".join([root_module, *parameters])
    return "".join([f"{root_module},", *(f"\n    {p}" for p in parameters), "\n" * bool(parameters)])


def _parameter(text: _Text, node: Any, verbose: bool) -> str:
    kind = f" : {text.annotation(node.type)}" if node.type is not None else ""
    default = f" = {text.literal(node.args[0])}" if node.args else ""
    return f"{node.target}{kind}{default}{',' + comment_of(node) if verbose else ''}"


def _last_uses(graph: Graph) -> dict[Any, list[Any]]:
    """For each node, the nodes that nothing reads after it."""
    last: dict[Any, list[Any]] = defaultdict(list)
    seen: set[Any] = set()
    for node in reversed(graph.nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                last[node].append(used)
    return last


def _statement(text: _Text, node: Any, root_module: str) -> str:
    name, target = node.name, node.target
    annotated = f"{name} : {text.annotation(node.type)}" if node.type is not None else name
    if node.op == "get_attr":
        return f"{annotated} = {_path(root_module, target)}"
    if node.op == "call_module":
        return f"{annotated} = {_path(root_module, target)}({_arguments(text, node.args, node.kwargs)})"
    if node.op == "call_method":
        called = _path(text.literal(node.args[0]), target)
        return f"{annotated} = {called}({_arguments(text, node.args[1:], node.kwargs)})"
    if not node.kwargs and target in INFIX:
        return f"{annotated} = {INFIX[target].format(*map(text.literal, node.args))}"
    if not node.kwargs and target in IN_PLACE:
        first, second = map(text.literal, node.args)
        return f"{IN_PLACE[target].format(first, second)};  {annotated} = {first}"
    if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier() and not node.kwargs:
        return f"{annotated} = {_path(text.literal(node.args[0]), node.args[1])}"
    called = text.name_of(target)
    if node.meta.get("is_wrapped") and called not in text.wrapped:
        text.wrapped.append(called)
    return f"{annotated} = {called}({_arguments(text, node.args, node.kwargs)})"


def _path(base: str, target: str) -> str:
    """`base.layers.weight`; what is no identifier, such as the 0 of layers.0, by getattr."""
    text = base
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
    return text


def _arguments(text: _Text, args: tuple, kwargs: dict) -> str:
    return ", ".join([*map(text.literal, args), *(f"{k} = {text.literal(v)}" for k, v in kwargs.items())])


def function_of(code: PythonCode, name: str = "forward") -> Any:
    """The function that a text defines. Tracebacks and inspect show its lines."""
    path = f"<eval_with_key>.{next(_NUMBERS)}"
    linecache.cache[path] = (len(code.src), None, code.src.splitlines(True), path)
    names = dict(code.globals)
    exec(compile(code.src, path, "exec"), names)
    return names[name]


__all__ = ["INFIX", "PythonCode", "function_of", "operator", "python_code"]
