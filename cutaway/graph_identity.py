"""The text that says all of a captured graph: two graphs with one text become the same in every later stage.

Input: a captured graph. The text that people read (graph_text.py) leaves out some marks and the values of constants;
this one has them all. A part that no text can say (an operator of the user's own, a Python object, an open size)
raises NotSaid: in doubt, a graph is compiled anew.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor
from stage_contracts.device import CPU, Device
from stage_contracts.dtype import DType
from stage_contracts.graph import Graph, Node
from stage_contracts.memory_format import MemoryFormat
from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import TensorMeta

MOST_CONSTANTS = 4 << 20  # bytes: more takes longer to digest than stage 2 takes
ELSEWHERE = {"val", "origins", "source"}  # keys of a node's meta: said apart, or read by capture alone


class NotSaid(Exception):
    """A graph has a part that no text can say."""


def identity(graph: Graph) -> str:
    """The text. Raises NotSaid."""
    lines = [f"graph {graph.name}", *_constants(graph)]
    # most nodes share their operators, their metas and their origins, which the graph keeps alive
    operators, vals, origins = _Once(_operator), _Once(said), _Once(_lines)
    for node in graph.nodes:
        more = node.meta.keys() - ELSEWHERE
        marks = [(key, said(node.meta[key])) for key in sorted(more)]
        target = operators(node.target) if node.op == "call_function" else ""
        target = node.target if node.op == "get_attr" else target
        args, kwargs = said(node.args), said(node.kwargs)
        val, where = vals(node.val), origins(node.origins)
        lines.append(f"{node.op} {node.name} {target} {args} {kwargs} {val} {marks} {where}")
    return "\n".join(lines)


class _Once:
    """`say`, called once for each object."""

    def __init__(self, say: Callable[[Any], str]) -> None:
        self.say, self.known = say, dict[int, str]()

    def __call__(self, value: Any) -> str:
        text = self.known.get(id(value))
        if text is None:
            text = self.known[id(value)] = self.say(value)
        return text


def said(value: Any) -> str:
    """A value in a graph, with its exact type: 1, 1.0 and True differ. Raises NotSaid."""
    say = WORDS.get(type(value))
    if say is None:
        raise NotSaid(f"a {type(value).__name__}")
    return say(value)


def _operator(target: Any) -> str:
    """An operator of Cutaway's own table. What a user's operator computes is in functions that no text says."""
    if target is operator.getitem:
        return "getitem"
    name = getattr(target, "qualname", "")
    if table_row(name) is target and not target.has_effect and not target.opaque:
        return name
    raise NotSaid(f"the operator {name or target!r}")


def table_row(name: str) -> Any:
    """The operator of that qualified name in Cutaway's own tables, or None."""
    if name.startswith("numpy."):
        from stage0_eager.numpy_api import OPERATORS  # only programs on NumPy's functions need it

        return OPERATORS.get(name)
    return TABLE.get(name)


def _constants(graph: Graph) -> list[str]:
    """The constants by content: what a stage might do with a small one is then known, too."""
    lines, total = [], 0
    for name, value in graph.attributes.items():
        if type(value) is not Tensor or value.device != CPU or value.requires_grad:
            raise NotSaid(f"the constant {name}, a {type(value).__name__}")
        total += value._data.nbytes
        if total > MOST_CONSTANTS:
            raise NotSaid("constants of many bytes")
        digest = hashlib.sha256(np.ascontiguousarray(value._data).tobytes()).hexdigest()
        lines.append(f"constant {name} {said(value.meta)} {digest}")
    return lines


def _lines(origins: tuple[Origin, ...]) -> str:
    return repr([(o.file, o.line, o.text, o.column, o.end_column) for o in origins])


def _meta(meta: TensorMeta) -> str:
    if not meta.is_known:
        raise NotSaid("an open size")
    grad = "requires_grad" if meta.requires_grad else ""
    return f"{meta.dtype.name}{meta.shape}{meta.strides}{meta.device}{grad}"


def _items(items: Any) -> str:
    return ", ".join([f"%{item.name}" if type(item) is Node else said(item) for item in items])


WORDS: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((int, float, complex, bool, str, bytes, type(None), type(...)), repr),
    Node: lambda node: f"%{node.name}",
    tuple: lambda items: f"({_items(items)},)",
    list: lambda items: f"[{_items(items)}]",
    dict: lambda table: f"{{{', '.join([f'{said(k)}: {said(v)}' for k, v in table.items()])}}}",
    slice: lambda s: f"slice({_items((s.start, s.stop, s.step))})",
    TensorMeta: _meta,
    DType: lambda dtype: f"dtype {dtype.name}",
    Device: lambda device: f"device {device}",
    MemoryFormat: lambda layout: f"layout {layout.name}",
}
