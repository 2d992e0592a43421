"""Collectives that give new tensors, by the names of torch.distributed._functional_collectives: graphs keep them.

Input: tensors, and a group (None: all processes). Each has a derivative, so a backward pass through it talks to the
other ranks too. The forms of collectives.py that write to their arguments, and wait, are these and a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutaway.distributed.group import ProcessGroup, resolve
from cutaway.distributed.mpi import ReduceOp
from stage0_eager import Tensor
from stage0_eager.functions.joining import cat
from stage0_eager.table.core import core as c


def _reduction(op: Any) -> str:
    """A reduction by its name in torch: "sum", "avg", ..., or a ReduceOp."""
    if isinstance(op, ReduceOp):
        return op.value
    if not isinstance(op, str):
        raise TypeError(f"op must be a ReduceOp, such as ReduceOp.SUM, but it is {op!r}")
    return op.lower()


def all_reduce(self: Tensor, reduceOp: Any = "sum", group: Any = None, tag: str = "") -> Tensor:
    """The reduction of all ranks' tensors, on every rank."""
    return c.all_reduce(self, _reduction(reduceOp), resolve(group).name)


def reduce(self: Tensor, reduceOp: Any, dst: int, group: Any = None) -> Tensor:
    """The reduction on rank `dst`, zeros on the others."""
    members = resolve(group)
    return c.reduce(self, _reduction(reduceOp), members.index(dst, "dst"), members.name)


def broadcast(self: Tensor, src: int, group: Any = None, tag: str = "") -> Tensor:
    """Rank `src`'s tensor, on every rank."""
    members = resolve(group)
    return c.broadcast(self, members.index(src, "src"), members.name)


def all_gather_tensor(self: Tensor, gather_dim: int = 0, group: Any = None, tag: str = "") -> Tensor:
    """All ranks' tensors one after another along `gather_dim`."""
    members = resolve(group)
    return _along(self, gather_dim, lambda rows: c.all_gather(rows, members.size(), "sum", members.name))


def reduce_scatter_tensor(
    self: Tensor, reduceOp: Any = "sum", scatter_dim: int = 0, group: Any = None, tag: str = ""
) -> Tensor:
    """This rank's part along `scatter_dim` of the reduction."""
    members, how = resolve(group), _reduction(reduceOp)
    return _along(self, scatter_dim, lambda rows: c.reduce_scatter(rows, how, members.size(), members.name))


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    tag: str = "",
) -> Tensor:
    """The i-th part along dimension 0 goes to rank i, and its own part comes from there.

    Split sizes: the rows that come from each rank, and the rows that go to each; without them the parts are equal.
    """
    members = resolve(group)
    if output_split_sizes is None and input_split_sizes is None:
        return c.all_to_all(self, members.size(), members.name)
    received, sent = (
        tuple(equal_rows(self, members.size()) if sizes is None else sizes)
        for sizes in (output_split_sizes, input_split_sizes)
    )
    return c.all_to_all_splits(self, received, sent, members.name)


def all_to_all_into(output: Tensor, x: Tensor, received: Any, sent: Any, members: ProcessGroup) -> Tensor:
    """The same where `output` has the rows that come."""
    if received is None and sent is not None:
        received = equal_rows(output, members.size())
    return all_to_all_single(x, received, sent, members)


def all_to_all_list(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], members: ProcessGroup
) -> list[Tensor]:
    """The same with the parts in lists, flat."""
    for one in (outputs, inputs):
        one_for_each(one, members.size(), "input_tensor_list and output_tensor_list")
    received, sent = (tuple([t.numel() for t in one]) for one in (outputs, inputs))
    whole = c.all_to_all_splits(cat([t.reshape(-1) for t in inputs]), received, sent, members.name)
    return list(whole.split(received))


def all_gather_list(outputs: Sequence[Tensor], x: Tensor, members: ProcessGroup) -> list[Tensor]:
    """Every rank's tensor, flat. Ranks whose tensors have other sizes are seen by the sizes of `outputs`."""
    counts, size = (
        tuple([t.numel() for t in one_for_each(outputs, members.size(), "tensor_list")]),
        members.size(),
    )
    if counts[members.rank] != x.numel():
        raise ValueError(
            f"tensor has {x.numel()} elements, but its place in tensor_list, {members.rank}, has {counts[members.rank]}"
        )
    flat = x.reshape(-1)
    if len({*counts}) == 1:
        return list(c.all_gather(flat, size, "sum", members.name).split(counts))
    whole = c.all_to_all_splits(cat([flat] * size), counts, (x.numel(),) * size, members.name)
    return list(whole.split(counts))


def one_for_each(listed: Sequence, size: int, name: str) -> Sequence:
    if len(listed) != size:
        raise ValueError(f"{name} must have a tensor for each of the {size} ranks, but it has {len(listed)}")
    return listed


def equal_rows(x: Tensor, size: int) -> list[int]:
    if x.shape[0] % size:
        raise ValueError(
            f"dimension 0 has {x.shape[0]} rows, which {size} ranks cannot share equally; give its split sizes"
        )
    return [x.shape[0] // size] * size


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself: what these functions give may be used at once. Programs wait where it is first read."""
    return tensor


def _along(x: Tensor, dim: int, call: Any) -> Tensor:
    if dim in (0, -x.dim()):
        return call(x)
    return call(x.transpose(0, dim).contiguous()).transpose(0, dim)


all_gather_into_tensor = all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd, all_to_all_single_autograd = reduce_scatter_tensor, all_to_all_single
__all__ = [
    "all_gather_into_tensor", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "reduce", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
    "wait_tensor",
]  # fmt: skip
