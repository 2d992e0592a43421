"""Node: one step of a graph, with torch.fx's names, and helpers that find and map the nodes in its arguments.

Input: graph.py makes the nodes. node_meta.py says what their `meta` may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage_contracts.graph import Graph

# The kinds of nodes, with torch.fx's names.
OPS = ("placeholder", "get_attr", "call_function", "output")


class GraphError(AssertionError):
    """A graph breaks a rule of graphs. This is an internal error; the message names the node."""


class Node:
    """One step. You can read its fields, but change them only through its graph, which keeps `users` right."""

    __slots__ = ("_inputs", "args", "graph", "kwargs", "meta", "name", "op", "target", "users")

    def __init__(self, graph: Graph, op: str, name: str, target: Any, args: tuple, kwargs: dict) -> None:
        self.graph, self.op, self.name, self.target = graph, op, name, target
        self.args, self.kwargs = args, kwargs
        self._inputs = list(reads_of(args, kwargs))
        self.users: dict[Node, None] = {}  # an ordered set
        self.meta: dict[str, Any] = {}

    def __repr__(self) -> str:
        return self.name

    @property
    def val(self) -> Any:
        return self.meta.get("val")

    @property
    def origins(self) -> tuple[Origin, ...]:
        return self.meta.get("origins", ())

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that this one reads, each once, in the order of the arguments."""
        return list(self._inputs)


def map_args(tree: Any, function: Callable[[Node], Any]) -> Any:
    """A copy of nested tuples, lists, dicts and slices, with `function` applied to every Node in them."""
    if isinstance(tree, (tuple, list)):
        mapped = [
            function(t) if type(t) is Node else map_args(t, function) if isinstance(t, _TREES) else t
            for t in tree
        ]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
    if isinstance(tree, Node):
        return function(tree)
    if isinstance(tree, dict):
        return {k: map_args(v, function) for k, v in tree.items()} if tree else {}
    if isinstance(tree, slice):
        return slice(*(map_args(t, function) for t in (tree.start, tree.stop, tree.step)))
    return tree


def reads_of(args: tuple, kwargs: dict) -> dict[Node, None]:
    """The nodes in a node's arguments, each once, in order."""
    found: list[Node] = []
    _collect(args, found)
    if kwargs:
        _collect(kwargs.values(), found)
    return dict.fromkeys(found)


def nodes_in(tree: Any) -> list[Node]:
    """Every Node in nested tuples, lists, dicts and slices, in order, repeats included."""
    found: list[Node] = []
    _collect((tree,), found)
    return found


_TREES = (Node, tuple, list, dict, slice)


def _collect(items: Iterable[Any], found: list[Node]) -> None:
    """Add the nodes among these items, and inside them. First what is most frequent: this runs for every node that is
    made or checked."""
    for item in items:
        kind = type(item)
        if kind is Node:
            found.append(item)
        elif kind is tuple or kind is list:
            if item:
                _collect(item, found)
        elif isinstance(item, Node):  # of cutaway.fx
            found.append(item)
        elif isinstance(item, _TREES):
            _collect(_parts(item), found)


def _parts(tree: Any) -> Iterable[Any]:
    if isinstance(tree, dict):
        return tree.values()
    return (tree.start, tree.stop, tree.step) if isinstance(tree, slice) else tree


def meta_of(value: Any) -> TensorMeta:
    """The TensorMeta of a node or a meta. Raises GraphError when a node has none."""
    meta = value.val if isinstance(value, Node) else value
    if not isinstance(meta, TensorMeta):
        raise GraphError(f"expected {value!r} to be a tensor with a TensorMeta as its val, but got {meta!r}")
    return meta


def metas_of(nodes: Iterable[Node]) -> tuple[TensorMeta, ...]:
    return tuple(meta_of(n) for n in nodes)
