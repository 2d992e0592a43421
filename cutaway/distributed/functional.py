"""Collectives that give new tensors, by the names of torch.distributed._functional_collectives: graphs keep them.

Input: tensors, and a group (None: all processes). Each has a derivative, so a backward pass through it talks to the
other ranks too. The forms of collectives.py that write to their arguments, and wait, are these and a copy.
"""

from __future__ import annotations

from typing import Any

from cutaway.distributed.group import resolve
from cutaway.distributed.mpi import ReduceOp
from stage0_eager import Tensor
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
    """The i-th part along dimension 0 goes to rank i, and its own part comes from there. Equal parts only."""
    members = resolve(group)
    if output_split_sizes is not None or input_split_sizes is not None:
        raise NotImplementedError(
            "all_to_all_single in a graph exchanges equal parts; call torch.distributed.all_to_all_single with split "
            "sizes, outside compiled code"
        )
    return c.all_to_all(self, members.size(), members.name)


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
