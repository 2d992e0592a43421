"""Items of a data set made into tensors: default_collate for a list of them, default_convert for one; pinned.

Input: tensors, NumPy arrays and numbers, Python numbers and texts, and mappings and sequences of those, as torch takes
them. A Python number with a point becomes a float64, as in torch.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from stage0_eager.functions import creation
from stage0_eager.functions.shape import stack
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt


def default_collate(batch: Sequence[Any]) -> Any:
    """A list of items as one item with a first dimension more: tensors stacked, numbers in a tensor, trees by parts."""
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind in "biufc":
        return stack([creation.as_tensor(np.asarray(item)) for item in batch])
    if isinstance(first, float):
        return creation.tensor(list(batch), dtype=dt.float64)
    if isinstance(first, int):
        return creation.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: default_collate([item[key] for item in batch]) for key in first})
    if isinstance(first, Sequence):
        return _sequences_collated(batch, first)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{first.dtype if isinstance(first, np.ndarray) else type(first)}"
    )


def _sequences_collated(batch: Sequence[Sequence], first: Sequence) -> Any:
    if any(len(item) != len(first) for item in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    parts = [default_collate(part) for part in zip(*batch, strict=True)]
    return parts if type(first) is tuple else _like_sequence(first, parts)


def default_convert(data: Any) -> Any:
    """One item, with its NumPy arrays and numbers as tensors; Python's numbers and texts stay."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biufc":
        return creation.as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        parts = [default_convert(part) for part in data]
        return parts if type(data) is tuple else _like_sequence(data, parts)
    return data


def _like_mapping(first: Mapping, parts: dict) -> Any:
    """The parts in a mapping of the class of `first`; in a dict where that class takes none."""
    try:
        if isinstance(first, MutableMapping):
            made = copy.copy(first)
            made.update(parts)
            return made
        return type(first)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def _like_sequence(first: Sequence, parts: list) -> Any:
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*parts)
    try:
        if isinstance(first, MutableSequence):
            made = copy.copy(first)
            for i, part in enumerate(parts):
                made[i] = part
            return made
        return type(first)(parts)  # type: ignore[call-arg]
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
