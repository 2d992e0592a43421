"""The collectives and point-to-point calls of torch.distributed, on tensors.

Input: tensors of this process, which a call reads or writes in place. Each call posts MPI's nonblocking operation on
contiguous arrays and gives back a Work; without async_op it waits for it. Ranks first agree on what they are to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cutaway.distributed import functional, gpu_collectives, mpi
from cutaway.distributed.agreement import agree, asking_line, await_request
from cutaway.distributed.gpu_collectives import GpuWork, on_gpu
from cutaway.distributed.group import GroupMember, ProcessGroup, resolve
from cutaway.distributed.mpi import ReduceOp
from stage0_eager import Tensor, no_grad
from stage0_eager.functions.creation import from_numpy
from stage0_eager.functions.shape import stack


class Work:
    """A call under way. `wait()` returns when it is done and its results are in the tensors."""

    def __init__(self, request: Any, finish: Callable[[], None], seconds: float, text: str) -> None:
        self._request, self._finish, self._seconds, self._text = request, finish, seconds, text
        self._done = False

    def wait(self, timeout: Any = None) -> bool:
        """True. Raises DistBackendError after `timeout` (a timedelta; the group's, if None)."""
        if not self._done:
            await_request(self._request, timeout.total_seconds() if timeout else self._seconds, self._text)
            self._complete()
        return True

    def is_completed(self) -> bool:
        if not self._done and self._request.Test():
            self._complete()
        return self._done

    def _complete(self) -> None:
        self._done = True
        self._finish()


def issue(
    chosen: Any,
    intent: str,
    post: Callable[[ProcessGroup], tuple[Any, Callable[[], None]]],
    async_op: bool,
    agreed: bool = True,
) -> Work | None:
    """Agree on `intent`, then post. `post` gives MPI's request and what to do with the arrays when it is complete."""
    if chosen is GroupMember.NON_GROUP_MEMBER:
        return None
    members = resolve(chosen)
    if not members.on_cpu:
        raise RuntimeError(
            "No backend type associated with device type cpu: this group is NCCL's; move the tensor to the GPU, or "
            'start the processes with mpiexec and init_process_group("cpu:gloo,cuda:nccl")'
        )
    if agreed and members.size() > 1:
        agree(members.checks, intent, members.ranks, members.timeout)
    request, finish = post(members)
    work = Work(request, finish, members.timeout, f"{intent} at {asking_line()}")
    if async_op:
        return work
    work.wait()
    return None


def at_once(tensor: Any, chosen: Any, make: Callable[[ProcessGroup], Tensor]) -> Work | None:
    """Write what an operator on the group gives into `tensor`. Captured code keeps both, so graphs have no break."""
    if chosen is not GroupMember.NON_GROUP_MEMBER:
        members = resolve(chosen)
        with no_grad():
            tensor.copy_(make(members).reshape(tensor.shape))
    return None  # no Work: it is done


def each_at_once(tensors: Any, chosen: Any, make: Callable[[ProcessGroup], list[Tensor]]) -> Work | None:
    """at_once for a list of tensors, one for each rank."""
    if chosen is not GroupMember.NON_GROUP_MEMBER:
        with no_grad():
            for tensor, part in zip(tensors, make(resolve(chosen)), strict=True):
                tensor.copy_(part.reshape(tensor.shape))
    return None


def array_of(tensor: Any, name: str = "tensor") -> np.ndarray:
    """The memory of a CPU tensor as an array."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a Tensor, but it is {type(tensor).__name__}")
    return tensor.detach().numpy()


def describe(*arrays: np.ndarray) -> str:
    return ", ".join(f"{a.dtype.name}{[*a.shape]}" for a in arrays)


def write(tensor: Tensor, array: np.ndarray) -> None:
    """Copy an array that came back from MPI into a tensor: a write like any other, which autograd's versions see."""
    dtype, array = array_of(tensor).dtype, np.asarray(array)
    same_bytes = mpi.is_half(dtype) and array.dtype == np.uint16
    with no_grad():
        tensor.copy_(
            from_numpy((array.view(dtype) if same_bytes else array.astype(dtype)).reshape(tensor.shape))
        )


def mean_or_sum(op: ReduceOp, array: np.ndarray, size: int) -> np.ndarray:
    return np.asarray(array / array.dtype.type(size)) if op is ReduceOp.AVG else array


# ---- reductions ------------------------------------------------------------------------------------------------------


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | GpuWork | None:
    """Every rank's `tensor` becomes the reduction of all of them. In place; shapes and dtypes must be equal."""
    if not async_op:
        return at_once(tensor, group, lambda members: functional.all_reduce(tensor, op, members))
    if on_gpu(tensor):
        return gpu_collectives.all_reduce(tensor, op, group, async_op)
    array = array_of(tensor)
    how = mpi.operation(op, array.dtype)

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        sent = mpi.to_reduce(array)
        got = np.empty_like(sent)
        request = members.comm.Iallreduce(sent, got, how)
        return request, lambda: write(tensor, mean_or_sum(op, got, members.size()))

    return issue(group, f"all_reduce({op.name}, {describe(array)})", post, async_op)


def reduce(
    tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | GpuWork | None:
    """all_reduce whose result only rank `dst` gets; the others' tensors stay as they are."""
    if on_gpu(tensor):
        return gpu_collectives.reduce(tensor, dst, op, group, async_op)
    array = array_of(tensor)
    how = mpi.operation(op, array.dtype)

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        root = members.index(dst, "dst")
        sent = mpi.to_reduce(array)
        got = np.empty_like(sent)
        request = members.comm.Ireduce(sent, got, how, root)
        mine = members.rank == root
        return request, lambda: write(tensor, mean_or_sum(op, got, members.size())) if mine else None

    return issue(group, f"reduce({op.name}, dst={dst}, {describe(array)})", post, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | GpuWork | None:
    """`input`, (n * k, ...) on each of n ranks, is reduced; rank i gets its i-th part, (k, ...), in `output`."""
    if not async_op and fits(input, output, group):
        return at_once(output, group, lambda members: functional.reduce_scatter_tensor(input, op, 0, members))
    if on_gpu(input):
        return gpu_collectives.reduce_scatter_tensor(output, input, op, group, async_op)
    array, part = array_of(input, "input"), array_of(output, "output")
    how = mpi.operation(op, array.dtype)

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        _whole_parts("input", array, "output", part, members.size())
        sent = mpi.to_reduce(array)
        got = np.empty(part.shape, sent.dtype)
        request = members.comm.Ireduce_scatter_block(sent, got, how)
        return request, lambda: write(output, mean_or_sum(op, got, members.size()))

    return issue(group, f"reduce_scatter_tensor({op.name}, {describe(array, part)})", post, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | GpuWork | None:
    """reduce_scatter_tensor with the parts in a list, one for each rank, each of `output`'s shape."""
    return reduce_scatter_tensor(output, _joined(input_list, output, "input_list"), op, group, async_op)


# ---- copies ----------------------------------------------------------------------------------------------------------


def broadcast(tensor: Tensor, src: int, group: Any = None, async_op: bool = False) -> Work | GpuWork | None:
    """Every rank's `tensor` becomes rank `src`'s. In place."""
    if not async_op:
        return at_once(tensor, group, lambda members: functional.broadcast(tensor, src, members))
    if on_gpu(tensor):
        return gpu_collectives.broadcast(tensor, src, group, async_op)
    array = array_of(tensor)

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        root = members.index(src, "src")
        moved = mpi.to_move(array)
        if members.rank != root:
            moved = np.empty_like(moved)
        request = members.comm.Ibcast(moved, root)
        return request, lambda: write(tensor, moved) if members.rank != root else None

    return issue(group, f"broadcast(src={src}, {describe(array)})", post, async_op)


def all_gather_into_tensor(
    output: Tensor, input: Tensor, group: Any = None, async_op: bool = False
) -> Work | GpuWork | None:
    """`output`, (n * k, ...) or (n, k, ...), becomes the `input`s of all n ranks, (k, ...), one after another."""
    if not async_op and fits(output, input, group):
        return at_once(output, group, lambda members: functional.all_gather_tensor(input, 0, members))
    if on_gpu(input):
        return gpu_collectives.all_gather_into_tensor(output, input, group, async_op)
    part, array = array_of(input, "input"), array_of(output, "output")

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        if part.size * members.size() != array.size or part.dtype != array.dtype:
            raise ValueError(
                f"output must hold {members.size()} times what input holds, in its dtype, "
                f"but they are {describe(array)} and {describe(part)}"
            )
        sent = mpi.to_move(part)
        got = np.empty((members.size(), *part.shape), sent.dtype)
        return members.comm.Iallgather(sent, got), lambda: write(output, got)

    return issue(group, f"all_gather_into_tensor({describe(array, part)})", post, async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | GpuWork | None:
    """The i-th of `tensor_list` becomes rank i's `tensor`. Without async_op they may differ in size."""
    if not async_op:
        return each_at_once(
            tensor_list, group, lambda of: functional.all_gather_list(tensor_list, tensor, of)
        )
    if on_gpu(tensor):
        return gpu_collectives.all_gather(tensor_list, tensor, group, async_op)
    part = array_of(tensor)

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        functional.one_for_each(tensor_list, members.size(), "tensor_list")
        sent = mpi.to_move(part)
        got = np.empty((members.size(), *part.shape), sent.dtype)
        return members.comm.Iallgather(sent, got), lambda: _spread(tensor_list, got)

    return issue(group, f"all_gather({describe(part)})", post, async_op)


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int = 0,
    group: Any = None,
    async_op: bool = False,
) -> Work | GpuWork | None:
    """On rank `dst`, the i-th of `gather_list` becomes rank i's `tensor`. Other ranks give no list."""
    if on_gpu(tensor):
        return gpu_collectives.gather(tensor, gather_list, dst, group, async_op)
    part = array_of(tensor)

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        root = members.index(dst, "dst")
        sent = mpi.to_move(part)
        if members.rank != root:
            return members.comm.Igather(sent, None, root), lambda: None
        listed = functional.one_for_each(gather_list or (), members.size(), "gather_list")
        got = np.empty((members.size(), *part.shape), sent.dtype)
        return members.comm.Igather(sent, got, root), lambda: _spread(listed, got)

    return issue(group, f"gather(dst={dst}, {describe(part)})", post, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int = 0,
    group: Any = None,
    async_op: bool = False,
) -> Work | GpuWork | None:
    """Rank i's `tensor` becomes the i-th of rank `src`'s `scatter_list`. Other ranks give no list."""
    if on_gpu(tensor):
        return gpu_collectives.scatter(tensor, scatter_list, src, group, async_op)
    part = array_of(tensor)

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        root = members.index(src, "src")
        got = np.empty_like(mpi.to_move(part))
        sent = None
        if members.rank == root:
            listed = functional.one_for_each(scatter_list or (), members.size(), "scatter_list")
            sent = np.stack([mpi.to_move(array_of(t, "scatter_list")) for t in listed])
        return members.comm.Iscatter(sent, got, root), lambda: write(tensor, got)

    return issue(group, f"scatter(src={src}, {describe(part)})", post, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | GpuWork | None:
    """Part j of rank i's `input` becomes part i of rank j's `output`. Parts are of dimension 0, equal without sizes."""
    if not async_op and output.dtype is input.dtype and output.shape[1:] == input.shape[1:]:
        return at_once(output, group, lambda members: functional.all_to_all_into(
            output, input, output_split_sizes, input_split_sizes, members))  # fmt: skip
    if on_gpu(input):

        def counts(members: ProcessGroup) -> tuple[list[int], list[int]]:
            ours = _counts(input, input_split_sizes, members.size(), "input")
            return ours, _counts(output, output_split_sizes, members.size(), "output")

        return gpu_collectives.all_to_all_single(output, input, counts, group, async_op)
    array, target = array_of(input, "input"), array_of(output, "output")

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        sent, got = mpi.to_move(array), np.empty_like(mpi.to_move(target))
        ways = [
            _counts(moved, sizes, members.size(), name)
            for moved, sizes, name in (
                (sent, input_split_sizes, "input"),
                (got, output_split_sizes, "output"),
            )
        ]
        request = members.comm.Ialltoallv([sent, ways[0]], [got, ways[1]])
        return request, lambda: write(output, got)

    return issue(group, f"all_to_all_single({array.dtype.name})", post, async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | GpuWork | None:
    """The j-th of rank i's inputs becomes the i-th of rank j's outputs."""
    if not async_op:
        outputs, inputs = output_tensor_list, input_tensor_list
        return each_at_once(outputs, group, lambda of: functional.all_to_all_list(outputs, inputs, of))
    if input_tensor_list and on_gpu(input_tensor_list[0]):
        return gpu_collectives.all_to_all(output_tensor_list, input_tensor_list, group, async_op)
    sources = [mpi.to_move(array_of(t, "input_tensor_list")) for t in input_tensor_list]
    got_from = [mpi.to_move(array_of(t, "output_tensor_list")) for t in output_tensor_list]

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        functional.one_for_each(sources, members.size(), "input_tensor_list")
        functional.one_for_each(got_from, members.size(), "output_tensor_list")
        sent = np.concatenate([a.reshape(-1) for a in sources])
        got = np.empty(sum(a.size for a in got_from), sent.dtype)
        request = members.comm.Ialltoallv(
            [sent, [a.size for a in sources]], [got, [a.size for a in got_from]]
        )
        ends = np.cumsum([a.size for a in got_from])[:-1]
        return request, lambda: _spread(output_tensor_list, np.split(got, ends))

    return issue(group, f"all_to_all({sources[0].dtype.name if sources else ''})", post, async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | GpuWork | None:
    """Return when every rank of the group is here."""
    if group is not GroupMember.NON_GROUP_MEMBER and not resolve(group).on_cpu:
        return gpu_collectives.barrier(group, async_op)
    return issue(group, "barrier()", lambda members: (members.comm.Ibarrier(), lambda: None), async_op)


# ---- two ranks -------------------------------------------------------------------------------------------------------


def isend(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> Work | GpuWork | None:
    """Send to rank `dst`. Do not write to `tensor` before the Work is complete."""
    if on_gpu(tensor):
        return gpu_collectives.isend(tensor, dst, group)
    array = mpi.to_move(array_of(tensor))

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        return members.comm.Isend(array, members.index(dst, "dst"), tag), lambda: None

    return issue(group, f"isend(dst={dst}, {describe(array)})", post, True, agreed=False)


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0) -> Work | GpuWork | None:
    """Receive into `tensor` from rank `src`, or from any rank."""
    if on_gpu(tensor):
        return gpu_collectives.irecv(tensor, src, group)
    moved = np.empty_like(mpi.to_move(array_of(tensor)))

    def post(members: ProcessGroup) -> tuple[Any, Callable[[], None]]:
        source = mpi.library().ANY_SOURCE if src is None else members.index(src, "src")
        return members.comm.Irecv(moved, source, tag), lambda: write(tensor, moved)

    return issue(group, f"irecv(src={src}, {describe(moved)})", post, True, agreed=False)


def send(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> None:
    """isend, and wait."""
    work = isend(tensor, dst, group, tag)
    if work is not None:
        work.wait()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0) -> int:
    """Receive into `tensor`; returns the sender's rank, or -1 outside the group."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    members = resolve(group)
    if on_gpu(tensor):
        work = gpu_collectives.irecv(tensor, src, group)
        assert work is not None and src is not None
        work.wait()
        return src
    MPI = mpi.library()
    status, moved = MPI.Status(), np.empty_like(mpi.to_move(array_of(tensor)))
    source = MPI.ANY_SOURCE if src is None else members.index(src, "src")
    members.comm.Recv(moved, source, tag, status)
    write(tensor, moved)
    return members.ranks[status.Get_source()]


# ---- parts -----------------------------------------------------------------------------------------------------------


def _spread(tensors: Sequence[Tensor], arrays: Sequence[np.ndarray] | np.ndarray) -> None:
    for tensor, array in zip(tensors, arrays, strict=True):
        write(tensor, array)


def _joined(parts: Sequence[Tensor], like: Tensor, name: str) -> Tensor:
    for part in parts:
        if not isinstance(part, Tensor):
            raise TypeError(f"{name} must hold Tensors, but one is {type(part).__name__}")
        if part.shape != like.shape or part.dtype != like.dtype:
            wanted, seen = (f"{t.dtype.name}{[*t.shape]}" for t in (like, part))
            raise ValueError(f"each of {name} must be {wanted}, as the output is, but one is {seen}")
    with no_grad():
        return stack([*parts])


def fits(whole: Tensor, part: Tensor, group: Any) -> bool:
    """Whether `whole` is the parts of all ranks along dimension 0: else the longer way says what is wrong."""
    if group is GroupMember.NON_GROUP_MEMBER or not part.dim() or not whole.dim():
        return False
    rows = part.shape[0] * resolve(group).size()
    stacked = whole.shape[1:] == part.shape and whole.shape[0] * part.shape[0] == rows
    return whole.dtype is part.dtype and (whole.shape == (rows, *part.shape[1:]) or stacked)


def _whole_parts(whole_name: str, whole: np.ndarray, part_name: str, part: np.ndarray, size: int) -> None:
    if whole.size != part.size * size or whole.dtype != part.dtype:
        raise ValueError(
            f"{whole_name} must hold {size} times what {part_name} holds, in its dtype, "
            f"but they are {describe(whole)} and {describe(part)}"
        )


def _counts(moved: Any, sizes: Sequence[int] | None, size: int, name: str) -> list[int]:
    """How many elements go to, or come from, each rank."""
    rows = moved.shape[0] if moved.ndim else 1
    if sizes is None:
        if rows % size:
            raise ValueError(
                f"{name} has {rows} rows, which {size} ranks cannot share equally; give its split sizes"
            )
        sizes = [rows // size] * size
    if len(sizes) != size or sum(sizes) != rows:
        raise ValueError(
            f"{name}'s {size} split sizes must add up to its {rows} rows, but they are {[*sizes]}"
        )
    each = int(np.prod(moved.shape)) // rows if rows else 0
    return [n * each for n in sizes]
