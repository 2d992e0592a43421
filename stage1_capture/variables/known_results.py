"""What an operator's meta rule said before in this capture: equal layers and many parameters ask the same questions.

Input: an operator and its bound arguments. A result is kept under everything that a rule can look at: the arguments by
value and type, grad mode, and the modes that a program can change (default dtype and device, autocast, inference).
"""

from __future__ import annotations

import operator
from typing import Any

from stage0_eager import is_grad_enabled
from stage0_eager.state import modes
from stage0_eager.table.operator import Operator
from stage0_eager.transforms.shadow_tape import viewed
from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.graph import Graph, Node, map_args
from stage_contracts.tensor_meta import TensorMeta

Known = dict[tuple, tuple[Any, int | None]]


def meta_and_returned(known: Known, op: Operator, arguments: tuple) -> tuple[Any, int | None]:
    """`op.meta_and_returned(*arguments)`, or what it gave for the same question. Open sizes always ask the rule, which
    may add guards."""
    try:
        key = (op, is_grad_enabled(), modes(), _told(arguments))
    except _NotTold:
        return op.meta_and_returned(*arguments)
    found = known.get(key)
    if found is None:
        found = op.meta_and_returned(*arguments)
        if _is_told(found[0]):  # not a size that only the data knows, which is a new one in each call
            known[key] = found
    return found


def viewed_once(known: Known, graph: Graph, node: Node) -> Node | None:
    """The operand that `node` is a view of (shadow_tape.py), or what the same call said before."""
    one_of_several = node.target is operator.getitem
    called, which = node.args if one_of_several else (node, None)
    if not isinstance(called, Node) or called.op != "call_function" or called.target is operator.getitem:
        return viewed(graph, node)
    operands = called.all_input_nodes
    places = {n: place for place, n in enumerate(operands)}

    def spelled(value: Node) -> tuple:
        if type(value.val) is not TensorMeta:  # a constant may be anything
            raise _NotTold
        return "operand", places[value], value.val

    try:
        told = _told(tuple(map_args((called.args, tuple(called.kwargs.items())), spelled)))
        key = ("viewed", called.target, _told(which), is_grad_enabled(), modes(), told)
    except _NotTold:
        return viewed(graph, node)
    if key not in known:
        found = viewed(graph, node)
        if found is not None and found not in places:
            return found
        known[key] = None, None if found is None else places[found]
    place = known[key][1]
    return None if place is None else operands[place]


class _NotTold(Exception):
    """An internal signal: a value that equality does not tell from all others."""


# 1, 1.0 and True are equal, and so are 0.0 and -0.0: the type and the text tell them apart.
_BY_TEXT = frozenset({bool, float, complex})
_BY_VALUE = frozenset({int, str, type(None), DType, Device})


def _told(value: Any) -> Any:
    kind = type(value)
    if kind is TensorMeta:
        if not value.is_known:
            raise _NotTold
        return value
    if kind in _BY_VALUE:
        return kind, value
    if kind in _BY_TEXT:
        return kind, repr(value)
    if kind is tuple or kind is list:
        return kind, tuple([_told(item) for item in value])
    raise _NotTold


def _is_told(result: Any) -> bool:
    try:
        _told(result)
    except _NotTold:
        return False
    return True
