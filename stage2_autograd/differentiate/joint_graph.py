"""Differentiate: forward and backward in one joint graph, by one walk over the forward graph, from the last call back.

Input: a functional graph. Its copy is the forward half. Each call passes the gradient of its result to the derivative
rules of its operator. The rules run under a Tracer and so append the backward half.
"""

from __future__ import annotations

import operator as python
from typing import Any

from stage0_eager.state import interpreting, no_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage2_autograd.on_tape import Edges, metas_of, on_tape
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Node, map_args
from stage_contracts.joint import FunctionalGraph, JointGraph, tangent_meta
from stage_contracts.tensor_meta import TensorMeta


def differentiate(functional: FunctionalGraph) -> JointGraph:
    """The joint graph of `functional`: outputs, then a gradient (or None) for each of its inputs.

    The rules run, and the gradients of a value are added, in the order of eager's backward, so the bits are eager's.
    Raises GraphError for a composite without its own derivative, which functionalize should have replaced by its body.
    Raises Unsupported (GB0015) if an operator on the tape has no derivative.
    """
    graph = functional.graph.copy()
    graph.name = "joint"
    primals, outputs = graph.placeholders, graph.outputs
    graph.erase_node(graph.output_node)
    forward = graph.calls
    recorded = on_tape(graph)
    for node in primals:
        node.meta.setdefault("role", "primal")
    for node in forward:
        node.meta["region"] = "forward"
    tracer = Tracer(graph, keep=lambda op: op.whole)
    gradients: dict[Node, Tensor] = {}

    def add(node: Node, g: Tensor) -> None:
        old = gradients.get(node)
        gradients[node] = g if old is None else c.add(old, g)

    tracer.marks = {"region": "backward"}
    tangents = tuple(i for i, node in enumerate(outputs) if node in recorded)
    seeds = [
        tracer.placeholder(f"tangent_{outputs[i].name}", tangent_meta(outputs[i].val), role="tangent")
        for i in tangents
    ]
    with no_grad(), interpreting(tracer):
        for i, seed in zip(tangents, seeds, strict=True):
            add(outputs[i], seed)
        for node in reversed(forward):
            edges = recorded.get(node)
            if edges is None:
                continue
            tracer.origins = node.origins
            g = _gradient_of_results(node, gradients)
            if g is None:
                continue
            try:
                found = _run_rules(node, edges, g, recorded)
            except NotImplementedError as missing:  # eager raises only when a backward needs it
                raise Unsupported(str(missing), next(iter(node.origins), None), code="GB0015") from missing
            for argument, part in found:
                add(argument, part)
    slopes = [gradients.get(p) for p in primals]
    graph.output([*outputs, *(None if g is None else tracer.node_of(g) for g in slopes)])
    graph.eliminate_dead_code()
    return JointGraph(graph, len(primals), len(outputs), tangents).verify()


def _gradient_of_results(node: Node, gradients: dict[Node, Tensor]) -> Any:
    """The gradient to pass to the rules of a call: a tensor or, with several results, one per result, with zeros for a
    result without a gradient. None: no result has a gradient."""
    if isinstance(node.val, TensorMeta):
        return gradients.pop(node, None)
    slot: list[Tensor | None] = [None] * len(node.val)
    for item in _items(node):
        slot[item.args[1]] = gradients.pop(item, None)
    if all(g is None for g in slot):
        return None
    return tuple(
        c.full(m.shape, 0.0, m.dtype, m.device) if g is None and m.dtype.is_differentiable else g
        for g, m in zip(slot, metas_of(node), strict=True)
    )


def _items(node: Node) -> list[Node]:
    """The results of a call with several results, in order."""
    return sorted((user for user in node.users if user.target is python.getitem), key=lambda n: n.args[1])


def _run_rules(
    node: Node, edges: Edges, g: Any, recorded: dict[Node, Edges | None]
) -> list[tuple[Node, Tensor]]:
    """The gradient of each argument of a call. A rule for a sequence of tensors returns one gradient for each."""
    found = []
    arguments = node.target.bind(*node.args, **node.kwargs)
    if getattr(node.target, "pullback", None) is not None:
        return _pulled_back(node, edges, g, arguments, recorded)
    for rule, argument in edges:
        result = rule.gradient(g, *(_needed(node, arguments, *saved) for saved in rule.saves.values()))
        parts = [(argument, result)] if isinstance(argument, Node) else zip(argument, result, strict=True)
        found += [(one, part) for one, part in parts if one in recorded and part is not None]
    return found


def _pulled_back(
    node: Node, edges: Edges, g: Any, arguments: tuple, recorded: dict[Node, Edges | None]
) -> list[tuple[Node, Tensor]]:
    """The same as _run_rules, for an operator that computes all gradients in one call."""
    values = map_args(arguments, _traced)
    out = _needed(node, arguments, "out", 0)
    gradients = node.target.pullback(
        g, out, values, lambda v: isinstance(v, Tensor) and v._data.node in recorded
    )
    found = []
    for rule, argument in edges:
        result = gradients[rule.param]
        parts = [(argument, result)] if isinstance(argument, Node) else zip(argument, result, strict=True)
        found += [(one, part) for one, part in parts if one in recorded and part is not None]
    return found


def _needed(node: Node, arguments: tuple, what: str, position: int) -> Any:
    """One of the values that a rule needs: the result, an argument, or the meta of one of them."""
    value = arguments[position]
    if what in ("out", "out_meta"):
        value = node if isinstance(node.val, TensorMeta) else tuple(_items(node))
    if what == "out_meta":
        return metas_of(node)[0]
    if isinstance(value, Node) and value.op == "get_attr" and value.val is None:  # a subgraph
        return value.graph.attributes[value.target]
    return map_args(value, (lambda n: n.val) if what.endswith("meta") else _traced)


def _traced(node: Node) -> Tensor:
    meta = node.val
    return Tensor(TracedArray(meta.with_(requires_grad=False, strides=meta.strides), node))
