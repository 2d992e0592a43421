"""Replaces each call of autograd.grad in a program by the operators of the backward.

Input: a functional graph that still has these calls as nodes. It has no writes any more, so it can run on the tape like
any program, and the next call can use what the tape recorded for this one.
"""

from __future__ import annotations

from stage0_eager.functions.autograd_grad import autograd_grad
from stage0_eager.state import enable_grad
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import Tracer
from stage2_autograd.retrace import placeholders_like, retrace
from stage_contracts.graph import Graph


def has_gradient_nodes(graph: Graph) -> bool:
    return any(node.target is autograd_grad for node in graph.calls)


def expand_gradients(graph: Graph) -> tuple[Tracer, list[Tensor]]:
    """Trace `graph` again with a tape. Returns the tracer and the results."""
    tracer = Tracer(Graph(graph.name), keep=lambda op: op.whole)
    with enable_grad():
        inputs = placeholders_like(graph, tracer)
        return tracer, list(retrace(graph, tracer, inputs))
