"""A group's lanes by the device of what they move: MPI's for memory of the CPU, NCCL's for memory of a GPU.

Input: the lanes of one group; one may be missing. This is the Communicator that graphs find by the group's name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutaway.distributed.lane import Lane
from cutaway.distributed.nccl_lane import NcclLane


def of_gpu(array: Any) -> bool:
    return type(array) is not np.ndarray


class Lanes:
    """`cpu` and `gpu`: each a Communicator, or None."""

    def __init__(self, cpu: Lane | None, gpu: NcclLane | None) -> None:
        self.cpu, self.gpu = cpu, gpu
        some: Any = cpu or gpu
        self.rank, self.size = some.rank, some.size

    def _of(self, array: Any) -> Lane | NcclLane:
        found = self.gpu if of_gpu(array) else self.cpu
        if found is None:
            what, other = ("cuda", "mpi") if of_gpu(array) else ("cpu", "nccl")
            raise RuntimeError(
                f"No backend type associated with device type {what}: this group's backend is {other}; move the tensor "
                'to the other device, or call init_process_group("cpu:gloo,cuda:nccl")'
            )
        return found

    def start(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> Any:
        return self._of(source).start(operation, words, source, destination, where)

    def run(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> None:
        self._of(source).run(operation, words, source, destination, where)

    def wait_for(self, seconds: float) -> None:
        """The timeout from now on."""
        for lane in (self.cpu, self.gpu):
            if lane is not None:
                lane.timeout = seconds
        if self.gpu is not None:
            self.gpu.watch.timeout = seconds

    def close(self) -> None:
        for lane in (self.cpu, self.gpu):
            if lane is not None:
                lane.close()
