"""Four passes that a colleague has added to `decompose`. Each is meant to change no value. One of them does.

Input: a graph of core operators. A rule gets a call and gives what may take its place: an earlier node, a new Call, or
None for "no". `rewrite` applies it only where shape, dtype and strides stay as they are.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.registry import TABLE
from stage2_autograd.core_calls import core_name
from stage2_autograd.decompose.rewriting import Call, rewrite
from stage_contracts.graph import Graph, Node
from stage_contracts.passes import Pass


def _again(node: Node) -> Any:
    """-(-x) is x."""
    inner = node.args[0]
    return inner.args[0] if core_name(inner) == "neg" else None


def _minus_negative(node: Node) -> Any:
    """a - (-b) is a + b."""
    a, b = node.args
    return Call(TABLE["core.add"], a, b.args[0]) if core_name(b) == "neg" else None


def _of_negative_base(node: Node) -> Any:
    """(-x) ** n is x ** n."""
    x, n = node.args
    return Call(node.target, x.args[0], n) if core_name(x) == "neg" else None


def _of_negative(node: Node) -> Any:
    """abs(-x) is abs(x), and abs(abs(x)) too."""
    inner = node.args[0]
    return Call(node.target, inner.args[0]) if core_name(inner) in ("neg", "abs") else None


def _twice(node: Node) -> Any:
    """Two floors in a row are one."""
    inner = node.args[0]
    return inner if core_name(inner) == "floor" else None


RULES: dict[str, dict[str, Any]] = {
    "signs": {"neg": _again, "sub": _minus_negative},
    "powers": {"pow": _of_negative_base},
    "magnitudes": {"abs": _of_negative},
    "steps": {"floor": _twice},
}


def as_pass(name: str, rules: dict[str, Any]) -> Pass:
    """A row of the table of passes."""

    def run(graph: Graph) -> None:
        rewrite(graph, rules)

    return Pass(name, run, f"a colleague's: {', '.join(rules)}", rules=rules)


PASSES = tuple(as_pass(name, rules) for name, rules in RULES.items())
