"""Decompose: the same graph in core operators only.

Input: any graph, before or after differentiation. Three passes, each from a graph to a new one: run the bodies of
composites, compute equal calls once, drop what nothing reads.
"""

from __future__ import annotations

from stage0_eager.state import no_grad
from stage0_eager.transforms.trace import Tracer
from stage2_autograd.aliasing import base
from stage2_autograd.core_calls import is_core
from stage2_autograd.retrace import placeholders_like, retrace
from stage2_autograd.subgraphs import within
from stage_contracts.graph import Graph, GraphError, Node
from stage_contracts.graph_text import literal
from stage_contracts.origin import union


def decompose(graph: Graph) -> Graph:
    """`graph` in core operators. Placeholders, outputs, origins and marks stay the same."""
    for (
        run
    ) in PASSES:  # in this order, because calls that two composites share are found only in their bodies
        graph = run(graph)
    return within(graph, decompose).verify(allowed=is_core)


def core_bodies(graph: Graph) -> Graph:
    """Replace each composite by its body, until only core operators are left: a retrace that keeps no composite."""
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

    Random bits are a function of their arguments, so calls with different offsets never merge. Two outputs that do not
    share memory must not begin to share it: two nodes whose memory outputs use are not merged.
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
    """Remove every node that no output needs. Inputs stay, because they are the signature."""
    graph = graph.copy()
    for node in reversed(graph.nodes):
        if node.op in ("call_function", "get_attr") and not node.users:
            graph.erase_node(node)
            graph.attributes.pop(node.target, None) if node.op == "get_attr" else None
    return graph


PASSES = (core_bodies, common_subexpressions, dead_code)
