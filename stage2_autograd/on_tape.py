"""Which calls of a graph eager would record on its tape, and which derivative rules the walk back then runs.

Input: a functional graph whose inputs say whether they require grad. differentiate walks these calls; regions.py asks
which operands of a region need a gradient.
"""

from __future__ import annotations

import operator as python
from collections.abc import Sequence
from typing import Any

from stage0_eager.table.operator import Derivative
from stage_contracts.graph import Graph, GraphError, Node
from stage_contracts.tensor_meta import TensorMeta

Edges = list[tuple[Derivative, Any]]  # (rule, the argument that it is for: a node, or a sequence of nodes)


def on_tape(graph: Graph) -> dict[Node, Edges | None]:
    """The nodes that eager would record: inputs that require grad, and calls through which a gradient flows to one.

    The value is a list of rules to run; None for an input, and for one result of a call with several results.
    """
    recorded: dict[Node, Edges | None] = {p: None for p in graph.placeholders if p.val.requires_grad}
    for node in graph.calls:
        if node.target is python.getitem:
            if node.args[0] in recorded and node.val.dtype.is_differentiable:
                recorded[node] = None
            continue
        if not node.target.whole:
            raise GraphError(f"{node.name}: {node.target.qualname} has no derivative that could be applied")
        if node.meta.get("no_grad") or not any(m.dtype.is_differentiable for m in metas_of(node)):
            continue
        arguments = node.target.bind(*node.args, **node.kwargs)
        edges = [(rule, arguments[rule.position]) for rule in node.target.rules]
        edges = [(rule, a) for rule, a in edges if any(n in recorded for n in _several(a))]
        if edges:
            recorded[node] = edges
    return recorded


def _several(argument: Any) -> Sequence[Any]:
    """The tensors of an argument: the items of a list, or the argument itself."""
    items = argument if isinstance(argument, (list, tuple)) else (argument,)
    return [item for item in items if isinstance(item, Node)]


def metas_of(node: Node) -> tuple[TensorMeta, ...]:
    """The metas of all results of a call."""
    return (node.val,) if isinstance(node.val, TensorMeta) else node.val
