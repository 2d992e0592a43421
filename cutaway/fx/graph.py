"""fx.Graph: our Graph with torch.fx's ways to make and edit it, and its two further kinds of nodes.

Input: a tracer, or a program that makes nodes one by one. captured.py turns what capture records into such a graph and
back; code.py prints it as Python. Iterating over `nodes` while the graph is edited goes on with what follows then.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cutaway.fx.code import PythonCode, python_code
from cutaway.fx.naming import Namespace, of_target, qualified_name
from cutaway.fx.node import OPS, Node, formatted
from stage_contracts.graph import Graph as BaseGraph
from stage_contracts.graph import GraphError
from stage_contracts.node import map_args


class NodeList(Sequence[Node]):
    """A view of a graph's nodes in order."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self.graph, self.backwards = graph, backwards

    def __len__(self) -> int:
        return len(self.graph._nodes)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index] if self.backwards else self.graph._nodes[index]

    def __iter__(self) -> Iterator[Any]:
        nodes = self.graph._nodes
        if self.backwards:
            yield from [n for n in reversed(nodes) if not n._erased]
            return
        node, at = (nodes[0] if nodes else None), 0
        while node is not None:
            yield node
            if node._erased:
                while node is not None and node._erased:
                    node = node._after
                continue
            if at >= len(nodes) or nodes[at] is not node:
                at = self.graph.place(node)
            at += 1
            node = nodes[at] if at < len(nodes) else None

    def __reversed__(self) -> NodeList:  # type: ignore[override]
        return NodeList(self.graph, not self.backwards)


class Graph(BaseGraph):
    """Nodes in order. `owning_module`: the GraphModule that runs it, if there is one."""

    _nodes: list[Any]

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        super().__init__("forward")
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._namespace = Namespace()
        self._places: list[tuple[Node, int]] = []  # where new nodes go: beside the last of these
        self._codegen: Any = None

    @property
    def nodes(self) -> NodeList:  # type: ignore[override]
        return NodeList(self)

    # ---- making nodes ------------------------------------------------------------------------------------------

    def create_node(
        self, op: str, target: Any, args: tuple | None = None, kwargs: Mapping[str, Any] | None = None,
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node at the insertion point. `name` (or what the target is called) is made unique."""
        for what, value, kind in (("args", args, (tuple, list)), ("kwargs", kwargs, dict)):
            if value is not None and not isinstance(value, kind):
                raise AssertionError(
                    f"a node's {what} must be a {kind if kind is dict else 'tuple'}, but got {value!r}"
                )
        unique = self._namespace.create(of_target(target) if name is None else name)
        node = Node(self, unique, op, target, args or (), kwargs or {}, type_expr)
        self._nodes.insert(self._index(), node)
        return node

    def _index(self) -> int:
        if not self._places:
            return len(self._nodes)
        beside, offset = self._places[-1]
        return self.place(beside) + offset

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:  # type: ignore[override]
        """Add an input; "*args" and "**kwargs" are names too. `...`: it has no default."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:  # type: ignore[override]
        """Add a reading of an attribute of the module, by its dotted path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(  # type: ignore[override]
        self, the_function: Any, args: Any = None, kwargs: Any = None, type_expr: Any = None, name: Any = None
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """Add a call of the method of args[0] with this name."""
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """Add a call of the submodule with this path."""
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Add the output node: the graph returns `result`."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Any, arg_transform: Callable[[Any], Any] = lambda n: n) -> Node:
        """Add a copy of a node of another graph; arg_transform gives this graph's node for each of that one's."""
        args, kwargs = map_args((node.args, node.kwargs), arg_transform)
        twin = self.create_node(node.op, node.target, args, kwargs, node.name, getattr(node, "type", None))
        twin.meta = copy.copy(node.meta)
        return twin

    def graph_copy(self, g: BaseGraph, val_map: dict[Any, Any], return_output_node: bool = False) -> Any:
        """Add copies of the nodes of `g` except those that have a value in val_map, which gets the copies too.

        Returns what `g` returns, in this graph's nodes; with return_output_node, a pair of that and g's output node.
        None if g has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_args(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    # ---- finding and editing -----------------------------------------------------------------------------------

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of this kind and, for calls, of this target, in order."""
        return [n for n in self._nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:  # type: ignore[override]
        return self._nodes[-1]

    @property
    def outputs(self) -> tuple[Any, ...]:
        returned = self._nodes[-1].args[0]
        return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)

    def place(self, node: Node) -> int:
        """The position of a node."""
        return self._nodes.index(node)

    def neighbour(self, node: Node, step: int) -> Node | None:
        at = self.place(node) + step
        return self._nodes[at] if 0 <= at < len(self._nodes) else None

    def move(self, node: Node, beside: Node, offset: int) -> None:
        if node.graph is not self:
            raise AssertionError(f"node {node} and node {beside} are of different graphs")
        if node is not beside:
            self._nodes.remove(node)
            self._nodes.insert(self.place(beside) + offset, node)

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:  # type: ignore[override]
        """`with graph.inserting_before(n):` new nodes go before n; None: before the first."""
        return _InsertPoint(self, n or self._nodes[0] if self._nodes else None, 0)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """The same for the place right after n, where each new node goes; None: after the last."""
        return _InsertPoint(self, n or self._nodes[-1] if self._nodes else None, 1)

    def erase_node(self, to_erase: Node) -> None:  # type: ignore[override]
        """Remove a node that nothing reads. Raises RuntimeError while it has users."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase._erased:
            return
        to_erase._after = self.neighbour(to_erase, 1)
        self._places = [self._moved_off(to_erase, *place) for place in self._places]
        to_erase._assign((), {})
        self._nodes.remove(to_erase)
        to_erase._erased = True

    def _moved_off(self, erased: Node, beside: Node, offset: int) -> tuple[Node, int]:
        if beside is not erased:
            return beside, offset
        following = self.neighbour(erased, 1)
        previous = self.neighbour(erased, -1)
        return (following, 0) if following is not None else (previous, 1)  # type: ignore[return-value]

    def rename(self, node: Any, name: str) -> None:
        if name != node.name:
            node.name = self._namespace.create(name)

    def replace_all_uses_with(self, old: Any, new: Any) -> None:
        old.replace_all_uses_with(new)

    def set_args(self, node: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
        node._assign(args, node.kwargs if kwargs is None else kwargs)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:  # type: ignore[override]
        """Remove what no output needs and what has no effect of its own. Returns whether anything went."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        dead = self._nodes[::-1]
        before = len(dead)
        for node in dead:
            if not node.users and not impure(node):
                self.erase_node(node)
        return len(self._nodes) < before

    def copy(self) -> Graph:
        """An equal graph with new nodes."""
        twin = Graph(tracer_cls=self._tracer_cls)
        result = twin.graph_copy(self, {}, return_output_node=True)
        if result is not None:
            twin.output(result[0], result[1].type).meta = dict(result[1].meta)
        twin.attributes = dict(self.attributes)
        return twin

    def __deepcopy__(self, memo: Any = None) -> Graph:
        return self.copy()

    def process_inputs(self, *args: Any) -> tuple:
        return args

    def process_outputs(self, out: Any) -> Any:
        return out

    # ---- checking and printing ---------------------------------------------------------------------------------

    def lint(self) -> None:
        """Check the graph: each node's arguments come before it, names are unique, targets of the owning module exist.

        Raises RuntimeError, with the node, for what breaks these rules.
        """
        seen: set[Any] = set()
        names: set[str] = set()
        for node in self._nodes:
            if node.op not in OPS:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node._inputs:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, "
                        "but was used as an argument!"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
        if self.owning_module is not None:
            for node in self._nodes:
                if node.op in ("get_attr", "call_module"):
                    _check_path(self.owning_module, node)

    def verify(self, allowed: Callable[[Any], bool] | None = None) -> Graph:
        self.lint()
        return self

    def python_code(self, root_module: str = "self", *, verbose: bool = False, **unused: Any) -> PythonCode:
        """The graph as Python: `src` is the text of a function, `globals` what the text names."""
        return python_code(self, root_module, verbose)

    def print_tabular(self) -> None:
        """Print one row for each node: opcode, name, target, args, kwargs."""
        print(tabular(self))

    def on_generate_code(self, make_transformer: Any) -> Any:
        raise NotImplementedError(
            "Graph.on_generate_code is not supported: edit the nodes, or the text of .code"
        )

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(n.format_node() for n in self._nodes)])

    def __reduce__(self) -> tuple:
        rows = []
        at = {node: i for i, node in enumerate(self._nodes)}
        for n in self._nodes:
            args, kwargs = map_args((n.args, n.kwargs), lambda used: _Row(at[used]))
            rows.append((n.op, n.target, args, kwargs, n.name, n.type))
        return _of_rows, (rows,)


class _Row(int):
    """In a saved graph: the position of a node."""


def _of_rows(rows: list[tuple]) -> Graph:
    graph = Graph()
    for op, target, args, kwargs, name, kind in rows:
        from_rows = lambda leaf: graph._nodes[leaf] if isinstance(leaf, _Row) else leaf  # noqa: E731
        words = _map_leaves((args, kwargs), from_rows)
        graph.create_node(op, target, words[0], words[1], name, kind)
    return graph


def _map_leaves(tree: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(tree, (tuple, list)) and not hasattr(tree, "_fields"):
        return type(tree)(_map_leaves(t, function) for t in tree)
    if isinstance(tree, dict):
        return {k: _map_leaves(v, function) for k, v in tree.items()}
    if isinstance(tree, slice):
        return slice(*(_map_leaves(t, function) for t in (tree.start, tree.stop, tree.step)))
    return function(tree)


class _InsertPoint:
    def __init__(self, graph: Graph, beside: Node | None, offset: int) -> None:
        if beside is not None and beside.graph is not graph:
            raise AssertionError(f"the node {beside} to insert beside is not in the graph")
        self.graph, self.place = graph, beside and (beside, offset)
        if self.place:  # it is in force at once, as in torch; a `with` block restores
            graph._places.append(self.place)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self.place:
            self.graph._places.pop()


def _check_path(module: Any, node: Node) -> None:
    found = module
    for part in str(node.target).split("."):
        if not hasattr(found, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {type(found).__name__}"
            )
        found = getattr(found, part)


def tabular(graph: BaseGraph) -> str:
    """The nodes as a table."""
    head = ("opcode", "name", "target", "args", "kwargs")
    rows = [[str(x) for x in (n.op, n.name, _shown(n), n.args, n.kwargs)] for n in graph.nodes]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * w for w in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _shown(node: Any) -> str:
    if isinstance(node.target, str):
        return node.target
    name = qualified_name(node.target)
    return str(node.target) if name.startswith("_operator.") else f"<function {name}>"


__all__ = ["Graph", "GraphError", "NodeList", "formatted", "tabular"]
