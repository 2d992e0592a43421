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
    """A call that a rewrite asks for: `target(*args)`, its meta by the operator's own rule."""

    __slots__ = ("args", "target")

    def __init__(self, target: Any, *args: Any) -> None:
        self.target, self.args = target, args

    @property
    def val(self) -> Any:
        return self.target.meta(*map_args(self.args, lambda n: n.val))


def pinned(graph: Graph) -> set[Node]:
    """The nodes whose memory the caller gets. One of them must stay apart from all other memory it can reach."""
    return {base(n) for n in graph.outputs if isinstance(n, Node)}


def same_kind(a: Any, b: Any) -> bool:
    """Whether two values have one shape, dtype, layout and place, so that nobody can tell them apart but by value."""
    if not (isinstance(a, TensorMeta) and isinstance(b, TensorMeta)):
        return False
    alike = (a.dtype, a.device) == (b.dtype, b.device)
    return alike and same_shape(a.shape, b.shape) and same_shape(a.strides, b.strides)


def rewrite(graph: Graph, rules: Mapping[str, Rewrite]) -> None:
    """Apply the rule of each node's operator, in order, where the result is of the same kind and no output's memory
    changes hands. What is replaced loses its readers; dead code takes it away."""
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
    """Whether an output may live where `new` does: there already, or in memory that nobody else gets."""
    if not isinstance(new, Node) or base(new) is base(node):
        return isinstance(new, Node)
    home = base(new)
    if base(node) is not node or home.op != "call_function" or home in kept:
        return False
    kept.add(home)
    return True


def key_of(tree: Any) -> Any:
    """Equal for arguments that are equal to an operator: 0.0, -0.0, 0 and False stay apart, as do two NaNs."""
    if isinstance(tree, (tuple, list)):
        return (type(tree), *map(key_of, tree))
    if isinstance(tree, float):
        return (float, tree.hex() if tree == tree else id(tree))
    if isinstance(tree, dict):
        return tuple((k, key_of(v)) for k, v in tree.items())
    if isinstance(tree, slice):
        return (slice, key_of(tree.start), key_of(tree.stop), key_of(tree.step))
    return (type(tree), tree)
