"""Opaque operators in functionalize: the graphs inside control flow, and the writes of custom operators.

Input: a graph whose attributes hold GraphModules. Inside them operands are row-major, whatever they are outside (the
kernels of control flow convert them), and results are row-major in new memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.state import interpreting, no_grad
from stage0_eager.table.core import core as c
from stage0_eager.table.opaque import functional_form
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import Tracer
from stage0_eager.utils.pytree import leaves_of
from stage2_autograd.retrace import retrace
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph, meta_of
from stage_contracts.graph_module import GraphModule


def within(graph: Graph, change: Callable[[Graph], Graph], but: tuple[type, ...] = ()) -> Graph:
    """`graph` with `change` applied to each of its subgraphs, except for those of the classes `but`. The argument and
    the result may share attributes."""
    for name, value in graph.attributes.items():
        if isinstance(value, GraphModule) and not isinstance(value, but):
            graph.attributes[name] = GraphModule(change(value.graph))
    return graph


def functional(graph: Graph, tracer: Tracer, written: Callable[[Any, Tensor], bool]) -> Graph:
    """Run `graph` under `tracer`, which renames written values. `written(tracer, operand)`: whether an operand was
    written.

    Raises Unsupported for a write to an operand (GB0008), and for random numbers (GB0013), whose state is not an
    operand.
    """
    with no_grad():
        inputs = [
            tracer.placeholder(n.name, meta_of(n).with_(strides=None, requires_grad=False))
            for n in graph.placeholders
        ]
        outputs = retrace(graph, tracer, inputs)
        for operand, node in zip(inputs, graph.placeholders, strict=True):
            if written(tracer, operand):
                raise Unsupported(f"a write to {node.name}, an operand of {graph.name}", code="GB0008")
        if tracer.rng_calls:
            raise Unsupported(f"random numbers in {graph.name}", code="GB0013")
        with interpreting(tracer):
            owned = [c.clone(c.contiguous(t)) for t in outputs]
        nodes = [tracer.node_of(t) for t in owned]
    assert tracer.graph is not None
    tracer.graph.output(nodes)
    return within(tracer.graph, lambda inner: functional(inner, type(tracer)(Graph(inner.name)), written))


def written_back(tracer: Any, op: Any, args: tuple) -> Any:
    """Replace a call of an opaque operator that writes: by one that returns the new values, and writes after it."""
    given = [leaf for name in op.mutates for leaf in leaves_of(args[op.params.index(name)])]
    targets = [leaf for leaf in given if isinstance(leaf, Tensor)]
    made = tracer.process(functional_form(op), args)
    results, values = made[: len(made) - len(targets)], made[len(made) - len(targets) :]
    with interpreting(tracer):
        for target, value in zip(targets, values, strict=True):
            tracer.write(target, value)
    return results if len(results) > 1 else results[0] if results else None
