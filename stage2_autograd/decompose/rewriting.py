"""Shared by the rewriting passes: when one value may replace another, and how to replace a node.

Input: a graph of core operators that the pass may change. A rewrite is a function from a node to its replacement: an
earlier node, a new call, or None for "no".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stage2_autograd.aliasing import base
from stage2_autograd.core_calls import core_name
from stage_contracts.graph import Graph, Node, map_args
from stage_contracts.origin import union
from stage_contracts.symbolic import same_shape
from stage_contracts.tensor_meta import TensorMeta

Rewrite = Callable[[Node], Any]  # -> Node, Call or None


class Call:
    """A new call, as the result of a rewrite: `target(*args)`. Its meta comes from the operator's meta rule."""

    __slots__ = ("args", "target")

    def __init__(self, target: Any, *args: Any) -> None:
        self.target, self.args = target, args

    @property
    def val(self) -> Any:
        return self.target.meta(*map_args(self.args, lambda n: n.val))


def pinned(graph: Graph) -> set[Node]:
    """The nodes whose memory the caller gets. None of them may share memory with another value that the caller gets."""
    return {base(n) for n in graph.outputs if isinstance(n, Node)}


def same_kind(a: Any, b: Any) -> bool:
    """Whether two values have the same shape, dtype, layout and device, so that only their elements can differ."""
    if not (isinstance(a, TensorMeta) and isinstance(b, TensorMeta)):
        return False
    alike = (a.dtype, a.device) == (b.dtype, b.device)
    return alike and same_shape(a.shape, b.shape) and same_shape(a.strides, b.strides)


def rewrite(graph: Graph, rules: Mapping[str, Rewrite]) -> None:
    """Apply the rule of each node's operator, in order, if the result is of the same kind and the outputs share no new
    memory. A node that is replaced loses its readers; the pass dead_code removes it."""
    kept = pinned(graph)
    for node in graph.calls:
        rule = rules.get(core_name(node))
        new = rule(node) if rule is not None else None
        if new is None or not same_kind(node.val, new.val):
            continue
        if base(node) in kept and not _may_be_the_outputs(node, new, kept):
            continue
        if isinstance(new, Call):
            with graph.inserting_before(node):
                new = graph.call_function(new.target, new.args, val=node.val, name=node.name)
            new.meta.update({k: v for k, v in node.meta.items() if k != "val"})
        elif new.op == "call_function":
            new.meta["origins"] = union((new.origins, node.origins))
        graph.replace_all_uses_with(node, new)


def _may_be_the_outputs(node: Node, new: Any, kept: set[Node]) -> bool:
    """Whether an output may use the memory of `new`: it does already, or the caller gets that memory in no other
    value."""
    if isinstance(new, Call):  # of the same operator: in memory of its own, if the other's is
        return new.target is node.target and base(node) is node
    if base(new) is base(node):
        return True
    home = base(new)
    if base(node) is not node or home.op != "call_function" or home in kept:
        return False
    kept.add(home)
    return True


def key_of(tree: Any) -> Any:
    """A key that is equal for arguments that are the same for an operator: 0.0, -0.0, 0 and False differ, as do two
    NaNs."""
    if isinstance(tree, (tuple, list)):
        return (type(tree), *map(key_of, tree))
    if isinstance(tree, float):
        return (float, tree.hex() if tree == tree else id(tree))
    if isinstance(tree, dict):
        return tuple((k, key_of(v)) for k, v in tree.items())
    if isinstance(tree, slice):
        return (slice, key_of(tree.start), key_of(tree.stop), key_of(tree.step))
    return (type(tree), tree)
