"""The tape: what operators record for the backward, call by call.

Input: table/operator.py records a TapeNode for each call that needs one. backward_pass.py walks the nodes backwards.
"""

from __future__ import annotations

import itertools
from typing import Any

from stage0_eager.autograd import anomaly
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor, up_to_date
from stage_contracts.dtype import COMPLEX, FLOATING
from stage_contracts.tensor_meta import TensorMeta

INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use torch.no_grad() instead of torch.inference_mode()."
)
_SEQUENCE = itertools.count()


class TapeNode:
    """One recorded call: the rules to run, the values that they need, and where each gradient goes.

    `apply(gradients)` takes one gradient (or None) per output and returns one per edge.
    """

    __slots__ = ("edges", "hooks", "name", "op", "origins", "out_metas", "saved", "sequence", "where")
    materialize = True  # whether zeros are made for an output without a gradient

    def __init__(self, name: str, out_metas: tuple[TensorMeta, ...], edges: list) -> None:
        self.name, self.out_metas, self.edges = name, out_metas, edges
        # the origin that is being traced, so that a traced backward node knows its forward expression
        interpreter = STATE.interpreter
        self.origins: tuple = () if interpreter is None else interpreter.origins
        self.op: Any = None
        self.saved: dict[str, Any] | None = {}
        self.sequence = next(_SEQUENCE)
        if anomaly.WATCH:
            self.where = anomaly.here()
        self.hooks: dict[int, dict] | None = None  # by output: the hooks of register_hook and retain_grad

    def __repr__(self) -> str:
        return f"<{self.name.title().replace('_', '')}Backward>"

    def apply(self, gradients: list) -> list:
        saved = self.unpack()
        g = gradients[0] if len(self.out_metas) == 1 else tuple(gradients)
        on_conjugates = self.out_metas[0].dtype.category == COMPLEX
        results: list = []
        for edge in self.edges:
            rule = self.op.derivatives[edge.param]
            run = rule.gradient if on_conjugates else rule.rule
            results.append(run(g, *(saved[name] for name in rule.needs)))
        # a parameter that is a sequence of tensors has one edge per tensor, and a rule that returns a sequence
        return [
            r[e.position] if e.position is not None else r for r, e in zip(results, self.edges, strict=True)
        ]

    def unpack(self) -> dict[str, Any]:
        if self.saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they "
                "have already been freed). Specify retain_graph=True if you need to backward through it again."
            )
        return {
            name: value.unpack(self)
            if type(value) is SavedTensor
            else tuple(v.unpack(self) for v in value)
            if name == "out"
            else value
            for name, value in self.saved.items()
        }

    def release(self) -> None:
        if self.saved:  # a node without saved values can be used again, as in torch
            self.saved = None


class Edge:
    """The destination of the gradient of one input: the node that made it, or a leaf's `.grad`."""

    __slots__ = ("leaf", "node", "output_index", "param", "position")

    def __init__(self, tensor: Tensor, param: str = "", position: int | None = None) -> None:
        node = self.node = tensor._grad_fn
        self.leaf = tensor if node is None else None
        self.output_index = tensor._output_index
        self.param, self.position = param, position


class SavedTensor:
    """A tensor saved for backward, with its version at that time. An output is saved without its own tape node.

    Under saved_tensors_hooks, the result of the pack hook is saved, and the tensor's place on the tape.
    """

    __slots__ = ("is_output", "packed", "place", "tensor", "version")

    def __init__(self, tensor: Tensor, is_output: bool) -> None:
        self.is_output = is_output
        try:
            self.version = tensor.version
        except RuntimeError:  # UNTRACKED
            raise RuntimeError(INFERENCE_SAVED) from None
        self.packed: Any = None
        if STATE.saved_hooks is not None:
            pack, unpack = STATE.saved_hooks
            self.packed = (pack(Tensor(tensor._data)), unpack)
            self.place = (tensor._requires_grad, tensor._grad_fn, tensor._output_index)
            if (
                is_output or tensor._grad_fn is not None or not tensor._requires_grad
            ):  # a leaf is saved as it is
                self.place = (True, None, tensor._output_index) if is_output else self.place
                self.tensor: Any = None
                return
        if is_output:
            alias = Tensor(tensor._data)
            # not _share_version: _base would make a reference cycle through grad_fn
            alias._version = version_of(tensor)
            alias._output_index = tensor._output_index
            tensor = alias
        self.tensor = tensor

    def unpack(self, node: TapeNode) -> Tensor:
        if self.packed is not None:
            value = self.packed[1](self.packed[0])
            if self.tensor is not None:
                return self.tensor
            out = Tensor(value._data)
            out._requires_grad, out._grad_fn, out._output_index = self.place
            if self.is_output:
                out._grad_fn = node
            return out
        if self.tensor.version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{self.tensor.dtype.name} {list(self.tensor.shape)}], which is an input or output of {node!r}, is at "
                f"version {self.tensor.version}; expected version {self.version} instead."
            )
        if not self.is_output:
            return self.tensor
        out = Tensor(self.tensor._data, True)
        out._version, out._grad_fn, out._output_index = self.tensor._version, node, self.tensor._output_index
        return out


def version_of(tensor: Tensor) -> list[int]:
    """The version counter that all views of the tensor's storage share."""
    return tensor._counter()


# ---- recording ------------------------------------------------------------------------------------------------


def needs_tape(op: Any, args: tuple) -> bool:
    """Whether any tensor argument requires grad, and the operator has derivatives."""
    if not op.derivatives:
        return False
    for arg in args:
        if isinstance(arg, Tensor):
            if arg._view is not None:
                up_to_date(arg)
            if arg._requires_grad:
                return True
        elif type(arg) in (list, tuple):
            for a in arg:
                if isinstance(a, Tensor) and up_to_date(a)._requires_grad:
                    return True
    return False


def record(op: Any, args: tuple, out: Any) -> None:
    """Put one call on the tape: its floating outputs are no longer leaves."""
    # One long function: every call that needs a gradient runs it, and splitting it would make it a tenth slower.
    edges: list[Edge] = []
    wanted = 0  # the set of rules that will run, as bits
    for rule in op.rules:
        arg = args[rule.position]
        if isinstance(arg, Tensor):
            if arg._view is not None:
                up_to_date(arg)
            if arg._requires_grad:
                edges.append(Edge(arg, rule.param))
                wanted |= rule.bit
        elif type(arg) in (list, tuple):
            found = [
                Edge(a, rule.param, i)
                for i, a in enumerate(arg)
                if isinstance(a, Tensor) and up_to_date(a)._requires_grad
            ]
            if found:
                edges += found
                wanted |= rule.bit
    if not edges:
        return
    if isinstance(out, tuple):
        node = TapeNode(op.name, tuple([o.meta for o in out]), edges)
        for index, output in enumerate(out):
            if node.out_metas[index].dtype.category >= FLOATING:
                output._requires_grad, output._grad_fn, output._output_index = True, node, index
    else:
        node = TapeNode(op.name, (out.meta,), edges)
        if node.out_metas[0].dtype.category >= FLOATING:
            out._requires_grad, out._grad_fn = True, node
            if out._output_index:  # it was the result of another call, and was changed in place
                out._output_index = 0
    node.op = op
    saved: dict[str, Any] = node.saved  # type: ignore[assignment]
    plan = op.save_plans.get(wanted)
    if plan is None:
        plan = op.save_plans[wanted] = _plan(op, wanted)
    for name, what, at in plan:
        value = args[at]
        if what == "out":
            value = (
                tuple([SavedTensor(o, o.dtype.is_differentiable) for o in out])  # an index has no gradient
                if type(out) is tuple
                else SavedTensor(out, True)
            )
        elif what == "out_meta":
            value = node.out_metas[0]
        elif isinstance(value, Tensor):
            value = SavedTensor(value, False) if what == "value" else value.meta
        elif what == "meta" and type(value) in (list, tuple):
            value = [v.meta for v in value]
        saved[name] = value


def _plan(op: Any, wanted: int) -> tuple:
    """The values that the rules in `wanted` need, each once: (name, what it is, the position of the argument)."""
    needed = {}
    for rule in op.rules:
        if rule.bit & wanted:
            needed.update(rule.saves)
    return tuple([(name, what, at) for name, (what, at) in needed.items()])
