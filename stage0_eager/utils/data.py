"""Batches of a data set, by torch.utils.data's names: Dataset, TensorDataset, Subset, random_split, DataLoader.

Input: anything with __getitem__ and __len__, or an IterableDataset; samplers.py gives orders. Everything happens in the
calling thread; the order of a shuffled loader comes from the generator, so that a seed fixes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from stage0_eager.arrays import gpu_is_there
from stage0_eager.functions import creation
from stage0_eager.functions.shape import stack
from stage0_eager.random.generator import Generator, randperm
from stage0_eager.tensor import Tensor
from stage0_eager.utils.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    batches,
)
from stage_contracts import dtype as dt


class Dataset:
    """Base class: define __getitem__ and __len__. Subscripts as a type: Dataset[int]."""

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")


class IterableDataset(Dataset):
    """Base class of data sets without indices: define __iter__, and __len__ if it is known."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")


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


class Subset(Dataset):
    """The items of `dataset` at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Disjoint random subsets of the given lengths, or of the given fractions of the whole (which sum to 1)."""
    total = len(dataset)
    sizes = [int(n) for n in lengths]
    if abs(sum(lengths) - 1) < 1e-6:
        sizes = [int(total * share) for share in lengths]
        for i in range(total - sum(sizes)):  # what rounding left over, one each
            sizes[i % len(sizes)] += 1
    if sum(sizes) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(total, generator=generator).tolist()
    starts = np.cumsum([0, *sizes])
    return [Subset(dataset, order[a:b]) for a, b in zip(starts, starts[1:], strict=False)]


def default_collate(batch: Sequence[Any]) -> Any:
    """A list of items as one item with a first dimension more: tensors stacked, numbers in a tensor, trees by parts."""
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, np.ndarray):
        return stack([creation.from_numpy(b) for b in batch])
    if isinstance(first, (np.number, np.bool_)):
        return creation.from_numpy(np.array(batch))
    if isinstance(first, float):
        return creation.tensor(batch, dtype=dt.float64)
    if isinstance(first, int):
        return creation.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _alike(first, {key: default_collate([b[key] for b in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        if isinstance(first, tuple):
            return type(first)(*parts) if hasattr(first, "_fields") else parts
        return _alike(first, parts)
    raise TypeError(
        f"default_collate: batch must contain tensors, numbers, dicts or lists; found {type(first)}"
    )


def _alike(first: Any, parts: Any) -> Any:
    """The parts in a container of the first item's class, where it can be made of them."""
    try:
        return type(first)(parts)
    except TypeError:
        return parts


def pinned(batch: Any) -> Any:
    """A batch with its tensors pinned, also those in lists, tuples and dicts, and objects that have `pin_memory`."""
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return {key: pinned(value) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [pinned(part) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


_OF_SPEED = {
    "in_order", "multiprocessing_context", "persistent_workers", "pin_memory_device", "prefetch_factor", "timeout",
    "worker_init_fn",
}  # fmt: skip


class DataLoader:
    """Batches of `dataset`, in order or shuffled anew at each pass.

    sampler gives the order instead; batch_size None gives single items. pin_memory: the tensors of a batch are pinned
    where there is a GPU. num_workers and the other options of speed are accepted and change nothing.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
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
        unknown = speed.keys() - _OF_SPEED
        if unknown:
            raise TypeError(f"DataLoader got an unexpected keyword argument {unknown.pop()!r}")
        if shuffle and sampler is not None:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_size is not None and batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if isinstance(dataset, IterableDataset) and (
            shuffle or sampler is not None or batch_sampler is not None
        ):
            raise ValueError(
                "DataLoader with IterableDataset: expected no shuffle, sampler or batch_sampler option"
            )
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.collate_fn = collate_fn or default_collate
        self.pin_memory = pin_memory

    def __iter__(self) -> Iterator[Any]:
        return map(pinned, self._unpinned()) if self.pin_memory and gpu_is_there() else self._unpinned()

    def _unpinned(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            if self.batch_size is None:
                return iter(self.dataset)
            return (
                self.collate_fn(items) for items in batches(self.dataset, self.batch_size, self.drop_last)
            )
        if self.batch_sampler is None and self.batch_size is None:
            return (self.dataset[i] for i in self._order())
        return (self.collate_fn([self.dataset[i] for i in batch]) for batch in self._batches())

    def _order(self) -> Any:
        if self.sampler is not None:
            return self.sampler
        count = len(self.dataset)
        return randperm(count, generator=self.generator).tolist() if self.shuffle else range(count)

    def _batches(self) -> Iterator[Sequence[int]]:
        if self.batch_sampler is not None:
            yield from self.batch_sampler
            return
        yield from batches(self._order(), self.batch_size or 1, self.drop_last)

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        count = len(self.dataset if self.sampler is None else self.sampler)
        size = self.batch_size or 1
        return count // size if self.drop_last else -(-count // size)


__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler",
    "Sampler", "SequentialSampler", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
    "default_collate", "get_worker_info", "random_split",
]  # fmt: skip
