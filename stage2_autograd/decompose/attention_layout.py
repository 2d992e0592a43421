"""On a GPU, attention's result is laid out as the next product reads it: the kernel writes it so.

Input: a core graph with marked attention. Models turn (batch, heads, length, width) to (batch, length, heads, width),
and join the last two. What is turned becomes the value in memory; it is what the backward keeps, too.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage2_autograd.aliasing import shares_storage
from stage2_autograd.core_calls import core_name
from stage2_autograd.devices import on_gpu
from stage_contracts.graph import Graph, Node


def attention_layout(graph: Graph) -> None:
    """A result that is turned and then copied is copied once; all else reads that copy."""
    for node in graph.calls:
        if _is_result(node) and on_gpu([node]) and (turned := _turned_and_copied(node)) is not None:
            _lay_out(graph, node, turned)


def _is_result(node: Node) -> bool:
    """Whether it is attention's second product: weights times values."""
    pattern = str(node.meta.get("pattern", ""))
    if core_name(node) != "matmul" or not pattern.startswith("attention"):
        return False
    return node.args[0].meta.get("pattern") == pattern


def _turned_and_copied(node: Node) -> Node | None:
    """The permute of it whose reshape is a copy."""
    for user in node.users:
        if core_name(user) == "permute" and any(_copies(reader) for reader in user.users):
            return user
    return None


def _copies(node: Node) -> bool:
    if core_name(node) == "contiguous":
        return not node.args[0].val.is_contiguous
    return core_name(node) == "reshape" and not shares_storage(
        node.target, (node.args[0].val, *node.args[1:])
    )


def _lay_out(graph: Graph, node: Node, turned: Node) -> None:
    marks = {k: v for k, v in turned.meta.items() if k not in ("val", "pattern")}

    def call(target: Any, *args: Any) -> Node:
        val = target.meta(*(a.val if isinstance(a, Node) else a for a in args))
        made = graph.call_function(target, args, val=val)
        made.meta.update(marks)
        return made

    rank = node.val.ndim
    order = [d % rank for d in turned.args[1]]
    others = [user for user in node.users if user is not turned and user.op != "output"]
    readers = [user for user in turned.users if user.op != "output"]
    after = next(n for n in graph.nodes if n in others or n in readers)
    with graph.inserting_before(after):
        # it may stand before `turned`, which is a view of the same
        written = call(c.contiguous, call(c.permute, node, tuple(order)))
        back = call(c.contiguous, call(c.permute, written, tuple(order.index(d) for d in range(rank))))
    for reader in readers:
        _read_instead(graph, reader, turned, written)
    for reader in others:  # laid out as before for them; lowering copies nothing
        _read_instead(graph, reader, node, back)


def _read_instead(graph: Graph, reader: Node, old: Node, new: Node) -> None:
    args = tuple(new if a is old else a for a in reader.args)
    kwargs = {k: new if a is old else a for k, a in reader.kwargs.items()}
    graph.set_args(reader, args, kwargs)
