"""The reference interpreter of core graphs: operator by operator with the eager kernels.

Input: a graph in core operators (forward, backward or inference). The backend "aot_eager" runs these; tests
compare every later stage with it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from stage0_eager.kernels import run_kernel
from stage0_eager.tensor import Tensor
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbolic import SymInt
from stage_contracts.tensor_meta import TensorMeta


def aot_eager(graph: Graph) -> Callable[..., tuple]:
    """A callable: arrays, one per placeholder, to the tuple of the graph's outputs (arrays or None).

    As in eager, a result that is a view shares memory with what it views.
    """
    twin = graph.copy()  # so that later edits of `graph` do not change what runs
    twin.attributes = {name: _runnable(value) for name, value in graph.attributes.items()}

    read_sizes = size_reader(graph)

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        if node.target is operator.getitem:  # one result of several
            return args[0][args[1]]
        result = run_kernel(node.target, list(node.target.bind(*args, **kwargs)))
        return _as_promised(node, result) if node.target.opaque else result

    def run(*arrays: Any) -> tuple:
        return twin.interpret(arrays, call)

    def run_with_sizes(*arrays: Any) -> tuple:
        known = read_sizes(arrays)

        def call_with_sizes(node: Node, args: tuple, kwargs: dict) -> Any:
            return call(node, with_sizes(args, known), with_sizes(kwargs, known))

        return twin.interpret(arrays, call_with_sizes)

    open_sizes = any(_holds_size((n.args, n.kwargs)) for n in graph.nodes if n.op == "call_function")
    return run_with_sizes if open_sizes else run


def _as_promised(node: Node, result: Any) -> Any:
    """An opaque operator's result. Raises TypeError where its kernel gives something else than its meta rule says."""
    several = isinstance(node.val, tuple)
    arrays, metas = (result, node.val) if several else ((result,), (node.val,))
    for array, meta in zip(arrays, metas, strict=True):
        if array.dtype != meta.dtype.numpy or array.shape != tuple(map(int, meta.shape)):
            found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise TypeError(
                f"{node.target.qualname} yields {found}, expected {meta}; "
                "the operator's kernel and its meta (fake) rule disagree"
            )
    return result


def _runnable(value: Any) -> Any:
    """An attribute of a graph as kernels take it: the array of a constant, a subgraph as a function of arrays."""
    if isinstance(value, GraphModule):
        return aot_eager(value.graph)
    return value._data if isinstance(value, Tensor) else value


# ---- open sizes -----------------------------------------------------------------------------------------------


def size_reader(graph: Graph) -> Callable[[tuple], dict[Any, int]]:
    """From the inputs' arrays to the value of each open size: read where a placeholder's shape is that symbol alone.

    Raises Unsupported when an operand of the graph needs a size that no shape shows.
    """
    places: dict[Any, tuple[int, int]] = {}
    for i, node in enumerate(graph.placeholders):
        for dim, size in enumerate(node.val.shape if isinstance(node.val, TensorMeta) else ()):
            if isinstance(size, SymInt) and size.expr.is_Symbol:
                places.setdefault(size.expr, (i, dim))
    needed = {
        s
        for node in graph.calls
        for size in _sizes_in((node.args, node.kwargs))
        for s in size.expr.free_symbols
    }
    if needed - places.keys():
        unseen = ", ".join(sorted(map(str, needed - places.keys())))
        raise Unsupported(f"the open size {unseen}, which no input of {graph.name} shows", code="GB0008")
    return lambda arrays: {symbol: arrays[i].shape[dim] for symbol, (i, dim) in places.items()}


def _sizes_in(tree: Any) -> Iterator[SymInt]:
    if isinstance(tree, SymInt):
        yield tree
    elif isinstance(tree, (tuple, list, dict)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _sizes_in(item)


def _holds_size(tree: Any) -> bool:
    return next(_sizes_in(tree), None) is not None


def with_sizes(tree: Any, known: dict[Any, int]) -> Any:
    """A copy of nested tuples, lists and dicts with each open size as the number it is in this call."""
    if isinstance(tree, SymInt):
        return int(tree.expr.subs(known))
    if isinstance(tree, dict):
        return {key: with_sizes(item, known) for key, item in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(with_sizes(item, known) for item in tree)
    return tree
