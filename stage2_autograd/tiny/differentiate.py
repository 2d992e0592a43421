"""Differentiate: forward and backward in one joint graph, by running the eager tape on traced tensors.

Input: a functional graph. Its operators record themselves on the tape as always. The tape's own backward pass then runs
under the same Tracer, so the derivative rules write the backward graph.
"""

from __future__ import annotations

from stage0_eager.autograd import backward_pass
from stage0_eager.state import enable_grad, interpreting
from stage0_eager.transforms.trace import Tracer
from stage2_autograd.retrace import placeholders_like, retrace
from stage_contracts.graph import Graph
from stage_contracts.joint import FunctionalGraph, JointGraph
from stage_contracts.layouts import is_dense
from stage_contracts.tensor_meta import TensorMeta


def differentiate(functional: FunctionalGraph) -> JointGraph:
    """The joint graph of `functional`: outputs, then a gradient (or None) for each of its inputs."""
    graph = Graph("joint")
    tracer = Tracer(graph, keep=lambda op: op.whole)
    with enable_grad():
        primals = placeholders_like(functional.graph, tracer, role="primal")
        outputs = retrace(functional.graph, tracer, primals, region="forward")
    tangent_outputs = tuple(i for i, t in enumerate(outputs) if t.requires_grad)
    tangents = [
        tracer.placeholder(
            f"tangent_{outputs[i]._data.node.name}", tangent_meta(outputs[i].meta), role="tangent"
        )
        for i in tangent_outputs
    ]
    wanted = [p for p in primals if p.requires_grad]
    found: dict[int, object] = {}
    if tangents:
        tracer.marks = {"region": "backward"}
        with interpreting(tracer):
            gradients = backward_pass.grad(
                [outputs[i] for i in tangent_outputs], wanted, tangents, allow_unused=True
            )
        found = {id(p): tracer.node_of(g) for p, g in zip(wanted, gradients, strict=True) if g is not None}
    graph.output([*map(tracer.node_of, outputs), *(found.get(id(p)) for p in primals)])
    graph.eliminate_dead_code()
    return JointGraph(graph, len(primals), len(outputs), tangent_outputs).verify()


def tangent_meta(output: TensorMeta) -> TensorMeta:
    """The meta of the gradient of `output`: the same layout, or row-major if its elements share memory or have gaps."""
    strides = output.strides if is_dense(output.shape, output.strides) else None
    return output.with_(strides=strides, requires_grad=False)
