"""Sends and receives that start together: P2POp and batch_isend_irecv, by torch.distributed's names.

Input: a list that pairs up over the ranks. On a GPU they are one call of NCCL, in which none waits for another; single
sends and receives of NCCL run one after the other, so two ranks that both send first wait for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutaway.distributed import gpu_collectives
from cutaway.distributed.collectives import irecv, isend
from cutaway.distributed.group import ProcessGroup
from stage0_eager import Tensor


@dataclass
class P2POp:
    """`op` is isend or irecv, `peer` the other rank."""

    op: Any
    tensor: Tensor
    peer: int
    group: Any = None
    tag: int = 0

    def __post_init__(self) -> None:
        if self.op not in (isend, irecv):
            raise ValueError(f"op must be isend or irecv, but it is {self.op!r}")


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Any]:
    """Start all of them; returns the Works to wait for: one, on a GPU. All are of one group."""
    ops = list(p2p_op_list)
    if len({id(op.group) for op in ops}) != 1:
        raise ValueError("batch_isend_irecv takes at least one P2POp, and all of one group")
    if not gpu_collectives.on_gpu(ops[0].tensor):
        return [op.op(op.tensor, op.peer, op.group, op.tag) for op in ops]
    arrays = [gpu_collectives.array(op.tensor) for op in ops]
    got = [
        a if op.op is isend else gpu_collectives.namespace_of(a).empty_like(a)
        for op, a in zip(ops, arrays, strict=True)
    ]

    def parcels(members: ProcessGroup) -> tuple[list, list]:
        placed = [(op.op, members.index(op.peer, "peer"), a) for op, a in zip(ops, got, strict=True)]
        return [(peer, a) for op, peer, a in placed if op is isend], [
            (peer, a) for op, peer, a in placed if op is irecv
        ]

    def finish() -> None:
        for op, a in zip(ops, got, strict=True):
            if op.op is irecv:
                gpu_collectives.write(op.tensor, a)

    text = f"batch_isend_irecv({len(ops)})"
    return [gpu_collectives.exchange(ops[0].group, text, parcels, finish, True, alike=False)]
