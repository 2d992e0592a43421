"""The backward pass over the tape: from tensors to the gradients of all tensors that they depend on.

Input: tensors whose history tape.py recorded. Derivative rules call operators, so under a Tracer a pass makes the
backward graph, and with create_graph the pass itself can be differentiated.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stage0_eager.arrays import owner
from stage0_eager.autograd import anomaly
from stage0_eager.autograd.tape import Edge, TapeNode
from stage0_eager.state import STATE, settle
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor, up_to_date
from stage_contracts.layouts import is_dense
from stage_contracts.memory_format import inverse
from stage_contracts.symbolic import hinted, same_shape
from stage_contracts.tensor_meta import TensorMeta


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to `.grad` of the leaves that they depend on, or of `inputs` only."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    grad_tensors = (grad_tensors,) if isinstance(grad_tensors, Tensor) else grad_tensors
    inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
    keep = create_graph if retain_graph is None else retain_graph
    accumulate(tensors, grad_tensors, keep, create_graph, inputs)


def accumulate(
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Add to `.grad` of every leaf that `tensors` depend on, or of `inputs` only.

    This happens in place, so other references to the gradient see the sum. With create_graph, the sum is a new tensor.
    A new `.grad` lies in memory as its leaf does, as torch's "gradient layout contract" says.
    """
    found = walk(tensors, gradients, retain_graph, create_graph, inputs).values()
    first = (laid_out_as(leaf, g, create_graph) for leaf, g in found if leaf.grad is None)
    fresh = own_memory(first, gradients, create_graph)
    if gradients is not None:  # a gradient may be a .grad, which will be written
        fresh = iter(list(fresh))
    for leaf, g in found:
        if leaf.grad is None:
            leaf._grad = next(fresh)
        elif create_graph:
            leaf._grad = _under(True, "add", leaf.grad, g)
        else:
            _under(False, "copy_", leaf.grad, _under(False, "add", leaf.grad, g))
        for hook in list((leaf._after_hooks or {}).values()):
            hook(leaf)


def own_memory(
    found: Iterable[Tensor], gradients: Sequence[Tensor | None] | None, create_graph: bool
) -> Iterator[Tensor]:
    """Gradients that share memory with no other tensor. A `.grad` must be so, because it is written in place (zero_,
    clipping).

    Two leaves may get the same tensor (x + y), or a view that the user made: then all but the first are copies.
    """
    taken = {id(owner(g._data)) for g in gradients or () if g is not None}
    for g in found:
        if id(owner(g._data)) in taken or not _is_dense(g):
            g = _under(create_graph, "clone", g)
        taken.add(id(owner(g._data)))
        # the only view of memory that no other tensor uses is as good as a separate tensor
        yield g if g._view is None or g.requires_grad else Tensor(g._data)


def laid_out_as(leaf: Tensor, g: Tensor, create_graph: bool) -> Tensor:
    """The gradient with the leaf's strides, or by rows where the leaf has gaps. Itself where it has them already.

    A leaf may be of another shape by now: under no_grad and in inference mode unsqueeze_ and the like change it.
    """
    if g.shape != leaf.shape and g.numel() == leaf.numel():
        g = _under(create_graph, "reshape", g, tuple(leaf.shape))
    if _is_by_rows(g) and _is_by_rows(leaf):
        return g
    dense = is_dense(leaf.shape, leaf.stride())
    order = _order_in_memory(leaf) if dense else tuple(range(leaf.ndim))
    turned = _under(create_graph, "permute", g, order)
    if turned.meta.is_contiguous:
        return g
    return _under(create_graph, "permute", _under(create_graph, "contiguous", turned), inverse(order))


def _order_in_memory(tensor: Tensor) -> tuple[int, ...]:
    """The dimensions, the one with the largest stride first; of equal ones, of size 1, as they are."""
    steps = [hinted(stride) for stride in tensor.stride()]
    return tuple(sorted(range(tensor.ndim), key=lambda d: -steps[d]))


def _is_by_rows(tensor: Tensor) -> bool:
    flags = getattr(tensor._data, "flags", None)  # the fast way; a traced array has no flags
    return flags is not None and flags.c_contiguous


def _is_dense(tensor: Tensor) -> bool:
    return _is_by_rows(tensor) or is_dense(tensor.shape, tensor.stride())


def _under(create_graph: bool, name: str, *args: Any) -> Tensor:
    """A core operator that records on the tape, or does not."""
    previous, STATE.grad_enabled = STATE.grad_enabled, create_graph
    try:
        return TABLE[f"core.{name}"](*args)
    finally:
        STATE.grad_enabled = previous


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
) -> tuple:
    """Gradients of `outputs` with respect to `inputs`, as torch.autograd.grad. It does not change `.grad`.

    only_inputs: always so; torch still takes it, and many programs give it.
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    grad_outputs = (grad_outputs,) if isinstance(grad_outputs, Tensor) else grad_outputs
    keep = create_graph if retain_graph is None else retain_graph
    found = walk(outputs, grad_outputs, keep, create_graph, inputs)
    result = []
    for i, tensor in enumerate(inputs):
        entry = found.get(id(tensor))
        if entry is None and not allow_unused:
            raise RuntimeError(
                f"One of the differentiated Tensors (input {i}) appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        result.append(None if entry is None else entry[1])
    return tuple(result)


def walk(
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None,
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor] | None,
) -> dict[int, tuple[Tensor, Tensor]]:
    """Gradients by id(tensor): of all leaves, or of `inputs` (which need not be leaves)."""
    state = Walk(tensors, inputs, create_graph)
    previous, casts = STATE.grad_enabled, STATE.autocast
    STATE.grad_enabled = create_graph
    if casts:  # a gradient has the dtype that its tensor had
        STATE.autocast = ()
        settle()
    try:
        state.start(tensors, gradients)
        state.visit_all(retain_graph)
        state.finish()
    finally:
        STATE.grad_enabled = previous
        if casts:
            STATE.autocast = casts
            settle()
    return state.found


class Walk:
    """One walk back over the tape: the given gradients are sent to their nodes; then the nodes run, the last one
    first."""

    def __init__(
        self, tensors: Sequence[Tensor], inputs: Sequence[Tensor] | None, create_graph: bool
    ) -> None:
        self.create_graph = create_graph
        self.found: dict[int, tuple[Tensor, Tensor]] = {}
        self.every_leaf = inputs is None
        self.wanted = {(id(t._grad_fn), t._output_index): t for t in inputs or () if t._grad_fn is not None}
        self.leaves = {id(t) for t in inputs or () if t._grad_fn is None}
        self.useful = None if inputs is None else _leading_to(tensors, self.wanted, self.leaves)
        # by id(node): the gradients of its outputs, summed so far
        self.pending: dict[int, list] = {}
        self.heap: list[tuple[int, int, TapeNode]] = []

    def start(self, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None] | None) -> None:
        """First step: the gradient given for each tensor goes to the node that made the tensor."""
        for tensor, g in zip(tensors, gradients or [None] * len(tensors), strict=True):
            if not up_to_date(tensor).requires_grad:
                raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
            self.send(Edge(tensor), _seed(tensor, g))

    def visit_all(self, retain_graph: bool) -> None:
        """Second step: run the nodes. When a node runs, the gradients of its outputs are complete."""
        while self.heap:
            _, key, node = heapq.heappop(self.heap)
            slot = self.hooked(key, node, self.pending.pop(key))
            if self.useful is not None and not self.useful[key]:
                continue
            if len(slot) > 1 and node.materialize:
                slot = [_or_zeros(g, meta) for g, meta in zip(slot, node.out_metas, strict=True)]
            if STATE.interpreter is not None:
                STATE.interpreter.origins = node.origins
            for edge, g in zip(node.edges, _applied(node, slot), strict=True):
                if g is not None:
                    self.send(edge, g)
            if not retain_graph:
                node.release()

    def finish(self) -> None:
        """Third step: run the hooks of leaves on the complete sums."""
        for key, (leaf, g) in self.found.items():
            if leaf._hooks and leaf._grad_fn is None:
                self.found[key] = (leaf, run_hooks(leaf._hooks, g))

    def send(self, edge: Edge, g: Tensor) -> None:
        """Add one gradient to the sum of a leaf, or to the sums of a node's outputs."""
        if edge.leaf is not None:
            self.at_leaf(edge.leaf, g)
            return
        if self.useful is not None and id(edge.node) not in self.useful:
            return
        meta = edge.node.out_metas[edge.output_index]
        if g.shape != meta.shape and not same_shape(g.shape, meta.shape):
            g = _reduced(self.create_graph, g, meta.shape)
        slot = self.pending.get(id(edge.node))
        if slot is None:
            slot = self.pending[id(edge.node)] = [None] * len(edge.node.out_metas)
            heapq.heappush(self.heap, (-edge.node.sequence, id(edge.node), edge.node))
        old = slot[edge.output_index]
        slot[edge.output_index] = g if old is None else _under(self.create_graph, "add", old, g)

    def at_leaf(self, leaf: Tensor, g: Tensor) -> None:
        key = id(leaf)
        if self.every_leaf or key in self.leaves:
            old = self.found.get(key)
            self.found[key] = (leaf, g if old is None else _under(self.create_graph, "add", old[1], g))

    def hooked(self, key: int, node: TapeNode, slot: list) -> list:
        """The gradients of a node's outputs after their hooks. Those of `inputs` are stored."""
        if node.hooks:
            slot = [g if g is None else run_hooks(node.hooks.get(i, {}), g) for i, g in enumerate(slot)]
        if self.wanted:
            for index, g in enumerate(slot):
                tensor = self.wanted.get((key, index))
                if g is not None and tensor is not None:
                    self.found[id(tensor)] = (tensor, g)
        return slot


def _reduced(create_graph: bool, g: Tensor, shape: tuple) -> Tensor:
    """The gradient of a tensor whose shape set_() or .data changed after it was recorded: a sum, as in torch."""
    extra = g.ndim - len(shape)
    pairs = list(zip(g.shape[max(extra, 0) :], shape, strict=False))
    if extra < 0 or any(size not in (1, have) for have, size in pairs):
        raise RuntimeError(
            f"the backward has an invalid gradient: got {list(g.shape)} but expected shape compatible with "
            f"{list(shape)}. The shape of the tensor was changed (set_, .data) after the forward used it."
        )
    dims = (*range(extra), *(i for i, (have, size) in enumerate(pairs, extra) if size == 1 != have))
    return _under(create_graph, "reshape", _under(create_graph, "sum", g, dims, True) if dims else g, shape)


def _or_zeros(g: Tensor | None, meta: TensorMeta) -> Tensor | None:
    """The gradient of one of several outputs: zeros if there is none."""
    if g is not None or not meta.dtype.is_differentiable:
        return g
    return TABLE["core.full"](meta.shape, 0.0, meta.dtype, meta.device)


def _applied(node: TapeNode, slot: list) -> list:
    if not anomaly.WATCH:
        return node.apply(slot)
    try:
        results = node.apply(slot)
    except Exception:
        anomaly.report(node)
        raise
    anomaly.check(node, results)
    return results


def run_hooks(hooks: dict, g: Any) -> Any:
    """Run the hooks on a gradient, in order of registration. The hooks of retain_grad run last."""
    for hook in sorted(hooks.values(), key=lambda h: hasattr(h, "retains_grad")):
        changed = hook(g)
        g = g if changed is None else changed
    return g


def nodes_behind(tensors: Sequence[Tensor]) -> list[TapeNode]:
    """Every node that `tensors` depend on, in the order in which they were recorded."""
    stack = [t._grad_fn for t in tensors if t._grad_fn is not None]
    seen = {id(node): node for node in stack}
    while stack:
        for edge in stack.pop().edges:
            if edge.node is not None and id(edge.node) not in seen:
                seen[id(edge.node)] = edge.node
                stack.append(edge.node)
    return sorted(seen.values(), key=lambda node: node.sequence)


def _leading_to(tensors: Sequence[Tensor], wanted: dict, leaves: set[int]) -> dict[int, bool]:
    """The nodes that a walk must visit for `inputs`, and for each whether it must run."""
    asked = {key for key, _ in wanted}
    useful: dict[int, bool] = {}
    for node in nodes_behind(tensors):
        runs = any(id(e.leaf) in leaves if e.node is None else id(e.node) in useful for e in node.edges)
        if runs or id(node) in asked:
            useful[id(node)] = runs
    return useful


def _seed(tensor: Tensor, g: Tensor | None) -> Tensor:
    if g is None:
        if tensor.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if tensor.dtype.is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype!r}"
            )
        return TABLE["core.full"](tensor.shape, 1.0, tensor.dtype, tensor.device)
    if g.shape != tensor.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {list(g.shape)} and output[0] has a shape of "
            f"{list(tensor.shape)}."
        )
    return g


# ---- histories that were walked ---------------------------------------------------------------------------------


def is_spent(tensor: Tensor) -> bool:
    """Whether an earlier backward has freed values that a backward from this tensor needs."""
    return any(node.saved is None for node in nodes_behind([tensor]))


def spent(tensor: Tensor, name: str) -> Tensor:
    """`tensor` as a result of the operator `name` whose history is freed: a backward through it raises."""
    node = TapeNode(name, (tensor.meta,), [])
    node.saved = None
    tensor._requires_grad, tensor._grad_fn, tensor._output_index = True, node, 0
    return tensor
