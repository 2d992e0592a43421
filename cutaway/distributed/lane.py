"""A group's lane for collectives in graphs: a thread that runs them one after the other while the program computes.

Input: what compiled programs and eager kernels start (stage_contracts/communicators.py). The lane has communicators of
its own, so that its order is the graph's, whatever else the process says on the group's other communicators.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from cutaway.distributed import mpi
from cutaway.distributed.agreement import DistBackendError, DistError, agree, asking_line, await_request
from cutaway.distributed.mpi import ReduceOp

Finish = Callable[[], None]


class Transfer:
    """One collective: what it is, whether it has ended, and how."""

    def __init__(self, text: str) -> None:
        self.text, self.ended = text, threading.Event()
        self.error: BaseException | None = None

    def wait(self) -> None:
        self.ended.wait()  # the lane's own wait has a limit
        if self.error is not None:
            raise self.error


class Lane:
    """The Communicator of a process group on MPI. One thread, made when the first collective is started."""

    def __init__(self, comm: Any, checks: Any, ranks: tuple[int, ...], rank: int, timeout: float) -> None:
        self.comm, self.checks, self.ranks, self.rank, self.timeout = comm, checks, ranks, rank, timeout
        self.size = len(ranks)
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._order = threading.RLock()
        self._last: Transfer | None = None  # the newest; when it has ended, the lane is idle
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self._several = mpi.threads_may_call()

    def start(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> Transfer:
        transfer = Transfer(sentence(operation, words, source))
        with self._order:
            job = (transfer, operation, words, source, destination, where or asking_line())
            if not self._several:
                self._perform(*job)
                return transfer
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="cutaway collectives", daemon=True)
                self._thread.start()
            self._last = transfer
            self._jobs.put(job)
        return transfer

    def run(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> None:
        """At once in this thread where the lane is idle: a thread that wakes costs tens of microseconds."""
        with self._order:
            if self._last is None or self._last.ended.is_set():
                transfer = Transfer(sentence(operation, words, source))
                self._perform(transfer, operation, words, source, destination, where or asking_line())
            else:
                transfer = self.start(operation, words, source, destination, where)
        transfer.wait()

    def close(self) -> None:
        """End the thread, after what was started."""
        with self._order:
            if self._thread is not None:
                self._jobs.put(None)
                self._thread.join(timeout=1.0)
                self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._perform(*job)

    def _perform(
        self, transfer: Transfer, operation: str, words: tuple, source: Any, destination: Any, where: str
    ) -> None:
        try:
            if self._broken is not None:
                raise DistError(f"{transfer.text} at {where} cannot start: {self._broken}")
            if self.size > 1:
                agree(self.checks, transfer.text, self.ranks, self.timeout, where)
            request, finish = _POSTS[operation](self, words, source, destination)
            await_request(request, self.timeout, f"{transfer.text} at {where}")
            finish()
        except BaseException as error:  # told to whoever waits
            self._broken = transfer.error = error
        finally:
            transfer.ended.set()


# ---- each operation on MPI -----------------------------------------------------------------------------------------


def _reduction(post: Callable[[Lane, Any, Any, Any, tuple], Any]) -> Callable[..., tuple[Any, Finish]]:
    """A reduction in the dtype that MPI adds in, straight into the destination where that is its own."""

    def start(lane: Lane, words: tuple, source: Any, destination: Any) -> tuple[Any, Finish]:
        op = ReduceOp(words[0])
        how, direct = (
            mpi.operation(op, source.dtype),
            not (mpi.is_half(source.dtype) or source.dtype.kind == "b"),
        )
        sent = source if direct else mpi.to_reduce(source)
        got = destination if direct else np.empty(destination.shape, sent.dtype)
        request = post(lane, sent, got, how, words)

        def finish() -> None:
            if op is ReduceOp.AVG:
                np.divide(got, got.dtype.type(lane.size), out=got)
            if got is not destination:
                destination[...] = got.astype(destination.dtype)

        return request, finish

    return start


def _copy(post: Callable[[Lane, Any, Any, tuple], Any]) -> Callable[..., tuple[Any, Finish]]:
    def start(lane: Lane, words: tuple, source: Any, destination: Any) -> tuple[Any, Finish]:
        return post(lane, mpi.to_move(source), mpi.to_move(destination), words), lambda: None

    return start


def _reduce(lane: Lane, sent: Any, got: Any, how: Any, words: tuple) -> Any:
    got[...] = 0
    return lane.comm.Ireduce(sent, got if lane.rank == words[1] else None, how, words[1])


def _broadcast(lane: Lane, sent: Any, got: Any, words: tuple) -> Any:
    if lane.rank == words[0]:
        got[...] = sent
    return lane.comm.Ibcast(got, words[0])


def _all_to_all_splits(lane: Lane, sent: Any, got: Any, words: tuple) -> Any:
    """The ranks first tell each other how many rows they send: a wrong count would wait for ever, or write too far."""
    received, given = (np.array(counts) for counts in words[:2])
    coming = np.empty_like(received)
    await_request(lane.checks.Ialltoall(given, coming), lane.timeout, "all_to_all_splits, the counts")
    if (coming != received).any():
        told = "; ".join(
            f"rank {lane.ranks[k]} sends {sends} rows, {rows} are expected"
            for k, (sends, rows) in enumerate(zip(coming, received, strict=True))
            if sends != rows
        )
        raise DistBackendError(f"rank {lane.ranks[lane.rank]}: all_to_all_splits cannot start: {told}")
    wide = int(np.prod(sent.shape[1:]))
    return lane.comm.Ialltoallv([sent, given * wide], [got, received * wide])


_POSTS: dict[str, Callable[..., tuple[Any, Finish]]] = {
    "all_reduce": _reduction(lambda lane, sent, got, how, _: lane.comm.Iallreduce(sent, got, how)),
    "average": lambda lane, words, source, destination: _POSTS["all_reduce"](
        lane, ("avg",), source, destination
    ),
    "reduce": _reduction(_reduce),
    "reduce_scatter": _reduction(
        lambda lane, sent, got, how, _: lane.comm.Ireduce_scatter_block(sent, got, how)
    ),
    "broadcast": _copy(_broadcast),
    "all_gather": _copy(lambda lane, sent, got, _: lane.comm.Iallgather(sent, got)),
    "all_to_all": _copy(lambda lane, sent, got, _: lane.comm.Ialltoall(sent, got)),
    "all_to_all_splits": _copy(_all_to_all_splits),
}


def sentence(operation: str, words: tuple, source: Any) -> str:
    """What a rank says of a call before it, which all must say alike: rows that differ by rank are left out."""
    if operation == "all_to_all_splits":
        return f"{operation}({source.dtype.name}[any, {', '.join(map(str, source.shape[1:]))}])"
    return f"{operation}({in_words(words)}{described(source)})"


def in_words(words: tuple) -> str:
    return "".join(f"{str(word).upper() if isinstance(word, str) else word}, " for word in words)


def described(array: Any) -> str:
    return f"{array.dtype.name}{[*array.shape]}"


__all__ = ["DistBackendError", "Lane", "Transfer"]
