"""Interpreter: runs a graph node by node. Override a method for a different meaning. Transformer: makes a new graph so.

Input: a GraphModule, and the values of its inputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from cutaway.fx.graph import Graph
from cutaway.fx.graph_module import GraphModule
from cutaway.fx.node import Node, map_arg
from cutaway.fx.proxy import Proxy
from cutaway.fx.tracer import Tracer


class Interpreter:
    """`run(*args)` runs the graph. `env` has the values of the nodes; with garbage_collect_values, only those that are
    still read."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Any = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules()) if hasattr(module, "named_modules") else {}
        self.graph = module.graph if graph is None else graph
        self.env: dict[Any, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())

    def run(
        self, *args: Any, initial_env: dict[Any, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """What the graph returns for these inputs. initial_env: values of nodes that are not run."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        pending = {n: len(n.users) for n in self.graph.nodes} if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"While executing {_line(node)}")
                raise
            if node.op == "output":
                return self.env[node]
            for used in node.all_input_nodes if self.garbage_collect_values else ():
                pending[used] -= 1
                if not pending[used]:
                    self.env.pop(used, None)
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """The same for a list of inputs, which is emptied, so that their memory goes when it can."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    # ---- one method for each kind of node ----------------------------------------------------------------------

    def placeholder(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as end:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from end

    def get_attr(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return args[0]

    # ---- where values come from --------------------------------------------------------------------------------

    def fetch_attr(self, target: str) -> Any:
        """What the module has at a dotted path. Raises RuntimeError where there is nothing."""
        found = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict[str, Any]]:
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments of the node `n` with values for nodes. Raises RuntimeError for a node that was not run."""

        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[used]

        return map_arg(args, value)


def _line(node: Any) -> str:
    return node.format_node() if hasattr(node, "format_node") else str(node)


class Transformer(Interpreter):
    """`transform()` gives a new GraphModule. Override call_function and the others to make other nodes."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        outer = self

        class OfTransformer(Tracer):
            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                return True

            def path_of_module(self, mod: Any) -> str:
                return next(name for name, m in outer.submodules.items() if m is mod)

        self.tracer = OfTransformer()
        self.tracer.graph = self.new_graph
        self.tracer.root = module

    def placeholder(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        default = args[0] if args else inspect.Signature.empty
        words = {} if default is inspect.Signature.empty else {"default_value": default}
        return Proxy(self.new_graph.placeholder(target, **words), self.tracer)

    def get_attr(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run it on proxies; the GraphModule of the nodes that were made."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            old = self.graph.nodes[-1]
            new = self.new_graph.output(map_proxies(result), getattr(old, "type", None))
            new.meta = dict(old.meta)
        return GraphModule(self.module, self.new_graph)


def map_proxies(tree: Any) -> Any:
    """A copy of nested containers with the node of each proxy."""
    if isinstance(tree, Proxy):
        return tree.node
    if isinstance(tree, (tuple, list)):
        parts = [map_proxies(t) for t in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, dict):
        return {k: map_proxies(v) for k, v in tree.items()}
    return tree
