"""autograd.grad and backward inside a captured function: one node, whose results are the gradients.

Input: abstract tensors. The shadow tape says which leaves a backward reaches and what each gets; stage 2 runs the tape
when it meets the node, so that what it computes can itself be differentiated. What backward does to `.grad` is a side
effect, replayed after the graph.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager import TABLE
from stage0_eager.autograd import anomaly, backward_pass
from stage0_eager.namespaces import autograd
from stage0_eager.nn import Parameter
from stage0_eager.state import STATE, enable_grad, interpreting
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.shadow_tape import ShadowTape
from stage1_capture.state.graph_builder import SkipFrame
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import SEQUENCES, Variable, load_attribute, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.operators import call_operator
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.breaks import Unsupported
from stage_contracts.controls import register
from stage_contracts.graph import Node
from stage_contracts.source import AttrSource, RegisteredSource

OPERATOR = TABLE["cutaway.autograd_grad"]
FALSE, TRUE = ConstantVariable(False), ConstantVariable(True)


@builtin(backward_pass.grad)
def grad_(
    tx: Tx,
    outputs: Variable,
    inputs: Variable,
    grad_outputs: Variable = NONE,
    retain_graph: Variable = NONE,
    create_graph: Variable = FALSE,
    only_inputs: Variable = TRUE,
    allow_unused: Variable = FALSE,
) -> Variable:
    if not tx.constant(only_inputs, "only_inputs"):
        tx.unsupported("GB0024", "autograd.grad warns of only_inputs=False")
    roots, wanted = _tensors(tx, outputs), _tensors(tx, inputs)
    seeds = _seeds(tx, grad_outputs)
    creates, keeps = _flags(tx, create_graph, retain_graph)
    shadow, shadows = _shadow_tape(tx, roots, wanted, seeds)
    unused = bool(tx.constant(allow_unused, "allow_unused"))
    found = _walked(tx, "autograd.grad", shadow, lambda: OPERATOR(*shadows, keeps, creates, unused))
    reached = _inputs_behind(tx, shadow, shadows[0])
    outside = [t for t in reached if t.real._grad_fn is not None and t is not wanted[0]]
    if outside or (len(wanted) > 1 and any(t.real._grad_fn is not None for t in reached)):
        if any(t.source is None for t in wanted):
            # after a break, the graph so far would be one step on the tape, with no way from its results to each other
            raise SkipFrame("autograd.grad inside a longer tape", tx.output.origin(), code="GB0024")
        _refuse_outside(tx, "autograd.grad", *outside, wanted[0])
    _guard_leaves(tx, [t for t in reached if t is not wanted[0]])
    options = {"retain_graph": keeps, "create_graph": creates} | ({"allow_unused": True} if unused else {})
    return TupleVariable(_gradients(tx, shadow, (roots, wanted, seeds), options, found))


@builtin(Tensor.backward)
def tensor_backward(
    tx: Tx,
    tensor: Variable,
    gradient: Variable = NONE,
    retain_graph: Variable = NONE,
    create_graph: Variable = FALSE,
    inputs: Variable = NONE,
) -> Variable:
    return backward(tx, tensor, gradient, retain_graph, create_graph, inputs)


@builtin(autograd.backward)
def backward(
    tx: Tx,
    tensors: Variable,
    grad_tensors: Variable = NONE,
    retain_graph: Variable = NONE,
    create_graph: Variable = FALSE,
    inputs: Variable = NONE,
) -> Variable:
    """The gradients of all leaves as one node, and what they do to each leaf's `.grad`."""
    if tx.output.taken is not None:
        tx.unsupported("GB0024", "backward in a function that has a graph of its own")
    roots = _tensors(tx, tensors)
    seeds = _seeds(tx, grad_tensors)
    chosen = None if realize(inputs).is_none() else _tensors(tx, inputs)
    creates, keeps = _flags(tx, create_graph, retain_graph)
    shadow, shadows = _shadow_tape(tx, roots, seeds, chosen)
    reached = _inputs_behind(tx, shadow, shadows[0])
    outside = [t for t in reached if t.real._grad_fn is not None]
    if outside:
        _refuse_outside(tx, "backward", *outside)
    found = list(_walked(
        tx, "backward", shadow, lambda: backward_pass.walk(shadows[0], shadows[1], keeps, creates, shadows[2])
    ).values())  # fmt: skip
    by_shadow = {id(shadow.values[tx.output.node_of(t)]): t for t in (*reached, *(chosen or ()))}
    leaves = [by_shadow[id(leaf)] for leaf, _ in found]
    _guard_leaves(tx, leaves)
    with enable_grad(), interpreting(shadow):
        given = list(backward_pass.own_memory([g for _, g in found], shadows[1], creates))
    options = {"retain_graph": keeps, "create_graph": creates, "for_leaves": True}
    for leaf, new in zip(leaves, _gradients(tx, shadow, (roots, leaves, seeds), options, given), strict=True):
        old = load_attribute(tx, leaf, "grad")
        # added into the old tensor, or with create_graph a new tensor on the tape
        add = TABLE["cutaway.add" if creates else "cutaway.add_"]
        with tx.output.having(grad_enabled=creates and tx.output.graph_mode):
            total = new if realize(old).is_none() else call_operator(tx, add, [old, new], {})
        leaf.store_gradient(tx, total)
    return NONE


def _shadow_tape(tx: Tx, *groups: Sequence[TensorVariable | None] | None) -> tuple[ShadowTape, list[Any]]:
    """The tape of the graph so far, and the tensors on it. Modes that watch a backward are left to eager."""
    for owner, name, what in (
        (anomaly, "WATCH", "anomaly detection"),
        (STATE, "saved_hooks", "saved_tensors_hooks"),
    ):
        if getattr(owner, name):
            tx.unsupported("GB0024", f"a backward under {what}")
    tx.output.guard("LENGTH", RegisteredSource(register(anomaly.WATCH)), 0)
    tx.output.guard("IDENTITY", AttrSource(RegisteredSource(register(STATE)), "saved_hooks"), None)
    if not tx.output.graph_mode:
        tx.unsupported("GB0024", "a backward of what is computed under no_grad")
    nodes = [None if group is None else _nodes(tx, group) for group in groups]
    try:
        shadow = tx.output.shadow_tape()
    except Unsupported:
        raise
    except (
        RuntimeError
    ) as error:  # on it an input is a leaf, which may not be written, although the user's is none
        raise SkipFrame(f"a backward in which {error}", tx.output.origin(), code="GB0024") from None
    values: dict[Any, Any] = {None: None, **shadow.values}
    return shadow, [None if group is None else [values[node] for node in group] for group in nodes]


def _nodes(tx: Tx, group: Sequence[TensorVariable | None]) -> list[Node | None]:
    return [None if t is None else tx.output.node_of(t) for t in group]


def _walked(tx: Tx, name: str, shadow: ShadowTape, walk: Callable[[], Any]) -> Any:
    """What a walk of the shadow tape finds. When it raises, the frame is left to eager, which raises the same."""
    try:
        with enable_grad(), interpreting(shadow):
            return walk()
    except Unsupported as refusal:
        broken = refusal.graph_break
        tx.unsupported(broken.code, f"{name}: {broken.reason}")
    except Exception as error:
        why = f"{name} raises {type(error).__name__}: {error}"
        raise SkipFrame(why, tx.output.origin(), code="GB0024") from None


def _inputs_behind(tx: Tx, shadow: ShadowTape, roots: Sequence[Tensor]) -> list[TensorVariable]:
    """The inputs of the function that `roots` depend on."""
    ends = {
        id(e.leaf) for node in backward_pass.nodes_behind(roots) for e in node.edges if e.leaf is not None
    }
    ends |= {id(root) for root in roots if root._grad_fn is None and root.requires_grad}
    inputs = [t for t in tx.output.known.values() if t.is_tensor()]
    return [t for t in inputs if t.node is not None and id(shadow.values.get(t.node)) in ends]


def _refuse_outside(tx: Tx, name: str, *tensors: TensorVariable) -> None:
    what = f"{name} through {tensors[0].source}"
    tx.unsupported("GB0086", f"{what}, which was computed outside this function")


def _guard_leaves(tx: Tx, leaves: list[TensorVariable]) -> None:
    """Guard that these are leaves, and that nobody has hooked into their gradients."""
    for leaf in leaves:
        if leaf.source is None:
            continue
        under = leaf.source in tx.output.epoch_sources and isinstance(leaf.real, Parameter)
        if not under:
            tx.output.guard("IDENTITY", AttrSource(leaf.source, "_grad_fn"), None)
        for name in ("_hooks", "_after_hooks"):
            hooks = getattr(leaf.real, name)
            if hooks or any(h.call is not None and h.call[0] is leaf for h in tx.output.effects.hooks):
                tx.unsupported("GB0024", f"a backward that reaches {leaf.source}, which has a hook")
            source = AttrSource(leaf.source, name)
            if hooks is None:
                tx.output.guard("IDENTITY", source, None, under)
            else:
                tx.output.guard("LENGTH", source, 0, under)


def _gradients(
    tx: Tx, shadow: ShadowTape, groups: tuple, options: dict[str, Any], found: Sequence[Tensor | None]
) -> list[Variable]:
    """The node, and each gradient as a value (None for an input that nothing depends on)."""
    output, origins = tx.output, (tx.output.origin(),)
    roots, wanted, seeds = (_nodes(tx, group or ()) for group in groups)
    metas = tuple(None if g is None else g.meta for g in found)
    node: Node = output.graph.call_function(
        OPERATOR, (roots, wanted, *([seeds] if seeds else [])), options, val=metas, origins=origins
    )
    shadow.values[node] = tuple(found)
    items: list[Variable] = []
    for i, (meta, g) in enumerate(zip(metas, found, strict=True)):
        if meta is None:
            items.append(NONE)
            continue
        item = output.graph.call_function(python.getitem, (node, i), val=meta, origins=origins)
        shadow.values[item] = g
        items.append(TensorVariable(meta, item))
    return items


def _flags(tx: Tx, create_graph: Variable, retain_graph: Variable) -> tuple[bool, bool]:
    """(create_graph, retain_graph): the second is equal to the first unless it is given."""
    creates, keeps = tx.constant(create_graph, "create_graph"), tx.constant(retain_graph, "retain_graph")
    return bool(creates), bool(creates if keeps is None else keeps)


def _tensors(tx: Tx, value: Variable) -> list[TensorVariable]:
    """A tensor, or a list or tuple of them, as a list."""
    value = realize(value)
    items = value.items if value.family() in SEQUENCES else [value]
    found = [t for t in map(realize, items) if t.is_tensor()]
    if len(found) != len(items):
        culprit = next(v for v in map(realize, items) if not v.is_tensor())
        tx.unsupported("GB0024", f"the gradient of {culprit.describe()}, which is no tensor")
    return found  # type: ignore[return-value]


def _seeds(tx: Tx, value: Variable) -> list[TensorVariable | None] | None:
    """What the outputs' gradients are: None for one that is 1, or for all."""
    value = realize(value)
    if realize(value).is_none():
        return None
    items = value.items if value.family() in SEQUENCES else [value]
    return [None if realize(item).is_none() else _tensors(tx, item)[0] for item in items]
