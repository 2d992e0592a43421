"""Graph and Node: the program between capture and lowering, in torch.fx's words.

Input: capture builds one graph per frame; every pass takes a Graph and gives a Graph. A Graph is an ordered
list of nodes; `verify()` checks it, `interpret()` runs it under any handler, `str()` prints it as Python
that `graph_text.parse_graph` reads back.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stage_contracts.origin import Origin
from stage_contracts.printing import printed
from stage_contracts.tensor_meta import TensorMeta

# What a node may be. The same words as torch.fx.
OPS = ("placeholder", "get_attr", "call_function", "output")

# Keys of Node.meta that the stages share. A stage may add its own; these have one meaning everywhere.
META_KEYS = {
    "val": "TensorMeta (or a tuple of them, or a SymInt/SymFloat/SymBool): what the node yields",
    "origins": "tuple[Origin, ...]: the user's expressions it came from",
    "region": "'forward' or 'backward': which half of a joint graph it belongs to",
    "role": "what a placeholder is: 'primal', 'tangent', 'rng' or 'saved'",
    "pattern": "'attention_0', 'linear_3': the pattern a node is part of, if stage 2 recognised one",
    "no_grad": "True on what the user computed under no_grad: no gradient flows through it",
    "source": "Source: how a placeholder's value is reached from the call's arguments",
}


class GraphError(AssertionError):
    """A graph breaks its own rules: an internal error, with the offending node in the message."""


class Node:
    """One step. Read its fields freely; change them only through its graph, which keeps `users` right."""

    __slots__ = ("_inputs", "args", "graph", "kwargs", "meta", "name", "op", "target", "users")

    def __init__(self, graph: Graph, op: str, name: str, target: Any, args: tuple, kwargs: dict) -> None:
        self.graph, self.op, self.name, self.target = graph, op, name, target
        self.args, self.kwargs = args, kwargs
        self._inputs = list(dict.fromkeys(nodes_in((args, kwargs))))
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
        """The nodes this one reads, each once, in argument order."""
        return list(self._inputs)


def map_args(tree: Any, function: Callable[[Node], Any]) -> Any:
    """A copy of nested tuples, lists, dicts and slices with `function` applied to every Node in it."""
    if isinstance(tree, Node):
        return function(tree)
    if isinstance(tree, (tuple, list)):
        mapped = [map_args(t, function) for t in tree]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
    if isinstance(tree, dict):
        return {k: map_args(v, function) for k, v in tree.items()}
    if isinstance(tree, slice):
        return slice(*(map_args(t, function) for t in (tree.start, tree.stop, tree.step)))
    return tree


def nodes_in(tree: Any) -> list[Node]:
    """Every Node in nested tuples, lists, dicts and slices, in order, repeats included."""
    found: list[Node] = []
    _collect(tree, found)
    return found


def _collect(tree: Any, found: list[Node]) -> None:
    if isinstance(tree, Node):
        found.append(tree)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            if isinstance(item, (Node, tuple, list, dict, slice)):
                _collect(item, found)
    elif isinstance(tree, dict):
        _collect(list(tree.values()), found)
    elif isinstance(tree, slice):
        _collect((tree.start, tree.stop, tree.step), found)


class Graph:
    """An ordered list of nodes, ending in one output node.

    `attributes` holds what `get_attr` nodes name: constant tensors and the subgraphs of control flow.
    """

    def __init__(self, name: str = "forward") -> None:
        self.name = name
        self.attributes: dict[str, Any] = {}
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        self._suffix: dict[str, int] = {}
        self._insert_at: int | None = None  # None: at the end

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
        """Whether it computes anything. (Calls stand behind the inputs, so the last node usually tells.)"""
        return any(n.op == "call_function" for n in reversed(self._nodes))

    @property
    def output_node(self) -> Node:
        return self._nodes[-1]

    @property
    def outputs(self) -> tuple[Any, ...]:
        """What the graph returns: always a flat tuple of nodes (or None, or constants)."""
        return self.output_node.args[0]

    def __str__(self) -> str:
        return printed("Graph", self)

    # ---- building --------------------------------------------------------------------------------------

    def placeholder(self, name: str, val: Any = None, *, at: int | None = None, **meta: Any) -> Node:
        """A new input, after the existing ones; or as number `at` of them."""
        at = len(self.placeholders) if at is None else at
        node = self._insert(Node(self, "placeholder", self._fresh(name), name, (), {}), at)
        node.meta.update({"val": val, **meta})
        return node

    def get_attr(self, name: str, value: Any, val: Any = None) -> Node:
        """A constant of the graph: stores `value` under a fresh name and yields it."""
        name = self._fresh(name)
        self.attributes[name] = value
        node = self._insert(Node(self, "get_attr", name, name, (), {}))
        node.meta["val"] = val
        return node

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
        base = str(name or getattr(target, "name", None) or getattr(target, "__name__", "call"))
        node = Node(self, "call_function", self._fresh(base), target, tuple(args), dict(kwargs or {}))
        node.meta.update({"val": val, "origins": tuple(origins), **meta})
        return self._insert(node)

    def output(self, values: Sequence[Any]) -> Node:
        """End the graph: it returns the tuple `values`."""
        node = Node(self, "output", "output", "output", (tuple(values),), {})
        return self._insert(node, len(self._nodes))

    def inserting_before(self, node: Node) -> _InsertionPoint:
        """`with graph.inserting_before(n):` new calls go in front of `n`."""
        return _InsertionPoint(self, self._nodes.index(node))

    def set_args(self, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
        """Replace what `node` reads."""
        for used in node.all_input_nodes:
            used.users.pop(node, None)
        node.args = tuple(args)
        node.kwargs = dict(node.kwargs if kwargs is None else kwargs)
        node._inputs = list(dict.fromkeys(nodes_in((node.args, node.kwargs))))
        for used in node.all_input_nodes:
            used.users[node] = None

    def replace_all_uses_with(self, old: Node, new: Any) -> None:
        """Every reader of `old` reads `new` (a node or a constant) instead."""
        for user in list(old.users):
            args, kwargs = map_args((user.args, user.kwargs), lambda n: new if n is old else n)
            self.set_args(user, args, kwargs)

    def rename(self, node: Node, name: str) -> None:
        """Call `node` `name`, or `name_1`, ... where that is taken."""
        self._names.discard(node.name)
        node.name = self._fresh(name)

    def erase_node(self, node: Node) -> None:
        """Remove a node nobody reads. Raises GraphError while it still has users."""
        if node.users:
            raise GraphError(f"cannot erase {node.name}: still read by {', '.join(map(str, node.users))}")
        self.set_args(node, (), {})
        self._nodes.remove(node)
        self._names.discard(node.name)

    def eliminate_dead_code(self) -> None:
        """Remove every call and constant that no output needs. Inputs stay."""
        kept: list[Node] = []
        for node in reversed(self._nodes):
            if node.users or node.op in ("placeholder", "output"):
                kept.append(node)
                continue
            for used in node._inputs:
                used.users.pop(node, None)
            self._names.discard(node.name)
            if node.op == "get_attr":
                self.attributes.pop(node.target, None)
        self._nodes = kept[::-1]

    def copy(self) -> Graph:
        """An equal graph with nodes of its own; metas, targets and attributes are shared."""
        twin = Graph(self.name)
        self.copy_into(twin, {})
        twin._suffix = dict(self._suffix)
        return twin

    def copy_into(self, twin: Graph, images: dict[Node, Node]) -> None:
        """Append copies of the nodes to `twin`, names kept, but for those that `images` has a stand-in for."""
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
        """Check the graph's rules and return it. `allowed(target)` says which call targets may occur."""
        seen: set[Node] = set()
        names: set[str] = set()
        body_started = False
        if not self._nodes or self._nodes[-1].op != "output":
            raise GraphError(f"graph {self.name!r} does not end in an output node")
        for node in self._nodes:
            if node.op not in OPS:
                raise GraphError(f"{node.name}: unknown op {node.op!r}; expected one of {OPS}")
            if node.name in names:
                raise GraphError(f"two nodes are named {node.name!r}")
            if node.op == "placeholder" and body_started:
                raise GraphError(f"placeholder {node.name} comes after a computation")
            if node.op == "output" and node is not self._nodes[-1]:
                raise GraphError("an output node must be the last one")
            if node.op == "get_attr" and node.target not in self.attributes:
                raise GraphError(f"{node.name}: no attribute {node.target!r} in the graph")
            if node.op == "get_attr" and hasattr(self.attributes[node.target], "graph"):
                self.attributes[node.target].graph.verify(allowed)  # a subgraph
            if node.op == "call_function" and allowed is not None and not allowed(node.target):
                raise GraphError(f"{node.name}: {node.target!r} is not allowed in this graph")
            for used in nodes_in((node.args, node.kwargs)):
                if used not in seen:
                    raise GraphError(f"{node.name} reads {used.name}, which is not computed before it")
                if node not in used.users:
                    raise GraphError(f"{used.name}.users lacks {node.name}: edited behind the graph's back")
            for user in node.users:
                if node not in user.all_input_nodes:
                    raise GraphError(f"{node.name}.users has {user.name}, which does not read it")
            body_started |= node.op != "placeholder"
            seen.add(node)
            names.add(node.name)
        return self

    def interpret(self, inputs: Sequence[Any], handler: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        """Run node by node: `handler(node, args, kwargs)` gives a call's value (default: call its target).

        A value is dropped after its last reader, so peak memory is what the program needs.
        """
        wanted = self.placeholders
        if len(inputs) != len(wanted):
            raise TypeError(f"graph {self.name!r} takes {len(wanted)} inputs, got {len(inputs)}")
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
        for used in node.all_input_nodes:
            used.users[node] = None
        return node

    def _fresh(self, base: str) -> str:
        base = "".join(c if c.isascii() and c.isalnum() else "_" for c in base).strip("_") or "value"
        base = f"_{base}" if base[0].isdigit() else f"{base}_" if keyword.iskeyword(base) else base
        name = base
        while name in self._names or name == "output":  # which the last node has
            self._suffix[base] = self._suffix.get(base, 0) + 1
            name = f"{base}_{self._suffix[base]}"
        self._names.add(name)
        return name


class _InsertionPoint:
    def __init__(self, graph: Graph, at: int) -> None:
        self.graph, self.at = graph, at

    def __enter__(self) -> Graph:
        self.graph._insert_at = self.at
        return self.graph

    def __exit__(self, *_: object) -> None:
        self.graph._insert_at = None


def meta_of(value: Any) -> TensorMeta:
    """The TensorMeta of a node or a meta. Raises GraphError when a node has none."""
    meta = value.val if isinstance(value, Node) else value
    if not isinstance(meta, TensorMeta):
        raise GraphError(f"{value!r} has no tensor meta (got {meta!r})")
    return meta


def metas_of(nodes: Iterable[Node]) -> tuple[TensorMeta, ...]:
    return tuple(meta_of(n) for n in nodes)
