"""The gradient of softmax(s) @ v: its row sums add up over the width of v, not over all columns.

Input: a joint graph of core operators. With p = softmax(s), o = p @ v and g the gradient of o, the gradient of s needs
sum(p * (g @ v.T)) over each row, which is sum(g * o) (Dao et al., 2022). o is an output, so nothing more is saved, and
a kernel for the backward goes through the columns once less. In half precision, where products are rounded, if there
are more columns than v is wide. On a GPU also where columns are few, if a kernel takes matrices so wide: the kernels
of both directions have to agree on the weights. The sum of a row is saved, and weights of scores that are rounded anew
would not add up to it. In float32 only for such a kernel, which moves the sum to the mean of what it subtracts it
from. Without one the row's own sum is better: where one weight is 1, it and that weight's gradient cancel exactly. Only
the partition knows whether weights are saved; then it takes the row's own sum (partition/saved_weights.py).
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import arguments, core_name
from stage2_autograd.devices import on_gpu
from stage_contracts import dtype as dt
from stage_contracts.attention import largest_width
from stage_contracts.graph import Graph, Node
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta

HALVES = (dt.float16, dt.bfloat16)


def attention_gradient(graph: Graph) -> None:
    """Row sums of weights times their gradients become row sums of the result times its gradient."""
    for node in graph.calls:
        found = _weights_times_gradients(node)
        if found is None:
            continue
        result, gradient = found
        with graph.inserting_before(node):
            wide = [_call(graph, c.cast, (one, dt.float32), node) for one in (gradient, result)]
            product = _call(graph, c.mul, tuple(wide), node)
            total = _call(graph, c.sum, (product, (product.val.ndim - 1,), True), node)
            if node.val.dtype is not dt.float32:
                total = _call(graph, c.cast, (total, node.val.dtype), node)
        graph.replace_all_uses_with(node, total)


def _weights_times_gradients(node: Node) -> tuple[Node, Node] | None:
    """(p @ v, its gradient g) of a node sum(p * (g @ v.T), -1, keepdim=True)."""
    if core_name(node) != "sum":
        return None
    product, dims, keepdim = arguments(node)
    if core_name(product) != "mul" or tuple(dims) != (product.val.ndim - 1,) or not keepdim:
        return None
    for weights, gradients in (product.args, product.args[::-1]):
        found = _product_with(_uncast(weights), _uncast(gradients))
        if found is not None and _is_better(*found, product.val.shape[-1]):
            return found
    return None


def _is_better(result: Node, gradient: Node, columns: int) -> bool:
    width, dtype = result.val.shape[-1], result.val.dtype
    taken = on_gpu((result, gradient)) and width <= largest_width(dtype)
    return taken or (dtype in HALVES and width < columns)


def _product_with(weights: Any, gradients: Any) -> tuple[Node, Node] | None:
    if core_name(gradients) != "matmul" or not isinstance(weights, Node) or not _pays(gradients.val):
        return None
    gradient, turned = gradients.args
    if (
        core_name(turned) != "permute"
        or not _swaps_last_two(turned)
        or any(map(is_open, gradients.val.shape))
    ):
        return None
    for user in _readers(weights):
        if (
            core_name(user) == "matmul"
            and _uncast(user.args[0]) is weights
            and user.args[1] is turned.args[0]
        ):
            return (
                (user, gradient)
                if (user.val.shape, user.val.dtype) == (gradient.val.shape, gradient.val.dtype)
                else None
            )
    return None


def _pays(meta: TensorMeta) -> bool:
    return meta.dtype in HALVES or (meta.dtype is dt.float32 and meta.device.type == "cuda")


def _readers(node: Node) -> list[Node]:
    """The nodes that read it, or a cast of it."""
    return [r for user in node.users for r in (user.users if core_name(user) == "cast" else (user,))]


def _uncast(node: Any) -> Any:
    while core_name(node) == "cast" and node.args[0].val.dtype.is_floating_point:
        node = node.args[0]
    return node


def _swaps_last_two(node: Node) -> bool:
    rank = node.val.ndim
    return tuple(node.args[1]) == (*range(rank - 2), rank - 1, rank - 2)


def _call(graph: Graph, target: Any, args: tuple, like: Node) -> Node:
    """A new call in the place of `like`, with its region and origins."""
    val = target.meta(*(a.val if isinstance(a, Node) else a for a in args))
    made = graph.call_function(target, args, val=val)
    made.meta.update({k: v for k, v in like.meta.items() if k != "val"})
    return made
