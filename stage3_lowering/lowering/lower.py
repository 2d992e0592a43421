"""The seam `lower`: a graph in core operators becomes loop nests and external calls, one per operator.

Input: stage 2's forward or backward Graph; each node's `val` is a TensorMeta. One rule per kind of operator,
in a table at the end. Lowering never refuses: an operator without a rule becomes a call of its eager kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from stage3_lowering.lowering import collectives, convolution, masked, placement
from stage3_lowering.lowering.pointwise import pointwise
from stage3_lowering.lowering.reduction import reduction
from stage3_lowering.lowering.scan import EXTREMA, FOLDS, running_extremum, running_fold
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import VIEWS
from stage_contracts.core_ops import CORE_OPS, CoreOp
from stage_contracts.graph import Graph, Node
from stage_contracts.loop_ir import LoweredGraph


def lower(graph: Graph) -> LoweredGraph:
    """Core operators to loop nests and external calls. Refuses no operator."""
    state = State(graph)
    for node in graph.nodes:
        if node.op == "placeholder":
            state.values[node] = state.given(node, state.inputs)
        elif node.op == "get_attr":
            state.values[node] = state.given(node, state.constants)
        elif node.op == "call_function":
            state.values[node] = _lower_call(state, node)
    return state.finish(graph)


def _lower_call(state: State, node: Node) -> Any:
    if node.target is operator.getitem:
        source, position = node.args
        return state.values[source][position]
    row = CORE_OPS.get(node.target.name) if node.target.namespace == "core" else None
    result = None
    if row is not None and _has_complex(node):
        return _lower_complex(state, node, row)
    if row is not None and (rule := RULES.get(row.name) or RULES.get(row.kind)):
        result = rule(state, node, state.bind(row, node))
    return state.extern(node) if result is None else result


def _lower_complex(state: State, node: Node, row: CoreOp) -> Any:
    """Loops are of real numbers, so this is a call of the eager kernel. What only places a buffer's elements stays a
    reference to it."""
    rule = RULES.get(row.name) or RULES.get(row.kind)
    if rule and row.kind in ("view", "identity"):
        result = rule(state, node, state.bind(row, node))
        if result is not None and result.ref is not None:
            return result
    return state.extern(node)


def _has_complex(node: Node) -> bool:
    """Whether complex numbers go in or out."""
    metas = [n.val for n in (node, *node.all_input_nodes)]
    return any(m.dtype.is_complex for val in metas for m in (val if isinstance(val, tuple) else (val,)))


# By name, else by kind. A rule gives None for what it leaves to the eager kernel.
RULES: dict[str, Callable[[State, Node, dict[str, Any]], Any]] = {
    "pointwise": pointwise,
    "reduction": reduction,
    **dict.fromkeys(VIEWS, placement.lower_view),
    "identity": placement.identity,
    "collective": collectives.collective,
    "full": placement.full,
    "iota": placement.iota,
    "convolution": convolution.convolution,
    "convolution_weight_gradient": convolution.convolution_weight_gradient,
    **dict.fromkeys(FOLDS, running_fold),
    **dict.fromkeys(EXTREMA, running_extremum),
    "cat": masked.cat,
    "constant_pad": masked.constant_pad,
    "gather": placement.gather,
    "scatter": placement.scatter,
    "scatter_add": placement.scatter,
    "slice_scatter": placement.slice_scatter,
    "random_bits": placement.random_bits,
}
