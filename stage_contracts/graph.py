"""Graph: the program between capture and lowering, with torch.fx's names.

Input: capture builds one graph per frame; every pass takes a Graph and returns a Graph. graph_verify.py checks a graph,
graph_text.py prints it as Python, graph_reader.py reads that back.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from stage_contracts.graph_text import print_graph
from stage_contracts.graph_verify import verify_graph
from stage_contracts.node import OPS, GraphError, Node, map_args, meta_of, metas_of, nodes_in, reads_of
from stage_contracts.origin import Origin
from stage_contracts.symbol_bindings import makers_read
from stage_contracts.unbacked import has_effect, makers

__all__ = ["OPS", "Graph", "GraphError", "Node", "map_args", "meta_of", "metas_of", "nodes_in"]


class Graph:
    """An ordered list of nodes that ends with one output node.

    `attributes` has the objects that `get_attr` nodes name: constant tensors and the subgraphs of control flow.
    """

    def __init__(self, name: str = "forward") -> None:
        self.name = name
        self.attributes: dict[str, Any] = {}
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        self._suffix: dict[str, int] = {}
        self._insert_at: int | None = None  # None: at the end
        self._inputs = 0  # how many placeholders there are, so that the next one's place need not be searched

    # ---- reading ---------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes)

    @property
    def placeholders(self) -> list[Node]:
        return [n for n in self._nodes if n.op == "placeholder"]

    @property
    def calls(self) -> list[Node]:
        return [n for n in self._nodes if n.op == "call_function"]

    @property
    def has_calls(self) -> bool:
        """Whether it computes anything. (Calls come after the inputs, so the search begins at the end.)"""
        return any(n.op == "call_function" for n in reversed(self._nodes))

    @property
    def output_node(self) -> Node:
        return self._nodes[-1]

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The values that the graph returns: always a flat tuple of nodes, None and constants."""
        return self.output_node.args[0]

    def __str__(self) -> str:
        return print_graph(self)

    # ---- building --------------------------------------------------------------------------------------

    def placeholder(self, name: str, val: Any = None, *, at: int | None = None, **meta: Any) -> Node:
        """Add an input, after the existing ones or, with `at`, at that position."""
        node = Node(self, "placeholder", self._fresh(name), name, (), {})
        self._insert(node, self._inputs if at is None else at)
        node.meta.update({"val": val, **meta})
        return node

    def get_attr(self, name: str, value: Any, val: Any = None) -> Node:
        """Add a constant: stores `value` under a new name and returns a node for it."""
        name = self._fresh(name)
        self.attributes[name] = value
        node = self._insert(Node(self, "get_attr", name, name, (), {}))
        node.meta["val"] = val
        return node

    def subgraph(self, module: Any) -> Node:
        """The node of a subgraph (a GraphModule). The same object is one attribute, however often it is called."""
        for node in self._nodes:
            if node.op == "get_attr" and self.attributes[node.target] is module:
                return node
        return self.get_attr(module.graph.name, module)

    def call_function(
        self,
        target: Callable,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        val: Any = None,
        origins: tuple[Origin, ...] = (),
        name: str | None = None,
        **meta: Any,
    ) -> Node:
        """Append a call of `target` (an operator, or operator.getitem) at the insertion point."""
        base = self._fresh(str(name) if name else _call_name(target))
        node = Node(self, "call_function", base, target, tuple(args), dict(kwargs or {}))
        node.meta.update({"val": val, "origins": tuple(origins), **meta})
        return self._insert(node)

    def call_again(
        self, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any], origins: tuple[Origin, ...]
    ) -> Node:
        """Append the call that `node` is, of other arguments and for another line."""
        name = self._fresh(_call_name(node.target))
        made = Node(self, "call_function", name, node.target, tuple(args), dict(kwargs))
        made.meta = {**node.meta, "origins": origins}
        return self._insert(made)

    def output(self, values: Sequence[Any]) -> Node:
        """Add the output node: the graph returns the tuple `values`."""
        node = Node(self, "output", "output", "output", (tuple(values),), {})
        return self._insert(node, len(self._nodes))

    def inserting_before(self, node: Node) -> _InsertionPoint:
        """`with graph.inserting_before(n):` inserts new calls before `n`."""
        return _InsertionPoint(self, self._nodes.index(node))

    def set_args(self, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
        """Replace the arguments of `node`."""
        for used in node.all_input_nodes:
            used.users.pop(node, None)
        node.args = tuple(args)
        node.kwargs = dict(node.kwargs if kwargs is None else kwargs)
        node._inputs = list(reads_of(node.args, node.kwargs))
        for used in node.all_input_nodes:
            used.users[node] = None

    def replace_all_uses_with(self, old: Node, new: Any) -> None:
        """Make every reader of `old` read `new` (a node or a constant) instead."""
        for user in list(old.users):
            args, kwargs = map_args((user.args, user.kwargs), lambda n: new if n is old else n)
            self.set_args(user, args, kwargs)

    def rename(self, node: Node, name: str) -> None:
        """Name `node` `name` or, if the name is in use, `name_1`, ..."""
        self._names.discard(node.name)
        node.name = self._fresh(name)

    def erase_node(self, node: Node) -> None:
        """Remove a node that nothing reads. Raises GraphError while it still has users."""
        if node.users:
            raise GraphError(
                f"cannot erase {node.name}, which is still read by {', '.join(map(str, node.users))}; call "
                "replace_all_uses_with first"
            )
        self.set_args(node, (), {})
        self._nodes.remove(node)
        self._names.discard(node.name)
        self._inputs -= node.op == "placeholder"

    def eliminate_dead_code(self) -> None:
        """Remove every call and constant that no output needs. Inputs stay, and so do checks of the data."""
        kept: list[Node] = []
        made = makers(self._nodes)
        wanted: set[Node] = set()  # the makers of the symbols in what is kept
        for node in reversed(self._nodes):
            if node.users or node.op in ("placeholder", "output") or node in wanted or has_effect(node):
                kept.append(node)
                wanted.update(makers_read(node, made) if made else ())
                continue
            for used in node._inputs:
                used.users.pop(node, None)
            self._names.discard(node.name)
            if node.op == "get_attr":
                self.attributes.pop(node.target, None)
        self._nodes = kept[::-1]

    def copy(self) -> Graph:
        """An equal graph with new nodes. The two graphs share metas, targets and attributes."""
        twin = Graph(self.name)
        self.copy_into(twin, {})
        twin._suffix = dict(self._suffix)
        return twin

    def copy_into(self, twin: Graph, images: dict[Node, Node]) -> None:
        """Append copies of the nodes to `twin`, under the same names, except for nodes that have a replacement in
        `images`."""
        twin.attributes.update(self.attributes)
        for node in self._nodes:
            if node in images:
                continue
            args, kwargs = map_args((node.args, node.kwargs), images.__getitem__)
            name = node.name if node.name not in twin._names else twin._fresh(node.name)
            image = Node(twin, node.op, name, node.target, args, kwargs)
            image.meta = dict(node.meta)
            twin._names.add(name)
            images[node] = twin._insert(image)

    # ---- checking and running --------------------------------------------------------------------------

    def verify(self, allowed: Callable[[Any], bool] | None = None) -> Graph:
        """Check the graph's rules and return the graph. `allowed(target)` says whether a call target may occur."""
        verify_graph(self, allowed)
        return self

    def interpret(self, inputs: Sequence[Any], handler: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        """Run node by node: `handler(node, args, kwargs)` returns the value of a call. By default it calls the target.

        A value is dropped after its last reader, so the peak memory is what the program needs.
        """
        wanted = self.placeholders
        if len(inputs) != len(wanted):
            raise TypeError(f"graph {self.name!r} expects {len(wanted)} inputs, but got {len(inputs)}")
        run = handler or (lambda node, args, kwargs: node.target(*args, **kwargs))
        values: dict[Node, Any] = dict(zip(wanted, inputs, strict=True))
        pending = {node: len(node.users) for node in self._nodes}
        for node in self._nodes:
            if node.op == "placeholder":
                continue
            if node.op == "get_attr":
                values[node] = self.attributes[node.target]
                continue
            args, kwargs = map_args((node.args, node.kwargs), values.__getitem__)
            if node.op == "output":
                return args[0]
            values[node] = run(node, args, kwargs)
            for used in node.all_input_nodes:
                pending[used] -= 1
                if not pending[used]:
                    del values[used]
        raise GraphError(f"graph {self.name!r} does not end in an output node")

    # ---- inside ----------------------------------------------------------------------------------------

    def _insert(self, node: Node, at: int | None = None) -> Node:
        at = self._insert_at if at is None else at
        if at is None:
            self._nodes.append(node)
        else:
            self._nodes.insert(at, node)
            if self._insert_at is not None and at <= self._insert_at:
                self._insert_at += 1
        self._inputs += node.op == "placeholder"
        for used in node._inputs:
            used.users[node] = None
        return node

    def _fresh(self, base: str) -> str:
        name = base = _identifier(base)
        while name in self._names or name == "output":  # which the last node has
            self._suffix[base] = self._suffix.get(base, 0) + 1
            name = f"{base}_{self._suffix[base]}"
        self._names.add(name)
        return name


def _call_name(target: Any) -> str:
    return str(getattr(target, "name", None) or getattr(target, "__name__", "call"))


@cache
def _identifier(text: str) -> str:
    base = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"_{base}" if base[0].isdigit() else f"{base}_" if keyword.iskeyword(base) else base


class _InsertionPoint:
    def __init__(self, graph: Graph, at: int) -> None:
        self.graph, self.at = graph, at

    def __enter__(self) -> Graph:
        self.graph._insert_at = self.at
        return self.graph

    def __exit__(self, *_: object) -> None:
        self.graph._insert_at = None
