"""The tape: what operators record for backward, and the walk that turns it into gradients.

Input: `operator.py` records a TapeNode per call that needs one. Derivative rules call operators, so a backward
walk under a Tracer yields the backward graph, and under create_graph it is itself differentiable.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stage0_eager import anomaly
from stage0_eager.arrays import owner
from stage0_eager.state import STATE, settle
from stage0_eager.tensor import Tensor
from stage_contracts.dtype import FLOATING
from stage_contracts.layouts import is_dense
from stage_contracts.tensor_meta import TensorMeta

INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use torch.no_grad() instead of torch.inference_mode()."
)
_SEQUENCE = itertools.count()


class TapeNode:
    """One recorded call: the rules to run, what they need, and where each gradient goes.

    `apply(gradients)` takes one gradient (or None) per output and returns one per edge.
    """

    __slots__ = ("edges", "hooks", "name", "op", "origins", "out_metas", "saved", "sequence", "where")
    materialize = True  # whether an output that got no gradient is given zeros

    def __init__(self, name: str, out_metas: tuple[TensorMeta, ...], edges: list) -> None:
        self.name, self.out_metas, self.edges = name, out_metas, edges
        # what is being traced, so that under a Tracer a backward node knows the forward expression it is for
        interpreter = STATE.interpreter
        self.origins: tuple = () if interpreter is None else interpreter.origins
        self.op: Any = None
        self.saved: dict[str, Any] | None = {}
        self.sequence = next(_SEQUENCE)
        if anomaly.WATCH:
            self.where = anomaly.here()
        self.hooks: dict[int, dict] | None = None  # by output: what register_hook and retain_grad asked for

    def __repr__(self) -> str:
        return f"<{self.name.title().replace('_', '')}Backward>"

    def apply(self, gradients: list) -> list:
        saved = self.unpack()
        g = gradients[0] if len(self.out_metas) == 1 else tuple(gradients)
        results: list = []
        for edge in self.edges:
            rule = self.op.derivatives[edge.param]
            results.append(rule.rule(g, *(saved[name] for name in rule.needs)))
        # a parameter that is a sequence of tensors has one edge per tensor and a rule that yields a sequence
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
        if self.saved:  # a node that keeps nothing can be walked again, as in torch
            self.saved = None


class Edge:
    """Where the gradient of one input goes: to the node that made it, or into a leaf's `.grad`."""

    __slots__ = ("leaf", "node", "output_index", "param", "position")

    def __init__(self, tensor: Tensor, param: str = "", position: int | None = None) -> None:
        node = self.node = tensor._grad_fn
        self.leaf = tensor if node is None else None
        self.output_index = tensor._output_index
        self.param, self.position = param, position


class SavedTensor:
    """A tensor kept for backward, with the version it had. An output is kept without its own tape node.

    Under saved_tensors_hooks what is kept is what the pack hook makes of it, and its place on the tape.
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
            self.place = (tensor.requires_grad, tensor._grad_fn, tensor._output_index)
            if is_output or tensor._grad_fn is not None or not tensor.requires_grad:  # a leaf is kept anyway
                self.place = (True, None, tensor._output_index) if is_output else self.place
                self.tensor: Any = None
                return
        if is_output:
            alias = Tensor(tensor._data)
            alias._version = version_of(tensor)  # not _share_version: _base would close a cycle by grad_fn
            alias._output_index = tensor._output_index
            tensor = alias
        self.tensor = tensor

    def unpack(self, node: TapeNode) -> Tensor:
        if self.packed is not None:
            value = self.packed[1](self.packed[0])
            if self.tensor is not None:
                return self.tensor
            out = Tensor(value._data)
            out.requires_grad, out._grad_fn, out._output_index = self.place
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
    """Whether any tensor argument requires grad (and the operator has derivatives at all)."""
    if not op.derivatives:
        return False
    for arg in args:
        if isinstance(arg, Tensor):
            if arg._view is not None:
                up_to_date(arg)
            if arg.requires_grad:
                return True
        elif type(arg) in (list, tuple):
            for a in arg:
                if isinstance(a, Tensor) and up_to_date(a).requires_grad:
                    return True
    return False


def up_to_date(tensor: Tensor) -> Tensor:
    """The tensor; a view whose base was written through another view on the tape first takes its new history."""
    if tensor._view is not None:
        base = tensor._base
        if tensor._written != base._written or base._formerly:  # type: ignore[union-attr]
            from stage0_eager.views import refresh

            refresh(tensor)
    return tensor


def record(op: Any, args: tuple, out: Any) -> None:
    """Put one call on the tape: its floating outputs become non-leaves."""
    edges: list[Edge] = []
    wanted = 0  # the rules that will run, as bits
    for rule in op.rules:
        arg = args[rule.position]
        if isinstance(arg, Tensor):
            if arg._view is not None:
                up_to_date(arg)
            if arg.requires_grad:
                edges.append(Edge(arg, rule.param))
                wanted |= rule.bit
        elif type(arg) in (list, tuple):
            found = [
                Edge(a, rule.param, i)
                for i, a in enumerate(arg)
                if isinstance(a, Tensor) and up_to_date(a).requires_grad
            ]
            if found:
                edges += found
                wanted |= rule.bit
    if not edges:
        return
    if isinstance(out, tuple):
        node = TapeNode(op.name, tuple([o.meta for o in out]), edges)
        for index, output in enumerate(out):
            if node.out_metas[index].dtype.is_floating_point:
                output.requires_grad, output._grad_fn, output._output_index = True, node, index
    else:
        node = TapeNode(op.name, (out.meta,), edges)
        if node.out_metas[0].dtype.category == FLOATING:
            out.requires_grad, out._grad_fn = True, node
            if out._output_index:  # it was a result of another call, changed in place
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
                tuple([SavedTensor(o, o.is_floating_point()) for o in out])  # an index has no gradient
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
    """What the rules in `wanted` need, each once: (name, what it is, the place of the argument)."""
    needed = {}
    for rule in op.rules:
        if rule.bit & wanted:
            needed.update(rule.saves)
    return tuple([(name, what, at) for name, (what, at) in needed.items()])


# ---- the walk -------------------------------------------------------------------------------------------------


def backward(
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Add to `.grad` of every leaf that `tensors` depend on, or of `inputs` only.

    In place, so that who holds the gradient sees it grow; with create_graph the sum is a new tensor.
    """
    found = walk(tensors, gradients, retain_graph, create_graph, inputs).values()
    fresh = own_memory((g for leaf, g in found if leaf.grad is None), gradients, create_graph)
    if gradients is not None:  # one may be a .grad, which is about to be written
        fresh = iter(list(fresh))
    for leaf, g in found:
        if leaf.grad is None:
            leaf.grad = next(fresh)
        elif create_graph:
            leaf.grad = _under(True, "add", leaf.grad, g)
        else:
            _under(False, "copy_", leaf.grad, _under(False, "add", leaf.grad, g))
        for hook in list((leaf._after_hooks or {}).values()):
            hook(leaf)


def own_memory(
    found: Iterable[Tensor], gradients: Sequence[Tensor | None] | None, create_graph: bool
) -> Iterator[Tensor]:
    """Gradients that share memory with nothing, as a `.grad` must be, which is written in place (zero_, clipping).

    Two leaves may get one tensor (x + y), or a view of the user's own: then all but the first are copies.
    """
    taken = {id(owner(g._data)) for g in gradients or () if g is not None}
    for g in found:
        if id(owner(g._data)) in taken or not _is_dense(g):
            g = _under(create_graph, "clone", g)
        taken.add(id(owner(g._data)))
        # memory of a view's base that nobody else holds: a tensor of its own to whoever writes to it
        yield g if g._view is None or g.requires_grad else Tensor(g._data)


def _is_dense(tensor: Tensor) -> bool:
    flags = getattr(tensor._data, "flags", None)  # the quick answer, which a traced array has not
    return (flags is not None and flags.c_contiguous) or is_dense(tensor.shape, tensor.stride())


def _under(create_graph: bool, name: str, *args: Any) -> Tensor:
    """A core operator, on the tape or not."""
    from stage0_eager.core import core

    previous, STATE.grad_enabled = STATE.grad_enabled, create_graph
    try:
        return getattr(core, name)(*args)
    finally:
        STATE.grad_enabled = previous


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple:
    """Gradients of `outputs` with respect to `inputs`, as torch.autograd.grad. Nothing is accumulated."""
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
    """Gradients by id(tensor): of all leaves, or of `inputs` (which may be inner tensors)."""
    from stage0_eager.core import core

    found: dict[int, tuple[Tensor, Tensor]] = {}
    wanted = {(id(t._grad_fn), t._output_index): t for t in inputs or () if t._grad_fn is not None}
    leaves = {id(t) for t in inputs or () if t._grad_fn is None}
    useful = None if inputs is None else _leading_to(tensors, wanted, leaves)
    pending: dict[int, list] = {}
    heap: list[tuple[int, int, TapeNode]] = []

    def send(edge: Edge, g: Tensor) -> None:
        if edge.leaf is not None:
            if inputs is None or id(edge.leaf) in leaves:
                key = id(edge.leaf)
                found[key] = (
                    edge.leaf,
                    g if key not in found else _under(create_graph, "add", found[key][1], g),
                )
            return
        if useful is not None and id(edge.node) not in useful:
            return
        slot = pending.get(id(edge.node))
        if slot is None:
            slot = pending[id(edge.node)] = [None] * len(edge.node.out_metas)
            heapq.heappush(heap, (-edge.node.sequence, id(edge.node), edge.node))
        old = slot[edge.output_index]
        slot[edge.output_index] = g if old is None else _under(create_graph, "add", old, g)

    previous, casts = STATE.grad_enabled, STATE.autocast
    STATE.grad_enabled = create_graph
    if casts:  # gradients have the dtypes their tensors had
        STATE.autocast = ()
        settle()
    try:
        for tensor, g in zip(tensors, gradients or [None] * len(tensors), strict=True):
            if not up_to_date(tensor).requires_grad:
                raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
            send(Edge(tensor), _seed(core, tensor, g))
        while heap:
            _, key, node = heapq.heappop(heap)
            slot = pending.pop(key)
            if node.hooks:
                slot = [g if g is None else run_hooks(node.hooks.get(i, {}), g) for i, g in enumerate(slot)]
            for index, g in enumerate(slot):
                if g is not None and (key, index) in wanted:
                    tensor = wanted[key, index]
                    found[id(tensor)] = (tensor, g)
            if useful is not None and not useful[key]:
                continue
            if len(slot) > 1 and node.materialize:
                slot = [
                    g
                    if g is not None or not m.dtype.is_floating_point
                    else core.full(m.shape, 0.0, m.dtype, m.device)
                    for g, m in zip(slot, node.out_metas, strict=True)
                ]
            if STATE.interpreter is not None:
                STATE.interpreter.origins = node.origins
            for edge, g in zip(node.edges, _applied(node, slot), strict=True):
                if g is not None:
                    send(edge, g)
            if not retain_graph:
                node.release()
        for key, (leaf, g) in found.items():
            if leaf._hooks and leaf._grad_fn is None:
                found[key] = (leaf, run_hooks(leaf._hooks, g))
    finally:
        STATE.grad_enabled = previous
        if casts:
            STATE.autocast = casts
            settle()
    return found


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
    """The gradient after each hook, in order of registration; those of retain_grad see the last word."""
    for hook in sorted(hooks.values(), key=lambda h: hasattr(h, "retains_grad")):
        changed = hook(g)
        g = g if changed is None else changed
    return g


def nodes_behind(tensors: Sequence[Tensor]) -> list[TapeNode]:
    """Every node that `tensors` depend on, in the order they were recorded."""
    stack = [t._grad_fn for t in tensors if t._grad_fn is not None]
    seen = {id(node): node for node in stack}
    while stack:
        for edge in stack.pop().edges:
            if edge.node is not None and id(edge.node) not in seen:
                seen[id(edge.node)] = edge.node
                stack.append(edge.node)
    return sorted(seen.values(), key=lambda node: node.sequence)


def _leading_to(tensors: Sequence[Tensor], wanted: dict, leaves: set[int]) -> dict[int, bool]:
    """The nodes a walk has to visit for its inputs; whether each has to run (or only to be asked)."""
    asked = {key for key, _ in wanted}
    useful: dict[int, bool] = {}
    for node in nodes_behind(tensors):
        runs = any(id(e.leaf) in leaves if e.node is None else id(e.node) in useful for e in node.edges)
        if runs or id(node) in asked:
            useful[id(node)] = runs
    return useful


def _seed(core: Any, tensor: Tensor, g: Tensor | None) -> Tensor:
    if g is None:
        if tensor.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return core.full(tensor.shape, 1.0, tensor.dtype, tensor.device)
    if g.shape != tensor.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {list(g.shape)} and output[0] has a shape of "
            f"{list(tensor.shape)}."
        )
    return g


# ---- histories that were walked ---------------------------------------------------------------------------------


def is_spent(tensor: Tensor) -> bool:
    """Whether a backward has freed something that a backward from this tensor would need."""
    return any(node.saved is None for node in nodes_behind([tensor]))


def spent(tensor: Tensor, name: str) -> Tensor:
    """`tensor` as a result of the operator `name` whose history is freed: a backward through it raises."""
    node = TapeNode(name, (tensor.meta,), [])
    node.saved = None
    tensor.requires_grad, tensor._grad_fn, tensor._output_index = True, node, 0
    return tensor
