"""Replaces composites by their bodies until only core operators are left.

Input: a graph in operators of any kind. The bodies come from stage 0's table and run under a Tracer.
"""

from __future__ import annotations

from stage0_eager.state import no_grad
from stage0_eager.transforms.trace import Tracer
from stage2_autograd.retrace import placeholders_like, retrace
from stage_contracts.graph import Graph, GraphError


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
