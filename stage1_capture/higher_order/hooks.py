"""Hooks on tensors inside a captured function: followed into the graph, or registered when the graph has run.

Input: a tensor and a function of its gradient. A hook on a value computed inside becomes a node that every reader of
the value reads through, whose derivative is the hook. On a tensor from outside it is a side effect that stays.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from stage0_eager import TABLE
from stage0_eager.autograd.custom_gradient import custom_gradient
from stage0_eager.autograd.hooks import RemovableHandle
from stage0_eager.nn.module import HookHandle
from stage0_eager.table.operator import metas_in
from stage0_eager.tensor import Tensor
from stage1_capture.higher_order.subgraph import follow_backward
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.function import function_variable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import HandleVariable
from stage_contracts.graph import Node, map_args


@builtin(Tensor.register_hook)
def register_hook(tx: Tx, tensor: Variable, hook: Variable) -> Variable:
    target = _hookable(tx, tensor, "register_hook")
    if target.source is not None:
        return _registered_afterwards(tx, target, "register_hook", hook)
    return _in_the_graph(tx, target, realize(hook))


@builtin(Tensor.register_post_accumulate_grad_hook)
def register_post_accumulate_grad_hook(tx: Tx, tensor: Variable, hook: Variable) -> Variable:
    target = _hookable(tx, tensor, "register_post_accumulate_grad_hook")
    if target.source is None:
        tx.unsupported("GB0025", "register_post_accumulate_grad_hook of what is no leaf raises RuntimeError")
    return _registered_afterwards(tx, target, "register_post_accumulate_grad_hook", hook)


@builtin(Tensor.retain_grad)
def retain_grad(tx: Tx, tensor: Variable) -> Variable:
    target = _hookable(tx, tensor, "retain_grad")
    if target.source is None:
        reason = "retain_grad of a value computed inside: nothing outside the graph sees its gradient"
        tx.unsupported("GB0083", reason)
    _registered_afterwards(tx, target, "retain_grad")
    return NONE


def _hookable(tx: Tx, tensor: Variable, what: str) -> TensorVariable:
    target = realize(tensor)
    if not target.meta.requires_grad:
        tx.unsupported("GB0025", f"{what} of a tensor that does not require grad raises RuntimeError")
    if tx.output.taken is not None:
        tx.unsupported("GB0025", f"{what} in a function that has a graph of its own")
    return target  # type: ignore[return-value]


def _registered_afterwards(tx: Tx, target: TensorVariable, method: str, *hook: Variable) -> Variable:
    """The residual code calls `target.method(hook)`, and has the handle if that lives on."""
    handle = HandleVariable(
        object.__new__(RemovableHandle), fresh=True, private=True, call=(target, method, hook)
    )
    tx.output.effects.hooks.append(handle)
    return handle


def _in_the_graph(tx: Tx, target: TensorVariable, hook: Variable) -> Variable:
    """The value goes through a node whose derivative is the hook, right behind where it is computed.

    Of several hooks the first registered sees the gradient first, so its node is the last.
    """
    output, graph = tx.output, tx.output.graph
    if target in output.mutated:
        tx.unsupported("GB0025", "register_hook of a tensor that was written to before")
    _no_gradient_so_far(tx, "register_hook")
    handle = HandleVariable(object.__new__(RemovableHandle), fresh=True, private=True)

    def run(gradients: list[TensorVariable]) -> list[Variable]:
        result = realize(tx.call(hook, [gradients[0]], {}))
        unchanged = result.is_none()
        return [gradients[0] if unchanged else result]

    backward, saved = follow_backward(tx, "a hook", [target], [target.meta], run)
    if not backward.run.graph.calls and not saved:  # type: ignore[attr-defined]  # it changes nothing
        return handle
    raw = output.hooked.setdefault(target, output.node_of(target))
    operands = [output.node_of(t) for t in saved]
    nodes = graph.nodes
    last = max(map(nodes.index, (raw, *operands)))
    early = [user for user in raw.users if nodes.index(user) <= last]
    readers = [user for user in raw.users if user not in early]
    if any(m.requires_grad for user in early for m in metas_in(user.val)):
        tx.unsupported("GB0025", "a hook that reads what is computed after the first use of its tensor")
    meta = target.meta.with_(requires_grad=False, strides=target.meta.strides)
    origins = (output.origin(),)
    following = nodes[last + 1 : last + 2]
    with graph.inserting_before(following[0]) if following else nullcontext():
        detached = graph.call_function(TABLE["cutaway.detach"], (raw,), val=meta, origins=origins)
        op = custom_gradient("hook", backward)
        node = graph.call_function(op, ((raw,), (detached,), *operands), val=target.meta, origins=origins)
    _replace(readers, raw, node)
    if target.node is raw:
        target.node = node
    handle.node, handle.tensor = node, target
    return handle


def _replace(readers: list[Node], old: Node, new: Node) -> None:
    for reader in readers:
        args, kwargs = map_args((reader.args, reader.kwargs), lambda n: new if n is old else n)
        reader.graph.set_args(reader, args, kwargs)


def _no_gradient_so_far(tx: Tx, what: str) -> None:
    """A node in the middle of the graph would change gradients that were taken before the program put it there."""
    tx.output.shadows.pop(tx.output.graph, None)
    if any(n.target is TABLE["cutaway.autograd_grad"] for n in tx.output.graph.calls):
        tx.unsupported("GB0025", f"{what} after a gradient was taken in the same graph")


@builtin(RemovableHandle.remove)
def remove(tx: Tx, handle: Variable) -> Variable:
    """Before any backward has run, so it is as if the hook had never been registered."""
    if not isinstance(handle, HandleVariable):
        real = getattr(handle, "real", None)
        if not isinstance(real, HookHandle):
            tx.unsupported("GB0096", "the removal of a hook that was registered outside")
        # a module's: its dict of hooks changes as any dict does
        plain: Any = RemovableHandle.remove
        return tx.inline(function_variable(tx.output, plain, None), [handle], {})
    if handle in tx.output.effects.hooks:
        tx.output.effects.hooks.remove(handle)
    if handle.node is not None:
        _no_gradient_so_far(tx, "the removal of a hook")
        node, (raw,) = handle.node, handle.node.args[0]
        assert handle.tensor is not None
        _replace(list(node.users), node, raw)
        if handle.tensor.node is node:
            handle.tensor.node = raw
        (detached,) = node.args[1]
        node.graph.erase_node(node)
        node.graph.erase_node(detached)
        handle.node = None
    return NONE
