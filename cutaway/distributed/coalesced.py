"""Many tensors from the first rank to all others in few broadcasts: one for each dtype and 250 MB.

Input: tensors that are alike on every rank, such as a module's buffers. A broadcast costs a latency however small it
is, and a ResNet-50 has 159 buffers. Captured code keeps what is here, so a compiled step has the same few.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.distributed import functional
from cutaway.distributed.buckets import in_buckets
from cutaway.distributed.group import ProcessGroup
from stage0_eager import Tensor, no_grad
from stage0_eager.functions.joining import cat

BYTES = 250 << 20


def from_rank_0(tensors: Sequence[Tensor], group: ProcessGroup) -> None:
    """Every rank's tensors become those of the group's first rank. In place."""
    if group.size() == 1:
        return
    alike = sorted(tensors, key=lambda one: one.dtype.name)
    for bucket in in_buckets(alike, BYTES, BYTES):
        with no_grad():
            flat = functional.broadcast(
                cat([one.detach().reshape(-1) for one in bucket]), group.ranks[0], group
            )
            end = 0
            for one in bucket:
                start, end = end, end + one.numel()
                one.copy_(flat[start:end].reshape(one.shape))
