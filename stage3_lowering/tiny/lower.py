"""Tiny lower: each core operator becomes one loop nest, or a call of its eager kernel.

Input: stage 2's forward or backward Graph. A tensor is a strided View of a buffer, so an index map is arithmetic on
strides (views.py). An operator without a rule becomes an ExternCall, so none is refused.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from stage3_lowering.tiny import views
from stage3_lowering.tiny.body import Body
from stage3_lowering.tiny.spellings import SPELLINGS, TYPES
from stage3_lowering.tiny.views import View, concrete
from stage_contracts import core_metas, layouts
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Graph, Node, map_args
from stage_contracts.graph_module import GraphModule
from stage_contracts.loop_ir import BufferRef, ExternCall, LoopNest, LoweredGraph, SubgraphRef
from stage_contracts.tensor_meta import TensorMeta

LONGEST_GPU_ROW = 1 << 15  # a Triton row reduction holds its whole row at once


def lower(graph: Graph) -> LoweredGraph:
    """Core operators to loop nests and external calls. Refuses no operator."""
    state = Lowering(graph.name)
    for node in graph.nodes:
        if node.op == "placeholder":
            state.values[node] = state.given(node, "in", state.inputs)
        elif node.op == "get_attr":
            state.values[node] = state.given(node, "const", state.constants)
        elif node.op == "call_function":
            state.values[node] = state.call(node)
    return state.finish(graph.outputs)


class Lowering:
    """The buffers and nodes so far, and what each graph node became: a View, a number, a tuple of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[Node, Any] = {}
        self.buffers: dict[str, TensorMeta] = {}
        self.inputs: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}
        self.nodes: list[LoopNest | ExternCall] = []
        self.count = 0  # of instructions: names are unique in the whole graph

    def given(self, node: Node, prefix: str, table: dict[str, Any]) -> Any:
        value = node.graph.attributes.get(node.target, node.val)
        if isinstance(value, GraphModule):
            return SubgraphRef(node.target)
        if not isinstance(node.val, TensorMeta):
            return value  # a symbolic size
        name = f"{prefix}_{node.name}"
        self.buffers[name], table[name] = concrete(node.val), getattr(value, "_data", value)
        return View(name, self.buffers[name])

    def new(self, meta: TensorMeta) -> View:
        """A buffer for a result: its strides where they are dense, else row-major."""
        name, meta = f"buf{len(self.buffers) - len(self.inputs) - len(self.constants)}", concrete(meta)
        dense = layouts.is_dense(meta.shape, meta.strides)
        self.buffers[name] = meta if dense else TensorMeta(meta.shape, meta.dtype, device=meta.device)
        return View(name, self.buffers[name])

    def call(self, node: Node) -> Any:
        if node.target is operator.getitem:
            source, position = node.args
            return self.values[source][position]
        row = CORE_OPS.get(node.target.name) if getattr(node.target, "namespace", "") == "core" else None
        if row is not None and (rule := RULES.get(row.name) or RULES.get(row.kind)):
            args, kwargs = map_args((node.args, node.kwargs), self.values.__getitem__)
            bound = inspect.signature(eval(f"lambda {row.params}: None")).bind(*args, **kwargs)
            bound.apply_defaults()
            if (result := rule(self, node, **bound.arguments)) is not None:
                return result
        args, kwargs = map_args((node.args, node.kwargs), lambda used: self.reference(self.values[used]))
        name = getattr(node.target, "qualname", str(node.target))
        return self.extern(node, row.name if row else name, args, kwargs)

    def extern(self, node: Node, target: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of an eager kernel; it takes views as views."""
        # lab: begin extern
        several = isinstance(node.val, (tuple, list))
        results = tuple(map(self.new, node.val if several else [node.val]))
        names = tuple(result.name for result in results)
        self.nodes.append(ExternCall(names, target, args, kwargs, node.origins))
        return results if several else results[0]
        # lab: end

    def reference(self, value: Any) -> Any:
        if not isinstance(value, View):
            return value
        whole = value == View(value.name, self.buffers[value.name])
        return BufferRef(value.name, *(() if whole else (value.meta.shape, value.meta.strides, value.offset)))

    def finish(self, results: Sequence[Any]) -> LoweredGraph:
        """Every output has a buffer of its own, laid out as its meta says."""
        # lab: begin finish
        outputs: list[Any] = []
        for node in results:
            value = self.values[node] if isinstance(node, Node) else node
            ref = self.reference(value)
            if isinstance(value, View) and (
                ref.shape is not None or ref in outputs or value.meta.strides != concrete(node.val).strides
            ):
                ref = self.reference(clone(self, node, value) or self.extern(node, "clone", (ref,), {}))
            outputs.append(ref)
        return LoweredGraph(self.name, self.buffers, tuple(self.inputs), self.constants,
                            tuple(self.nodes), tuple(outputs)).verify()  # fmt: skip
        # lab: end


# ---- the rules: each gives the result, or None to leave it to the eager kernel ---------------------------


def loopable(node: Node, *operands: Any) -> bool:
    """Whether a nest may compute this: dtypes this version knows, one device, not empty."""
    metas = [concrete(node.val), *(o.meta for o in operands if isinstance(o, View))]
    return all(m.dtype.name in TYPES and m.device == metas[0].device and 0 not in m.shape for m in metas)


def pointwise(state: Lowering, node: Node, **args: Any) -> View | None:
    # lab: begin pointwise
    name, operands = node.target.name, list(args.values())
    if name == "cast":
        return clone(state, node, args["input"])
    values = operands[1:] if name == "where" else operands
    compute = core_metas.promoted_dtype([v.meta if isinstance(v, View) else v for v in values])
    if core_metas.computes_in_floats(CORE_OPS[name].meta) and not compute.is_floating_point:
        compute = dt.float32
    if name not in SPELLINGS[compute.category] or not loopable(node, *operands):
        return None
    body = Body(state, concrete(node.val).shape)
    condition = [body.element(operands[0], dt.bool_)] if name == "where" else []
    elements = [body.element(value, compute) for value in values]
    return body.store(node, body.add(name, *condition, *elements, dtype=node.val.dtype))
    # lab: end


def clone(state: Lowering, node: Node, input: Any, **_: Any) -> View | None:
    # lab: begin clone
    if not loopable(node, input):
        return None
    body = Body(state, concrete(node.val).shape)
    return body.store(node, body.element(input, node.val.dtype))
    # lab: end


def reduction(
    state: Lowering, node: Node, input: View, keepdim: bool, dims: Any = (), dim: Any = 0
) -> View | None:
    """Over the last dimension only; no argmax."""
    # lab: begin reduction
    kind, shape = node.target.name, input.meta.shape
    last = [d % len(shape) for d in dims if shape] == [len(shape) - 1]
    too_long = input.meta.device.type != "cpu" and shape[-1:] > (LONGEST_GPU_ROW,)
    bits = input.meta.dtype is dt.bool_ and kind in ("amax", "amin")
    if not last or too_long or bits or not loopable(node, input):
        return None
    body = Body(state, shape, reduction=True)
    value = body.element(input, node.val.dtype)  # any and all reduce bools, a sum of bools reduces integers
    return body.store(node, body.add("reduction", kind, value, dtype=node.val.dtype))
    # lab: end


RULES: dict[str, Callable[..., View | None]] = {  # by name, else by kind
    "pointwise": pointwise,
    "reduction": reduction,
    "clone": clone,
    "contiguous": clone,
    "detach": lambda state, node, input: input,
    "full": lambda state, node, value, **_: clone(state, node, value),
    "permute": lambda state, node, input, dims: views.permute(input, dims),
    "expand": lambda state, node, input, shape: views.expand(input, concrete(node.val).shape),
    "reshape": lambda state, node, input, shape: views.reshape(input, concrete(node.val).shape),
}
