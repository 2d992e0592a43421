"""ShadowTape: the tape over a graph that is being written, on tensors that have a meta and no data.

Input: the graph so far. What a backward reaches, what it gives each leaf, what it frees and what it refuses are
questions to the tape; here the tape answers them, so that capture, which asks, need not know a rule twice.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from stage0_eager.state import STATE, enable_grad, interpreting
from stage0_eager.table.evaluation import remember_view
from stage0_eager.tensor import Tensor, root
from stage0_eager.transforms.trace import TracedArray, map_tensors
from stage_contracts import dtype as dt
from stage_contracts.breaks import Unsupported
from stage_contracts.core_metas import infer_shape, view_strides
from stage_contracts.device import Device
from stage_contracts.graph import Graph, Node, map_args
from stage_contracts.tensor_meta import TensorMeta


class ShadowArray(TracedArray):
    """What a shadow tensor holds. As inside vmap, and unlike a traced one, writes to it and views of it are eager's."""

    def refuse(self, what: str) -> NoReturn:
        raise Unsupported(f"{what} of a tensor whose data is not known yet", code="GB0004")


class ShadowTape:
    """The interpreter that gives each call shadow tensors, and the shadow of each node."""

    def __init__(self) -> None:
        self.origins: tuple = ()
        self.values: dict[Node, Any] = {}
        self.rng: Tensor | None = None
        self.rng_calls = 0

    # ---- as an interpreter -----------------------------------------------------------------------

    def keeps(self, op: Any) -> bool:
        return op.whole

    def concerns(self, op: Any, args: tuple) -> bool:
        return True

    def process(self, op: Any, args: tuple) -> Any:
        if op.mutates:
            args[0]._bump_version()
            return args[0]
        previous, STATE.grad_enabled = STATE.grad_enabled, False
        try:
            metas = map_tensors(args, lambda t: t.meta)
            result = op.meta(*metas)
        finally:
            STATE.grad_enabled = previous
        out = _shadows(result)
        if op.shares and (op.name != "reshape" or _is_view(*metas)):
            if op.core.kind == "view":
                remember_view(out, op, args[0], args[1:])
            elif op.name == "detach" or (op.name != "clone" and out.meta.strides == metas[0].strides):
                args[0]._share_version(out)
        return out

    def next_random(self, device: Device) -> tuple[Tensor, int]:
        self.rng_calls += 1
        return _shadows(TensorMeta((2,), dt.int64, device=device)), self.rng_calls - 1

    # ---- the graph on it -------------------------------------------------------------------------

    def follow(self, graph: Graph) -> None:
        """Run what the graph has more than last time."""
        with enable_grad(), interpreting(self):
            for node in graph.nodes:
                if node not in self.values:
                    self.values[node] = self._run(graph, node)

    def shadow_of(self, graph: Graph, node: Node) -> Any:
        """The shadow of one node, where the rest of the graph does not matter: only what it is computed from is run."""
        waiting = [node]
        with enable_grad(), interpreting(self):
            while waiting:
                first = [n for n in waiting[-1].all_input_nodes if n not in self.values]
                if first:
                    waiting += first
                else:
                    last = waiting.pop()
                    if last not in self.values:
                        self.values[last] = self._run(graph, last)
        return self.values[node]

    def _run(self, graph: Graph, node: Node) -> Any:
        if node.op == "placeholder":
            if not isinstance(node.val, TensorMeta):
                return node.val
            shadow = _shadows(node.val)
            shadow.requires_grad = node.val.requires_grad
            return shadow
        if node.op == "get_attr":
            return graph.attributes[node.target]
        args, kwargs = map_args((node.args, node.kwargs), self.values.__getitem__)
        return node.target(*args, **kwargs)


def whole_of(graph: Graph, node: Node, asked: Callable[[Graph, Node], Node | None] | None = None) -> Node:
    """The node whose storage `node` is a view of, by way of other views; itself when it is none. asked: `viewed`, or
    who remembers what it said."""
    asked = asked or viewed
    step: Node | None = node
    while step is not None:
        node, step = step, asked(graph, step)
    return node


def viewed(graph: Graph, node: Node) -> Node | None:
    """The operand that `node` is a view of: the operator is asked, on shadows of its operands alone."""
    called = node.args[0] if node.target is operator.getitem else node  # one result of several
    if node.op != "call_function" or not isinstance(called, Node):
        return None
    tape = ShadowTape()
    tape.values = {n: _shadows(n.val) for n in called.all_input_nodes if isinstance(n.val, TensorMeta)}
    try:
        made = tape.shadow_of(graph, node)
    except RuntimeError:  # an operator that needs more than shadows, such as autograd.grad
        return None
    made = made if isinstance(made, (tuple, list)) else (made,)
    wholes = {id(root(shadow)) for shadow in made if isinstance(shadow, Tensor)}
    return next((n for n, shadow in tape.values.items() if id(shadow) in wholes and n is not node), None)


def _shadows(result: Any) -> Any:
    """Tensors that have these metas."""
    if isinstance(result, TensorMeta):
        return Tensor(
            ShadowArray(result.with_(requires_grad=False, strides=result.strides, shape=result.shape))
        )
    if result is None:
        return None
    items = [_shadows(meta) for meta in result]
    return result._make(items) if hasattr(result, "_make") else tuple(items)


def _is_view(meta: TensorMeta, shape: tuple) -> bool:
    """Of open sizes it is asked: what writes to a view is another program than what writes to a copy."""
    return view_strides(meta, infer_shape(shape, meta.numel), holds=bool) is not None
