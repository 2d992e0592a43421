"""Removes calls that change nothing, by identities that hold for every value: NaN, infinities and signed zeros too.

Input: core graphs. These are not identities: x + 0 (it turns -0.0 into 0.0), x * 0, x - x, x / x, exp(log(x)).
"""

from __future__ import annotations

from typing import Any

from stage2_autograd.aliasing import copies_an_input, shares_storage
from stage2_autograd.core_calls import arguments, core_name
from stage2_autograd.decompose.rewriting import Rewrite, rewrite
from stage_contracts import dtype as dt
from stage_contracts.graph import Graph, Node


def identities(graph: Graph) -> None:
    """If a call returns its operand, make its readers read the operand."""
    rewrite(graph, RULES)


def _is(value: Any, number: float) -> bool:
    """Whether an argument is a Python scalar with exactly this value (-0.0 is not 0.0). The value of a tensor is
    unknown."""
    if isinstance(value, (bool, Node)) or not isinstance(value, (int, float)):
        return False
    return value == number and str(float(value)) == str(float(number))


def _operand_if(number: float, either_side: bool = False) -> Rewrite:
    def rule(node: Node) -> Any:
        a, b = arguments(node)
        if node.val.dtype.is_complex:  # the number has an imaginary part of 0, which makes NaN of an infinity
            return None
        if isinstance(a, Node) and _is(b, number):
            return a
        return b if either_side and isinstance(b, Node) and _is(a, number) else None

    return rule


def _add(node: Node) -> Any:
    """x + -0.0 is x. For integers, which have no -0, x + 0 is x, too."""
    a, b = arguments(node)
    if node.val.dtype.is_complex:
        return None
    zero = -0.0 if node.val.dtype.is_floating_point else 0
    if isinstance(a, Node) and _is(b, zero):
        return a
    return b if isinstance(b, Node) and _is(a, zero) else None


def _undone_by(name: str) -> Rewrite:
    return lambda node: node.args[0].args[0] if core_name(node.args[0]) == name else None


def _logical_not(node: Node) -> Any:
    inner = node.args[0]
    if core_name(inner) == "logical_not" and inner.args[0].val.dtype is dt.bool_:
        return inner.args[0]
    return None


def _where(node: Node) -> Any:
    _, a, b = arguments(node)
    return a if a is b and isinstance(a, Node) else None


def _operand(node: Node) -> Any:
    return node.args[0]


def _clone(node: Node) -> Any:
    """The operand. A copy of an input stays if a backward may read it, because the caller may write to the input
    before."""
    waits = any(n.meta.get("role") == "tangent" for n in node.graph.placeholders)
    return None if waits and copies_an_input(node) else node.args[0]


def _constant_pad(node: Node) -> Any:
    """The operand if all pads are 0. An equal shape is not enough: pads of (1, -1) move every element."""
    input, pads, _ = arguments(node)
    return input if all(isinstance(n, int) and n == 0 for pair in pads for n in pair) else None


def _if_view(node: Node) -> Any:
    """contiguous, to_device: the operand if nothing is copied."""
    metas = (node.args[0].val, *node.args[1:])
    return node.args[0] if shares_storage(node.target, metas) else None


RULES: dict[str, Rewrite] = {
    "mul": _operand_if(1, either_side=True),
    "div": _operand_if(1),
    "sub": _operand_if(0.0),
    "add": _add,
    "pow": _operand_if(1),
    "neg": _undone_by("neg"),
    "bitwise_not": _undone_by("bitwise_not"),
    "logical_not": _logical_not,
    "where": _where,
    # For these, an equal kind is enough: a cast to the same dtype; row-major elements in the same shape; an expand that
    # repeats nothing; a slice that removes nothing, because a step is never negative.
    "cast": _operand,
    "reshape": _operand,
    "permute": lambda node: node.args[0] if tuple(node.args[1]) == tuple(range(node.val.ndim)) else None,
    "expand": _operand,
    "slice": _operand,
    "constant_pad": _constant_pad,
    "detach": _operand,  # there is no tape any more
    "clone": _clone,
    "contiguous": _if_view,
    "to_device": _if_view,
    "cat": lambda node: node.args[0][0] if len(node.args[0]) == 1 else None,
}
