"""The core operator that a node calls: its name, its kind, and the arguments in order.

Input: nodes of any graph. A node that calls no core operator has the name "" and the kind "".
"""

from __future__ import annotations

import operator
from typing import Any

from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Node


def core_name(value: Any) -> str:
    """The name of the core operator that a node calls; "" for anything else."""
    if not isinstance(value, Node) or value.op != "call_function":
        return ""
    return value.target.name if getattr(value.target, "core", None) is not None else ""


def kind_of(node: Node) -> str:
    """The kind of the core operator that a node calls (see core_ops.KINDS); "" for anything else."""
    row = CORE_OPS.get(core_name(node))
    return row.kind if row else ""


def arguments(node: Node) -> tuple:
    """All arguments of a call of a core operator in the order of its parameters, defaults included."""
    return node.target.bind(*node.args, **node.kwargs)


def is_core(target: object) -> bool:
    """Whether stage 3 accepts a call of `target`: one of CORE_OPS, an opaque operator, or one result of several."""
    return (
        target is operator.getitem
        or getattr(target, "opaque", False)
        or getattr(target, "namespace", None) == "core"
        and getattr(target, "name", None) in CORE_OPS
    )
