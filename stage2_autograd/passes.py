"""The passes of `decompose`: a table of data, and beside it which must come first and why.

Input: a graph in operators of any kind. Each pass takes a graph, leaves it as it was, and gives a new one.
The name in the table is what logs, switches, tests and pages call it. The order is checked at import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stage0_eager.state import no_grad
from stage0_eager.transforms.trace import Tracer
from stage2_autograd.aliasing import base
from stage2_autograd.retrace import placeholders_like, retrace
from stage_contracts.graph import Graph, GraphError, Node
from stage_contracts.graph_text import literal
from stage_contracts.origin import union


@dataclass(frozen=True)
class Pass:
    name: str
    run: Callable[[Graph], Graph]
    summary: str


def core_bodies(graph: Graph) -> Graph:
    """Replace each composite by its body, until only core operators are left: a retrace that keeps none."""
    tracer = Tracer(Graph(graph.name))
    with no_grad():
        inputs = placeholders_like(graph, tracer)
        outputs = retrace(graph, tracer, inputs)
    if tracer.rng is not None:
        raise GraphError(
            f"graph {graph.name!r}: the body of a composite draws random bits from a hidden state; "
            "functionalize must open that composite, so that the state becomes an input"
        )
    assert tracer.graph is not None
    tracer.graph.output([None if t is None else tracer.node_of(t) for t in outputs])
    return tracer.graph


def common_subexpressions(graph: Graph) -> Graph:
    """Compute equal calls once. The printed call is the key, so 0.0, -0.0, 0 and False stay apart.

    Random bits are a function of their arguments: equal offsets are equal bits, others never merge. Two
    outputs that do not share memory must not start to: of two nodes that outputs live in, neither is merged.
    """
    graph = graph.copy()
    pinned = {base(n) for n in graph.outputs if isinstance(n, Node)}
    first: dict[tuple, Node] = {}
    for node in graph.calls:
        key = (node.target, literal(node.args), literal(node.kwargs))
        earlier = first.setdefault(key, node)
        if earlier is node or (earlier in pinned and node in pinned):
            continue
        earlier.meta["origins"] = union((earlier.origins, node.origins))
        if node in pinned:
            pinned.add(earlier)
        graph.replace_all_uses_with(node, earlier)
        graph.erase_node(node)
    return graph


def dead_code(graph: Graph) -> Graph:
    """Drop what neither an output nor anything an output needs reads. Inputs stay: they are the signature."""
    graph = graph.copy()
    for node in reversed(graph.nodes):
        if node.op in ("call_function", "get_attr") and not node.users:
            graph.erase_node(node)
            graph.attributes.pop(node.target, None) if node.op == "get_attr" else None
    return graph


PASSES: tuple[Pass, ...] = (
    Pass("core_bodies", core_bodies, "composites become their bodies"),
    Pass("common_subexpressions", common_subexpressions, "equal calls are computed once"),
    Pass("dead_code", dead_code, "what nobody reads goes"),
)

# (earlier, later, why)
PASS_ORDER: tuple[tuple[str, str, str], ...] = (
    ("core_bodies", "common_subexpressions", "what two composites both compute only shows in their bodies"),
    ("core_bodies", "dead_code", "a body may compute results that this caller does not read"),
    ("common_subexpressions", "dead_code", "what a merged node read may have lost its last reader"),
)


def check_order(passes: Sequence[Any], order: Sequence[tuple[str, str, str]]) -> None:
    """Raise ValueError when `passes` break a constraint or one names a pass that is not there."""
    names = [p.name for p in passes]
    if len(set(names)) != len(names):
        raise ValueError(f"two passes share a name: {names}")
    for earlier, later, why in order:
        if earlier not in names or later not in names:
            raise ValueError(f"the order ({earlier}, {later}) names a pass that is not one of {names}")
        if names.index(earlier) > names.index(later):
            raise ValueError(f"pass {earlier} must come before {later}: {why}")


check_order(PASSES, PASS_ORDER)


def run_passes(graph: Graph, passes: Sequence[Pass]) -> Graph:
    """`graph` through all passes, in order."""
    for step in passes:
        graph = step.run(graph)
    return graph
