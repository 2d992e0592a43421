"""The gradients of one backward pass, averaged over the ranks while it still runs.

Input: buckets of parameters (buckets.py). When the last gradient of a bucket is there, its all-reduce starts; buckets
start in the same order on every rank, whatever the order of the gradients. The last one to be ready waits for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cutaway.distributed.collectives import all_reduce
from cutaway.distributed.group import ProcessGroup
from cutaway.distributed.mpi import ReduceOp
from stage0_eager import Tensor, no_grad
from stage0_eager.functions.creation import from_numpy, zeros_like
from stage0_eager.functions.joining import cat

UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. {} of {} parameters got no "
    "gradient in the last backward pass, the first of them {}. Pass find_unused_parameters=True to "
    "DistributedDataParallel if the forward pass does not use all parameters, and make sure that all outputs of "
    "forward take part in the loss"
)


class GradBucket:
    """What a communication hook gets: the gradients of one bucket as one flat tensor."""

    def __init__(self, index: int, buffer: Tensor, parameters: Sequence[Tensor], last: bool) -> None:
        self._index, self._buffer, self._parameters, self._last = index, buffer, parameters, last

    def index(self) -> int:
        return self._index

    def buffer(self) -> Tensor:
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        self._buffer = buffer

    def parameters(self) -> list[Tensor]:
        return list(self._parameters)

    def is_last(self) -> bool:
        return self._last


def averaged(group: ProcessGroup, bucket: GradBucket) -> Any:
    """The usual communication: the mean over the ranks, in place. Returns its Work."""
    return all_reduce(bucket.buffer(), ReduceOp.AVG, group, async_op=True)


class Reducer:
    """Follows which gradients are ready. `hook(state, bucket)` starts a bucket's communication, and gives its Work."""

    def __init__(self, buckets: list[list[Tensor]], group: ProcessGroup, find_unused: bool) -> None:
        self.buckets, self.group, self.find_unused = buckets, group, find_unused
        self.state: Any = group
        self.hook: Callable[[Any, GradBucket], Any] = averaged
        self.place = {id(p): index for index, bucket in enumerate(buckets) for p in bucket}
        self.names: dict[int, str] = {}
        self.active = self.begun = False
        self.waiting: list[set[int]] = []
        self.started: list[tuple[GradBucket, Any]] = []
        self.used: np.ndarray | None = None

    def prepare(self, outputs: Iterable[Tensor]) -> None:
        """A forward pass with gradients has ended with these outputs: a backward pass may follow."""
        if self.active and self.begun:
            late = [p for bucket in self.waiting for p in bucket]
            raise RuntimeError(
                UNFINISHED.format(len(late), len(self.place), self.names.get(late[0], "without a name"))
            )
        self.active, self.begun = True, False
        self.waiting = [{id(p) for p in bucket} for bucket in self.buckets]
        self.started, self.used = [], None
        if self.find_unused:
            reached = leaves_of(outputs)
            order = [p for bucket in self.buckets for p in bucket]
            self.used = np.array([id(p) in reached for p in order], np.uint8)
            for parameter, used in zip(order, self.used, strict=True):
                if not used:
                    self.waiting[self.place[id(parameter)]].discard(id(parameter))

    def ready(self, parameter: Tensor) -> None:
        """The gradient of this parameter is complete."""
        if not self.active:
            return
        self.begun = True
        self.waiting[self.place[id(parameter)]].discard(id(parameter))
        while len(self.started) < len(self.buckets) and not self.waiting[len(self.started)]:
            self.start(len(self.started))
        if len(self.started) == len(self.buckets):
            self.finish()

    def start(self, index: int) -> None:
        parameters = self.buckets[index]
        with no_grad():
            buffer = cat(
                [(zeros_like(p) if p.grad is None else p.grad.detach()).reshape(-1) for p in parameters]
            )
        bucket = GradBucket(index, buffer, parameters, index == len(self.buckets) - 1)
        self.started.append((bucket, self.hook(self.state, bucket)))

    def finish(self) -> None:
        somewhere = self.used_somewhere()
        for bucket, work in self.started:
            result = work.wait()
            flat, end = result if isinstance(result, Tensor) else bucket.buffer(), 0
            for parameter in bucket.parameters():
                start, end = end, end + parameter.numel()
                if id(parameter) in somewhere:
                    self.give(parameter, flat[start:end])
        self.active, self.started = False, []

    def used_somewhere(self) -> set[int]:
        """The parameters that some rank's forward pass used. A parameter that none used keeps its gradient, or None."""
        order = [p for bucket in self.buckets for p in bucket]
        if self.used is None:
            return {id(p) for p in order}
        found = from_numpy(self.used).to(order[0].device)
        all_reduce(found, ReduceOp.MAX, self.group)
        return {id(p) for p, used in zip(order, found.tolist(), strict=True) if used}

    def give(self, parameter: Tensor, flat: Tensor) -> None:
        with no_grad():
            if parameter.grad is None:
                parameter.grad = zeros_like(parameter)
            parameter.grad.copy_(flat.reshape(parameter.shape))


def leaves_of(outputs: Iterable[Tensor]) -> set[int]:
    """The ids of the leaves that a backward pass from these tensors would reach."""
    leaves: set[int] = set()
    seen: set[int] = set()
    nodes: list[Any] = []
    for tensor in outputs:
        if tensor.grad_fn is None:
            leaves.add(id(tensor))
        else:
            nodes.append(tensor.grad_fn)
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for edge in node.edges:
            if edge.leaf is not None:
                leaves.add(id(edge.leaf))
            elif edge.node is not None:
                nodes.append(edge.node)
    return leaves
