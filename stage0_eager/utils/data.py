"""Batches of a data set, by torch.utils.data's names: Dataset, TensorDataset, Subset, random_split, DataLoader.

Input: anything with __getitem__ and __len__, or an IterableDataset; samplers.py gives orders, collate.py batches.
Everything happens in the calling thread. A shuffled order comes from the generator, so that a seed fixes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from stage0_eager.arrays import gpu_is_there
from stage0_eager.random.generator import Generator, randperm
from stage0_eager.tensor import Tensor
from stage0_eager.utils.collate import default_collate, default_convert, pinned
from stage0_eager.utils.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    batches,
)


class Dataset:
    """Base class: define __getitem__ and __len__. Subscripts as a type: Dataset[int]."""

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Base class of data sets without indices: define __iter__, and __len__ if it is known."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class ConcatDataset(Dataset):
    """The items of several data sets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        part = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][index - before]


class ChainDataset(IterableDataset):
    """The items of several IterableDatasets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            yield from part

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


def get_worker_info() -> None:
    """None: a DataLoader reads in the calling process."""


class TensorDataset(Dataset):
    """Rows of tensors of one length: item i is the tuple of their i-th rows."""

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset):
    """The items of several data sets side by side: item i is the tuple, or the dict, of their i-th items."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but "
                "both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = kwargs or args
        parts = [*args, *kwargs.values()]
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: part[index] for key, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """Those items, all at once where the data set can."""
    at_once = getattr(dataset, "__getitems__", None)
    return at_once(indices) if at_once else [dataset[i] for i in indices]


class Subset(Dataset):
    """The items of `dataset` at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[
            [self.indices[i] for i in index] if isinstance(index, list) else self.indices[index]
        ]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Disjoint random subsets of the given lengths, or of the given fractions of the whole (which sum to 1)."""
    total = len(dataset)
    sizes = [int(n) for n in lengths]
    if abs(sum(lengths) - 1) < 1e-6:
        for i, share in enumerate(lengths):
            if not 0 <= share <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes = [int(total * share) for share in lengths]
        for i in range(total - sum(sizes)):  # what rounding left over, one each
            sizes[i % len(sizes)] += 1
    if sum(sizes) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(total, generator=generator).tolist()
    starts = np.cumsum([0, *sizes])
    return [Subset(dataset, order[a:b]) for a, b in zip(starts, starts[1:], strict=False)]


# options of speed, which are kept and change nothing, with their defaults
_OF_SPEED: dict[str, Any] = {
    "in_order": True, "multiprocessing_context": None, "persistent_workers": False, "pin_memory_device": "",
    "prefetch_factor": None, "timeout": 0, "worker_init_fn": None,
}  # fmt: skip
_FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class _Endless(Sampler):
    """The sampler of an IterableDataset, which is asked for items without an index."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield None


def _check_order(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Raises ValueError for two options that both say which items come when."""
    if shuffle and sampler is not None:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


class DataLoader:
    """Batches of `dataset`, in order or shuffled anew at each pass.

    sampler gives the order instead; batch_size None gives single items. pin_memory: the tensors of a batch are pinned
    where there is a GPU. num_workers and the other options of speed are accepted and change nothing.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        *,
        generator: Generator | None = None,
        **speed: Any,
    ) -> None:
        _check_speed(num_workers, speed)
        self._over = isinstance(dataset, IterableDataset)  # asked by iteration, not by index
        if self._over:
            _check_of_iteration(shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler)
        _check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler = self._order(shuffle, generator) if sampler is None else sampler
        if batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler, self.generator = batch_sampler, generator
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.pin_memory, self.num_workers = pin_memory, num_workers
        vars(self).update(_OF_SPEED, **speed)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "num_workers" in vars(self):
            raise ValueError(f"{name} attribute should not be set after DataLoader is initialized")
        super().__setattr__(name, value)

    def _order(self, shuffle: bool | None, generator: Generator | None) -> Any:
        if self._over:
            return _Endless()
        return (
            RandomSampler(self.dataset, generator=generator) if shuffle else SequentialSampler(self.dataset)
        )

    def __iter__(self) -> Iterator[Any]:
        found = map(self.collate_fn, self._fetched())
        return map(pinned, found) if self.pin_memory and gpu_is_there() else found

    def _fetched(self) -> Iterator[Any]:
        """What collate_fn is given: lists of items, or single items where there are no batches."""
        if self._over:
            if self.batch_size is None:
                return iter(self.dataset)
            return batches(self.dataset, self.batch_size, self.drop_last)
        if self.batch_sampler is None:
            return (self.dataset[i] for i in self.sampler)
        return (_items(self.dataset, batch) for batch in self.batch_sampler)

    def __len__(self) -> int:
        if not self._over:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        count = len(self.dataset)
        size = self.batch_size or 1
        return count // size if self.drop_last else -(-count // size)


def _check_speed(num_workers: int, speed: dict[str, Any]) -> None:
    """Raise torch's error for an option of speed that it refuses."""
    unknown = speed.keys() - _OF_SPEED
    if unknown:
        raise TypeError(f"DataLoader.__init__() got an unexpected keyword argument {unknown.pop()!r}")
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if speed.get("timeout", 0) < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and speed.get("prefetch_factor") is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if num_workers == 0 and speed.get("persistent_workers"):
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_of_iteration(**order: Any) -> None:
    for name, value in order.items():
        if value not in ((False, None) if name == "shuffle" else (None,)):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler",
    "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip
