"""DistributedSampler: each rank's share of a data set, equal in size, so that all ranks take the same number of steps.

Input: the data set's length, the rank and the number of ranks. The share is every n-th index of one shuffled order that
all ranks compute from the same seed, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cutaway.distributed.group import get_rank, get_world_size
from stage0_eager.random.generator import Generator, randperm


class DistributedSampler:
    """For DataLoader's `sampler`. Call `set_epoch(n)` before each pass, or the order is the same every time.

    The order is padded with its own beginning to a multiple of the number of ranks, or with drop_last cut to one.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.num_replicas = get_world_size() if num_replicas is None else num_replicas
        self.rank = get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]"
            )
        self.epoch = 0
        share = len(dataset) / self.num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            order = randperm(count, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        if order:
            order *= math.ceil(self.total_size / count)
        return iter(order[self.rank : self.total_size : self.num_replicas])
