"""Removes inputs that are sizes from a captured graph. Most of them can be read from the shapes of its tensors.

Input: a captured graph, in which an open size that is an operand (`arange(n)`) is a separate placeholder. The later
stages know only tensors. A size that no tensor has becomes the shape of an empty tensor, (n, 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.breaks import Unsupported
from stage_contracts.device import CPU, Device
from stage_contracts.graph import Graph, Node
from stage_contracts.joint import Partition, SavedTensor
from stage_contracts.symbol_bindings import expression, open_sizes_in, symbol_bindings
from stage_contracts.symbolic import ShapeEnv, SymInt
from stage_contracts.tensor_meta import TensorMeta


def without_size_inputs(
    graph: Graph, device: Device = CPU
) -> tuple[Graph, Callable[[Sequence[Any]], Sequence[Any]]]:
    """The graph with tensors as its only inputs, and a function from the captured graph's inputs to its inputs."""
    sizes = [node for node in graph.placeholders if not isinstance(node.val, TensorMeta)]
    if not sizes:
        return graph, list
    if other := [n for n in sizes if not isinstance(n.val, SymInt)]:
        raise Unsupported(f"the open number {other[0].val}, passed as an operand", code="GB0011")
    position = {node.name: i for i, node in enumerate(graph.placeholders)}
    twin = graph.copy()
    needed = _hidden_symbols(graph)
    carried: list[int] = []
    for node in [n for n in twin.placeholders if not isinstance(n.val, TensorMeta)]:
        twin.replace_all_uses_with(node, node.val)
        twin.erase_node(node)
        if expression(node.val) in needed:  # of what is made of several, or may be negative, no shape tells
            if device != CPU:
                raise Unsupported(f"the size {node.val}, which no input on {device} has", code="GB0011")
            carried.append(position[node.name])
            twin.placeholder(f"{node.name}_shown", TensorMeta((node.val, 0), dt.uint8))
            needed -= {s.symbol for s in symbol_bindings([n.val for n in twin.placeholders])}
    kept = [i for i, node in enumerate(graph.placeholders) if isinstance(node.val, TensorMeta)]
    return twin, _picking(kept, carried)


def _picking(kept: list[int], carried: list[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Takes the tensors at the places `kept`, then for each size at a place of `carried` a tensor that shows it."""
    if not carried and len(kept) > 1:
        return itemgetter(*kept)

    def pick(inputs: Sequence[Any]) -> list:
        shown = [Tensor(np.empty((inputs[i], 0), np.uint8)) for i in carried]
        return [*(inputs[i] for i in kept), *shown]

    return pick


def _hidden_symbols(graph: Graph) -> set[Any]:
    """The symbols of open sizes in the graph that cannot be read from the shape of any input tensor."""
    known = {s.symbol for s in symbol_bindings([node.val for node in graph.placeholders])}
    return _symbols(graph.nodes).keys() - known


def _symbols(nodes: Sequence[Node]) -> dict[Any, ShapeEnv]:
    """The symbols in the open sizes of these nodes, with their environments."""
    used = {expression(size): size.env for n in nodes for size in open_sizes_in((n.val, n.args, n.kwargs))}
    return {s: env for expr, env in used.items() for s in expr.free_symbols}


def save_hidden_sizes(partition: Partition) -> Partition:
    """The partition, in which every open size of the backward can be read from a value that the forward saves.

    Most can be read from saved tensors and tangents. But the gradient of `x.sum()` needs only the sizes of x, and no
    value.
    """
    needed = _symbols(partition.backward.nodes)
    shown = {s.symbol for s in symbol_bindings([n.val for n in partition.backward.placeholders])}
    hidden = sorted(needed.keys() - shown, key=str)
    if not hidden:
        return partition
    forward, backward, saved = partition.forward.copy(), partition.backward.copy(), list(partition.saved)
    device = next((n.val.device for n in forward.placeholders if n.val.device != CPU), CPU)
    for symbol in hidden:
        size = SymInt(symbol, needed[symbol])
        meta = TensorMeta((size, 0), dt.uint8, device=device)
        with forward.inserting_before(forward.output_node):
            value = forward.call_function(
                c.full, ((size, 0), 0, dt.uint8, device), val=meta, name=f"{symbol}_shown"
            )
        forward.set_args(forward.output_node, ((*forward.outputs, value),))
        node = backward.placeholder(f"{symbol}_shown", meta, at=len(saved), role="saved")
        saved.append(SavedTensor(node.name, meta, (), "a size"))
    return replace(partition, forward=forward, backward=backward, saved=tuple(saved)).verify()
