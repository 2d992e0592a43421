"""The collectives of collectives.py for tensors on a GPU: calls of NCCL on the group's lane, with a Work for each.

Input: tensors of one GPU. Results land in arrays of their own, and `Work.wait()` puts the copy into the tensor behind
them on the program's stream, so autograd sees a write like any other. The host waits in `barrier` only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cutaway.distributed import nccl
from cutaway.distributed.group import GroupMember, ProcessGroup, resolve
from cutaway.distributed.mpi import ReduceOp
from cutaway.distributed.nccl import Link, address
from stage0_eager import Tensor, no_grad
from stage0_eager.arrays import namespace_of
from stage_contracts.communicators import communicator


class GpuWork:
    """A call on the lane's stream. After `wait()` what the program's stream does next sees the result."""

    def __init__(self, transfer: Any, finish: Callable[[], None]) -> None:
        self._transfer, self._finish, self._done = transfer, finish, False

    def wait(self, timeout: Any = None) -> bool:
        """True, at once: the GPU waits, not the host."""
        if not self._done:
            self._done = True
            self._transfer.wait()
            self._finish()
        return True

    def is_completed(self) -> bool:
        if not self._done and self._transfer.done():
            self.wait()
        return self._done


def on_gpu(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor.is_cuda


def array(tensor: Tensor) -> Any:
    """The tensor's elements in row-major order: its own array where that is so."""
    found = tensor.detach()._real("a collective")
    return found if found.flags.c_contiguous else found.copy(order="C")


def write(tensor: Tensor, found: Any) -> None:
    with no_grad():
        tensor.copy_(Tensor(found.reshape(tuple(tensor.shape))))


def write_all(tensors: Sequence[Tensor], found: Any) -> None:
    for tensor, part in zip(tensors, found, strict=True):
        write(tensor, part)


def lane_of(members: ProcessGroup) -> Any:
    """The group's NCCL lane. RuntimeError where the group has none."""
    lane = getattr(communicator(members.name), "gpu", None)
    if lane is None:
        raise RuntimeError(
            f"the group of ranks {[*members.ranks]} moves the memory of CPU processes only; call "
            'init_process_group("nccl"), or move the tensor to the CPU'
        )
    return lane


def operation(
    chosen: Any, name: str, words: Callable[[ProcessGroup], tuple], source: Any, destination: Any,
    finish: Callable[[ProcessGroup], Callable[[], None]], async_op: bool,
) -> GpuWork | None:  # fmt: skip
    """An operation of nccl.POSTS."""
    if chosen is GroupMember.NON_GROUP_MEMBER:
        return None
    members = resolve(chosen)
    transfer = lane_of(members).start(name, words(members), source, destination, "")
    return _work(transfer, finish(members), async_op)


def _work(transfer: Any, finish: Callable[[], None], async_op: bool) -> GpuWork | None:
    work = GpuWork(transfer, finish)
    if async_op:
        return work
    work.wait()
    return None


def _nothing() -> None:
    return None


# ---- one operation of NCCL each ----------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: ReduceOp, group: Any, async_op: bool) -> GpuWork | None:
    source = array(tensor)
    got = namespace_of(source).empty_like(source)
    return operation(
        group,
        "all_reduce",
        lambda _: (op.value,),
        source,
        got,
        lambda _: lambda: write(tensor, got),
        async_op,
    )


def reduce(tensor: Tensor, dst: int, op: ReduceOp, group: Any, async_op: bool) -> GpuWork | None:
    source = array(tensor)
    got = namespace_of(source).empty_like(source)

    def finish(members: ProcessGroup) -> Callable[[], None]:
        return (lambda: write(tensor, got)) if members.rank == members.index(dst, "dst") else _nothing

    return operation(
        group, "reduce", lambda members: (op.value, members.index(dst, "dst")), source, got, finish, async_op
    )


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp, group: Any, async_op: bool
) -> GpuWork | None:
    source = array(input)
    got = namespace_of(source).empty(tuple(output.shape), source.dtype)
    return operation(group, "reduce_scatter", lambda members: (op.value, members.size()), source, got,
                     lambda _: lambda: write(output, got), async_op)  # fmt: skip


def broadcast(tensor: Tensor, src: int, group: Any, async_op: bool) -> GpuWork | None:
    source = array(tensor)
    got = namespace_of(source).empty_like(source)
    return operation(group, "broadcast", lambda members: (members.index(src, "src"),), source, got,
                     lambda _: lambda: write(tensor, got), async_op)  # fmt: skip


def all_gather_into_tensor(output: Tensor, input: Tensor, group: Any, async_op: bool) -> GpuWork | None:
    source = array(input)
    got = namespace_of(source).empty(tuple(output.shape), source.dtype)
    return operation(group, "all_gather", lambda members: (members.size(), "sum"), source, got,
                     lambda _: lambda: write(output, got), async_op)  # fmt: skip


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Any, async_op: bool) -> GpuWork | None:
    source = array(tensor)
    got = namespace_of(source).empty((len(tensor_list), *source.shape), source.dtype)

    def finish(_: ProcessGroup) -> Callable[[], None]:
        return lambda: write_all(tensor_list, got)

    return operation(
        group, "all_gather", lambda members: (members.size(), "sum"), source, got, finish, async_op
    )


def barrier(group: Any, async_op: bool) -> GpuWork | None:
    """An all_reduce of one element; then the host waits for it."""
    lane = lane_of(resolve(group))
    one = lane.zeros(1)
    transfer = lane.post("barrier()", lambda link: nccl.POSTS["all_reduce"](link, ("sum",), one, one), (one,))
    return _work(transfer, _nothing if async_op else transfer.event.synchronize, async_op)


# ---- sends and receives ------------------------------------------------------------------------------------------

Parcel = tuple[int, Any]  # the other rank's place in the group, and a contiguous array


def exchange(
    chosen: Any, text: str, parcels: Callable[[ProcessGroup], tuple[Sequence[Parcel], Sequence[Parcel]]],
    finish: Callable[[], None], async_op: bool, alike: bool = True, like: Any = None,
) -> GpuWork | None:  # fmt: skip
    """Arrays that this rank sends, and arrays that it receives into, as one."""
    if chosen is GroupMember.NON_GROUP_MEMBER:
        return None
    members = resolve(chosen)
    sent, received = parcels(members)
    arrays = (*(a for _, a in sent), *(a for _, a in received)) or (like,)

    def call(link: Link) -> None:
        nccl.exchange(
            link,
            [(peer, address(a), a.nbytes) for peer, a in sent if a.nbytes],
            [(peer, address(a), a.nbytes) for peer, a in received if a.nbytes],
        )

    return _work(lane_of(members).post(text, call, arrays, "", alike), finish, async_op)


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None, dst: int, group: Any, async_op: bool
) -> GpuWork | None:
    source = array(tensor)
    got = [namespace_of(source).empty_like(source) for _ in gather_list or ()]

    def parcels(members: ProcessGroup) -> tuple[list[Parcel], list[Parcel]]:
        root = members.index(dst, "dst")
        return [(root, source)], [*enumerate(got)] if members.rank == root else []

    return exchange(
        group, f"gather(dst={dst}, {_said(source)})", parcels,
        lambda: write_all(gather_list or (), got), async_op,
    )  # fmt: skip


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None, src: int, group: Any, async_op: bool
) -> GpuWork | None:
    mine = array(tensor)
    got = namespace_of(mine).empty_like(mine)

    def parcels(members: ProcessGroup) -> tuple[list[Parcel], list[Parcel]]:
        root = members.index(src, "src")
        sent = [*enumerate(map(array, scatter_list or ()))] if members.rank == root else []
        return sent, [(root, got)]

    return exchange(
        group, f"scatter(src={src}, {_said(mine)})", parcels, lambda: write(tensor, got), async_op
    )


def all_to_all(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], group: Any, async_op: bool
) -> GpuWork | None:
    sources = [array(t) for t in inputs]
    got = [namespace_of(array(t)).empty(tuple(t.shape), array(t).dtype) for t in outputs]
    return exchange(
        group, f"all_to_all({sources[0].dtype.name if sources else ''})",
        lambda _: ([*enumerate(sources)], [*enumerate(got)]),
        lambda: write_all(outputs, got), async_op,
    )  # fmt: skip


def all_to_all_single(
    output: Tensor, input: Tensor, counts: Callable[[ProcessGroup], tuple[list[int], list[int]]], group: Any,
    async_op: bool,
) -> GpuWork | None:  # fmt: skip
    """`counts`: of elements for each rank, of the input and of the output."""
    source = array(input).reshape(-1)
    got = namespace_of(source).empty(output.numel(), source.dtype)

    def parcels(members: ProcessGroup) -> tuple[list[Parcel], list[Parcel]]:
        ours, theirs = counts(members)
        return [*enumerate(_cut(source, ours))], [*enumerate(_cut(got, theirs))]

    return exchange(
        group,
        f"all_to_all_single({source.dtype.name})",
        parcels,
        lambda: write(output, got),
        async_op,
        like=source,
    )


def _cut(flat: Any, counts: Sequence[int]) -> list[Any]:
    ends = np.cumsum(counts)
    return [flat[end - count : end] for count, end in zip(counts, ends, strict=True)]


def isend(tensor: Tensor, dst: int, group: Any) -> GpuWork | None:
    source = array(tensor)
    text = f"isend(dst={dst}, {_said(source)})"
    return exchange(
        group, text, lambda members: ([(members.index(dst, "dst"), source)], []), _nothing, True, alike=False
    )


def irecv(tensor: Tensor, src: int | None, group: Any) -> GpuWork | None:
    if src is None:
        raise ValueError("NCCL receives from one rank that you name, so src must be a rank")
    mine = array(tensor)
    got = namespace_of(mine).empty_like(mine)
    return exchange(group, f"irecv(src={src}, {_said(mine)})", lambda members: ([], [(members.index(src, "src"), got)]),
                    lambda: write(tensor, got), True, alike=False)  # fmt: skip


def _said(found: Any) -> str:
    return f"{found.dtype.name}{[*found.shape]}"
