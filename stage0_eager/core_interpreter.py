"""The interpreter of core graphs: runs them operator by operator with the eager kernels. It is the only one.

Input: a graph in core operators (forward, backward or inference), its sizes fixed or open. The backend "aot_eager" uses
it, and so does "inductor" without a compiler; tests compare every later stage with it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.kernels.eager import run_kernel
from stage0_eager.tensor import Tensor
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbol_bindings import (
    expression,
    open_sizes_in,
    size_reader,
    symbol_bindings,
    with_sizes,
)
from stage_contracts.symbolic import SymInt
from stage_contracts.unbacked import makers, symbol_made, value_made

Call = Callable[[Node, tuple, dict], Any]


def interpreter(graph: Graph) -> Callable[..., tuple]:
    """Make a callable: arrays, one per placeholder -> the tuple of the graph's outputs (arrays or None).

    As in eager, a result that is a view shares memory with its base. Raises Unsupported for an open size that no input
    has.
    """
    twin = graph.copy()  # so that later edits of `graph` do not change what runs
    twin.attributes = {name: _runnable(value) for name, value in graph.attributes.items()}
    return at_sizes(twin, _call)


def at_sizes(graph: Graph, call: Call) -> Callable[..., tuple]:
    """A callable that runs the graph with `call`. Each open size in an argument gets its value for the inputs."""

    def run(*inputs: Any) -> tuple:
        return graph.interpret(inputs, call)

    operands = [(n.args, n.kwargs) for n in graph.nodes if n.op == "call_function"]
    sizes = list(open_sizes_in(operands))
    if not sizes:
        return run
    # there are none if guards have specialized them all
    needed = {s for size in sizes for s in expression(size).free_symbols}
    shown = symbol_bindings([n.val for n in graph.placeholders])
    made = makers(graph.nodes)
    if unseen := needed - {s.symbol for s in shown} - made.keys():
        names = ", ".join(sorted(map(str, unseen)))
        raise Unsupported(f"the open size {names}, which no input of {graph.name} has", code="GB0011")
    read_sizes: Callable[[Sequence[Any]], dict[Any, int]] = size_reader(shown)

    def run_with_sizes(*inputs: Any) -> tuple:
        known = read_sizes(inputs)

        def call_with_sizes(node: Node, args: tuple, kwargs: dict) -> Any:
            result = call(node, with_sizes(args, known), with_sizes(kwargs, known))
            if made and (found := symbol_made(node)):
                known[found[0]] = value_made(result, found[1])
            return result

        return graph.interpret(inputs, call_with_sizes)

    return run_with_sizes


def _call(node: Node, args: tuple, kwargs: dict) -> Any:
    if node.target is operator.getitem:  # one of several results
        return args[0][args[1]]
    result = run_kernel(node.target, list(node.target.bind(*args, **kwargs)))
    return _as_promised(node, result) if node.target.opaque else result


def _as_promised(node: Node, result: Any) -> Any:
    """Check an opaque operator's result. Raises TypeError if it does not agree with the operator's meta rule."""
    several = isinstance(node.val, tuple)
    arrays, metas = (result, node.val) if several else ((result,), (node.val,))
    for array, meta in zip(arrays, metas, strict=True):
        fits = len(array.shape) == meta.ndim and all(
            isinstance(size, SymInt) or size == have
            for size, have in zip(meta.shape, array.shape, strict=True)
        )
        if array.dtype != meta.dtype.numpy or not fits:
            found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise TypeError(
                f"{node.target.qualname} returned {found}, expected {meta}: "
                "the operator's kernel and its meta rule (for a custom operator: its fake impl) disagree"
            )
    return result


def _runnable(value: Any) -> Any:
    """An attribute of a graph in the form for kernels: the array of a constant, or a subgraph as a function of
    arrays."""
    if isinstance(value, GraphModule):
        return interpreter(value.graph)
    return value._data if isinstance(value, Tensor) else value
