"""Which results share storage with an argument, for functionalize and the run-time wrapper.

Input: core operators and the metas of their arguments. A result shares the storage of its first argument or of none, so
a storage is a chain of first arguments; `base` follows it to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage_contracts.core_metas import infer_shape
from stage_contracts.graph import Node, map_args, meta_of
from stage_contracts.layouts import view_strides

# Core operator -> whether its result shares the first argument's storage. All other operators make new storage.
_SHARES: dict[str, Callable[..., bool]] = {
    "reshape": lambda input, shape: (
        input.is_contiguous or view_strides(input, infer_shape(shape, input.numel)) is not None
    ),
    "permute": lambda input, *_: True,
    "expand": lambda input, *_: True,
    "slice": lambda input, *_: True,
    "diagonal": lambda input, *_: True,
    "unfold": lambda input, *_: True,
    "view_as_real": lambda input: True,
    "view_as_complex": lambda input: True,
    "as_strided": lambda input, *_: input.is_contiguous,
    "detach": lambda input: True,
    "contiguous": lambda input: input.is_contiguous,
    "to_device": lambda input, device, *_: input.device == device,
}


def shares_storage(op: Any, metas: tuple) -> bool:
    """Whether the result of core operator `op` is a view of its first argument (`metas`: a TensorMeta per tensor)."""
    rule = _SHARES.get(op.name) if getattr(op, "core", None) is not None else None
    return rule is not None and rule(*metas)


def base(node: Node) -> Node:
    """The node whose storage `node` shares; `node` itself if it has its own storage."""
    while node.op == "call_function" and getattr(node.target, "name", "") in _SHARES:
        if not shares_storage(node.target, map_args(node.args, meta_of)):
            break
        node = node.args[0]
    return node


def copies_an_input(node: Node) -> bool:
    """Whether the program copies an input, or a view of one, with it. The copy keeps values that the caller may
    overwrite."""
    if node.op != "call_function" or getattr(node.target, "name", "") != "clone":
        return False
    return base(node.args[0]).op == "placeholder"
